"""Write predictions, or decisions that were accepted, back to where the graph is, or as files that tools there take.

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

Accepted decisions are written as plain facts of their relation, with where they come from.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError
from anykg.io.addresses import BOLT, SPARQL, scheme_of, shown
from anykg.io.parsed import TRIPLET
from anykg.io.where import filter_of

BATCH = 1_000
PREFIX = "PREDICTED_"
ARTIFICIAL_INTELLIGENCE = "Q11660"
PROV = "http://www.w3.org/ns/prov#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TERMS = "urn:anykg:terms:"
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
ACCEPTED = ("accepted", "accept", "yes", "true", "approved")


@dataclass(frozen=True)
class Origin:
    """Where predictions come from."""

    model: str = "anykg"
    date: str = ""
    """ISO 8601; empty for now."""
    accepted: bool = False
    """Are these decisions that people accepted, so that they are facts?"""
    prefix: str = PREFIX
    """What the types of predicted relationships start with in a property graph."""
    graph: str = "urn:anykg:predictions"
    """The named graph that RDF goes to."""

    @property
    def day(self) -> str:
        """The date, as YYYY-MM-DD."""
        return self.moment[:10]

    @property
    def moment(self) -> str:
        """The date and time."""
        return self.date or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Written:
    """What was written, or with a dry run would be."""

    target: str
    format: str
    rows: int
    """Predictions written."""
    skipped: dict[str, int]
    """How many of what were not written."""
    preview: tuple[str, ...]
    """The first lines or statements."""
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return vars(self) | {"preview": list(self.preview)}


def read_answers(path: Path | str, where: tuple[str, ...] = ()) -> tuple[pl.DataFrame, str | None]:
    """The rows of a file of answers with all their columns, and the model that the file names.

    Rows of facts that are in the graph already (`known`) are left out.
    """
    import json

    from anykg.io.property_graphs import table_of

    path, model = Path(path), None
    if path.suffix.lower() == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as JSON ({error}).") from error
        if isinstance(content, dict):
            model, content = content.get("model"), content.get("rows")
        if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
            raise DataError(f"{path}: expected answers as `anykg predict --format json` writes them.")
        from anykg.io.parsed import frame_of

        names = dict.fromkeys(name for row in content for name in row)
        table = frame_of({name: [row.get(name) for row in content] for name in names})
    else:
        table = table_of(path)
    missing = [name for name in TRIPLET if name not in table.columns]
    if missing:
        raise DataError(
            f"{path}: expected answers with columns head, relation and tail; {', '.join(missing)} is not among "
            f"{', '.join(table.columns)}."
        )
    if where:
        table = table.filter(filter_of(where, table.columns))
    if "known" in table.columns:
        table = table.filter(
            ~pl.col("known").cast(pl.String).str.to_lowercase().is_in(["true", "yes"]).fill_null(False)
        )
    return table, model if isinstance(model, str) else None


def write_back(
    answers: pl.DataFrame,
    target: Path | str,
    *,
    origin: Origin | None = None,
    format: str | None = None,
    dry_run: bool = False,
) -> Written:
    """Write answers (head, relation, tail; score, probability, model, decision where they have them) to a target."""
    origin = origin or Origin()
    rows, skipped = _rows(answers, origin)
    scheme = scheme_of(target)
    if scheme in BOLT:
        return _write_bolt(rows, skipped, str(target), origin, dry_run)
    if scheme in SPARQL:
        return _write_sparql(rows, skipped, str(target), origin, dry_run)
    if scheme:
        raise ConfigError(
            f"{shown(target)}: expected bolt://, neo4j://, sparql+https:// or a file to write to, found {scheme}."
        )
    path = Path(target)
    name = format or _format_of(path)
    if name not in WRITERS:
        raise ConfigError(f"Expected a format of {', '.join(WRITERS)}; found {name!r}.")
    content, more = WRITERS[name](rows, origin)
    skipped = {what: count for what, count in (skipped | more).items() if count}
    count = rows.height - sum(more.values())
    if not count:
        raise DataError(f"{path}: there is nothing to write as {name} ({_told(skipped)}).")
    if not dry_run:
        file = path / "relationships.csv" if name == "neo4j" else path
        with atomic_path(file) as temporary:
            temporary.write_bytes(content)
    return Written(str(path), name, count, skipped, tuple(content.decode().splitlines()[:10]), dry_run)


def _rows(answers: pl.DataFrame, origin: Origin) -> tuple[pl.DataFrame, dict[str, int]]:
    """Columns head, relation, tail, score, probability, model; only accepted rows if these are decisions."""
    table = answers.drop_nulls(TRIPLET)
    skipped = {"rows with a blank field": answers.height - table.height}
    if origin.accepted:
        if "decision" not in table.columns:
            raise ConfigError("Expected a column decision that says which rows were accepted; found none.")
        kept = table.filter(pl.col("decision").cast(pl.String).str.to_lowercase().is_in(ACCEPTED).fill_null(False))
        skipped["rows that were not accepted"] = table.height - kept.height
        table = kept
    numbers = [
        (pl.col(name).cast(pl.Float64, strict=False) if name in table.columns else pl.lit(None, pl.Float64)).alias(name)
        for name in ("score", "probability")
    ]
    model = pl.col("model").cast(pl.String) if "model" in table.columns else pl.lit(None, pl.String)
    rows = table.select(
        *(pl.col(name).cast(pl.String) for name in TRIPLET), *numbers, model.fill_null(origin.model).alias("model")
    ).unique(TRIPLET, keep="first", maintain_order=True)
    return rows, {what: count for what, count in skipped.items() if count}


def _format_of(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(".sssom.tsv"):
        return "sssom"
    if name.endswith("edges.tsv"):
        return "kgx"
    if not path.suffix or path.is_dir():
        return "neo4j"
    found = {".nq": "nquads", ".ttl": "rdf12", ".qs": "quickstatements"}.get(path.suffix.lower())
    if found is None:
        raise ConfigError(
            f"{path}: expected a name ending in .nq, .ttl, .qs, _edges.tsv or .sssom.tsv, a folder, or a format: "
            f"{', '.join(WRITERS)}."
        )
    return found


def _told(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in skipped.items()) or "no rows"


# -- Bolt -------------------------------------------------------------------------------------------------------


def _write_bolt(rows: pl.DataFrame, skipped: dict[str, int], target: str, origin: Origin, dry_run: bool) -> Written:
    from anykg.io.bolt import failure, naming_of, session
    from anykg.io.sources import address_of

    address = address_of(target)
    done = 0
    with session(address) as (run, errors):
        try:
            naming = naming_of(run, address)
            wanted = set(rows["head"].to_list()) | set(rows["tail"].to_list())
            answer = run(f"MATCH (n) RETURN {naming.of('n')} AS name, elementId(n) AS id")
            ids = {name: id for name, id in (record.values() for record in answer) if name in wanted}
        except errors as error:
            raise failure(error, address, 0) from error
    known = rows.filter(pl.col("head").is_in(list(ids)) & pl.col("tail").is_in(list(ids)))
    skipped = skipped | ({"rows of nodes that are not there": n} if (n := rows.height - known.height) else {})
    if not known.height:
        raise DataError(f"{address.shown}: none of the {rows.height:,} rows is between nodes of the database.")
    preview: list[str] = []
    with session(address, write=True) as (write, errors):
        for (relation,), part in known.group_by("relation", maintain_order=True):
            statement = _merge(str(relation), origin)
            preview.append(f"{statement}  // {part.height:,} rows")
            if dry_run:
                continue
            for batch in part.iter_slices(BATCH):
                values = [
                    {"head": ids[row["head"]], "tail": ids[row["tail"]], "set": _properties(row, origin)}
                    for row in batch.iter_rows(named=True)
                ]
                try:
                    write(_run, statement, values)
                except errors as error:
                    raise failure(error, address, done, "written") from error
                done += len(values)
    return Written(address.shown, "bolt", known.height, skipped, tuple(preview), dry_run)


def _run(transaction: Any, statement: str, values: list[dict[str, Any]]) -> None:
    transaction.run(statement, rows=values).consume()


def _merge(relation: str, origin: Origin) -> str:
    """Cypher that writes rows of one relation, and changes nothing where they are written already."""
    kind = (relation if origin.accepted else origin.prefix + relation).replace("`", "``")
    done = "ON CREATE SET r += row.set" if origin.accepted else "SET r += row.set"
    return (
        "UNWIND $rows AS row MATCH (a) WHERE elementId(a) = row.head MATCH (b) WHERE elementId(b) = row.tail "
        f"MERGE (a)-[r:`{kind}`]->(b) {done}"
    )


def _properties(row: dict[str, Any], origin: Origin) -> dict[str, Any]:
    from anykg.io.bolt import MARK

    values = {"score": row["score"], "probability": row["probability"], "model": row["model"], "date": origin.day}
    values["accepted_from" if origin.accepted else MARK] = "anykg"
    return {name: value for name, value in values.items() if value is not None}


# -- RDF --------------------------------------------------------------------------------------------------------


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
    """What PROV says of the named graph: made by a model, at a time."""
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


def _nquads(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    graph = f"<{origin.graph}>"
    lines = [f"{s} {p} {o} {graph} .\n" for triples in _described(rows, origin) for s, p, o in triples]
    lines += [f"{s} {p} {o} {graph} .\n" for s, p, o in _provenance(rows, origin)]
    return "".join(lines).encode(), {}


def _rdf12(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
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


def _write_sparql(rows: pl.DataFrame, skipped: dict[str, int], target: str, origin: Origin, dry_run: bool) -> Written:
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


# -- files ------------------------------------------------------------------------------------------------------


def _quickstatements(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Statements of Wikidata's items, with the heuristic and the date as reference."""
    lines = []
    for head, relation, tail, *_ in rows.iter_rows():
        item, kind, value = (_wikidata(name, letters) for name, letters in ((head, "Q"), (relation, "P"), (tail, "Q")))
        if item and kind and value:
            reference = f"S887\t{ARTIFICIAL_INTELLIGENCE}\tS813\t+{origin.day}T00:00:00Z/11"
            lines.append(f"{item}\t{kind}\t{value}\t{reference}\n")
    return "".join(lines).encode(), {"rows that are not of Wikidata": rows.height - len(lines)}


