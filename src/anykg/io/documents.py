"""Read JSON in the structures that tools write: arrays and lines of facts, nodes with links, output of extractors.

| shape | written by |
|---|---|
| `[{"head", "relation", "tail", ...}, ...]`, the same one per line, `[[head, relation, tail], ...]` | anyone |
| lines of `{"type": "relationship", "label", "start": {...}, "end": {...}}` and `{"type": "node", ...}` | APOC |
| `{"nodes": [...], "links" or "edges" or "relationships": [...]}` | NetworkX, D3, KGX, LangChain, Cytoscape |
| `{"nodes": {...}, "relations": {...}, "triplets": [...]}`, `{"graph_dict": {...}}` | LlamaIndex |
| `{"graphs": [{"nodes", "edges": [{"sub", "pred", "obj"}]}]}` | OBO Graphs |
| `{"head": {"vars"}, "results": {"bindings"}}` | SPARQL endpoints |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from anykg.errors import DataError
from anykg.io.columns import RELATIONS, plain
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed, frame_of
from anykg.io.source import Source, decode
from anykg.io.tables import facts, of_frame

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph

LINKS = ("links", "edges", "relationships", "rels", "relations")
NESTS = ("triples", "triplets", "facts", "data", "rows", "results", "graph", "items", "records", "kwargs", "statements")
"""Fields of an object that may hold the facts."""
IDS = ("id", "_id", "identity", "key", "uri", "iri", "name", "id_", "element_id", "elementId")
TITLES = ("name", "title", "lbl", "display_name", "label")
_EXPECTED = (
    "an array or lines of objects with head, relation and tail, or an object with nodes and links; "
    "`anykg data formats` lists the shapes"
)


def read_json(source: Source, options: ReadOptions) -> Parsed:
    """The links in a JSON document."""
    try:
        value = json.loads(decode(source))
    except json.JSONDecodeError as error:
        line = error.lineno + source.first_line - 1
        raise DataError(f"{source.path}:{line}: this is not JSON ({error.msg}); fix the file.") from error
    except RecursionError as error:
        raise DataError(f"{source.path}: this JSON is nested too deeply to hold facts.") from error
    return _of_value(value, options, source.path, "json")


def read_lines(source: Source, options: ReadOptions) -> Parsed:
    """The links in JSON lines; flat objects are read by polars."""
    first = source.data.lstrip().split(b"\n", 1)[0]
    try:
        start = json.loads(first)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        start = None
    if isinstance(start, dict) and all(isinstance(value, str | int | float | None) for value in start.values()):
        try:
            frame = pl.read_ndjson(source.data, infer_schema_length=None)
            if not any(kind in (pl.Struct, pl.List) for kind in frame.dtypes):
                return of_frame(frame, options, "jsonl", source.path)
        except pl.exceptions.PolarsError:
            pass
    rows = []
    for number, line in enumerate(decode(source).split("\n"), source.first_line):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            value = None
        if not isinstance(value, dict | list):
            raise DataError(f"{source.path}:{number}: expected a JSON object, found {line[:80]!r}.")
        rows.append(value)
    return _of_value(rows, options, source.path, "jsonl")


def _of_value(value: Any, options: ReadOptions, path: object, format: str) -> Parsed:
    """The links in any of the shapes above."""
    links = _Links()
    if not _collect(value, links) or not links.rows:
        raise DataError(f"{path}: expected {_EXPECTED}; found {_described(value)}.")
    frame = _frame(links.rows)
    if links.shaped and options.columns is None:
        relation = "relation" if "relation" in frame.columns and options.relation is None else None
        letters = "".join({"head": "h", "relation": "r", "tail": "t"}.get(name, "_") for name in frame.columns)
        columns = letters if relation else letters.replace("r", "_")
        return Parsed(frame, "head", relation, "tail", format=format, columns=columns, header=True, labels=links.labels)
    return of_frame(frame, options, format, path).but(labels=links.labels)


class _Links:
    """Rows of links, and labels of nodes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.labels: dict[str, str] = {}
        self.shaped = False
        """Whether the rows have columns head and tail already."""

    def add(self, head: Any, relation: Any, tail: Any, more: Mapping[str, Any] | None = None) -> None:
        self.shaped = True
        row = {"head": self.name(head), "relation": self.name(relation), "tail": self.name(tail)}
        if row["relation"] is None:
            del row["relation"]
        plain_values = {
            name: value
            for name, value in (more or {}).items()
            if name not in ("head", "relation", "tail") and isinstance(value, str | int | float | bool)
        }
        self.rows.append(row | plain_values)

    def name(self, node: Any) -> Any:
        """The id of a node that is an object, or the value itself."""
        if isinstance(node, Mapping):
            self.label(node)
            return next((node[key] for key in IDS if node.get(key) not in (None, "")), None)
        return node

    def label(self, node: Mapping[str, Any], title: Iterable[str] = TITLES[:-1]) -> None:
        """The label of a node, at its top level or among its properties."""
        name = next((node[key] for key in IDS if node.get(key) not in (None, "")), None)
        inner = node.get("properties") or node.get("data") or {}
        inner = inner if isinstance(inner, Mapping) else {}
        labels = [inner.get(key) or node.get(key) for key in title]
        label = next((value for value in labels if isinstance(value, str) and value), None)
        if name is not None and label is not None and label != str(name):
            self.labels.setdefault(str(name), label)


