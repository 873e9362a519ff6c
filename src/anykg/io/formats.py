"""The formats of graphs, one row each: how a file is recognised, read, streamed and written.

The format is determined by the extension or, if that is unknown or the content is clearly something else, by the
content. Other packages add rows by an entry point of the group `anykg.formats` that names a `Format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from anykg.errors import ConfigError, DataError, UnknownName, nearest
from anykg.io import delimited, documents, graphs_xml, ontology, pack, property_graphs, rdf, tables
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed
from anykg.io.source import Source, refuse_binary

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph

GROUP = "anykg.formats"
TABLE_OPTIONS = frozenset({"columns", "where", "relation"})
TEXT_OPTIONS = TABLE_OPTIONS | {"separator", "header", "skip_malformed"}
RDF_OPTIONS = frozenset({"literals", "names", "where"})
KGTK_OPTIONS = frozenset({"literals", "where"})
Reader = Callable[[Source, ReadOptions], Parsed]
Streamer = Callable[[Iterator[Source], ReadOptions], Iterator[Parsed]]
Writer = Callable[["KnowledgeGraph"], "bytes | dict[str, bytes]"]


@dataclass(frozen=True)
class Format:
    """A format of graphs."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    """Extensions in lower case; the first is the one to write."""
    read: Reader
    sniff: Callable[[Source], bool] = lambda source: False
    """Whether the content is clearly in this format."""
    stream: Streamer | None = None
    """Reads lines in parts; None for formats that are read as a whole."""
    write: Writer | None = None
    """The content of a file, or of several by name for a folder."""
    takes: frozenset[str] = frozenset()
    """Reading options specific to some formats that apply to this one."""
    binary: bool = False


def _by_parts(read: Reader) -> Streamer:
    """A streamer for formats in which every line is independent."""

    def stream(sources: Iterator[Source], options: ReadOptions) -> Iterator[Parsed]:
        for source in sources:
            yield read(source, options)

    return stream


# -- recognising content ----------------------------------------------------------------------------------------

_TRIPLE = re.compile(rb'(<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+(<[^<>\s]*>|_:\S+|".*)\s*(<[^<>\s]*>\s*)?\.\s*$')


def _lines(source: Source) -> list[bytes]:
    """The first lines that are neither blank nor comments."""
    lines = (line.strip() for line in source.start.split(b"\n"))
    return [line for line in lines if line and not line.startswith(b"#")][:20]


def _is_triples(source: Source, *, quads: bool) -> bool:
    matches = [_TRIPLE.fullmatch(line) for line in _lines(source)[:5]]
    if not matches or matches[0] is None:
        return False
    return any(match is not None and match.group(3) is not None for match in matches) == quads


def _is_turtle(source: Source) -> bool:
    first = _lines(source)[:1]
    return bool(first) and first[0].lower().startswith((b"@prefix ", b"prefix ", b"@base ", b"base <"))


def _is_trig(source: Source) -> bool:
    if not _is_turtle(source):
        return False
    body = b"\n".join(line for line in _lines(source) if not line.lower().startswith((b"@prefix", b"prefix", b"@base")))
    return (
        re.search(rb"^(GRAPH\s+)?(<[^>]*>|[\w.-]*:[\w.-]*|_:\w+)?\s*\{", body, re.MULTILINE | re.IGNORECASE) is not None
    )


def _root(source: Source) -> bytes:
    """The name of the first element of XML, without its prefix."""
    match = (
        re.search(rb"<(?![?!])(?:[\w.-]+:)?([\w.-]+)", source.start) if source.start.lstrip().startswith(b"<") else None
    )
    return match.group(1) if match and not _is_triples(source, quads=False) else b""


def _is_json(source: Source) -> bool:
    start = source.start.lstrip()
    if start.startswith(b"["):
        return re.match(rb'\[\s*([\[{"\]]|$)', start) is not None
    return re.match(rb'\{\s*("|\}|$)', start) is not None and not _is_json_lines(source)


def _is_json_lines(source: Source) -> bool:
    import json

    lines = [line for line in source.start.split(b"\n") if line.strip()]
    try:
        first = json.loads(lines[0]) if lines else None
        return isinstance(first, dict) and (len(lines) > 1 or source.extension in (".jsonl", ".ndjson"))
    except (ValueError, RecursionError):
        return False


def _is_json_ld(source: Source) -> bool:
    return _is_json(source) and re.search(rb'"@(context|graph|id|type)"\s*:', source.start) is not None


def _is_obo(source: Source) -> bool:
    return source.start.lstrip().startswith(b"format-version:") or b"\n[Term]" in source.start


def _never(source: Source) -> bool:
    return False


def _starts(*starts: bytes) -> Callable[[Source], bool]:
    return lambda source: source.data.startswith(starts)


def _has_columns(words: set[str]) -> Callable[[Source], bool]:
    return lambda source: words <= property_graphs.header_words(source)


def _write_delimited(kind: str) -> Writer:
    def write(graph: KnowledgeGraph) -> bytes:
        from anykg.io.write import delimited_of

        return delimited_of(graph, kind)

    return write


def _rdf(name: str, summary: str, *suffixes: str, sniff: Callable[[Source], bool], write: bool = True) -> Format:
    lines = name in ("nt", "nq")
    return Format(
        name,
        summary,
        suffixes,
        partial(rdf.read, format=name),
        sniff,
        _by_parts(partial(rdf.read_part, format=name)) if lines else None,
        partial(rdf.write, format=name) if write else None,
        RDF_OPTIONS,
    )


BUILT_IN: tuple[Format, ...] = (
    Format("anykg", "packed by `anykg data pack`; opens in milliseconds", (".anykg",), pack.read, _starts(pack.MAGIC),
           write=pack.to_bytes, binary=True),
    Format("parquet", "Apache Parquet", (".parquet", ".pq"), tables.read_parquet, _starts(b"PAR1"),
           write=tables.write_parquet, takes=TABLE_OPTIONS, binary=True),
    Format("feather", "Feather, Arrow IPC", (".feather", ".arrow", ".ipc"), tables.read_feather, _starts(b"ARROW1"),
           write=tables.write_feather, takes=TABLE_OPTIONS, binary=True),
    Format("excel", "Excel; the first sheet with rows", (".xlsx", ".xlsm"), tables.read_excel, _starts(b"PK\x03\x04"),
           write=tables.write_excel, takes=TABLE_OPTIONS | {"header"}, binary=True),
    Format("graphml", "GraphML of NetworkX, yEd, igraph, APOC, LightRAG", (".graphml",), graphs_xml.read_graphml,
           lambda s: _root(s) == b"graphml", write=graphs_xml.write_graphml, takes=TABLE_OPTIONS),
    Format("gexf", "GEXF of Gephi", (".gexf",), graphs_xml.read_gexf, lambda s: _root(s) == b"gexf",
           write=graphs_xml.write_gexf, takes=TABLE_OPTIONS),
    _rdf("owl", "OWL in RDF/XML; restrictions become facts between classes", ".owl", sniff=_never, write=False),
    _rdf("rdf", "RDF/XML", ".rdf", ".rdfs", sniff=lambda s: _root(s) == b"RDF"),
    Format("obo", "OBO ontologies", (".obo",), ontology.read_obo, _is_obo),
    _rdf("jsonld", "JSON-LD with its context in the file", ".jsonld", sniff=_is_json_ld),
    Format("json", "arrays of facts, or nodes with links: NetworkX, D3, LangChain, LlamaIndex, KGX, Cytoscape",
           (".json",), documents.read_json, _is_json, write=documents.write_json, takes=TABLE_OPTIONS),
    Format("jsonl", "JSON lines, flat or nested as APOC writes them", (".jsonl", ".ndjson"), documents.read_lines,
           _is_json_lines, _by_parts(documents.read_lines), documents.write_lines, TABLE_OPTIONS),
    _rdf("trig", "TriG", ".trig", sniff=_is_trig),
    _rdf("ttl", "Turtle", ".ttl", ".turtle", sniff=_is_turtle),
    _rdf("n3", "Notation3", ".n3", sniff=_never, write=False),
    _rdf("nq", "N-Quads", ".nq", ".nquads", sniff=partial(_is_triples, quads=True)),
    _rdf("nt", "N-Triples", ".nt", ".ntriples", sniff=partial(_is_triples, quads=False)),
    Format("kgtk", "KGTK: node1, label, node2", (".kgtk",), property_graphs.read_kgtk,
           _has_columns(property_graphs.KGTK), write=property_graphs.write_kgtk, takes=KGTK_OPTIONS),
    Format("apoc", "APOC's CSV of nodes and relationships", (), property_graphs.read_apoc,
           _has_columns(property_graphs.APOC), takes=frozenset({"where", "separator"})),
    Format("tsv", "tab-separated text", (".tsv", ".tab", ".txt"), delimited.read, stream=delimited.stream,
           write=_write_delimited("tsv"), takes=TEXT_OPTIONS),
    Format("csv", "text separated by commas, pipes, semicolons or spaces", (".csv", ".psv"), delimited.read,
           stream=delimited.stream, write=_write_delimited("csv"), takes=TEXT_OPTIONS),
    Format("kgx", "KGX: a folder of nodes.tsv and edges.tsv", (), delimited.read, write=property_graphs.write_kgx,
           takes=TEXT_OPTIONS),
    Format("neo4j", "neo4j-admin: a folder of nodes.csv and relationships.csv", (), delimited.read,
           write=property_graphs.write_neo4j, takes=TEXT_OPTIONS),
)  # fmt: skip
"""All built-in formats, in the order in which content is tried."""
_RESOLUTE = ("tsv", "csv")
"""Formats whose extension is trusted unless the content is a variant of the same format."""
_CONTAINED = {"ttl": ("nt", "trig"), "trig": ("nt", "nq", "ttl"), "n3": ("nt", "ttl"), "nq": ("nt",)}
"""Formats that are subsets of another, whose content is therefore consistent with the other's extension."""


