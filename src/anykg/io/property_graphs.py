"""Read and write graphs as tables of nodes and relationships: neo4j-admin, APOC, KGX, KGTK, GraphRAG.

A folder is read as one graph if it has files of relationships; files of nodes give the labels. A single file of edges
takes its labels from the file of nodes next to it, if their names differ only in that word.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from anykg.errors import DataError
from anykg.io.columns import GRAPHRAG_TABLES, NEO4J, UNTYPED, Roles, by_header, plain
from anykg.io.escapes import escape_where
from anykg.io.options import ReadOptions
from anykg.io.parsed import MALFORMED, TRIPLET, Parsed
from anykg.io.source import Source, load

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph
    from anykg.io.delimited import Rows

EDGE_WORDS = ("edges", "edge", "relationships", "relationship", "relations", "rels", "links")
TITLES = ("name", "label", "title", "display_name")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson", ".feather", ".psv", ".tab")
KGTK = {"node1", "label", "node2"}
APOC = {"_id", "_labels", "_start", "_end", "_type"}
_KGTK_TEXT = re.compile(r"""^(?:"(?P<plain>.*)"|'(?P<text>.*)'@(?P<language>[a-zA-Z-]+))$""", re.DOTALL)


# -- one file ---------------------------------------------------------------------------------------------------


def header_words(source: Source) -> set[str]:
    """The names in the first line of a delimited file, unchanged."""
    line = source.start.split(b"\n", 1)[0].decode("utf-8", errors="replace").strip("\r\ufeff ")
    separator = "\t" if "\t" in line else ","
    return {word.strip().strip('"') for word in line.split(separator)}


def read_apoc(source: Source, options: ReadOptions) -> Parsed:
    """APOC's CSV of everything: rows of nodes and rows of relationships under one header."""
    from anykg.io.delimited import parse_rows
    from anykg.io.dialect import Dialect, detect

    dialect = detect(source, ReadOptions(header=True, separator=options.separator))
    dialect = Dialect(dialect.separator, len(dialect.names or ()), True, dialect.names)
    names = dialect.columns
    frame = parse_rows(source, dialect, range(len(names)), required=()).frame
    is_node = pl.col("_start").is_null()
    labels = _labels(frame.filter(is_node), "_id")
    links = frame.filter(~is_node)
    roles = Roles(names.index("_start"), names.index("_type"), names.index("_end"))
    return Parsed(
        links, "_start", "_type", "_end", format="apoc", columns=roles.letters(len(names)), separator="comma",
        header=True, labels=labels,
    )  # fmt: skip


def read_kgtk(source: Source, options: ReadOptions) -> Parsed:
    """KGTK: edges node1, label, node2; edges called label give labels, and values are literals."""
    from anykg.io.delimited import parse_rows
    from anykg.io.dialect import Dialect

    first = source.start.split(b"\n", 1)[0].decode("utf-8", errors="replace").strip("\r")
    names = first.split("\t")
    dialect = Dialect("\t", len(names), True, tuple(names))
    frame, skipped, _ = parse_rows(source, dialect, range(len(names)), required=())
    value, kind = pl.col("node2"), pl.col("label")
    is_label = kind.is_in(["label", "rdfs:label"]) & value.str.contains(_KGTK_TEXT.pattern.replace("?P<", "?<"))
    labels = _kgtk_labels(frame.filter(is_label), options.language)
    frame = frame.filter(~is_label.fill_null(False))
    literal = value.str.contains(r"""^["'^@!]|^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:$|[^\w:/-])""")
    dropped = 0
    marked: str | None = None
    if options.literals == "drop" and options.bins is None:
        kept = frame.filter(~literal.fill_null(False))
        dropped, frame = frame.height - kept.height, kept
    else:
        marked = "is literal"
        frame = frame.with_columns(literal.fill_null(False).alias(marked))
    parsed = Parsed(
        frame, "node1", "label", "node2", literal=marked, format="kgtk", separator="tab", header=True, labels=labels,
        columns="".join({"node1": "h", "label": "r", "node2": "t"}.get(name, "_") for name in names),
        left_out={"statements about literals": dropped, **skipped},
    )  # fmt: skip
    pairs = {"head_label": "node1;label", "relation_label": "label;label", "tail_label": "node2;label"}
    lifted = {field: name for field, name in pairs.items() if name in names}
    if lifted:
        texts = [pl.col(name).str.replace(r"""^["'](.*)["'](@[a-zA-Z-]+)?$""", "$1") for name in lifted.values()]
        parsed = parsed.but(frame=parsed.frame.with_columns(texts), **lifted)
    return parsed


