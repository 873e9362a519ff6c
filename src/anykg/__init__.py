"""anykg predicts missing facts in any knowledge graph.

>>> import anykg
>>> graph = anykg.read_graph("facts.tsv")                               # doctest: +SKIP
>>> anykg.predict(graph, head="Marie Curie", relation="field of work")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from anykg.answers.check import check as check
    from anykg.answers.predict import predict as predict
    from anykg.answers.questions import Question as Question
    from anykg.answers.schema import schema as schema
    from anykg.answers.table import Answers as Answers
    from anykg.graph.graph import KnowledgeGraph as KnowledgeGraph
    from anykg.io.read import read_graph as read_graph
    from anykg.models.base import LinkPredictor as LinkPredictor
    from anykg.models.base import Symmetry as Symmetry
    from anykg.models.store import load_model as load_model

_PLACES = {
    "Answers": "anykg.answers.table",
    "KnowledgeGraph": "anykg.graph.graph",
    "LinkPredictor": "anykg.models.base",
    "Question": "anykg.answers.questions",
    "Symmetry": "anykg.models.base",
    "check": "anykg.answers.check",
    "load_model": "anykg.models.store",
    "predict": "anykg.answers.predict",
    "read_graph": "anykg.io.read",
    "schema": "anykg.answers.schema",
}

__all__ = [
    "Answers",
    "KnowledgeGraph",
    "LinkPredictor",
    "Question",
    "Symmetry",
    "__version__",
    "check",
    "load_model",
    "predict",
    "read_graph",
    "schema",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'anykg' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
