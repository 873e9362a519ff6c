"""Read answers from a file and write them to a target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError
from anykg.io.addresses import BOLT, SPARQL, scheme_of, shown
from anykg.io.parsed import TRIPLET
from anykg.io.where import filter_of
from anykg.io.write_back.bolt import write_bolt
from anykg.io.write_back.files import kgx, neo4j_admin, quickstatements, sssom
from anykg.io.write_back.origin import Origin, Written
from anykg.io.write_back.rdf import nquads, rdf12, write_sparql

ACCEPTED = ("accepted", "accept", "yes", "true", "approved")
WRITERS: dict[str, Callable[[pl.DataFrame, Origin], tuple[bytes, dict[str, int]]]] = {
    "nquads": nquads,
    "rdf12": rdf12,
    "quickstatements": quickstatements,
    "kgx": kgx,
    "sssom": sssom,
    "neo4j": neo4j_admin,
}
"""Formats of files with predictions."""


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
        return write_bolt(rows, skipped, str(target), origin, dry_run)
    if scheme in SPARQL:
        return write_sparql(rows, skipped, str(target), origin, dry_run)
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
        raise DataError(f"{path}: there is nothing to write as {name} ({_skipped_text(skipped)}).")
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
            raise ConfigError("Expected a column `decision` that marks accepted rows; found none.")
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
    format = {".nq": "nquads", ".ttl": "rdf12", ".qs": "quickstatements"}.get(path.suffix.lower())
    if format is None:
        raise ConfigError(
            f"{path}: expected a name ending in .nq, .ttl, .qs, _edges.tsv or .sssom.tsv, a folder, or a format: "
            f"{', '.join(WRITERS)}."
        )
    return format


def _skipped_text(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in skipped.items()) or "no rows"