def _kgtk_labels(rows: pl.DataFrame, language: str) -> dict[str, str]:
    labels: dict[str, tuple[int, str]] = {}
    for name, text in rows.select("node1", "node2").iter_rows():
        match = _KGTK_TEXT.match(text or "")
        if match is None:
            continue
        spoken = match["language"]
        rank = 0 if spoken == language else 1 if spoken is None else 2 if spoken == "en" else 3
        if name not in labels or rank < labels[name][0]:
            labels[name] = rank, match["text"] if spoken else match["plain"]
    return {name: label for name, (_, label) in labels.items()}


def labels_beside(path: Path) -> tuple[Path, dict[str, str]] | None:
    """The labels in the file of nodes next to a file of edges, and that file."""
    beside = file_beside(path)
    if beside is None:
        return None
    table = table_of(beside)
    labels = _labels(table, _id_column(table.columns))
    return (beside, labels) if labels else None


def file_beside(path: Path) -> Path | None:
    """The file of nodes next to a file of edges."""
    for word in EDGE_WORDS:
        if re.search(rf"(^|[_.-]){word}([_.-]|$)", path.name, re.IGNORECASE):
            beside = path.with_name(re.sub(word, "nodes", path.name, count=1, flags=re.IGNORECASE))
            if beside != path and beside.is_file():
                return beside
    return None


# -- folders ----------------------------------------------------------------------------------------------------


def is_graph_folder(folder: Path) -> bool:
    """Whether a folder holds nodes and relationships."""
    return folder.is_dir() and any(
        name in GRAPHRAG_TABLES
        or re.search(rf"(^|[_.-])({'|'.join(EDGE_WORDS)})([_.-]|$)", name, re.IGNORECASE)
        or (path.suffix.lower() in (".csv", ".tsv") and b"START_ID" in _first_line(path))
        for path in _tables_in(folder)
        if (name := path.name.lower())
    )


def read_folder(folder: Path, options: ReadOptions) -> Parsed:
    """The relationships in the files of a folder, and labels from its files of nodes."""
    links: list[tuple[Path, pl.DataFrame, Roles]] = []
    labels: dict[str, str] = {}
    nodes: list[tuple[Path, pl.DataFrame]] = []
    malformed = 0
    for path in _tables_in(folder):
        rows = _rows_of(path, skip_malformed=options.skip_malformed)
        table, malformed = rows.frame, malformed + len(rows.malformed)
        roles = by_header(table.columns)
        if roles is not None and not any(m and m["kind"] == "ID" for m in map(NEO4J.match, table.columns)):
            links.append((path, table, roles))
        else:
            nodes.append((path, table))
    if not links:
        raise DataError(f"{folder}: expected a file of relationships with a head and a tail, found none in the folder.")
    qualify = _spaces_overlap(nodes)
    for _, table in nodes:
        column = _id_column(table.columns)
        space = _space(column) if qualify else ""
        labels |= {_qualified(name, space): label for name, label in _labels(table, column).items()}
    frames = [_links_of(path, table, roles, options, qualify) for path, table, roles in links]
    untyped = all(roles.relation is None for _, _, roles in links) and len(links) == 1
    names = ", ".join(path.name for path, *_ in links)
    note = f"relationships from {names}" + (
        f", labels from {', '.join(path.name for path, _ in nodes)}" if labels else ""
    )
    frame = pl.concat(frames, how="diagonal_relaxed")
    return Parsed(
        frame, "head", None if untyped or options.relation else "relation", "tail", format="folder", header=True,
        labels=labels, left_out={MALFORMED: malformed} if malformed else {}, notes=(note,),
    )  # fmt: skip


