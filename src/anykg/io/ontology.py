"""Ontologies: OWL restrictions as facts between classes, and the OBO format.

"A is a subclass of things that have part some B" is written in OWL with a nameless restriction; it is read as
(A, has part, B). OBO files say the same as `relationship: has_part B`.
"""

from __future__ import annotations

import re

import polars as pl

from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed, added, of_rows
from anykg.io.source import Source, decode

OWL = "http://www.w3.org/2002/07/owl#"
MARK = OWL.encode()
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
DECLARATIONS = "declarations and annotations of the ontology"
_FILLERS = ("someValuesFrom", "allValuesFrom", "hasValue", "onClass")
_TRAILER = re.compile(r"\s*(?<!\\)[!{].*$")
_LINKS = ("is_a", "union_of", "intersection_of", "disjoint_from", "equivalent_to", "inverse_of", "instance_of")


def fold_restrictions(parsed: Parsed, *, drop_declarations: bool) -> Parsed:
    """Turn subclasses of restrictions into facts; optionally drop declarations of classes and properties."""
    frame, relation = parsed.frame, pl.col("relation")
    relations = frame["relation"]
    if not (relations.str.starts_with(OWL).any() or drop_declarations):
        return parsed
    properties = frame.filter(relation == f"{OWL}onProperty").select(
        pl.col("head").alias("node"), pl.col("tail").alias("property")
    )
    fillers = frame.filter(relation.is_in([OWL + name for name in _FILLERS])).select(
        pl.col("head").alias("node"), pl.col("tail").alias("filler")
    )
    restrictions = properties.join(fillers, on="node").unique("node")
    restrictions = restrictions.filter(pl.col("node").str.starts_with("_:"))
    links = frame.filter(relation.is_in([SUBCLASS, f"{OWL}equivalentClass", TYPE]))
    restricted = links.join(restrictions, left_on="tail", right_on="node", how="inner", maintain_order="left")
    folded = restricted.with_columns(pl.col("property").alias("relation"), pl.col("filler").alias("tail"))
    nodes = properties["node"].filter(properties["node"].str.starts_with("_:")).unique().implode()
    rest = frame.filter(~pl.col("head").is_in(nodes) & ~pl.col("tail").is_in(nodes))
    dropped = 0
    if drop_declarations:
        axioms = rest.filter((relation == TYPE) & (pl.col("tail") == f"{OWL}Axiom"))["head"].unique().implode()
        declares = (relation == TYPE) & pl.col("tail").str.starts_with(OWL)
        about = pl.col("head").is_in(axioms) | relation.str.starts_with(f"{OWL}version") | (relation == f"{OWL}imports")
        before = rest.height
        rest = rest.filter(~declares & ~about)
        dropped = before - rest.height
    whole = pl.concat([rest, folded.select(frame.columns)])
    return parsed.but(frame=whole, left_out=added(parsed.left_out, {DECLARATIONS: dropped}))


def read_obo(source: Source, options: ReadOptions) -> Parsed:
    """The links between the terms of an OBO file, with their names as labels; obsolete terms are left out."""
    rows: list[tuple[str | None, str | None, str | None]] = []
    labels: dict[str, str] = {}
    obsolete = 0
    for stanza in re.split(r"^\[", decode(source), flags=re.MULTILINE)[1:]:
        name = ""
        links: list[tuple[str, str]] = []
        gone = False
        for line in stanza.splitlines()[1:]:
            tag, separator, value = line.partition(":")
            value = _TRAILER.sub("", value).strip()
            if not separator or not value:
                continue
            if tag == "id":
                name = value
            elif tag == "name":
                labels[name] = value.replace("\\", "")
            elif tag == "is_obsolete":
                gone = value.startswith("true")
            elif tag in _LINKS or tag == "relationship":
                parts = value.split()
                links.append((parts[0], parts[1]) if len(parts) > 1 else (tag, parts[0]))
        if gone:
            obsolete += 1
            labels.pop(name, None)
        else:
            rows += [(name, relation, tail) for relation, tail in links]
    return of_rows(rows, "obo", labels=labels, left_out={"obsolete terms": obsolete})
