"""Read and write GraphML and GEXF, as NetworkX, Gephi, yEd, igraph, APOC and LightRAG write them.

The relation of an edge is its attribute called relation, type, label or similar; if edges have none, all are of one
relation. The other attributes are columns that conditions can use. A node's name or label is its label.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from anykg.errors import DataError
from anykg.io.columns import RELATIONS, plain
from anykg.io.escapes import OWN, escaped
from anykg.io.options import ReadOptions
from anykg.io.parsed import TRIPLET, Parsed
from anykg.io.source import Source

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph

NODE_LABELS = ("name", "label", "title", "display_name", "nodelabel")
_ALLOWED = r"^[\x20-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]+$"


def read_graphml(source: Source, options: ReadOptions) -> Parsed:
    """The edges of a GraphML file."""
    keys: dict[str, str] = {}
    edges: list[dict[str, str | None]] = []
    labels: dict[str, str] = {}
    for element in _elements(source, "GraphML"):
        tag = _local(element.tag)
        if tag == "key":
            keys[element.get("id", "")] = _get(element, "attr.name") or _get(element, "id")
        elif tag == "node":
            label = _first(_data(element, keys), NODE_LABELS)
            if label:
                labels[element.get("id", "")] = label
            element.clear()
        elif tag == "edge":
            values = _data(element, keys)
            if element.get("label"):
                values["label"] = element.get("label")
            edges.append({"source": element.get("source"), "target": element.get("target")} | values)
            element.clear()
    return _parsed(source, edges, labels, options, "graphml")


def read_gexf(source: Source, options: ReadOptions) -> Parsed:
    """The edges of a GEXF file."""
    titles: dict[str, str] = {}
    edges: list[dict[str, str | None]] = []
    labels: dict[str, str] = {}
    for element in _elements(source, "GEXF"):
        tag = _local(element.tag)
        if tag == "attribute":
            titles[element.get("id", "")] = _get(element, "title") or _get(element, "id")
        elif tag == "node":
            label = element.get("label")
            if label and label != element.get("id"):
                labels[element.get("id", "")] = label
        elif tag == "edge":
            values: dict[str, str | None] = {
                titles.get(value.get("for", ""), value.get("for", "")): value.get("value")
                for value in element.iter()
                if _local(value.tag) == "attvalue"
            }
            values |= {name: value for name in ("label", "kind", "weight") if (value := element.get(name))}
            edges.append({"source": element.get("source"), "target": element.get("target")} | values)
    return _parsed(source, edges, labels, options, "gexf")


def _elements(source: Source, format: str) -> Iterator[ElementTree.Element]:
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(source.data)):
            yield element
    except ElementTree.ParseError as error:
        line = error.position[0] + source.first_line - 1
        problem = " ".join(str(error).split(":", 1)[0].split())
        raise DataError(
            f"{source.path}:{line}: this is not {format} ({problem}); fix the file or export it again."
        ) from error


def _parsed(
    source: Source, edges: list[dict[str, str | None]], labels: dict[str, str], options: ReadOptions, format: str
) -> Parsed:
    if not edges:
        raise DataError(f"{source.path}: expected edges, found none; a graph needs at least one.")
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    relation = _relation_of(names, options)
    frame = pl.DataFrame([pl.Series(name, [edge.get(name) for edge in edges], pl.String) for name in names])
    if options.columns is not None:
        from anykg.io.tables import of_frame

        return of_frame(frame, options, format, source.path).but(labels=labels)
    letters = "".join({"source": "h", "target": "t", relation: "r"}.get(name, "_") for name in names)
    return Parsed(frame, "source", relation, "target", format=format, columns=letters, labels=labels)


def _relation_of(names: list[str], options: ReadOptions) -> str | None:
    if options.relation is not None:
        return None
    words = {plain(name): name for name in reversed(names) if name not in ("source", "target")}
    words.setdefault("label", words.get("edgelabel", ""))
    return next((words[word] for word in (*RELATIONS, "kind") if words.get(word)), None)


def _data(element: ElementTree.Element, keys: dict[str, str]) -> dict[str, str | None]:
    """The attributes of a node or edge, including the text of yEd labels."""
    values: dict[str, str | None] = {}
    for child in element:
        if _local(child.tag) != "data":
            continue
        shown = [inner for inner in child.iter() if _local(inner.tag) in ("NodeLabel", "EdgeLabel")]
        if shown:
            values[_local(shown[0].tag).lower()] = (shown[0].text or "").strip() or None
        elif not len(child):
            values[keys.get(child.get("key", ""), child.get("key", ""))] = child.text
    return values


def _first(values: dict[str, str | None], names: tuple[str, ...]) -> str | None:
    by_word = {plain(name): value for name, value in values.items()}
    return next((str(by_word[name]) for name in names if by_word.get(name)), None)


def _get(element: ElementTree.Element, name: str) -> str:
    return element.get(name, "")


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


# -- writing ----------------------------------------------------------------------------------------------------


def write_graphml(graph: KnowledgeGraph) -> bytes:
    """The content of a GraphML file; labels are an attribute `label` of nodes."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '<key id="relation" for="edge" attr.name="relation" attr.type="string"/>\n'
        '<key id="label" for="node" attr.name="label" attr.type="string"/>\n<graph edgedefault="directed">\n'
    ]
    for name, label in _nodes(graph):
        data = "" if label is None else f'<data key="label">{escape(label)}</data>'
        lines.append(f"<node id={_attribute(name)}>{data}</node>\n")
    for head, relation, tail in _safe(graph):
        lines.append(
            f"<edge source={_attribute(head)} target={_attribute(tail)}>"
            f'<data key="relation">{escape(relation)}</data></edge>\n'
        )
    return "".join([*lines, "</graph>\n</graphml>\n"]).encode()