def _links_of(path: Path, table: pl.DataFrame, roles: Roles, options: ReadOptions, qualify: bool) -> pl.DataFrame:
    """Columns head, relation, tail and the others; without types, the file name is the relation."""
    names = table.columns
    head, tail = (pl.col(names[i]).cast(pl.String) for i in (roles.head, roles.tail))
    if qualify:
        head, tail = (
            pl.format("{}/{}", pl.lit(space), end) if space else end
            for end, space in zip((head, tail), roles.spaces, strict=True)
        )
    if roles.relation is not None:
        relation = pl.col(names[roles.relation]).cast(pl.String)
    else:
        stem = re.sub(
            r"(?i)[_.-]?\b(edges|edge|relationships|relationship|rels|links)\b[_.-]?", "", path.name.split(".")[0]
        )
        relation = pl.lit(UNTYPED if path.name.lower() in GRAPHRAG_TABLES or not stem else stem)
    others = [name for i, name in enumerate(names) if i not in roles.used() and name not in TRIPLET]
    return table.select(head.alias("head"), relation.alias("relation"), tail.alias("tail"), *others)


def _tables_in(folder: Path) -> list[Path]:
    tables = sorted(path for path in folder.iterdir() if path.is_file() and _extension(path) in TABLES)
    return [path for path in tables if not path.name.startswith(".")]


def _extension(path: Path) -> str:
    return (
        Path(path.stem).suffix.lower() if path.suffix.lower() in (".gz", ".zst", ".bz2", ".xz") else path.suffix.lower()
    )


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(1 << 16)


def table_of(path: Path) -> pl.DataFrame:
    """A table with a header, all its columns."""
    return _rows_of(path, skip_malformed=None).frame


def _rows_of(path: Path, *, skip_malformed: bool | None) -> Rows:
    """A table with a header, all its columns, and what was skipped."""
    from anykg.io.delimited import Rows, parse_rows
    from anykg.io.dialect import Dialect, detect

    source = load(path)
    extension = _extension(path)
    try:
        if extension == ".parquet":
            return Rows(pl.read_parquet(io.BytesIO(source.data)), {}, ())
        if extension == ".feather":
            return Rows(pl.read_ipc(io.BytesIO(source.data)), {}, ())
        if extension in (".jsonl", ".ndjson"):
            return Rows(pl.read_ndjson(source.data, infer_schema_length=None), {}, ())
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: this file is cut short or damaged; download or export it again.") from error
    dialect = detect(source, ReadOptions(header=True))
    dialect = Dialect(dialect.separator, len(dialect.names or ()), True, dialect.names, dialect.skip)
    return parse_rows(source, dialect, range(dialect.width), required=(), skip_malformed=skip_malformed)


def _id_column(names: Sequence[str]) -> str:
    """The column of ids of a table of nodes."""
    typed = [name for name in names if (m := NEO4J.match(name)) and m["kind"] == "ID"]
    words = {plain(name): name for name in reversed(names)}
    known = [words[word] for word in ("title", "id", "node_id", "entity_id", "name", "key", "curie") if word in words]
    if "text_unit_ids" in words:  # GraphRAG links entities by their titles
        return words.get("title") or words.get("name") or names[0]
    known = [name for name in known if plain(name) != "title"]
    return (typed or known or list(names))[0]


def _labels(table: pl.DataFrame, column: str) -> dict[str, str]:
    words = {plain(name.split(":")[0]): name for name in reversed(table.columns)}
    title = next((words[word] for word in TITLES if word in words and words[word] != column), None)
    if title is None or column not in table.columns:
        return {}
    pairs = table.select(pl.col(column).cast(pl.String).alias("n"), pl.col(title).cast(pl.String).alias("l"))
    pairs = pairs.drop_nulls().filter((pl.col("l") != "") & (pl.col("l") != pl.col("n"))).unique("n", keep="first")
    return dict(pairs.iter_rows())


