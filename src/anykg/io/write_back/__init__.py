"""Write predictions or accepted decisions back to the database of the graph, or as files for other tools.

| target | what is written |
|---|---|
| `bolt://`, `neo4j://` | relationships `PREDICTED_X` with score, model and date, merged with those there are |
| `sparql+https://.../update` | facts in a named graph, with scores and PROV, by an update |
| `.nq` | the same as N-Quads |
| `.ttl` | RDF 1.2: reified triples with their probability, nothing asserted |
| `.qs` | QuickStatements for Wikidata, with "based on heuristic: artificial intelligence" as reference |
| `*_edges.tsv` | KGX edges, marked as predictions of a computational model |
| `.sssom.tsv` | SSSOM, for relations that are mappings |
| a folder | relationships.csv for neo4j-admin |

Accepted decisions are written as plain facts of their relation, with their provenance.
"""