def _collect(value: Any, links: _Links) -> bool:
    """Add the links in a value; False if it has none of the shapes."""
    if isinstance(value, list):
        return _collect_list(value, links)
    if not isinstance(value, Mapping):
        return False
    for shape in (_llama_index, _obo_graphs, _sparql_results, _cytoscape, _nodes_and_links):
        if shape(value, links):
            return True
    return any(name in value and _collect(value[name], links) for name in NESTS)


def _collect_list(values: list[Any], links: _Links) -> bool:
    if not values:
        return False
    if all(isinstance(value, list) for value in values):
        return _triples(values, links)
    if not all(isinstance(value, Mapping) for value in values):
        return False
    first: Mapping[str, Any] = next((value for value in values if value), {})
    if any(str(value.get("type")).lower() in ("node", "relationship", "edge") for value in values[:50]) and any(
        "start" in value or "labels" in value for value in values[:50]
    ):
        return _apoc(values, links)
    if any(name in first for name in (*LINKS, "graph_dict", "elements")) and (
        "nodes" in first or "graph_dict" in first
    ):
        collected = [_collect(value, links) for value in values]
        return all(collected)
    if "lc" in first and "kwargs" in first:
        return _collect([value["kwargs"] for value in values if "kwargs" in value], links)
    nested = any(isinstance(inner, Mapping) for value in values[:50] for inner in value.values())
    if nested and _nested(values, links):
        return True
    links.rows += [dict(value) for value in values]
    return True


def _triples(values: list[list[Any]], links: _Links) -> bool:
    widths = {len(value) for value in values}
    if not widths <= {2, 3} or any(isinstance(part, list) for value in values for part in value):
        return False
    for value in values:
        head, relation, tail = value if len(value) == 3 else (value[0], None, value[1])
        links.add(head, relation, tail)
    return True


def _apoc(values: list[Any], links: _Links) -> bool:
    for value in values:
        if str(value.get("type")).lower() == "node":
            links.label(value)
        else:
            links.add(value.get("start"), value.get("label"), value.get("end"), value.get("properties"))
    return True


def _nested(values: list[Any], links: _Links) -> bool:
    """Objects whose subject and object are objects themselves."""
    from anykg.io.columns import by_header

    names = list(dict.fromkeys(name for value in values for name in value))
    roles = by_header(names)
    if roles is None:
        return False
    relation = None if roles.relation is None else names[roles.relation]
    for value in values:
        head, tail = value.get(names[roles.head]), value.get(names[roles.tail])
        links.add(head, value.get(relation) if relation else None, tail, value)
    return True


def _nodes_and_links(value: Mapping[str, Any], links: _Links) -> bool:
    key = next((name for name in LINKS if isinstance(value.get(name), list | Mapping)), None)
    if key is None or "nodes" not in value:
        return False
    nodes, edges = value["nodes"], value[key]
    if isinstance(nodes, Mapping):
        nodes = [{"id": name, **(node if isinstance(node, Mapping) else {})} for name, node in nodes.items()]
    by_position = [node for node in nodes if isinstance(node, Mapping)]
    for node in by_position:
        links.label(node, TITLES)
    plain_ids = all("id" not in node for node in by_position)
    for edge in edges.values() if isinstance(edges, Mapping) else edges:
        if isinstance(edge, Mapping):
            _edge(edge, links, by_position if plain_ids else [])
        elif isinstance(edge, list):
            _triples([edge], links)
    return True


