"""Accepted facts in the formats that other tools take in."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import polars as pl

from anykg import __version__
from anykg.errors import InputError
from anykg.io.rdf import term_of
from anykg.web.decisions import Decision

WIKIDATA = re.compile(
    r"(?:https?://www\.wikidata\.org/(?:entity|wiki|prop(?:/direct)?)/(?:Property:)?)?([QP][1-9][0-9]*)"
)
KGX_COLUMNS = [
    "id", "subject", "predicate", "object", "category", "primary_knowledge_source", "knowledge_level", "agent_type",
    "has_confidence_score",
]  # fmt: skip
PROV = "http://www.w3.org/ns/prov#"
OWN = "urn:anykg:"


class Export(NamedTuple):
    """A file to download."""

    content: bytes
    media_type: str
    suffix: str


def export(decisions: Sequence[Decision], format: str) -> Export:
    """Write decisions as tsv, nquads, quickstatements, kgx or jsonl."""
    if format not in WRITERS:
        raise InputError(f"format: expected {', '.join(WRITERS)}, found {format!r}.")
    return WRITERS[format](decisions)


def _tsv(decisions: Sequence[Decision]) -> Export:
    """head, relation, tail, without a header, as the benchmarks have it."""
    names = ["head", "relation", "tail"]
    table = pl.DataFrame([d.triple for d in decisions], schema=dict.fromkeys(names, pl.String), orient="row")
    broken = table.filter(pl.any_horizontal(pl.all().str.contains(r"[\t\r\n]")))
    if broken.height:
        raise InputError(
            f"TSV cannot hold the tab or line break in {' '.join(broken.row(0))!r}; export N-Quads or JSON lines."
        )
    text = table.write_csv(separator="\t", include_header=False, quote_style="never")
    return Export(text.encode(), "text/tab-separated-values; charset=utf-8", ".tsv")


def _nquads(decisions: Sequence[Decision]) -> Export:
    """Each fact in a graph of its own, and about that graph who decided, when, how probable it was, and by what."""
    import pyoxigraph

    def literal(value: str, kind: str = "string") -> str:
        return str(pyoxigraph.Literal(value, datatype=pyoxigraph.NamedNode(f"http://www.w3.org/2001/XMLSchema#{kind}")))

    lines = []
    for d in decisions:
        name = term_of(f"{OWN}decision:{d.id}")
        lines.append(f"{term_of(d.head)} {term_of(d.relation, relation=True)} {term_of(d.tail)} {name} .")
        about = [
            (f"{PROV}generatedAtTime", literal(d.time, "dateTime")),
            (f"{PROV}wasAttributedTo", literal(d.reviewer)) if d.reviewer else None,
            (f"{PROV}value", literal(repr(d.probability), "double")) if d.probability is not None else None,
            (f"{PROV}wasGeneratedBy", f"<{OWN}software:{__version__}>"),
            (f"{PROV}wasDerivedFrom", f"<{OWN}graph:{d.graph}>") if d.graph else None,
            (f"{PROV}hadPlan", f"<{OWN}model:{d.model}>") if d.model else None,
            ("http://www.w3.org/2000/01/rdf-schema#comment", literal(d.note)) if d.note else None,
        ]
        lines += [f"{name} <{part[0]}> {part[1]} ." for part in about if part is not None]
    return Export(("\n".join(lines) + "\n" if lines else "").encode(), "application/n-quads", ".nq")


def _quickstatements(decisions: Sequence[Decision]) -> Export:
    """QuickStatements (version 1), each with the reference "based on heuristic: artificial intelligence"."""
    rows = []
    for d in decisions:
        ids = [WIKIDATA.fullmatch(part) for part in d.triple]
        kinds = "".join(found[1][0] if found else "?" for found in ids)
        if kinds == "QPQ":
            rows.append("\t".join([*(found[1] for found in ids if found), "S887", "Q11660"]))
    if decisions and not rows:
        raise InputError(
            "QuickStatements are for Wikidata: none of the accepted facts is made of its ids (such as Q142, P36, Q90)."
        )
    return Export("".join(f"{row}\n" for row in rows).encode(), "text/plain; charset=utf-8", ".quickstatements.txt")


def _kgx(decisions: Sequence[Decision]) -> Export:
    """The edges file of KGX."""
    rows = [
        {
            "id": d.id,
            "subject": d.head,
            "predicate": d.relation,
            "object": d.tail,
            "category": "biolink:Association",
            "primary_knowledge_source": "infores:anykg",
            "knowledge_level": "prediction",
            "agent_type": "manual_validation_of_automated_agent",
            "has_confidence_score": "" if d.probability is None else repr(d.probability),
        }
        for d in decisions
    ]
    schema = dict.fromkeys(KGX_COLUMNS, pl.String)
    buffer = io.BytesIO()
    pl.DataFrame(rows, schema=schema).write_csv(buffer, separator="\t")
    return Export(buffer.getvalue(), "text/tab-separated-values; charset=utf-8", ".edges.tsv")


def _jsonl(decisions: Sequence[Decision]) -> Export:
    lines = "".join(json.dumps(asdict(d), ensure_ascii=False) + "\n" for d in decisions)
    return Export(lines.encode(), "application/jsonl", ".decisions.jsonl")


WRITERS: dict[str, Callable[[Sequence[Decision]], Export]] = {
    "tsv": _tsv, "nquads": _nquads, "quickstatements": _quickstatements, "kgx": _kgx, "jsonl": _jsonl,
}  # fmt: skip
