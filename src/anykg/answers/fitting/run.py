"""The state of a running fit: its graph, its time and its finished components."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anykg.answers.fitting.parts import Parts
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.complex.restarts import Restarts
from anykg.progress import Progress, ignore

SHARE = 0.1
"""Share of the facts that is hidden."""
STAGES = {"rules": 0.10, "complex": 0.24, "adapted": 0.32, "ask": 0.12, "mix": 0.04, "again": 0.18}
"""How the time is divided between the stages."""

Tell = Callable[[str], None]


class Clock:
    """The remaining time, divided between the remaining stages."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.started = seconds, time.monotonic()
        self.waiting = dict(STAGES)
        self.interrupted = False

    def left(self) -> float:
        """Seconds until the time is up."""
        return self.seconds - (time.monotonic() - self.started)

    def take(self, *stages: str) -> float:
        """Seconds for stages, which are then no longer pending."""
        share = sum(STAGES[stage] for stage in stages) / sum(self.waiting.values())
        for stage in stages:
            self.waiting.pop(stage)
        return max(share * self.left(), 0.2)


@dataclass(eq=False)
class Run:
    """A running fit."""

    graph: KnowledgeGraph
    rest: KnowledgeGraph
    hidden: KnowledgeGraph
    foundation: LinkPredictor
    clock: Clock
    seed: int
    parts: Parts
    tell: Tell
    progress: Progress = ignore
    rejected: KnowledgeGraph | None = None
    """Triples that are known to be wrong."""
    unfitted: str = ""
    """The name of the foundation model mixed with rules, as it is without fitting; empty if it has no weights for
    rules."""
    missing: float | None = None
    """Assumed share of all true facts that the graph lacks; None estimates it."""
    models: dict[str, LinkPredictor] = field(default_factory=dict)
    fits: Restarts | None = None
    took: dict[str, float] = field(default_factory=dict)
    """Seconds that each stage took."""

    def interrupt(self) -> None:
        """Stop fitting and mix the finished components."""
        self.clock.interrupted = True
        self.tell("Interrupted: mixing the finished components.")

    def report(self, *_: int) -> None:
        """Move the progress bar to the time spent."""
        total = int(self.clock.seconds)
        self.progress(min(int(self.clock.seconds - self.clock.left()), total), total)
