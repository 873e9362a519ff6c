"""Make an answerer for one graph: fit several models to it and learn how to mix them.

1. Hide a tenth of the facts, all at once.
2. Fit every component to the rest.
3. Ask all of them for the hidden facts and learn the weights of the mix (`answers.mixing`).
4. Fit again on all facts what is bound to facts: ComplEx continues from where it was, rules are mined anew. The adapted
   foundation model is kept as it is: it reads the facts when it answers.

The time is shared out in advance; what a stage leaves over goes to the stages after it, and a small graph is done
early. Ctrl-C ends the stage at hand and mixes what there is.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anykg.answers.mixing import (
    Mix,
    Scored,
    Weights,
    ask,
    ask_relations,
    choose,
    fit_weights,
    logits_of,
    ranks_of,
)
from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_graph
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplExConfig, name_keys
from anykg.models.complex.fit import bound, fit_vectors
from anykg.models.complex.vectors import Vectors
from anykg.models.floors import PageRank, Popularity
from anykg.models.mixture import Component, Mixture, MixtureConfig
from anykg.models.registry import MODELS
from anykg.models.rulebook import fit_rulebook
from anykg.models.store import (
    DEFAULT_MODEL,
    MODEL_FILE,
    load_model,
    load_tensors,
    read_description,
    save_description,
    save_tensors,
    save_weights,
)
from anykg.seeds import stream
from anykg.training.adapt import adapt

SHARE = 0.1
"""Of the facts, hidden."""
FEWEST = 10
"""Hidden facts below which there is nothing to learn weights from."""
QUESTIONS = 2400
"""Hidden facts asked about are limited to half of this; fewer where components are slow."""
PARTS = "parts"
"""Folder of the finished components of a fit that was stopped."""
SHARES = {"rules": 0.12, "complex": 0.24, "adapted": 0.34, "ask": 0.14, "mix": 0.04, "again": 0.12}
"""How the time is shared out."""

Progress = Callable[[int, int], None]
Tell = Callable[[str], None]


class Clock:
    """Time left, shared out among the stages that are still to come."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.started = seconds, time.monotonic()
        self.waiting = dict(SHARES)
        self.stopped = False

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def take(self, stage: str) -> float:
        """Seconds for a stage; it is not waiting any more."""
        share = self.waiting.pop(stage) / (sum(self.waiting.values()) + SHARES[stage])
        return max(share * (self.seconds - self.spent), 0.1)
