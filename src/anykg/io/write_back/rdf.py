"""Write predictions as RDF with scores and PROV: N-Quads, RDF 1.2, or an update of a SPARQL endpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import polars as pl

from anykg.io.write_back.origin import Origin, Written

BATCH = 1_000
PROV = "http://www.w3.org/ns/prov#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TERMS = "urn:anykg:terms:"


def _terms(rows: pl.DataFrame) -> Iterator[tuple[tuple[str, str, str], dict[str, Any]]]:
    from anykg.io.rdf import term_of

    for row in rows.iter_rows(named=True):
        yield (term_of(row["head"]), term_of(row["relation"], relation=True), term_of(row["tail"])), row


def _measures(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The predicates and literals of a prediction's numbers."""
    for name in ("score", "probability"):
        if row[name] is not None:
            yield f"<{TERMS}{name}>", f'"{row[name]!r}"^^<{XSD}double>'


def _literal(text: str) -> str:
    import pyoxigraph

    return str(pyoxigraph.Literal(text))


def statement_iri(terms: tuple[str, str, str], origin: Origin) -> str:
    """An IRI that is always the same for the same fact in the same graph."""
    digest = hashlib.sha256("\x00".join((*terms, origin.graph)).encode()).hexdigest()[:32]
    return f"<urn:anykg:prediction:{digest}>"


def _provenance(rows: pl.DataFrame, origin: Origin) -> list[tuple[str, str, str]]:
    """PROV statements about the named graph: the model that generated it, and when."""
    graph, activity = f"<{origin.graph}>", f"<{origin.graph}:{hashlib.sha256(origin.moment.encode()).hexdigest()[:12]}>"
    triples = [
        (graph, f"<{RDF}type>", f"<{PROV}Entity>"),
        (graph, f"<{PROV}wasGeneratedBy>", activity),
        (activity, f"<{RDF}type>", f"<{PROV}Activity>"),
        (activity, f"<{PROV}endedAtTime>", f'"{origin.moment}"^^<{XSD}dateTime>'),
    ]
    for model in rows["model"].unique(maintain_order=True).to_list():
        from anykg.io.escapes import escaped

        agent = f"<{escaped('model ' + model)}>"
        triples += [
            (activity, f"<{PROV}wasAssociatedWith>", agent),
            (agent, f"<{RDF}type>", f"<{PROV}SoftwareAgent>"),
            (agent, "<http://www.w3.org/2000/01/rdf-schema#label>", _literal(model)),
        ]
    return triples


def _described(rows: pl.DataFrame, origin: Origin) -> Iterator[list[tuple[str, str, str]]]:
    """For every prediction: the fact, and a statement about it with its numbers."""
    for terms, row in _terms(rows):
        about = statement_iri(terms, origin)
        parts = zip(("subject", "predicate", "object"), terms, strict=True)
        yield [
            terms,
            (about, f"<{RDF}type>", f"<{RDF}Statement>"),
            *((about, f"<{RDF}{name}>", term) for name, term in parts),
            *((about, predicate, value) for predicate, value in _measures(row)),
            (about, f"<{PROV}wasDerivedFrom>", f"<{origin.graph}>"),
        ]


def nquads(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Facts in a named graph, with statements about them."""
    graph = f"<{origin.graph}>"
    lines = [f"{s} {p} {o} {graph} .\n" for triples in _described(rows, origin) for s, p, o in triples]
    lines += [f"{s} {p} {o} {graph} .\n" for s, p, o in _provenance(rows, origin)]
    return "".join(lines).encode(), {}


def rdf12(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """RDF 1.2: a reifier for each fact, which is not asserted unless it was accepted."""
    lines = [f"@prefix rdf: <{RDF}> .\n@prefix prov: <{PROV}> .\n@prefix anykg: <{TERMS}> .\n\n"]
    for (s, p, o), row in _terms(rows):
        about = statement_iri((s, p, o), origin)
        if origin.accepted:
            lines.append(f"{s} {p} {o} .\n")
        values = "".join(f" ;\n  {predicate} {value}" for predicate, value in _measures(row))
        lines.append(f"{about} rdf:reifies <<( {s} {p} {o} )>>{values} ;\n  prov:wasDerivedFrom <{origin.graph}> .\n")
    lines += [f"{s} {p} {o} .\n" for s, p, o in _provenance(rows, origin)]
    return "".join(lines).encode(), {}


def write_sparql(rows: pl.DataFrame, skipped: dict[str, int], target: str, origin: Origin, dry_run: bool) -> Written:
    """Write rows to a named graph by updates, replacing earlier statements about the same facts."""
    from anykg.io.sources import address_of
    from anykg.io.sparql import request

    address = address_of(target)
    graph = f"<{origin.graph}>"
    preview: list[str] = []
    described = list(_described(rows, origin))
    for start in range(0, max(len(described), 1), BATCH):
        batch = described[start : start + BATCH]
        about = " ".join(triples[1][0] for triples in batch)
        facts = " .\n".join(" ".join(triple) for triples in batch for triple in triples)
        update = (
            f"DELETE {{ GRAPH {graph} {{ ?s ?p ?o }} }} "
            f"WHERE {{ GRAPH {graph} {{ VALUES ?s {{ {about} }} ?s ?p ?o }} }} ;\n"
            f"INSERT DATA {{ GRAPH {graph} {{\n{facts} .\n}} }}"
        )
        preview += update.splitlines()[:10] if not preview else []
        if not dry_run:
            request(address, {"update": update}, "*/*").close()
    provenance = " .\n".join(" ".join(triple) for triple in _provenance(rows, origin))
    if not dry_run:
        request(address, {"update": f"INSERT DATA {{ GRAPH {graph} {{\n{provenance} .\n}} }}"}, "*/*").close()
    return Written(address.shown, "sparql", rows.height, skipped, tuple(preview), dry_run)
