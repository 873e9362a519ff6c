"""anykg predicts missing facts in any knowledge graph.

>>> import anykg
>>> graph = anykg.read_graph("facts.tsv")       # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from anykg.core.contract import LinkPredictor as LinkPredictor
    from anykg.core.contract import Symmetry as Symmetry
    from anykg.data.graph import KnowledgeGraph as KnowledgeGraph
    from anykg.data.read import read_graph as read_graph

_PLACES = {
    "KnowledgeGraph": "anykg.data.graph",
    "LinkPredictor": "anykg.core.contract",
    "Symmetry": "anykg.core.contract",
    "read_graph": "anykg.data.read",
}

__all__ = ["KnowledgeGraph", "LinkPredictor", "Symmetry", "__version__", "read_graph"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'anykg' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
