"""Load graphs and models from command-line arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph
    from anykg.io.catalog import Reading
    from anykg.models.base import LinkPredictor


def graph_named(name: str, data_dir: Path | None, reading: Reading) -> KnowledgeGraph:
    """The graph in a file, or the dataset of that name."""
    from anykg.io.catalog import as_graph

    return as_graph(name, data_dir, **reading)


def model_named(name: str, device: str = "cpu", trust: bool = False) -> LinkPredictor:
    """A saved model on a device."""
    from anykg.devices import device_named
    from anykg.models.store import load_model

    target = device_named(device)  # before the model is loaded: an unknown device is reported at once
    return load_model(name, trust=trust).to(target)