def _edge(edge: Mapping[str, Any], links: _Links, by_position: list[Mapping[str, Any]]) -> None:
    """One link of a node-link document; D3 may give ends by their position."""
    ends = [
        next((edge[name] for name in names if name in edge), None)
        for names in (
            ("source", "subject", "source_id", "from", "start", "head", "sub", "startNode"),
            ("target", "object", "target_id", "to", "end", "tail", "obj", "endNode"),
        )
    ]
    for index, end in enumerate(ends):
        if isinstance(end, int) and 0 <= end < len(by_position):
            ends[index] = by_position[end]
    words = {plain(name): inner for name, inner in edge.items() if isinstance(inner, str | int)}
    relation = next((words[word] for word in (*RELATIONS, "pred", "predicate_label", "key") if words.get(word)), None)
    more = edge.get("properties") if isinstance(edge.get("properties"), Mapping) else edge
    links.add(ends[0], relation if isinstance(relation, str) else None, ends[1], more)


def _cytoscape(value: Mapping[str, Any], links: _Links) -> bool:
    elements = value.get("elements")
    if not isinstance(elements, Mapping | list):
        return False
    if isinstance(elements, list):
        elements = {
            "nodes": [e for e in elements if "source" not in e.get("data", {})],
            "edges": [e for e in elements if "source" in e.get("data", {})],
        }
    inner = {key: [entry.get("data", {}) for entry in elements.get(key, [])] for key in ("nodes", "edges")}
    return _nodes_and_links(inner, links)


def _llama_index(value: Mapping[str, Any], links: _Links) -> bool:
    stored = value.get("graph_dict")
    if isinstance(stored, Mapping):
        for head, pairs in stored.items():
            for pair in pairs:
                links.add(head, pair[0], pair[1])
        return True
    nodes, relations = value.get("nodes"), value.get("relations")
    if not (isinstance(nodes, Mapping) and isinstance(relations, Mapping)):
        return False
    for name, node in nodes.items():
        links.label({"id": name, **node})
    for relation in relations.values():
        links.add(
            relation.get("source_id"), relation.get("label"), relation.get("target_id"), relation.get("properties")
        )
    return True


def _obo_graphs(value: Mapping[str, Any], links: _Links) -> bool:
    graphs = value.get("graphs")
    if not isinstance(graphs, list):
        return False
    for graph in graphs:
        for node in graph.get("nodes", []):
            links.label(node, ("lbl",))
        for edge in graph.get("edges", []):
            links.add(edge.get("sub"), edge.get("pred"), edge.get("obj"))
    return True


def _sparql_results(value: Mapping[str, Any], links: _Links) -> bool:
    head, results = value.get("head"), value.get("results")
    if not (isinstance(head, Mapping) and isinstance(results, Mapping) and "vars" in head):
        return False
    names = list(head["vars"])
    for binding in results.get("bindings", []):
        links.rows.append({name: _term(binding.get(name)) for name in names})
    return True


def _term(cell: Mapping[str, Any] | None) -> str | None:
    if cell is None:
        return None
    return f"_:{cell['value']}" if cell.get("type") == "bnode" else str(cell["value"])


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame with a column for every field."""
    names = dict.fromkeys(name for row in rows for name in row)
    return frame_of({name: [row.get(name) for row in rows] for name in names})


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, list(value)[:6])) or 'nothing in it'}"
    if isinstance(value, list):
        return f"an array of {len(value):,}" + (f", first {json.dumps(value[0])[:60]}" if value else "")
    return f"{json.dumps(value)[:60]}"


# -- writing ----------------------------------------------------------------------------------------------------


def write_json(graph: KnowledgeGraph) -> bytes:
    """The content of a JSON array of objects, one per line."""
    lines = facts(graph).write_ndjson().rstrip("\n").replace("\n", ",\n")
    return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"


def write_lines(graph: KnowledgeGraph) -> bytes:
    """The content of JSON lines."""
    return facts(graph).write_ndjson().encode()
