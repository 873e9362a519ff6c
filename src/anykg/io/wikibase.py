"""Wikidata and other Wikibases: one relation per property, whichever namespace it is written in.

A property P31 is `entity/P31` where it is described, `prop/direct/P31` in a truthy statement, and `prop/P31` followed
by `prop/statement/P31` in a full one. All are read as the relation `entity/P31`, which is the one that has the label.
"""

from __future__ import annotations

import polars as pl

from anykg.io.parsed import Parsed, added

ONTOLOGY = "http://wikiba.se/ontology#"
_PROPERTY = r"^(.+)/(?:prop/direct-normalized|prop/direct|prop/statement|prop)/(P\d+)$"
_CLAIM = r"/prop/P\d+$"
_VALUE = r"/prop/statement/P\d+$"
_DETAIL = r"/(?:prop/(?:qualifier|reference|statement/value|qualifier/value|reference/value)(?:-normalized)?)/P\d+$"
DETAILS = "details of Wikibase statements"


def property_names(relations: pl.Series) -> dict[str, str]:
    """Map each relation that is a property in another namespace to the property's entity."""
    distinct = relations.unique()
    properties = distinct.filter(distinct.str.contains(_PROPERTY))
    named = properties.str.replace(_PROPERTY, "$1/entity/$2")
    return dict(zip(properties.to_list(), named.to_list(), strict=True))


def fold_statements(parsed: Parsed) -> Parsed:
    """Merge (item, p:P1, statement), (statement, ps:P1, value) into one fact; drop qualifiers, ranks and references."""
    frame, relation = parsed.frame, pl.col("relation")
    kinds = frame["relation"].unique()
    claims, values = (kinds.filter(kinds.str.contains(pattern)) for pattern in (_CLAIM, _VALUE))
    own = kinds.filter(kinds.str.starts_with(ONTOLOGY) | kinds.str.contains(_DETAIL))
    if not len(claims) and not len(own):
        return parsed
    is_claim, is_value, is_own = (relation.is_in(names.implode()) for names in (claims, values, own))
    statements = (
        frame.filter(is_claim).select(pl.col("tail").alias("node"), pl.col("head").alias("item")).unique("node")
    )
    joined = frame.filter(is_value).join(
        statements, left_on="head", right_on="node", how="inner", maintain_order="left"
    )
    folded = joined.with_columns(pl.col("item").alias("head")).select(frame.columns)
    about = pl.col("head").is_in(statements["node"].implode())
    is_node = pl.col("tail").is_in(joined["head"].implode()) | pl.col("tail").str.contains(
        "/entity/statement/", literal=True
    )
    rest = frame.filter(~is_own & ~about & ~(is_claim & is_node))
    whole = pl.concat([rest, folded])
    dropped = frame.height - whole.height - folded.height  # a folded fact was two
    return parsed.but(frame=whole, left_out=added(parsed.left_out, {DETAILS: dropped}))
