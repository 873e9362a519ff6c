"""Breadth-first search from many sources at once, and around one edge.

Graphs are adjacency lists: the neighbours of entity i are `neighbours[offsets[i]:offsets[i + 1]]` (offsets [N + 1]).
`multi_source_bfs` keeps one bit for each source, 64 sources to a machine word and 1 or 8 words to a block, so one pass
over the edges moves up to 512 searches a step further. `detours` searches from both ends of a pair until they meet.
Blocks run in parallel; nothing depends on their order or number. `*_reference` are plain versions of the same
functions.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange

NO_LIMIT = 2**31 - 1
"""A limit larger than any distance."""
NO_PATH = -1
"""What `detours` returns if there is no path within the limit."""

_FEW_PAIRS = 16
"""Up to this many pairs are searched on the calling thread only."""
_WORD_BITS = 64
_ONE_WORD = (0,)
_CACHE_LINE = (0,) * 8
"""Tuples whose length is the number of words in a block: a compile-time constant, so that loops over words are
unrolled. A cache line of 8 words is about twice as fast per source as a single word; 16 words are slower again."""


class AdjacencyLists(NamedTuple):
    """The edges of a graph, by their source entity."""

    offsets: np.ndarray  # int64 [N + 1]
    neighbours: np.ndarray  # int32, one for each edge


def unreached(distances: np.ndarray) -> int:
    """The value that stands for "not reached" in an array of `multi_source_bfs`: the largest of its type."""
    return int(np.iinfo(distances.dtype).max)


def multi_source_bfs(
    offsets: np.ndarray, neighbours: np.ndarray, sources: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """Distances [S, N] from each source to each entity, `unreached` where they exceed `limit` or there is no path.

    The dtype is uint8, or wider if a distance exceeds 254. The array is stored entity by entity.
    """
    sources = np.ascontiguousarray(sources, np.int64)  # one type and layout: one compilation
    count, size = len(offsets) - 1, len(sources)
    busy = size >= len(_CACHE_LINE) * _WORD_BITS * get_num_threads()
    words = _CACHE_LINE if busy else _ONE_WORD
    # Entity by entity, as the search fills it; 8 distances are one uint64.
    packed = np.empty((count, math.ceil(size / _WORD_BITS) * 8), np.uint64)
    if size <= _WORD_BITS:  # waking threads for one block costs more than a small search
        fits = _search_block(offsets, neighbours, sources, limit, words, packed, 0)
    else:
        fits = _search_blocks(offsets, neighbours, sources, limit, words, packed)
    if fits:
        return packed.view(np.uint8)[:, :size].T  # [N, S] -> [S, N]
    del packed
    out = np.empty((size, count), _wider(count))
    _search_each(offsets, neighbours, sources, limit, out)
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
    depth = np.uint8 if wide[reached].max(initial=0) < np.iinfo(np.uint8).max else _wider(len(offsets) - 1)
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
    """Length [B] of the shortest path head -> tail without the edge head -> tail, int32; `NO_PATH` if there is none.

    `back_*` hold the reversed edges. The edge tail -> head need not be removed, because no shortest path to the tail
    leaves the tail.
    """
    heads, tails = (np.ascontiguousarray(side, np.int64) for side in (heads, tails))
    out = np.empty(len(heads), np.int32)
    there, back = AdjacencyLists(offsets, neighbours), AdjacencyLists(back_offsets, back_neighbours)
    if len(heads) <= _FEW_PAIRS:
        _detour_chunk(there, back, heads, tails, limit, 0, 1, out)
    else:
        _detour_chunks(there, back, heads, tails, limit, get_num_threads() * 4, out)
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
    """`detours`, by a full search in the graph without the edge."""
    del back_offsets, back_neighbours
    out = np.empty(len(heads), np.int32)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for index, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        keep = ~((rows == head) & (neighbours == tail))
        fewer = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=len(offsets) - 1))])
        distances = multi_source_bfs_reference(fewer, neighbours[keep], np.array([head]), limit)
        out[index] = NO_PATH if distances[0, tail] == unreached(distances) else distances[0, tail]
    return out


def _wider(count: int) -> type[np.unsignedinteger[Any]]:
    """A dtype for any distance among `count` entities."""
    return np.uint16 if count <= np.iinfo(np.uint16).max else np.uint32


def _gaps() -> np.ndarray:
    """[256] bytes spread out: byte j of entry x is 0 where bit j of x is set, else 255."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")  # [256, 8]
    return ((1 - bits) * np.uint8(255)).view(np.uint64)[:, 0]


_GAPS = _gaps()
_EVERY_BYTE = np.uint64(0x0101010101010101)


