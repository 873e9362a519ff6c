"""Load graphs and models from command-line arguments.

Importing torch takes seconds. A command that needs it first reports errors in its options, its files, the name of its
model, its graph and the names in its questions, none of which needs torch; then it imports the function it calls.
"""

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


def refuse_unknown_model(name: str, device: str = "cpu") -> None:
    """Raise if there is no such model or device; does not load the model, nor import torch for the device cpu."""
    from anykg.models.folders import saved_model

    saved_model(name)
    if device != "cpu":
        from anykg.devices import device_named

        device_named(device)


def model_named(name: str, device: str = "cpu", trust: bool = False) -> LinkPredictor:
    """A saved model on a device."""
    from anykg.devices import device_named
    from anykg.models.store import load_model

    return load_model(name, trust=trust).to(device_named(device))
