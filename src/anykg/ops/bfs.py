"""Breadth-first search from many sources at once, and around one edge.

Graphs are adjacency lists: the neighbours of entity i are `neighbours[offsets[i]:offsets[i + 1]]` (offsets [N + 1]).
`multi_source_bfs` keeps one bit for each source, 64 sources to a machine word and 1 or 8 words to a block, so one pass
over the edges moves up to 512 searches a step further. `detours` searches from both ends of a pair until they meet.
Blocks run in parallel; nothing depends on their order or number. `*_reference` are the same functions, written plainly.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numba import get_num_threads, njit, prange

NO_LIMIT = 2**31 - 1
"""A limit that no distance reaches."""
NO_PATH = -1
"""What `detours` says where there is no path within the limit."""

_WORD_BITS = 64
_ONE_WORD = (0,)
_CACHE_LINE = (0,) * 8
"""Tuples whose length is the number of words in a block: their type tells the compiler, which unrolls the loops over
words. A line of 8 words is about twice as fast for each source as a single word; 16 words are slower again."""
_DEPTHS = (np.uint8, np.uint16, np.uint32)


def unreached(distances: np.ndarray) -> int:
    """The value that stands for "not reached" in an array of `multi_source_bfs`: the largest of its type."""
    return int(np.iinfo(distances.dtype).max)


def multi_source_bfs(
    offsets: np.ndarray, neighbours: np.ndarray, sources: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """Distances [S, N] from each source to each entity, `unreached` where they exceed `limit` or there is no path.

    The type is the narrowest unsigned one that holds every distance: uint8 nearly always.
    """
    every_thread_busy = len(sources) >= len(_CACHE_LINE) * _WORD_BITS * get_num_threads()
    words = _CACHE_LINE if every_thread_busy else _ONE_WORD
    for depth in _DEPTHS:
        out = np.empty((len(sources), len(offsets) - 1), depth)
        if _search_blocks(offsets, neighbours, sources, limit, words, out):
            break
    return out


def multi_source_bfs_reference(
    offsets: np.ndarray, neighbours: np.ndarray, sources: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """`multi_source_bfs`, one source and one entity at a time."""
    wide = np.full((len(sources), len(offsets) - 1), NO_LIMIT, np.int64)
    for row, source in enumerate(sources):
        wide[row, source] = 0
        queue = deque([source])
        while queue:
            entity = queue.popleft()
            for other in neighbours[offsets[entity] : offsets[entity + 1]]:
                if wide[row, other] == NO_LIMIT and wide[row, entity] < limit:
                    wide[row, other] = wide[row, entity] + 1
                    queue.append(other)
    reached = wide != NO_LIMIT
    furthest = wide[reached].max(initial=0)
    depth = next(d for d in _DEPTHS if furthest < np.iinfo(d).max)
    return np.where(reached, wide, np.iinfo(depth).max).astype(depth)


def detours(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    back_offsets: np.ndarray,
    back_neighbours: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """Length [B] of the shortest path head -> tail without the edge head -> tail, int32; `NO_PATH` where none is.

    `back_*` hold the same edges turned around. The edge tail -> head needs no care: no shortest path to the tail
    leaves the tail.
    """
    out = np.empty(len(heads), np.int32)
    chunks = min(get_num_threads() * 4, len(heads))
    _detour_chunks(offsets, neighbours, back_offsets, back_neighbours, heads, tails, limit, chunks, out)
    return out


def detours_reference(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    back_offsets: np.ndarray,
    back_neighbours: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """`detours`, by a whole search in the graph without the edge."""
    del back_offsets, back_neighbours
    out = np.empty(len(heads), np.int32)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for index, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        keep = ~((rows == head) & (neighbours == tail))
        fewer = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=len(offsets) - 1))])
        found = multi_source_bfs_reference(fewer, neighbours[keep], np.array([head]), limit)
        out[index] = NO_PATH if found[0, tail] == unreached(found) else found[0, tail]
    return out


def _bit_positions() -> np.ndarray:
    """Where the only set bit of a word is, looked up by the top 6 bits of word * `_DE_BRUIJN`."""
    table = np.empty(_WORD_BITS, np.uint8)
    for position in range(_WORD_BITS):
        table[((int(_DE_BRUIJN) << position) % 2**_WORD_BITS) >> 58] = position
    return table


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_POSITIONS = _bit_positions()


@njit(cache=True, parallel=True)
def _search_blocks(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    sources: np.ndarray,
    limit: int,
    words: tuple[int, ...],
    out: np.ndarray,
) -> bool:
    """Fill out [S, N], a block of sources at a time; False if a distance does not fit the type of out."""
    size = len(words) * 64
    blocks = (len(sources) + size - 1) // size
    fits = np.ones(blocks, np.bool_)
    for block in prange(blocks):
        first = block * size
        last = min(first + size, len(sources))
        fits[block] = _search_block(offsets, neighbours, sources[first:last], limit, words, out[first:last])
    return bool(fits.all())


@njit(cache=True)
def _search_block(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    sources: np.ndarray,
    limit: int,
    words: tuple[int, ...],
    out: np.ndarray,
) -> bool:
    """Fill out [S, N] for one block, S <= 64 * W; False if a distance does not fit the type of out."""
    count, width = len(offsets) - 1, len(words)
    none = out.dtype.type(-1)  # the largest value of an unsigned type
    out[:] = none
    seen = np.zeros((count, width), np.uint64)
    frontier = np.zeros((count, width), np.uint64)
    following = np.zeros((count, width), np.uint64)
    active = np.empty(count, np.int32)  # entities with a bit in frontier
    touched = np.empty(count, np.int32)  # entities with a bit in following
    is_touched = np.zeros(count, np.bool_)
    for row in range(len(sources)):
        following[sources[row], row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        is_touched[sources[row]] = True
    num_touched = 0
    for entity in range(count):
        if is_touched[entity]:
            touched[num_touched] = entity
            num_touched += 1
    for level in range(min(limit, count) + 1):
        num_active = 0
        for at in range(num_touched):
            entity = touched[at]
            is_touched[entity] = False
            some = np.uint64(0)
            for word in range(width):
                new = following[entity, word] & ~seen[entity, word]
                following[entity, word] = np.uint64(0)
                frontier[entity, word] = new
                seen[entity, word] |= new
                some |= new
            if some:
                if level >= none:
                    return False
                active[num_active] = entity
                num_active += 1
                for word in range(width):
                    _write_level(out, word * 64, entity, frontier[entity, word], level)
        num_touched = 0
        for at in range(num_active):
            entity = active[at]
            for edge in range(offsets[entity], offsets[entity + 1]):
                other = neighbours[edge]
                if not is_touched[other]:
                    is_touched[other] = True
                    touched[num_touched] = other
                    num_touched += 1
                for word in range(width):
                    following[other, word] |= frontier[entity, word]
        if num_touched == 0:
            break
    return True


@njit(cache=True)
def _write_level(out: np.ndarray, first: int, entity: int, bits: np.uint64, level: int) -> None:
    """Put `level` into column `entity` of every row first + b whose bit b is set."""
    while bits:
        lowest = bits & (~bits + np.uint64(1))
        out[first + _BIT_POSITIONS[(lowest * _DE_BRUIJN) >> np.uint64(58)], entity] = level
        bits ^= lowest


@njit(cache=True, parallel=True)
def _detour_chunks(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    back_offsets: np.ndarray,
    back_neighbours: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    limit: int,
    chunks: int,
    out: np.ndarray,
) -> None:
    """Fill out [B]; a chunk's pairs share their working memory."""
    count = len(offsets) - 1
    for chunk in prange(chunks):
        marks = np.zeros((2, count), np.int64)
        queues = np.empty((2, count), np.int32)
        for row in range(chunk, len(heads), chunks):
            out[row] = _detour(
                offsets,
                neighbours,
                back_offsets,
                back_neighbours,
                heads[row],
                tails[row],
                limit,
                row + 1,
                marks,
                queues,
            )


