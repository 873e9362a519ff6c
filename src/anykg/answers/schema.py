"""`anykg.schema`: what a graph says of its relations."""

from __future__ import annotations

from pathlib import Path

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import Schema
from anykg.graph.schema import schema as describe


def schema(graph: KnowledgeGraph | Path | str) -> Schema:
    """Describe the relations of a graph, or of what a path or a name of the catalog stands for.

    >>> import anykg
    >>> anykg.schema("atlas")["has capital"].statements[0].holds
    'functional'
    """
    if not isinstance(graph, KnowledgeGraph):
        from anykg.io.catalog import load_graph

        graph = load_graph(graph)
    return describe(graph)
