"""Read and write RDF: terms of N-Triples, Turtle and stores become names, and names become terms again.

IRIs are names. A blank node is `_:` and its identifier; nodes without one in the file are numbered in order, so that a
file always gives the same names. A name that is not an IRI becomes `urn:anykg:` and the percent-encoded name, and is
decoded when read: see `anykg.io.escapes`. Labels (`rdfs:label`, `skos:prefLabel`, `schema:name`) are
not facts. Named graphs are read as one; the column `graph` has the graph of each fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from anykg.errors import DataError
from anykg.io import ontology, wikibase
from anykg.io.escapes import OWN, escaped, unescaped
from anykg.io.options import ReadOptions
from anykg.io.parsed import TRIPLET, Parsed
from anykg.io.source import Source

if TYPE_CHECKING:
    import pyoxigraph

    from anykg.graph.graph import KnowledgeGraph

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
LABELS = {
    LABEL: 0,
    "http://www.w3.org/2004/02/skos/core#prefLabel": 1,
    "http://schema.org/name": 2,
    "https://schema.org/name": 2,
}
"""Predicates of labels; the first that a resource has counts."""
LITERALS = "statements about literals"
REIFIED = "statements about statements"
SYNTAX = {
    "nt": "N_TRIPLES",
    "nq": "N_QUADS",
    "ttl": "TURTLE",
    "trig": "TRIG",
    "n3": "N3",
    "rdf": "RDF_XML",
    "owl": "RDF_XML",
    "jsonld": "JSON_LD",
}
"""The formats by their names in pyoxigraph."""
NAMES = {
    "nt": "N-Triples",
    "nq": "N-Quads",
    "ttl": "Turtle",
    "trig": "TriG",
    "n3": "Notation3",
    "rdf": "RDF/XML",
    "owl": "OWL in RDF/XML",
    "jsonld": "JSON-LD",
}
PART_ROWS = 200_000
_NAMELESS = re.compile(r"_:[a-f][0-9a-f]{19,31}")  # 128 random bits in hexadecimal, without leading zeros
_SAFE = r'[^<>"{}|^`\\\x00-\x20]'


def read(source: Source, options: ReadOptions, format: str) -> Parsed:
    """The facts of an RDF file."""
    parsed = _read_lines(source, options) if format == "nt" else _read_terms(source, options, format)
    if format not in ("nt", "nq"):  # in which every node has a name
        parsed = _number_nameless(parsed)
    parsed = wikibase.fold_statements(parsed)
    if format != "nt" or ontology.MARK in source.data:
        parsed = ontology.fold_restrictions(parsed, drop_declarations=format == "owl")
    return parsed


def read_part(source: Source, options: ReadOptions, format: str) -> Parsed:
    """The facts of some lines of N-Triples or N-Quads."""
    return _read_lines(source, options) if format == "nt" else _read_terms(source, options, format)


def stream_terms(file: IO[bytes], options: ReadOptions, format: str, path: object) -> Iterator[Parsed]:
    """Yield the facts of a stream, some hundred thousand at a time."""
    import pyoxigraph

    quads = pyoxigraph.parse(file, format=getattr(pyoxigraph.RdfFormat, SYNTAX[format]))
    while True:
        collected = _Collected(options)
        try:
            for quad in quads:
                collected.add(quad)
                if collected.size >= PART_ROWS:
                    break
            else:
                yield collected.parsed(format, quads.prefixes)
                return
        except SyntaxError as error:
            raise _syntax_error(error, path, 1, format) from error
        yield collected.parsed(format, quads.prefixes)


def to_store(graph: KnowledgeGraph) -> pyoxigraph.Store:
    """A store in memory with the facts of a graph, and its labels."""
    import pyoxigraph

    store = pyoxigraph.Store()
    # Loading text would rename the blank nodes; adding parsed statements keeps them.
    store.bulk_extend(_statements(graph))
    return store


def from_store(store: pyoxigraph.Store) -> KnowledgeGraph:
    """The facts of a store between resources, in all its graphs, and their labels."""
    from anykg.graph.graph import KnowledgeGraph
    from anykg.io.choices import names_of

    collected = _Collected(ReadOptions())
    for quad in store:
        collected.add(quad)
    names = names_of(collected.parsed("nq", {}), ReadOptions())
    graph = KnowledgeGraph.from_polars(names.table)
    entities, relations = (v.with_labels(dict(names.labels)) for v in (graph.entities, graph.relations))
    return KnowledgeGraph(graph.triplets, entities, relations)


def write(graph: KnowledgeGraph, format: str) -> bytes:
    """The content of an RDF file with the facts of a graph and its labels."""
    if format in ("nt", "nq"):
        return "".join([*to_lines(graph.to_polars()), *label_lines(graph)]).encode()
    import pyoxigraph

    strict = format == "rdf"  # in RDF/XML a predicate must end in an XML name, and blank nodes must be XML names
    statements = _statements(graph, strict=strict)
    triples = (quad.triple for quad in statements)
    content = pyoxigraph.serialize(triples, format=getattr(pyoxigraph.RdfFormat, SYNTAX[format]))
    return content or b""


def to_lines(table: pl.DataFrame, *, strict: bool = False) -> pl.Series:
    """A line of N-Triples for each row of names (head, relation, tail)."""
    terms = [_terms(table[name], relation=name == "relation", strict=strict) for name in TRIPLET]
    return table.select(pl.concat_str([*terms, pl.lit(".\n")], separator=" ").alias("line"))["line"]


def label_lines(graph: KnowledgeGraph, *, strict: bool = False) -> list[str]:
    """Lines of N-Triples with the labels of entities and relations."""
    import pyoxigraph

    return [
        f"{term_of(name, relation=vocabulary is graph.relations, strict=strict)} <{LABEL}> "
        f"{pyoxigraph.Literal(label)} .\n"
        for vocabulary in (graph.entities, graph.relations)
        if vocabulary.labels is not None
        for name, label in zip(vocabulary, vocabulary.labels.to_list(), strict=True)
        if label is not None
    ]


def term_of(name: str, relation: bool = False, *, strict: bool = False) -> str:
    """The N-Triples term of a name; a relation is never a blank node.

    With `strict`, terms are restricted to those that RDF/XML can hold.

    >>> term_of("http://example.org/a"), term_of("New York"), term_of("_:b0")
    ('<http://example.org/a>', '<urn:anykg:New%20York>', '_:b0')
    """
    import pyoxigraph

    try:
        if name.startswith("_:") and not relation:
            node = str(pyoxigraph.BlankNode(name[2:]))
            if not strict or re.fullmatch(r"_:[A-Za-z_][A-Za-z0-9_]*", node):
                return node
        elif not name.startswith(OWN) and (not strict or _splits(name, relation)):
            return str(pyoxigraph.NamedNode(name))
    except ValueError:
        pass
    return f"<{escaped(name)}{'#_' if strict and relation else ''}>"


def name_of(term: object) -> str:
    """The name of an IRI, a blank node or, in its written form, a literal."""
    import pyoxigraph

    return unescaped(term.value) if isinstance(term, pyoxigraph.NamedNode) else str(term)


def _splits(name: str, relation: bool) -> bool:
    """Whether an IRI can be split into an XML namespace and element name."""
    return not relation or re.search(r"[/#:;,=!$&'()*+~@?][A-Za-z_][A-Za-z0-9_]*$", name) is not None


def _statements(graph: KnowledgeGraph, *, strict: bool = False) -> Iterable[pyoxigraph.Quad]:
    import pyoxigraph

    text = "".join([*to_lines(graph.to_polars(), strict=strict), *label_lines(graph, strict=strict)])
    return pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)


def _terms(names: pl.Series, *, relation: bool, strict: bool) -> pl.Series:
    distinct = names.unique()
    terms = [term_of(name, relation, strict=strict) for name in distinct.to_list()]
    return names.replace_strict(distinct, pl.Series(terms, dtype=pl.String), return_dtype=pl.String)


# -- parsing ----------------------------------------------------------------------------------------------------


class _Collected:
    """Facts, labels and counts of the statements seen so far."""

    def __init__(self, options: ReadOptions) -> None:
        import pyoxigraph

        self.types = (pyoxigraph.NamedNode, pyoxigraph.BlankNode, pyoxigraph.Literal)
        self.keep = options.literals == "keep" or options.bins is not None
        self.language = options.language.casefold()
        self.columns: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
        self.literals: list[int] = []
        self.labels: dict[str, tuple[tuple[int, int], str]] = {}
        self.dropped = self.reified = 0

    @property
    def size(self) -> int:
        """The number of statements held in memory."""
        return len(self.columns[0]) + len(self.labels)

    def add(self, quad: Any) -> None:
        named, blank, literal = self.types
        subject, predicate, value = quad.subject, quad.predicate.value, quad.object
        kind = type(value)
        if kind is literal:
            if predicate in LABELS:
                self._add_label(subject, predicate, value)
                return
            if not self.keep:
                self.dropped += 1
                return
            tail = str(value)
            self.literals.append(len(self.columns[0]))
        elif kind is named:
            tail = value.value
        elif kind is blank:
            tail = f"_:{value.value}"
        else:
            self.reified += 1  # RDF 1.2: a statement about a statement
            return
        heads, relations, tails, graphs = self.columns
        heads.append(subject.value if type(subject) is named else f"_:{subject.value}")
        relations.append(predicate)
        tails.append(tail)
        graph = quad.graph_name
        graphs.append(graph.value if type(graph) in (named, blank) else "")

    def _add_label(self, subject: Any, predicate: str, value: Any) -> None:
        name = subject.value if type(subject) is self.types[0] else f"_:{subject.value}"
        rank = (_language_rank(value.language, self.language), LABELS[predicate])
        if name not in self.labels or rank < self.labels[name][0]:
            self.labels[name] = rank, value.value

    def parsed(self, format: str, prefixes: Mapping[str, str]) -> Parsed:
        heads, relations, tails, graphs = self.columns
        series = [pl.Series(n, c, pl.String) for n, c in zip(TRIPLET, (heads, relations, tails), strict=True)]
        if any(graphs):
            series.append(pl.Series("graph", graphs, pl.String))
        frame = pl.DataFrame(series)
        literal = None
        if self.literals:
            mask = pl.Series(self.literals, dtype=pl.UInt32)
            literal = "is literal"
            frame = frame.with_row_index("row").with_columns(pl.col("row").is_in(mask.implode()).alias(literal))
            frame = frame.drop("row")
        return Parsed(
            frame,
            *TRIPLET,
            literal=literal,
            format=format,
            labels={name: label for name, (_, label) in self.labels.items()},
            prefixes=dict(prefixes),
            left_out={LITERALS: self.dropped, REIFIED: self.reified},
        )


def _read_terms(source: Source, options: ReadOptions, format: str) -> Parsed:
    import pyoxigraph

    collected = _Collected(options)
    quads = None
    try:
        quads = pyoxigraph.parse(source.data, format=getattr(pyoxigraph.RdfFormat, SYNTAX[format]))
        for quad in quads:
            collected.add(quad)
    except SyntaxError as error:
        raise _syntax_error(error, source.path, source.first_line, format) from error
    return collected.parsed(format, quads.prefixes)


def _syntax_error(error: SyntaxError, path: object, first_line: int, format: str) -> DataError:
    where = f"{path}:{error.lineno + first_line - 1}" if error.lineno else f"{path}"
    problem = " ".join((error.msg or "").split()).rstrip(".")
    name = NAMES[format]
    if "LoadDocumentCallback" in problem:
        return DataError(
            f"{where}: its @context is at another address, which is not fetched; write the context into the file, or "
            "convert it to Turtle first."
        )
    return DataError(f"{where}: this is not {name} ({problem}); fix it, or rename the file if it is in another format.")


def _read_lines(source: Source, options: ReadOptions) -> Parsed:
    """Parse N-Triples: lines of three IRIs by polars, all others by pyoxigraph, in the order of the file."""
    frame = _simple_lines(source.data)
    if frame is None:
        return _read_terms(source, options, "nt")
    simple = frame.filter(pl.col("simple")).select("row", *TRIPLET)
    if simple.height == frame.height:
        return Parsed(simple.select(TRIPLET), *TRIPLET, format="nt")
    lines = source.data.split(b"\n")
    others = [row for row in frame.filter(~pl.col("simple"))["row"].to_list() if not _is_empty(lines[row])]
    collected = _Collected(options)
    rows: list[int] = []
    import pyoxigraph

    try:
        quads = pyoxigraph.parse(b"\n".join(lines[row] for row in others), format=pyoxigraph.RdfFormat.N_TRIPLES)
        for index, quad in enumerate(quads):
            before = len(collected.columns[0])
            collected.add(quad)
            if len(collected.columns[0]) > before:
                rows.append(others[min(index, len(others) - 1)])
    except SyntaxError as error:
        line = source.first_line + others[min(error.lineno or 1, len(others)) - 1]
        raise _syntax_error(SyntaxError(error.msg, (None, line, None, None)), source.path, 1, "nt") from error
    parsed = collected.parsed("nt", {})
    if not rows:
        return parsed.but(frame=simple.select(TRIPLET))
    slow = parsed.frame.with_columns(pl.Series("row", rows, pl.UInt32))
    if parsed.literal:
        simple = simple.with_columns(pl.lit(False).alias(parsed.literal))
    whole = pl.concat([simple, slow.select(simple.columns)]).sort("row", maintain_order=True)
    return parsed.but(frame=whole.drop("row"))


def _is_empty(line: bytes) -> bool:
    line = line.strip()
    return not line or line.startswith(b"#")


def _simple_lines(data: bytes) -> pl.DataFrame | None:
    """Every line split at spaces, and whether it is three IRIs or blank nodes and a full stop, and nothing else."""
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    names = (*TRIPLET, "stop", "more")
    try:
        # The first line makes it five columns wide; longer lines are cut off, shorter ones filled with nulls.
        frame = pl.read_csv(
            b"0 0 0 0 0\n" + data,
            separator=" ",
            has_header=False,
            schema=dict.fromkeys(names, pl.String),
            quote_char=None,
            truncate_ragged_lines=True,
        )[1:]
    except pl.exceptions.PolarsError:
        return None
    if frame.height != data.count(b"\n") + (not data.endswith(b"\n")):
        return None
    iri, blank = rf"^<[A-Za-z][A-Za-z0-9+.-]*:{_SAFE}*>$", r"^_:[A-Za-z0-9]+$"
    ends = pl.all_horizontal(pl.col("head", "tail").str.contains(rf"{iri}|{blank}"))
    whole = ends & pl.col("relation").str.contains(iri) & (pl.col("stop") == ".") & pl.col("more").is_null()
    return frame.with_row_index("row").select(
        "row", pl.col(TRIPLET).str.strip_chars("<>"), whole.fill_null(False).alias("simple")
    )


def _language_rank(language: str | None, preferred: str) -> int:
    """The preferred language first, then no language, then English, then the others."""
    language = (language or "").casefold()
    if language == preferred or language.startswith(preferred + "-"):
        return 0
    if language in ("", "mul"):
        return 1
    return 2 if language == "en" or language.startswith("en-") else 3


def _number_nameless(parsed: Parsed) -> Parsed:
    """Replace the random identifiers that the parser gives to nameless blank nodes by b0, b1, ... in order."""
    frame = parsed.frame
    ends = pl.concat([frame["head"], frame["tail"]]).unique(maintain_order=True)
    blank = ends.filter(ends.str.starts_with("_:")).to_list()
    taken, nameless = set(blank), [name for name in blank if _NAMELESS.fullmatch(name)]
    free = (name for name in (f"_:b{i}" for i in range(len(blank))) if name not in taken)
    numbered = dict(zip(nameless, free, strict=False))
    if not numbered:
        return parsed
    return parsed.but(
        frame=frame.with_columns(pl.col("head", "tail").replace(numbered)),
        labels={numbered.get(name, name): label for name, label in parsed.labels.items()},
    )
