"""Write predictions as files for other tools: QuickStatements, KGX, SSSOM, neo4j-admin."""

from __future__ import annotations

import hashlib
import io
import re

import polars as pl

from anykg.io.parsed import TRIPLET
from anykg.io.write_back.origin import Origin

ARTIFICIAL_INTELLIGENCE = "Q11660"
MAPPINGS = (
    "exactMatch",
    "closeMatch",
    "broadMatch",
    "narrowMatch",
    "relatedMatch",
    "sameAs",
    "equivalentClass",
    "equivalentProperty",
)


def quickstatements(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Statements of Wikidata's items, with the heuristic and the date as reference."""
    lines = []
    for head, relation, tail, *_ in rows.iter_rows():
        item, kind, value = (_wikidata(name, letters) for name, letters in ((head, "Q"), (relation, "P"), (tail, "Q")))
        if item and kind and value:
            reference = f"S887\t{ARTIFICIAL_INTELLIGENCE}\tS813\t+{origin.day}T00:00:00Z/11"
            lines.append(f"{item}\t{kind}\t{value}\t{reference}\n")
    return "".join(lines).encode(), {"rows with names that are not from Wikidata": rows.height - len(lines)}


def _wikidata(name: str, letter: str) -> str | None:
    """The id of an item or property, from its IRI, its prefixed name or itself."""
    match = re.fullmatch(rf"(?:.*wikidata\.org/.*/|wdt?:|p:|)({letter}[1-9]\d*)", name)
    return match.group(1) if match else None


def kgx(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """KGX edges, marked as predictions."""
    table = rows.select(
        pl.concat_str([pl.lit("urn:anykg:"), pl.concat_str(TRIPLET, separator="\x00").map_batches(_digests)]).alias(
            "id"
        ),
        pl.col("head").alias("subject"),
        pl.col("relation").alias("predicate"),
        pl.col("tail").alias("object"),
        pl.lit("biolink:Association").alias("category"),
        pl.lit("infores:anykg").alias("primary_knowledge_source"),
        pl.lit("knowledge_assertion" if origin.accepted else "prediction").alias("knowledge_level"),
        pl.lit("manual_validation_of_automated_agent" if origin.accepted else "computational_model").alias(
            "agent_type"
        ),
        "model",
        pl.coalesce("probability", "score").alias("score"),
        pl.lit(origin.day).alias("date"),
    )
    return _tab_separated(table), {}


def _digests(texts: pl.Series) -> pl.Series:
    return pl.Series([hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts.to_list()], dtype=pl.String)


def sssom(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """SSSOM mappings, for relations that are mappings."""
    mapping = rows.filter(pl.col("relation").str.contains(rf"(?:^|[/#:])(?:{'|'.join(MAPPINGS)})$"))
    prefixes = {
        "skos": "http://www.w3.org/2004/02/skos/core#",
        "owl": "http://www.w3.org/2002/07/owl#",
        "semapv": "https://w3id.org/semapv/vocab/",
    }
    columns = {name: [_curie(value, prefixes) for value in mapping[name].to_list()] for name in TRIPLET}
    measured = mapping.select(pl.coalesce("probability", "score").clip(0, 1).alias("confidence"))
    table = pl.DataFrame(
        {
            "subject_id": columns["head"],
            "predicate_id": columns["relation"],
            "object_id": columns["tail"],
            "mapping_justification": ["semapv:UnspecifiedMatching"] * mapping.height,
            "confidence": measured["confidence"],
            "mapping_tool": mapping["model"],
            "mapping_date": [origin.day] * mapping.height,
        }
    )
    header = "".join(f"#  {prefix}: {iri}\n" for prefix, iri in prefixes.items())
    head = (
        f"#curie_map:\n{header}#mapping_set_id: {origin.graph}\n#license: https://w3id.org/sssom/license/unspecified\n"
    )
    return head.encode() + _tab_separated(table), {"rows whose relation is not a mapping": rows.height - mapping.height}


def _curie(name: str, prefixes: dict[str, str]) -> str:
    """An IRI as prefix and local name, for OBO and other known prefixes; other IRIs stay."""
    match = re.fullmatch(r"(http://purl\.obolibrary\.org/obo/)([A-Za-z]+)_(\w+)", name)
    if match:
        prefixes[match[2]] = f"{match[1]}{match[2]}_"
        return f"{match[2]}:{match[3]}"
    known = next(((prefix, iri) for prefix, iri in prefixes.items() if name.startswith(iri)), None)
    return f"{known[0]}:{name.removeprefix(known[1])}" if known else name


def neo4j_admin(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Relationships for `neo4j-admin database import`."""
    kind = pl.col("relation") if origin.accepted else pl.concat_str([pl.lit(origin.prefix), pl.col("relation")])
    table = rows.select(
        pl.col("head").alias(":START_ID"),
        pl.col("tail").alias(":END_ID"),
        kind.alias(":TYPE"),
        pl.col("score").alias("score:double"),
        pl.col("probability").alias("probability:double"),
        pl.col("model"),
        pl.lit(origin.day).alias("date:date"),
        pl.lit("anykg").alias("accepted_from" if origin.accepted else "predicted_by"),
    )
    buffer = io.BytesIO()
    table.write_csv(buffer, quote_style="non_numeric")
    return buffer.getvalue(), {}


def _tab_separated(table: pl.DataFrame) -> bytes:
    from anykg.io.escapes import escape_where

    held = table.with_columns(
        pl.col(pl.String).map_batches(lambda n: escape_where(n, lambda s: s.str.contains(r"[\t\r\n]")))
    )
    buffer = io.BytesIO()
    held.write_csv(buffer, separator="\t", quote_style="never")
    return buffer.getvalue()
