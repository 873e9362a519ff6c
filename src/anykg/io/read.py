"""Read a knowledge graph from any source, and report how it was read.

A source is a path, `-` for standard input, a folder of nodes and relationships, an address (http, https, s3, hf) or a
database. The formats are in `anykg.io.formats`, the databases in `anykg.io.sources`; each yields a table [E, 3] of
names, from which the graph is built.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io import addresses, cache
from anykg.io.choices import BLANK, LITERALS, Names, names_of
from anykg.io.delimited import parse_labels
from anykg.io.formats import RDF_OPTIONS, detect, idle_options
from anykg.io.options import Reading, ReadOptions
from anykg.io.pack import is_pack, open_pack
from anykg.io.parsed import MALFORMED, Parsed, added
from anykg.io.property_graphs import file_beside, is_graph_folder, labels_beside, read_folder, table_of
from anykg.io.source import load
from anykg.progress import Progress

logger = logging.getLogger("anykg")
FIELDS = {"h": "head", "r": "relation", "t": "tail"}
NOTEWORTHY = (BLANK, "comments", MALFORMED)
"""Kinds of rows whose number is logged when they are skipped."""


@dataclass(frozen=True)
class ReadReport:
    """How a graph was read, and its size."""

    path: str
    format: str
    separator: str | None
    """tab, comma, pipe, space or another character; None if the format has none."""
    columns: str
    """The roles of the columns, in the order of the file: h, r, t, or _ for one that was not read."""
    header: bool
    """Whether the first line was read as a header."""
    first: tuple[tuple[str, str, str], ...]
    """The first three triplets (head, relation, tail)."""
    triplets: int
    """Triplets in the file, including repeated ones."""
    duplicates: int
    """Repeated triplets, which are dropped."""
    left_out: Mapping[str, int]
    """Counts of what else was skipped, by kind."""
    labels: int
    """Entities and relations with a label."""
    entities: int
    relations: int
    notes: tuple[str, ...] = field(default=())

    @property
    def literals(self) -> int:
        """Statements about literals that were left out."""
        return self.left_out.get(LITERALS, 0)

    def to_dict(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return asdict(self) | {"left_out": dict(self.left_out), "first": [list(row) for row in self.first]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReadReport:
        """Restore a report from the output of `to_dict`."""
        first = tuple((head, relation, tail) for head, relation, tail in values["first"])
        return cls(**{**values, "first": first, "notes": tuple(values["notes"])})

    def lines(self) -> list[str]:
        """A summary of a few lines."""
        how = [self.format]
        if self.separator is not None:
            kind = [] if self.format == "delimited" else [self.format]
            how = [*kind, f"{self.separator}-separated", "with a header" if self.header else "no header"]
        if self.columns:
            how.append("columns " + ", ".join(FIELDS.get(letter, "(not read)") for letter in self.columns))
        counts = {"duplicates": self.duplicates, **self.left_out}
        left_out = [f"{count:,} {what}" for what, count in counts.items() if count]
        return [
            f"{self.path}: {', '.join(how)}",
            *(f"  {head} | {relation} | {tail}" for head, relation, tail in self.first),
            f"{self.triplets - self.duplicates:,} facts, {self.entities:,} entities, {self.relations:,} relations"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + (f"; {self.labels:,} labels" if self.labels else ""),
            *(f"note: {note}" for note in self.notes),
        ]


def read_graph(source: Path | str, **reading: Unpack[Reading]) -> KnowledgeGraph:
    """Return the graph in a file, a folder, at an address or in a database; remarks on how it was read are logged.

    See `read_with_report` for `reading`.
    """
    graph, report = read_with_report(source, **reading)
    for note in (*report.notes, *notes_on(report.left_out)):
        logger.warning("%s: %s.", report.path, note)
    return graph


def notes_on(left_out: Mapping[str, int]) -> list[str]:
    """How many rows of each noteworthy kind were left out."""
    return [f"{what} left out: {left_out[what]:,}" for what in NOTEWORTHY if left_out.get(what)]


def read_with_report(
    source: Path | str, *, progress: Progress | None = None, **reading: Unpack[Reading]
) -> tuple[KnowledgeGraph, ReadReport]:
    """The graph in a file, a folder, at an address or in a database, and how it was read.

    `reading` are the fields of `anykg.io.options.ReadOptions`: columns, separator, header, relation, where, keep, drop,
    literals, bins, labels, attributes, language, names, query, format, strict, skip_malformed.
    """
    attributes = reading.pop("attributes", None)
    graph, report = _read_or_open(source, progress, reading)
    return graph if attributes is None else with_attributes(graph, Path(attributes)), report


def with_attributes(graph: KnowledgeGraph, path: Path) -> KnowledgeGraph:
    """The same facts with attributes of entities from a table, whose first column, or the one called id, has the names.

    Columns in which every value is a number are numbers.
    """
    table = table_of(path)
    key = next((name for name in table.columns if name.lower() in ("id", "entity", ":id")), table.columns[0])
    known = graph.entities.names.is_in(table[key].cast(pl.String).to_list())
    if table.width < 2 or not known.any():
        raise DataError(
            f"{path}: expected a column of entities of the graph, such as {graph.entities[0]!r}, and columns of "
            f"attributes; found {', '.join(table.columns)}, beginning with {table[key][0] if table.height else None!r}."
        )
    numbers = [pl.col(name).cast(pl.Float64, strict=False) for name in table.columns if _is_numeric(table[name])]
    entities = graph.entities.with_attributes(
        table.with_columns(number for number in numbers if number.meta.output_name() != key).cast({key: pl.String}), key
    )
    result = KnowledgeGraph(graph.triplets, entities, graph.relations)
    result.name = graph.name
    return result


def _is_numeric(column: pl.Series) -> bool:
    return column.cast(pl.Float64, strict=False).null_count() == column.null_count() < len(column)


def _read_or_open(source: Path | str, progress: Progress | None, reading: Reading) -> tuple[KnowledgeGraph, ReadReport]:
    """The graph from its packed copy, or parsed from its source."""
    options = ReadOptions.of(**reading)
    shown = addresses.shown(source)
    local = not addresses.scheme_of(str(source)) and not addresses.is_database(source)
    if local and is_pack(source) and not options.given():
        graph, _ = open_pack(source)
        return graph, _packed_report(graph, shown)
    packed = cache.path_of(source, options, _beside(Path(source))) if local else None
    kept = cache.load(packed) if packed is not None else None
    if kept is not None:
        graph, read = kept
        return graph, ReadReport.from_dict(read | {"path": shown})
    graph, report = _read_source(source, options, shown, progress, reading)
    if packed is not None:
        cache.save(graph, packed, report.to_dict() | {"path": str(Path(source).resolve())})
    return graph, report


def _read_source(
    source: Path | str, options: ReadOptions, shown: str, progress: Progress | None, reading: Reading
) -> tuple[KnowledgeGraph, ReadReport]:
    """The graph parsed from its source."""
    if addresses.is_database(source):
        from anykg.io.sources import stream_database

        graph, names, count = _streamed(stream_database(str(source), options, progress), options, shown)
    else:
        names = read_names(source, **reading)
        count = names.table.height
        graph = KnowledgeGraph.from_polars(names.table)
    labels = dict(names.labels)
    if options.labels is not None:
        labels |= _read_labels(Path(options.labels), graph)
    graph = graph_with(graph, labels, names.prefixes)
    parsed = names.parsed
    return graph, ReadReport(
        path=shown,
        format=parsed.format,
        separator=parsed.separator,
        columns="" if parsed.format in _no_columns() else parsed.columns,
        header=parsed.header,
        first=tuple((head, relation, tail) for head, relation, tail in names.table.head(3).iter_rows()),
        triplets=count,
        duplicates=count - graph.num_triplets,
        left_out=names.left_out,
        labels=graph.entities.num_labels + graph.relations.num_labels,
        entities=graph.num_entities,
        relations=graph.num_relations,
        notes=names.notes,
    )


def _beside(path: Path) -> tuple[Path, ...]:
    beside = file_beside(path)
    return () if beside is None else (beside,)


def _packed_report(graph: KnowledgeGraph, shown: str) -> ReadReport:
    vocabularies = (graph.entities, graph.relations, graph.entities)
    first = graph.triplets[:3].tolist()
    return ReadReport(
        path=shown,
        format="anykg",
        separator=None,
        columns="",
        header=False,
        first=tuple((v[0][h], v[1][r], v[2][t]) for v in [vocabularies] for h, r, t in first),
        triplets=len(graph),
        duplicates=0,
        left_out={},
        labels=graph.entities.num_labels + graph.relations.num_labels,
        entities=graph.num_entities,
        relations=graph.num_relations,
    )


def read_names(source: Path | str, *, keep_blank: bool = False, **reading: Unpack[Reading]) -> Names:
    """The triplets of a file as names, before they become a graph.

    With `keep_blank`, rows with a blank field stay, as nulls.
    """
    options = ReadOptions.of(**reading)
    parsed = parse(source, options)
    names = names_of(parsed, options, addresses.shown(source), keep_blank=keep_blank)
    if names.table.is_empty():
        raise DataError(_nothing(addresses.shown(source), names, options))
    return names


def parse(source: Path | str, options: ReadOptions) -> Parsed:
    """The output of the reader of a file, a folder or an address."""
    if options.query is not None:
        raise ConfigError(f"{addresses.shown(source)}: a query only applies to databases; leave it out.")
    if addresses.is_address(source):
        cloud = addresses.read_cloud(str(source), options)
        if cloud is not None:
            return cloud
        from anykg.io.fetch import download_address

        source = download_address(str(source))
    path = Path(source)
    if is_graph_folder(path):
        return read_folder(path, options)
    content = load(path)
    format = detect(content, options)
    for name in idle_options(format, options):
        raise ConfigError(f"{path}: is read as {format.name}, where `{name}` has no effect; leave it out.")
    parsed = format.read(content, options)
    if not parsed.labels and parsed.format not in _no_columns():
        beside = labels_beside(path)
        if beside is not None:
            file, labels = beside
            parsed = parsed.but(labels=labels, notes=(*parsed.notes, f"labels from {file.name} beside it"))
    return parsed


def graph_with(graph: KnowledgeGraph, labels: Mapping[str, str], prefixes: Mapping[str, str]) -> KnowledgeGraph:
    """The same facts with labels and prefixes for looking names up."""
    if not labels and not prefixes:
        return graph
    entities, relations = (
        v.with_labels(dict(labels)).with_prefixes(prefixes) for v in (graph.entities, graph.relations)
    )
    return KnowledgeGraph(graph.triplets, entities, relations)


def _streamed(parts: Iterable[Parsed], options: ReadOptions, shown: str) -> tuple[KnowledgeGraph, Names, int]:
    """A graph from parts that need not fit in memory together; the report describes the first part."""
    from anykg.graph.builder import GraphBuilder

    builder = GraphBuilder()
    first: Names | None = None
    labels: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    left_out: dict[str, int] = {}
    for parsed in parts:
        names = names_of(parsed, options, shown)
        builder.add(names.table)
        labels = {**names.labels, **labels}
        prefixes |= names.prefixes
        left_out = added(left_out, names.left_out)
        if first is None or first.table.is_empty():
            first = names._replace(table=names.table.head(3))
    if first is None or not builder.count:
        raise DataError(f"{shown}: the query gave no facts; expected rows of head, relation and tail.")
    names = first._replace(labels=labels, prefixes=prefixes, left_out=left_out)
    return builder.graph(), names, builder.count


def _nothing(shown: str, names: Names, options: ReadOptions) -> str:
    left_out = ", ".join(f"{count:,} {what}" for what, count in names.left_out.items())
    hint = "; use literals='keep' to read those" if names.left_out.get(LITERALS) else ""
    if not hint and options.given():
        hint = f"; look at what {' and '.join(options.given())} leave out"
    blank = "" if left_out else "; expected a fact on each line"
    gone = f" ({left_out} were left out)" if left_out else ""
    return f"{shown}: there are no facts between entities{gone}{hint}{blank}."


def _no_columns() -> set[str]:
    """Formats without meaningful columns."""
    from anykg.io.formats import formats

    return {name for name, format in formats().items() if format.takes == RDF_OPTIONS} | {"obo", "folder", "anykg"}


def _read_labels(path: Path, graph: KnowledgeGraph) -> dict[str, str]:
    from anykg.io.property_graphs import table_labels

    typed = path.suffix.lower() in (".parquet", ".feather", ".jsonl", ".ndjson")
    labels = table_labels(path) if typed else parse_labels(load(path))
    if not any(name in labels for vocabulary in (graph.entities, graph.relations) for name in vocabulary):
        raise DataError(
            f"{path}: none of its {len(labels):,} names (such as {next(iter(labels), '')!r}) is an entity or relation "
            "of the graph; expected a name and its label on each line."
        )
    return labels