@njit(cache=True)
def _detour(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    back_offsets: np.ndarray,
    back_neighbours: np.ndarray,
    head: int,
    tail: int,
    limit: int,
    stamp: int,
    marks: np.ndarray,
    queues: np.ndarray,
) -> int:
    """One pair. An entity met from side s (0: head, 1: tail) has marks[s] == stamp and is once in queues[s]."""
    if head == tail:
        return 0
    marks[0, head] = marks[1, tail] = stamp
    queues[0, 0], queues[1, 0] = head, tail
    first, last = [0, 0], [1, 1]  # the frontier of side s is queues[s, first[s]:last[s]]
    work = [offsets[head + 1] - offsets[head], back_offsets[tail + 1] - back_offsets[tail]]  # edges leaving it
    # Before each step no path of `length` edges exists, so the first meeting is at length + 1.
    for length in range(limit):
        if work[0] == 0 or work[1] == 0:
            return -1
        side = 0 if work[0] <= work[1] else 1
        starts, others = (offsets, neighbours) if side == 0 else (back_offsets, back_neighbours)
        root, barred = (head, tail) if side == 0 else (tail, head)
        end, edges = last[side], 0
        for at in range(first[side], last[side]):
            entity = queues[side, at]
            for edge in range(starts[entity], starts[entity + 1]):
                other = others[edge]
                if entity == root and other == barred:
                    continue
                if marks[1 - side, other] == stamp:
                    return length + 1
                if marks[side, other] != stamp:
                    marks[side, other] = stamp
                    queues[side, end] = other
                    end += 1
                    edges += starts[other + 1] - starts[other]
        first[side], last[side], work[side] = last[side], end, edges
    return -1