def _space(column: str) -> str:
    match = NEO4J.match(column)
    return (match["space"] or "") if match else ""


def _qualified(name: str, space: str) -> str:
    return f"{space}/{name}" if space else name


def _spaces_overlap(nodes: list[tuple[Path, pl.DataFrame]]) -> bool:
    """Whether two of neo4j-admin's id spaces share an id, so that names must include their space."""
    ids: dict[str, set[str]] = {}
    for _, table in nodes:
        column = _id_column(table.columns)
        ids.setdefault(_space(column), set()).update(table[column].cast(pl.String).drop_nulls().to_list())
    groups = list(ids.values())
    return any(a & b for i, a in enumerate(groups) for b in groups[i + 1 :])


# -- writing ----------------------------------------------------------------------------------------------------


def write_kgtk(graph: KnowledgeGraph) -> bytes:
    """The content of a KGTK file; labels are edges called label."""
    table = graph.to_polars().select(pl.col(TRIPLET).map_batches(lambda names: escape_where(names, _not_for_kgtk)))
    lines = ["node1\tlabel\tnode2\n", *("\t".join(row) + "\n" for row in table.iter_rows())]
    for vocabulary in (graph.entities, graph.relations):
        if vocabulary.labels is None:
            continue
        names = escape_where(vocabulary.names, _not_for_kgtk).to_list()
        for name, label in zip(names, vocabulary.labels.to_list(), strict=True):
            if label is not None and not re.search(r"[\t\r\n]", label):
                lines.append(f'{name}\tlabel\t"{label}"\n')
    return "".join(lines).encode()


def _not_for_kgtk(names: pl.Series) -> pl.Series:
    return (
        (names == "")
        | names.str.contains(r"[\t\r\n\x00\x{feff}]")
        | names.str.contains(r"""^["'^@!#%+-]|^\d""")
        | names.is_in(["label", "rdfs:label", "node1", "node2"])
    )


def write_kgx(graph: KnowledgeGraph) -> dict[str, bytes]:
    """The files of a graph in the KGX format: nodes and edges as TSV."""
    edges = _tsv(graph.to_polars().rename({"head": "subject", "relation": "predicate", "tail": "object"}))
    return {"nodes.tsv": _tsv(_node_table(graph, "id", "name")), "edges.tsv": edges}


def write_neo4j(graph: KnowledgeGraph) -> dict[str, bytes]:
    """The files that `neo4j-admin database import` takes: nodes.csv and relationships.csv."""
    relations = graph.to_polars().rename({"head": ":START_ID", "relation": ":TYPE", "tail": ":END_ID"})
    return {"nodes.csv": _csv(_node_table(graph, ":ID", "name")), "relationships.csv": _csv(relations)}


def _node_table(graph: KnowledgeGraph, id_column: str, name_column: str) -> pl.DataFrame:
    names = graph.entities.names
    labels = names if graph.entities.labels is None else graph.entities.labels.fill_null(names)
    return pl.DataFrame({id_column: names, name_column: labels})


def _tsv(table: pl.DataFrame) -> bytes:
    held = table.select(
        pl.all().map_batches(lambda n: escape_where(n, lambda s: (s == "") | s.str.contains(r"[\t\r\n]")))
    )
    buffer = io.BytesIO()
    held.write_csv(buffer, separator="\t", quote_style="never")
    return buffer.getvalue()


def _csv(table: pl.DataFrame) -> bytes:
    held = table.select(
        pl.all().map_batches(lambda n: escape_where(n, lambda s: (s == "") | s.str.contains("\x00", literal=True)))
    )
    buffer = io.BytesIO()
    held.write_csv(buffer, quote_style="always")
    return buffer.getvalue()


def table_labels(path: Path) -> dict[str, str]:
    """Labels by name, from a table of nodes."""
    table = table_of(path)
    return _labels(table, _id_column(table.columns))