def _wikidata(name: str, letter: str) -> str | None:
    """The id of an item or property, from its IRI, its prefixed name or itself."""
    match = re.fullmatch(rf"(?:.*wikidata\.org/.*/|wdt?:|p:|)({letter}[1-9]\d*)", name)
    return match.group(1) if match else None


def _kgx(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Edges of KGX that say they are predictions."""
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


def _sssom(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
    """Mappings, where the relation is one."""
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
    return head.encode() + _tab_separated(table), {"rows whose relation is no mapping": rows.height - mapping.height}


def _curie(name: str, prefixes: dict[str, str]) -> str:
    """An IRI as prefix and local name; those of OBO and the known ones are shortened, others stay."""
    match = re.fullmatch(r"(http://purl\.obolibrary\.org/obo/)([A-Za-z]+)_(\w+)", name)
    if match:
        prefixes[match[2]] = f"{match[1]}{match[2]}_"
        return f"{match[2]}:{match[3]}"
    known = next(((prefix, iri) for prefix, iri in prefixes.items() if name.startswith(iri)), None)
    return f"{known[0]}:{name.removeprefix(known[1])}" if known else name


def _neo4j_admin(rows: pl.DataFrame, origin: Origin) -> tuple[bytes, dict[str, int]]:
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


WRITERS: dict[str, Callable[[pl.DataFrame, Origin], tuple[bytes, dict[str, int]]]] = {
    "nquads": _nquads,
    "rdf12": _rdf12,
    "quickstatements": _quickstatements,
    "kgx": _kgx,
    "sssom": _sssom,
    "neo4j": _neo4j_admin,
}
"""Formats of files with predictions."""
