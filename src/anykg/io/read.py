"""Read a knowledge graph from a file, and say how it was read.

Delimited text, N-Triples, N-Quads, Turtle, RDF/XML, Parquet and JSON lines, the text ones also as `.gz` or `.zst`.
A table [E, 3] of names comes out of each format; the graph is made of that.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.delimited import FIELDS, check_columns, decode, header_columns, parse_labels, parse_triplets
from anykg.io.source import Source, load

RDF_FORMATS = ("nt", "nq", "ttl", "rdf")


@dataclass(frozen=True)
class ReadReport:
    """How a file was read, and what came of it."""

    path: Path
    format: str
    """delimited, nt, nq, ttl, rdf, parquet or jsonl."""
    separator: str | None
    """tab, comma, pipe, space or another character; None where the format has none."""
    columns: str
    """What the columns hold, in the order of the file: h, r, t, or _ for one that was not read."""
    header: bool
    """Was the first line taken for names of columns?"""
    first: tuple[tuple[str, str, str], ...]
    """The first three triplets (head, relation, tail)."""
    triplets: int
    """Triplets in the file, repeated ones too."""
    duplicates: int
    """Triplets left out because they are in the file already."""
    literals: int
    """Statements about literals that were left out."""
    labels: int
    """Entities and relations with a label."""
    entities: int
    relations: int

    def lines(self) -> list[str]:
        """A few lines for people."""
        how = [self.format]
        if self.separator is not None:
            how = [f"{self.separator}-separated", "with a header" if self.header else "no header"]
        if self.format not in RDF_FORMATS:
            how.append("columns " + ", ".join(FIELDS.get(letter, "(not read)") for letter in self.columns))
        left_out = [
            f"{count:,} {what}"
            for count, what in ((self.duplicates, "duplicates"), (self.literals, "statements about literals"))
            if count
        ]
        return [
            f"{self.path}: {', '.join(how)}",
            *(f"  {head} | {relation} | {tail}" for head, relation, tail in self.first),
            f"{self.triplets - self.duplicates:,} triplets, {self.entities:,} entities, {self.relations:,} relations"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + (f"; {self.labels:,} labels" if self.labels else ""),
        ]


class Names(NamedTuple):
    """The triplets of a file as names, and how they were found."""

    table: pl.DataFrame
    """head, relation, tail: strings, none missing or empty."""
    format: str
    columns: str
    separator: str | None = None
    header: bool = False
    labels: dict[str, str] = {}  # noqa: RUF012 - never changed
    literals: int = 0


def read_graph(
    path: Path | str,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    literals: Literal["drop", "keep"] = "drop",
    labels: Path | str | None = None,
) -> KnowledgeGraph:
    """The graph in a file; see `read_with_report`."""
    return read_with_report(
        path, columns=columns, separator=separator, header=header, literals=literals, labels=labels
    )[0]


def read_with_report(
    path: Path | str,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    literals: Literal["drop", "keep"] = "drop",
    labels: Path | str | None = None,
) -> tuple[KnowledgeGraph, ReadReport]:
    """The graph in a file, and how it was read.

    Args:
        path: The file. Its format comes from the extension, or else from the content.
        columns: What the columns hold, such as "hrt", "htr", or "h_rt" to skip one; None finds out.
        separator: tab, comma, pipe, semicolon, space or one character; None finds out. Giving one means delimited text.
        header: Is the first line one of column names? None finds out.
        literals: In RDF, leave statements about literals out and count them, or make the literals entities.
        labels: A file of two columns, name and label, for names that are ids.
    """
    names = read_names(path, columns=columns, separator=separator, header=header, literals=literals)
    graph = KnowledgeGraph.from_polars(names.table)
    known = names.labels | (_read_labels(Path(labels), graph) if labels is not None else {})
    if known:
        entities, relations = (v.with_labels(known) for v in (graph.entities, graph.relations))
        graph = KnowledgeGraph(graph.triplets, entities, relations)
    return graph, ReadReport(
        path=Path(path),
        format=names.format,
        separator=names.separator,
        columns=names.columns,
        header=names.header,
        first=tuple((head, relation, tail) for head, relation, tail in names.table.head(3).iter_rows()),
        triplets=names.table.height,
        duplicates=names.table.height - graph.num_triplets,
        literals=names.literals,
        labels=sum(v.labels.count() for v in (graph.entities, graph.relations) if v.labels is not None),
        entities=graph.num_entities,
        relations=graph.num_relations,
    )


def read_names(
    path: Path | str,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    literals: Literal["drop", "keep"] = "drop",
) -> Names:
    """The triplets of a file as names, before they become a graph."""
    source = load(path)
    _refuse_idle_options(source, columns, separator, header, literals)
    if source.format == "delimited" or separator is not None:
        table, dialect = parse_triplets(source, columns, separator, header)
        return Names(table, "delimited", dialect.columns, dialect.separator_name, dialect.header)
    if source.format in RDF_FORMATS:
        from anykg.io.rdf import parse_rdf

        facts = parse_rdf(source, literals)
        return Names(facts.table, source.format, "hrt", labels=facts.labels, literals=facts.literals)
    return names_of(source, columns)


def _refuse_idle_options(
    source: Source, columns: str | None, separator: str | None, header: bool | None, literals: str
) -> None:
    """Complain about options that would change nothing."""
    if literals not in ("drop", "keep"):
        raise ConfigError(f"literals: expected drop or keep, found {literals!r}.")
    rdf, delimited = source.format in RDF_FORMATS, source.format == "delimited" or separator is not None
    idle = {
        "columns": columns is not None and rdf and not delimited,
        "header": header is not None and not delimited,
        "separator": separator is not None and source.format == "parquet",
        "literals": literals == "keep" and (not rdf or delimited),
    }
    for name, useless in idle.items():
        if useless:
            what = "delimited text" if delimited and source.format != "parquet" else source.format
            raise ConfigError(f"{source.path}: is read as {what}, where {name} says nothing; leave it out.")


def names_of(source: Source, columns: str | None) -> Names:
    """The triplets of Parquet or JSON lines."""
    table = _read_parquet(source) if source.format == "parquet" else _read_json_lines(source)
    chosen = _choose_columns(source.path, table, columns)
    return Names(_as_names(source.path, table, chosen), source.format, chosen, header=True)


def _read_parquet(source: Source) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(source.data))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{source.path}: this Parquet file is cut short or damaged; fetch or make it anew.") from error


def _read_json_lines(source: Source) -> pl.DataFrame:
    try:
        return pl.read_ndjson(source.data, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        for number, line in enumerate(decode(source).split("\n"), source.first_line):
            try:
                whole = not line.strip() or isinstance(json.loads(line), dict)
            except json.JSONDecodeError:
                whole = False
            if not whole:
                raise DataError(f"{source.path}:{number}: expected a JSON object, found {line[:80]!r}.") from error
        raise DataError(f"{source.path}: expected JSON objects of the same fields, one a line.") from error


def _choose_columns(path: Path, table: pl.DataFrame, columns: str | None) -> str:
    """Which columns of a table are h, r and t: those asked for, those so named, or the only three."""
    if columns is not None:
        check_columns(columns)
    chosen = columns or header_columns(table.columns) or "hrt"
    if len(chosen) != table.width:
        expected = "columns head, relation, tail" if columns is None else f"{len(columns)} columns"
        raise DataError(
            f"{path}: expected {expected}, found {table.width}: {', '.join(table.columns)}; "
            "say what each column is with --columns, h, r, t or _ for one to skip."
        )
    return chosen


def _as_names(path: Path, table: pl.DataFrame, columns: str) -> pl.DataFrame:
    """Columns head, relation, tail as strings; ids that are integers become their digits."""
    series = {FIELDS[letter]: table.to_series(columns.index(letter)) for letter in "hrt"}
    for name, values in series.items():
        if not (values.dtype.is_integer() or values.dtype in (pl.String, pl.Categorical, pl.Enum)):
            raise DataError(f"{path}: expected names in column {values.name!r}, found values of type {values.dtype}.")
        series[name] = values.cast(pl.String)
        missing = series[name].fill_null("") == ""
        if missing.any():
            raise DataError(
                f"{path}: expected a {name} in every row, found none in row {missing.to_list().index(True) + 1}."
            )
    if not table.height:
        raise DataError(f"{path}: the table has no rows; expected a triplet in each.")
    return pl.DataFrame(series)


def _read_labels(path: Path, graph: KnowledgeGraph) -> dict[str, str]:
    labels = parse_labels(load(path))
    if not any(name in labels for vocabulary in (graph.entities, graph.relations) for name in vocabulary):
        raise DataError(
            f"{path}: none of its {len(labels):,} names (such as {next(iter(labels), '')!r}) is an entity or relation "
            "of the graph; expected a name and its label on each line."
        )
    return labels