@njit(cache=True, parallel=True)
def _search_blocks(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    sources: np.ndarray,
    limit: int,
    words: tuple[int, ...],
    packed: np.ndarray,
) -> bool:
    """Fill packed [N, ceil(S / 64) * 8], a block of sources at a time; False if a distance exceeds 254."""
    size = len(words) * 64
    blocks = (len(sources) + size - 1) // size
    fits = np.ones(blocks, np.bool_)
    for block in prange(blocks):
        first = block * size
        last = min(first + size, len(sources))
        fits[block] = _search_block(offsets, neighbours, sources[first:last], limit, words, packed, first // 8)
    return bool(fits.all())


@njit(cache=True)
def _search_block(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    sources: np.ndarray,
    limit: int,
    words: tuple[int, ...],
    packed: np.ndarray,
    column: int,
) -> bool:
    """Fill packed from `column` on for one block of S <= 64 * W sources; False if a distance exceeds 254."""
    count, width = len(offsets) - 1, len(words)
    packed[:, column : column + 8 * width] = ~np.uint64(0)
    seen = np.zeros((count, width), np.uint64)
    frontier = np.zeros((count, width), np.uint64)
    following = np.zeros((count, width), np.uint64)
    active = np.empty(count, np.int32)  # entities with a bit in frontier
    is_touched = np.zeros(count, np.bool_)  # entities with a bit in following
    for row in range(len(sources)):
        following[sources[row], row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        is_touched[sources[row]] = True
    for level in range(min(limit, count) + 1):
        num_active = 0
        for entity in range(count):  # in order, for locality: `packed` does not fit the caches
            if not is_touched[entity]:
                continue
            is_touched[entity] = False
            some = np.uint64(0)
            for word in range(width):
                new = following[entity, word] & ~seen[entity, word]
                following[entity, word] = np.uint64(0)
                frontier[entity, word] = new
                seen[entity, word] |= new
                some |= new
            if some:
                if level > 254:
                    return False
                active[num_active] = entity
                num_active += 1
                line = packed[entity, column : column + 8 * width]
                for word in range(width):
                    bits = frontier[entity, word]
                    if bits:
                        for part in range(8):  # the bytes of new bits are 255 so far: keep the bits of the level
                            gaps = _GAPS[(bits >> np.uint64(8 * part)) & np.uint64(255)]
                            line[np.uint64(word * 8 + part)] &= gaps | np.uint64(level) * _EVERY_BYTE
        if num_active == 0 or level >= limit:
            break
        for at in range(num_active):
            entity = active[at]
            for edge in range(offsets[entity], offsets[entity + 1]):
                other = neighbours[edge]
                is_touched[other] = True
                for word in range(width):
                    following[other, word] |= frontier[entity, word]
    return True


@njit(cache=True, parallel=True)
def _search_each(offsets: np.ndarray, neighbours: np.ndarray, sources: np.ndarray, limit: int, out: np.ndarray) -> None:
    """Fill out [S, N] one source at a time: for the rare graphs with long distances and many small levels."""
    none = out.dtype.type(-1)  # the largest value of an unsigned type
    for row in prange(len(sources)):
        queue = np.empty(len(offsets) - 1, np.int32)
        queue[0], end = sources[row], 1
        out[row] = none
        out[row, sources[row]] = 0
        for at in range(len(queue)):
            if at == end or out[row, queue[at]] >= limit:
                break
            entity = queue[at]
            for edge in range(offsets[entity], offsets[entity + 1]):
                other = neighbours[edge]
                if out[row, other] == none:
                    out[row, other] = out[row, entity] + 1
                    queue[end] = other
                    end += 1


@njit(cache=True, parallel=True)
def _detour_chunks(
    there: AdjacencyLists,
    back: AdjacencyLists,
    heads: np.ndarray,
    tails: np.ndarray,
    limit: int,
    chunks: int,
    out: np.ndarray,
) -> None:
    """Fill out [B] in the given number of chunks."""
    for chunk in prange(chunks):
        _detour_chunk(there, back, heads, tails, limit, chunk, chunks, out)


@njit(cache=True)
def _detour_chunk(
    there: AdjacencyLists,
    back: AdjacencyLists,
    heads: np.ndarray,
    tails: np.ndarray,
    limit: int,
    chunk: int,
    chunks: int,
    out: np.ndarray,
) -> None:
    """Fill out[chunk::chunks]; its pairs share working memory, in which a stamp distinguishes their marks."""
    count = len(there.offsets) - 1
    marks, queues = np.zeros((2, count), np.int64), np.empty((2, count), np.int32)
    for at in range(chunk, len(heads), chunks):
        head, tail, stamp = heads[at], tails[at], at + 1
        out[at] = _detour(there, back, head, tail, limit, stamp, marks, queues)


@njit(cache=True)
def _detour(
    there: AdjacencyLists,
    back: AdjacencyLists,
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
    offsets, neighbours = there
    back_offsets, back_neighbours = back
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


@njit(cache=True)
def look_up(table: np.ndarray, values: np.ndarray, triplets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The `values` [V] of the distances there and back of triplets [B, 3]: [B, 2]; and rows whose ends are neighbours.

    `table` [N, N] has the distances.
    """
    features = np.empty((len(triplets), 2), values.dtype)
    neighbours = np.empty(len(triplets), np.int64)
    count = 0
    for row in range(len(triplets)):
        head, tail = triplets[row, 0], triplets[row, 2]
        there, back = table[head, tail], table[tail, head]
        features[row, 0], features[row, 1] = values[there], values[back]
        if there == 1 or back == 1:
            neighbours[count] = row
            count += 1
    return features, neighbours[:count]
