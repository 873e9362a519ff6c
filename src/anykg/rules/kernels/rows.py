"""Facts grouped into runs, and implied triplets as rows of bits: data structures shared by the counting kernels.

For one start and one choice of directions, a kernel marks the ends E2 it finds in a row for each slot (which step C1
is the relation of) and each C1. When all paths are done, `count_rows` adds up the rows and clears them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from anykg.rules.kernels.matching import FactIndex
from anykg.rules.kernels.paths import IMPLIED, PARTIAL, SUPPORT


class Runs(NamedTuple):
    """Facts without loops by entity and relation: first those of heads, then those of tails."""

    nodes: np.ndarray  # int64 [2, N + 1]: runs nodes[way, v]:nodes[way, v + 1] are those of v as head (0) or tail
    kinds: np.ndarray  # int32 [Q]: the relation of a run
    edges: np.ndarray  # int32 [Q + 1]: facts edges[q]:edges[q + 1] are those of run q
    others: np.ndarray  # int32 [2E]: the other entity of each fact
    back: np.ndarray  # int32 [2E]: the run of the other entity that has the same fact


class Rows(NamedTuple):
    """Ends as bits, a row for each slot and relation."""

    bits: np.ndarray  # uint64 [slots * R * words]
    used: np.ndarray  # bool [slots, R]: rows that may have bits


def run_index(index: FactIndex, sizes: tuple[int, int]) -> Runs:
    """Group the facts of an index; sizes are (N, R)."""
    n, r = sizes
    facts = index.facts[:2].astype(np.int64)  # [2, E, 3]
    facts = np.concatenate([way[way[:, 0] != way[:, 2]] + [n * number, 0, 0] for number, way in enumerate(facts)])
    keys, edges = np.unique(facts[:, 0] * r + facts[:, 1], return_index=True)
    nodes = np.searchsorted(keys, np.arange(2 * n + 1) * r)
    turned = np.where(facts[:, 0] < n, facts[:, 2] + n, facts[:, 2])  # the other entity, in the other half
    return Runs(
        np.stack([nodes[: n + 1], nodes[n:]]),
        (keys % max(r, 1)).astype(np.int32),
        np.append(edges, len(facts)).astype(np.int32),
        facts[:, 2].astype(np.int32),
        np.searchsorted(keys, turned * r + facts[:, 1]).astype(np.int32),
    )


def bytes_of_rows(slots: int, sizes: tuple[int, int]) -> int:
    """Bytes that `new_rows` allocates."""
    return slots * sizes[1] * ((sizes[0] + 63) // 64 * 8 + 1)


@njit(cache=True)
def new_rows(slots: int, n: int, r: int) -> Rows:
    """Rows without a bit."""
    return Rows(np.zeros(slots * r * ((n + 63) // 64), np.uint64), np.zeros((slots, r), np.bool_))


@intrinsic
def _popcount(typing: Any, word: Any) -> Any:
    """How many bits of a word are set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


@njit(cache=True)
def count_rows(
    rows: Rows, shapes: np.ndarray, start: int, facts: np.ndarray, has_fact: np.ndarray, counts: np.ndarray
) -> None:
    """Add the bits of each slot, except those of the start, to counts[shapes[slot]], and clear them.

    facts [F, 3] are those of the start, has_fact [R] says which relations they have.
    """
    bits, used, r = rows.bits, rows.used, len(has_fact)
    words = len(bits) // max(used.size, 1)
    for slot in range(len(shapes)):
        row = counts[shapes[slot]]
        for fact in facts:
            if fact[2] != start:
                word = bits[(slot * r + fact[1]) * words + (fact[2] >> 6)]
                row[SUPPORT] += np.int64((word >> np.uint64(fact[2] & 63)) & np.uint64(1))
        for kind in range(r):
            if used[slot, kind]:
                used[slot, kind] = False
                base, found = (slot * r + kind) * words, np.uint64(0)
                bits[base + (start >> 6)] &= ~(np.uint64(1) << np.uint64(start & 63))
                for word in range(base, base + words):
                    found += _popcount(bits[word])
                    bits[word] = 0
                row[IMPLIED] += np.int64(found)
                row[PARTIAL] += np.int64(found) * has_fact[kind]