def write_gexf(graph: KnowledgeGraph) -> bytes:
    """The content of a GEXF file; the relation is the label of an edge."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<gexf xmlns="http://gexf.net/1.3" version="1.3">\n'
        '<graph defaultedgetype="directed">\n<nodes>\n'
    ]
    lines += [
        f"<node id={_attribute(name)} label={_attribute(name if label is None else label)}/>\n"
        for name, label in _nodes(graph)
    ]
    lines.append("</nodes>\n<edges>\n")
    lines += [
        f'<edge id="{number}" source={_attribute(head)} target={_attribute(tail)} label={_attribute(relation)}/>\n'
        for number, (head, relation, tail) in enumerate(_safe(graph))
    ]
    return "".join([*lines, "</edges>\n</graph>\n</gexf>\n"]).encode()


def _nodes(graph: KnowledgeGraph) -> Iterator[tuple[str, str | None]]:
    names = _escaped(graph.entities.names).to_list()
    labels = [None] * len(names) if graph.entities.labels is None else graph.entities.labels.to_list()
    for name, label in zip(names, labels, strict=True):
        holds = label is not None and pl.Series([label]).str.contains(_ALLOWED)[0]
        yield name, label if holds else None


def _safe(graph: KnowledgeGraph) -> Iterator[tuple[str, str, str]]:
    table = graph.to_polars().select(pl.col(TRIPLET).map_batches(_escaped))
    yield from table.iter_rows()


def _escaped(names: pl.Series) -> pl.Series:
    """Names in a form valid in XML, with control characters, line ends and outer spaces escaped."""
    odd = names.filter(
        ~names.str.contains(_ALLOWED) | names.str.contains(r"^\s|\s$|\s\s|\x{85}|\x{2028}") | names.str.starts_with(OWN)
    ).unique()
    return (
        names.replace(odd, pl.Series([escaped(name) for name in odd.to_list()], dtype=pl.String)) if len(odd) else names
    )


def _attribute(text: str) -> str:
    return quoteattr(text)
