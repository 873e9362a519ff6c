"""anykg predicts missing facts in any knowledge graph.

>>> import anykg
>>> graph = anykg.read_graph("facts.tsv")                               # doctest: +SKIP
>>> anykg.predict(graph, head="Marie Curie", relation="field of work")  # doctest: +SKIP

Functions take names and graphs in any form (a path, a dataset's name, a DataFrame, a list of triples, a NetworkX graph)
and return plain objects with `to_dict()`, `to_polars()` and `to_pandas()`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anykg.threads import wait_briefly

__version__ = "0.1.0"

wait_briefly()

if TYPE_CHECKING:
    from anykg.answers.audit import audit as audit
    from anykg.answers.check import check as check
    from anykg.answers.complete import complete as complete
    from anykg.answers.evaluate import evaluate as evaluate
    from anykg.answers.explain import explain as explain
    from anykg.answers.fit import fit as fit
    from anykg.answers.predict import predict as predict
    from anykg.answers.questions import Question as Question
    from anykg.answers.results import Result as Result
    from anykg.answers.schema import schema as schema
    from anykg.answers.score import score as score
    from anykg.answers.table import Answers as Answers
    from anykg.answers.train import train as train
    from anykg.graph.graph import KnowledgeGraph as KnowledgeGraph
    from anykg.io.catalog import as_graph as read_graph  # noqa: F401
    from anykg.models.base import LinkPredictor as LinkPredictor
    from anykg.models.base import Symmetry as Symmetry
    from anykg.models.store import load_model as load_model

# Imported when first used: `import anykg` loads none of the heavy libraries. A new name is a line here and one above.
_LAZY = {
    "Answers": "anykg.answers.table:Answers",
    "KnowledgeGraph": "anykg.graph.graph:KnowledgeGraph",
    "LinkPredictor": "anykg.models.base:LinkPredictor",
    "Question": "anykg.answers.questions:Question",
    "Result": "anykg.answers.results:Result",
    "Symmetry": "anykg.models.base:Symmetry",
    "audit": "anykg.answers.audit:audit",
    "check": "anykg.answers.check:check",
    "complete": "anykg.answers.complete:complete",
    "evaluate": "anykg.answers.evaluate:evaluate",
    "explain": "anykg.answers.explain:explain",
    "fit": "anykg.answers.fit:fit",
    "load_model": "anykg.models.store:load_model",
    "predict": "anykg.answers.predict:predict",
    "read_graph": "anykg.io.catalog:as_graph",
    "rules": "anykg.rules:",  # the package itself, which is callable
    "schema": "anykg.answers.schema:schema",
    "score": "anykg.answers.score:score",
    "train": "anykg.answers.train:train",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'anykg' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted(__all__)