@cache
def formats() -> dict[str, Format]:
    """All formats by name: the built-in ones and those of other packages."""
    by_name = {format.name: format for format in BUILT_IN}
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        format = entry.load()
        if not isinstance(format, Format):
            raise ConfigError(f"{entry.value}: expected an anykg.io.formats.Format, found {type(format).__name__}.")
        by_name[format.name] = format
    return by_name


def by_name(name: str) -> Format:
    """The format called `name`."""
    format = formats().get(name.lower())
    if format is None:
        raise UnknownName("format (`anykg data formats` lists them)", name, nearest(name, formats()))
    return format


def detect(source: Source, options: ReadOptions | None = None) -> Format:
    """The format of a file, by the user's choice, its extension or its content."""
    options = options or ReadOptions()
    if options.format is not None:
        return _checked(source, by_name(options.format))
    if options.separator is not None and not _sniffed(source, ("apoc",)):
        return _checked(source, formats()["csv"])
    promised = next((f for f in reversed(formats().values()) if source.extension in f.suffixes), None)
    if promised is not None and source.extension != ".txt":
        if promised.name in _RESOLUTE:
            return _checked(
                source, _sniffed(source, ("kgtk", "apoc", "parquet", "feather", "excel", "anykg")) or promised
            )
        if promised.sniff(source) or promised.name in ("owl", "n3", "kgtk"):
            if promised.name == "json" and _is_json_ld(source):
                return formats()["jsonld"]
            other = _sniffed(source, ("ttl", "jsonld")) if promised.name == "owl" else None
            return _checked(source, other or promised)
        others = tuple(name for name in formats() if name not in _CONTAINED.get(promised.name, ()))
        return _checked(source, _sniffed(source, others) or promised)
    return _checked(source, _sniffed(source) or formats()["tsv"])


def _sniffed(source: Source, names: tuple[str, ...] | None = None) -> Format | None:
    known = formats()
    return next((f for f in known.values() if (names is None or f.name in names) and f.sniff(source)), None)


def _checked(source: Source, format: Format) -> Format:
    """Raise if the content is clearly in another format."""
    if format.binary:
        if not format.sniff(source):
            raise DataError(
                f"{source.path}: expected {format.name.capitalize()} by the extension, found something else; rename "
                "the file."
            )
        return format
    refuse_binary(source)
    if re.match(rb"\s*<(!doctype\s+html|html)\b", source.start, re.IGNORECASE):
        raise DataError(
            f"{source.path}: expected a graph, found an HTML page; the address may have moved or need a login."
        )
    return format


def idle_options(format: Format, options: ReadOptions) -> list[str]:
    """The given options that have no effect in a format."""
    special = TEXT_OPTIONS | RDF_OPTIONS | {"query"}
    return [name for name in options.given() if name in special and name not in format.takes]
