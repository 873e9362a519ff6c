"""Which candidates an answer is ranked among.

- `paper`: 50 drawn negatives; tails only.
- `paper-both`: the same for heads and tails, as the public code asks GAT, GIN and GraphConv.
- `paper-ingram`: the scale of the paper's InGram rows: heads and tails, relations drawn with replacement and each
  counted once, which leaves about 40 candidates where there are 100; ties count against the answer.
- `full`: every entity or relation, known facts left out; heads and tails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from anykg.errors import UnknownName
from anykg.evaluation.ranks import Ties

Target = Literal["node", "relation"]
"""What is asked for: an entity, (h, r, ?) and (?, r, t), or a relation, (h, ?, t)."""
Task = Target  # the old name, until all callers use the new one
Sides = Literal["tail", "head", "both"]


@dataclass(frozen=True)
class Protocol:
    """A way of ranking, written into every result."""

    name: str
    negatives: int
    """How many are drawn for each answer; 0 ranks among all."""
    sides: Sides
    """Which end of a test triplet is asked for in the node task."""
    relations: Literal["distinct-if-possible", "with-replacement"] = "distinct-if-possible"
    """Draw distinct relations where there are more than `negatives` of them, or always with replacement."""
    count_once: bool = False
    """A relation drawn several times counts once."""
    ties: Ties = Ties.REALISTIC
    """The rule whose metrics come first in reports; all are kept."""

    def with_sides(self, sides: Sides | None) -> Protocol:
        """The same protocol asking for other ends."""
        return self if sides is None else replace(self, sides=sides)

    def with_replacement(self, replacement: bool | None) -> Protocol:
        """The same protocol drawing relations always with replacement, or only where there are too few."""
        if replacement is None:
            return self
        return replace(self, relations="with-replacement" if replacement else "distinct-if-possible")


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("paper", negatives=50, sides="tail"),
        Protocol("paper-both", negatives=50, sides="both"),
        Protocol(
            "paper-ingram",
            negatives=50,
            sides="both",
            relations="with-replacement",
            count_once=True,
            ties=Ties.PESSIMISTIC,
        ),
        Protocol("full", negatives=0, sides="both"),
    )
}


def protocol_named(name: str) -> Protocol:
    """The protocol called `name`."""
    if name not in PROTOCOLS:
        raise UnknownName("protocol", name, list(PROTOCOLS))
    return PROTOCOLS[name]
