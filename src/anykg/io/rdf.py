"""RDF and names: how the terms of N-Triples, Turtle and stores become names, and names become terms again.

IRIs are names as they are. A blank node is `_:` and its identifier; nodes that have none in the file are numbered in
order, so that a file always gives the same names. A name that is no IRI becomes `urn:anykg:` and the percent-encoded
name, and is decoded on the way back. `rdfs:label` gives labels, not facts. Named graphs are read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote, unquote

import polars as pl

from anykg.errors import DataError
from anykg.io.source import Source

if TYPE_CHECKING:
    import pyoxigraph

    from anykg.graph.graph import KnowledgeGraph

OWN = "urn:anykg:"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_NAMELESS = re.compile(r"_:[a-f][0-9a-f]{19,31}")  # 128 random bits in hexadecimal, without leading zeros


class Facts(NamedTuple):
    """What RDF says between resources."""

    table: pl.DataFrame
    """Names: head, relation, tail."""
    labels: dict[str, str]
    """English or language-free labels where there are some, by name."""
    literals: int
    """Statements about literals that were left out."""


def parse_rdf(source: Source, literals: Literal["drop", "keep"] = "drop", *, may_be_empty: bool = False) -> Facts:
    """The facts of an RDF file, or of a part of one, which may have none."""
    import pyoxigraph

    format = {
        "nt": pyoxigraph.RdfFormat.N_TRIPLES,
        "nq": pyoxigraph.RdfFormat.N_QUADS,
        "ttl": pyoxigraph.RdfFormat.TURTLE,
        "rdf": pyoxigraph.RdfFormat.RDF_XML,
    }[source.format]
    try:
        facts = _facts(pyoxigraph.parse(source.data, format=format), literals)
    except SyntaxError as error:
        where = f"{source.path}:{error.lineno + source.first_line - 1}" if error.lineno else f"{source.path}"
        raise DataError(
            f"{where}: this is not {format.name} ({error.msg}); mend the line, or rename the file if it is in "
            "another format."
        ) from error
    if source.format in ("ttl", "rdf"):  # in the others every node has a name
        facts = _number_nameless(facts)
    if facts.table.is_empty() and not may_be_empty:
        raise DataError(
            f"{source.path}: there are no facts between entities ({facts.literals} about literals were left out); "
            "use --literals keep to read those."
        )
    return facts


def to_store(graph: KnowledgeGraph) -> pyoxigraph.Store:
    """A store in memory with the facts of a graph, and its labels."""
    import pyoxigraph

    store = pyoxigraph.Store()
    text = "".join([*to_lines(graph.to_polars()), *label_lines(graph)])
    # Loading text would rename the blank nodes; adding parsed statements keeps them.
    store.bulk_extend(pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES))
    return store


def from_store(store: pyoxigraph.Store) -> KnowledgeGraph:
    """The facts of a store between resources, in all its graphs, and their labels."""
    from anykg.graph.graph import KnowledgeGraph

    facts = _facts(store, "drop")
    graph = KnowledgeGraph.from_polars(facts.table)
    entities, relations = (v.with_labels(facts.labels) for v in (graph.entities, graph.relations))
    return KnowledgeGraph(graph.triplets, entities, relations)


def to_lines(table: pl.DataFrame) -> pl.Series:
    """A line of N-Triples for each row of names (head, relation, tail)."""
    terms = [_terms(table[name], relation=name == "relation") for name in ("head", "relation", "tail")]
    return table.select(pl.concat_str([*terms, pl.lit(".\n")], separator=" ").alias("line"))["line"]


def label_lines(graph: KnowledgeGraph) -> list[str]:
    """Lines of N-Triples with the labels of entities and relations."""
    import pyoxigraph

    return [
        f"{term_of(name, relation=vocabulary is graph.relations)} <{LABEL}> {pyoxigraph.Literal(label)} .\n"
        for vocabulary in (graph.entities, graph.relations)
        if vocabulary.labels is not None
        for name, label in zip(vocabulary, vocabulary.labels.to_list(), strict=True)
        if label is not None
    ]


def term_of(name: str, relation: bool = False) -> str:
    """The N-Triples term of a name; a relation is never a blank node.

    >>> term_of("http://example.org/a"), term_of("New York"), term_of("_:b0")
    ('<http://example.org/a>', '<urn:anykg:New%20York>', '_:b0')
    """
    import pyoxigraph

    try:
        if name.startswith("_:") and not relation:
            return str(pyoxigraph.BlankNode(name[2:]))
        if not name.startswith(OWN):
            return str(pyoxigraph.NamedNode(name))
    except ValueError:
        pass
    return f"<{OWN}{quote(name, safe='')}>"


def name_of(term: object) -> str:
    """The name of an IRI, a blank node or, in its written form, a literal."""
    import pyoxigraph

    if isinstance(term, pyoxigraph.NamedNode):
        value = term.value
        return unquote(value.removeprefix(OWN)) if value.startswith(OWN) else value
    return str(term)


def _terms(names: pl.Series, relation: bool) -> pl.Series:
    distinct = names.unique()
    terms = [term_of(name, relation) for name in distinct.to_list()]
    return names.replace_strict(distinct, pl.Series(terms, dtype=pl.String), return_dtype=pl.String)


def _facts(quads: Iterable[pyoxigraph.Quad], literals: Literal["drop", "keep"]) -> Facts:
    import pyoxigraph

    resources = (pyoxigraph.NamedNode, pyoxigraph.BlankNode)
    rows: list[tuple[str, str, str]] = []
    labels: dict[str, tuple[int, str]] = {}
    left_out = 0
    for quad in quads:
        subject, predicate, value = quad.subject, quad.predicate, quad.object
        if predicate.value == LABEL and isinstance(value, pyoxigraph.Literal):
            name, ranked = name_of(subject), (_language_rank(value.language), value.value)
            if name not in labels or ranked[0] < labels[name][0]:
                labels[name] = ranked
        elif literals == "keep" or isinstance(value, resources):
            rows.append((name_of(subject), name_of(predicate), name_of(value)))
        else:
            left_out += 1
    table = pl.DataFrame(rows, schema=dict.fromkeys(("head", "relation", "tail"), pl.String), orient="row")
    return Facts(table, {name: label for name, (_, label) in labels.items()}, left_out)


def _language_rank(language: str | None) -> int:
    """English first, then no language, then the others."""
    return 0 if language == "en" or (language or "").startswith("en-") else 1 if language is None else 2


def _number_nameless(facts: Facts) -> Facts:
    """Replace the random identifiers that the parser gives to nameless blank nodes by b0, b1, ... in order."""
    ends = pl.concat([facts.table["head"], facts.table["tail"]]).unique(maintain_order=True)
    blank = ends.filter(ends.str.starts_with("_:")).to_list()
    taken, nameless = set(blank), [name for name in blank if _NAMELESS.fullmatch(name)]
    free = (name for name in (f"_:b{i}" for i in range(len(blank))) if name not in taken)
    numbered = dict(zip(nameless, free, strict=False))
    if not numbered:
        return facts
    return facts._replace(
        table=facts.table.with_columns(pl.col("head", "tail").replace(numbered)),
        labels={numbered.get(name, name): label for name, label in facts.labels.items()},
    )
