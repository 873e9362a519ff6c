"""Evaluation protocols: the candidates among which an answer is ranked.

- `paper`: 50 drawn negatives; tails only.
- `paper-both`: the same for heads and tails and with rounded ties, as the public code ranks GAT, GIN and GraphConv.
- `paper-ingram`: the protocol of the paper's InGram rows: heads and tails, relations drawn with replacement and each
  counted once, which leaves about 40 distinct candidates out of 100 relations; pessimistic ties.
- `full`: all entities or relations, known facts filtered; heads and tails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from anykg.errors import UnknownName
from anykg.evaluation.ranks import Ties

Target = Literal["node", "relation"]
"""What is predicted: an entity, (h, r, ?) and (?, r, t), or a relation, (h, ?, t)."""
Sides = Literal["tail", "head", "both"]


@dataclass(frozen=True)
class Protocol:
    """A ranking protocol; every result records which one was used."""

    name: str
    negatives: int
    """Number of negatives drawn for each answer; 0 ranks among all candidates."""
    sides: Sides
    """The ends of a test triplet that are predicted in the node task."""
    relations: Literal["distinct-if-possible", "with-replacement"] = "distinct-if-possible"
    """Draw distinct relations if there are more than `negatives` of them, or always with replacement."""
    count_once: bool = False
    """Count a relation once even if it was drawn several times."""
    ties: Ties = Ties.REALISTIC
    """The tie-breaking rule for the main metrics; reports include the metrics under all rules."""

    def with_sides(self, sides: Sides | None) -> Protocol:
        """Return the same protocol, predicting other ends."""
        return self if sides is None else replace(self, sides=sides)

    def with_replacement(self, replacement: bool | None) -> Protocol:
        """The same protocol with relations always drawn with replacement, or only if there are too few."""
        if replacement is None:
            return self
        return replace(self, relations="with-replacement" if replacement else "distinct-if-possible")


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("paper", negatives=50, sides="tail"),
        Protocol("paper-both", negatives=50, sides="both", ties=Ties.ROUNDED),
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
    """Return the protocol called `name`."""
    if name not in PROTOCOLS:
        raise UnknownName("protocol", name, list(PROTOCOLS))
    return PROTOCOLS[name]
