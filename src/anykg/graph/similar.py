"""Find possible typos in names.

These are names that differ from another only in case, accents and white space, or rare names one edit from a frequent
one.

An edit is an insertion, deletion or substitution of a letter, or a swap of two letters. Frequent names are indexed by
themselves and by each of their deletions, so every rare name is looked up in a few steps.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph

SHORTEST = 5
"""Minimum length of a name; shorter ones are similar by chance."""
RARE, TIMES = 2, 5
"""Maximum number of facts of a rare name, and the minimum ratio of the facts of the frequent name to it."""
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
"""White space except between two digits."""
MOST_NAMES = 100_000
"""Vocabularies above this size are not searched."""


class Similar(NamedTuple):
    """A name and the more frequent one it resembles."""

    kind: str
    """entity or relation."""
    name: str
    facts: int
    other: str
    other_facts: int


def similar_names(graph: KnowledgeGraph) -> list[Similar]:
    """Possible typos: relations first, then by frequency of the similar name."""
    relations = np.bincount(graph.triplets[:, RELATION], minlength=graph.num_relations)
    entities = np.bincount(graph.triplets[:, [HEAD, TAIL]].ravel(), minlength=graph.num_entities)
    found: list[Similar] = []
    for kind, names, counts in (("relation", graph.relations, relations), ("entity", graph.entities, entities)):
        if len(names) <= MOST_NAMES:
            pairs = _pairs(list(names), counts)
            found += [Similar(kind, names[a], int(counts[a]), names[b], int(counts[b])) for a, b in pairs]
    return found


def plain(name: str) -> str:
    """A name without case and accents.

    >>> plain("Besançon") == plain("BESANCON")
    True
    """
    return "".join(part for part in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(part))


def unspaced(name: str) -> str:
    """A plain name without white space, except between the digits of two numbers.

    >>> unspaced("Bürgerbräu  Altberg ") == unspaced("BürgerbräuAltberg")
    True
    >>> unspaced("room 1 12") == unspaced("room 11 2")
    False
    """
    return _SPACE.sub("", plain(name))


def _pairs(names: Sequence[str], counts: np.ndarray) -> list[tuple[int, int]]:
    """Ids of names and of the most frequent name that each resembles, the most frequent first."""
    folded = [plain(name) for name in names]
    squeezed = [unspaced(name) for name in names]
    spellings: dict[str, list[int]] = {}
    for one, name in enumerate(squeezed):
        spellings.setdefault(name, []).append(one)
    most_frequent = {name: max(ids, key=lambda one: counts[one]) for name, ids in spellings.items()}
    pairs = [(one, most_frequent[name]) for one, name in enumerate(squeezed) if most_frequent[name] != one]
    spelt_otherwise = {one for one, _ in pairs}
    long_enough = [index for index, name in enumerate(folded) if len(name) >= SHORTEST]
    index: dict[str, list[int]] = {}
    for one in long_enough:
        if counts[one] >= TIMES:
            for key in _shortened(folded[one]):
                index.setdefault(key, []).append(one)
    for one in (one for one in long_enough if counts[one] <= RARE and one not in spelt_otherwise):
        near = {other for key in _shortened(folded[one]) for other in index.get(key, ())}
        frequent = [other for other in near if counts[other] >= TIMES * counts[one] and other != one]
        alike = [other for other in frequent if one_edit(folded[one], folded[other])]
        if alike:
            pairs.append((one, max(alike, key=lambda other: counts[other])))
    return sorted(pairs, key=lambda pair: -counts[pair[1]])


def _shortened(name: str) -> Iterator[str]:
    """The name, and the name without each of its characters."""
    yield name
    yield from (name[:at] + name[at + 1 :] for at in range(len(name)))


def one_edit(one: str, other: str) -> bool:
    """Whether names are equal, or differ by one letter or by a swap of two.

    >>> [one_edit("cardiolgy", name) for name in ("cardiology", "cardiolgy", "caridolgy", "radiology")]
    [True, True, True, False]
    >>> one_edit("person 1", "person 2")
    False
    """
    if one == other:
        return True
    first = last = 0
    while first < min(len(one), len(other)) and one[first] == other[first]:
        first += 1
    while last < min(len(one), len(other)) - first and one[-1 - last] == other[-1 - last]:
        last += 1
    mine, theirs = one[first : len(one) - last], other[first : len(other) - last]
    swapped = len(mine) == 2 and mine == theirs[::-1]
    return (max(len(mine), len(theirs)) <= 1 or swapped) and (mine + theirs).isalpha()
