"""Convert the arguments of the public functions: graphs, models and names in any of their forms.

Only `model_of` imports torch: graphs are read and names are looked up without it, so their errors are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anykg.answers.results import GraphInfo
from anykg.graph.vocabulary import Vocabulary
from anykg.io.catalog import GraphLike, as_graph

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph
    from anykg.models.base import LinkPredictor

ModelLike: TypeAlias = "LinkPredictor | Path | str"
"""A model, the name of a shipped one, the folder of a trained one, or a hub id."""
Name = str | int
"""A name as the graph has it, or its label; numbers stand for their digits."""


def graph_of(source: GraphLike, name: str | None = None, **reading: Any) -> tuple[KnowledgeGraph, GraphInfo]:
    """The graph that `source` stands for, and its description for results."""
    graph = as_graph(source, **reading)
    return graph, GraphInfo.of(graph, name or graph.name)


def model_of(model: ModelLike, name: str | None = None, *, trust: bool = False) -> tuple[LinkPredictor, str]:
    """The model that `model` stands for, and its display name."""
    from anykg.models.base import LinkPredictor
    from anykg.models.store import load_model

    if isinstance(model, LinkPredictor):
        return model, name or model.loaded_as or type(model).__name__
    return load_model(model, trust=trust), name or str(model)


def as_name(name: Name) -> str:
    """A name as text.

    >>> as_name(7), as_name(np.int64(7)), as_name("7")
    ('7', '7', '7')
    """
    return name if isinstance(name, str) else str(name)


def look_up(vocabulary: Vocabulary, names: Iterable[Name]) -> np.ndarray:
    """The ids, int64 [len(names)], of names or labels; raises `UnknownName` for the first unknown one."""
    texts = [as_name(name) for name in names]
    ids = {name: vocabulary.find(name) for name in dict.fromkeys(texts)}
    unknown = [name for name, entity in ids.items() if entity is None]
    if unknown:
        raise vocabulary.unknown(unknown[0], others=len(unknown) - 1)
    return np.array([ids[name] for name in texts], np.int64)
