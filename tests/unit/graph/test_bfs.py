import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.graph import bfs


def lists(count: int, edges: set[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    ordered = np.array(sorted(edges), np.int64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ordered[:, 0], minlength=count))])
    return offsets, ordered[:, 1].astype(np.int32)


def chain(length: int) -> tuple[np.ndarray, np.ndarray]:
    return lists(length + 1, {(i, i + 1) for i in range(length)})


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, set[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    ids = st.integers(0, count - 1)
    return count, draw(st.sets(st.tuples(ids, ids), max_size=30))


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), limit=st.sampled_from([0, 1, 2, 5, bfs.NO_LIMIT]), copies=st.sampled_from([1, 30]))
def test_search_equals_reference(graph, limit, copies):
    """Few sources are searched in one thread, many copies of them in several."""
    count, edges = graph
    sources = np.tile(np.arange(count), copies)
    ours = bfs.multi_source_bfs(*lists(count, edges), sources, limit)
    reference = bfs.multi_source_bfs_reference(*lists(count, edges), sources, limit)
    assert ours.dtype == reference.dtype == np.uint8
    np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("words", [bfs._ONE_WORD, bfs._CACHE_LINE])
def test_blocks_of_either_width_equal_reference(monkeypatch, words):
    monkeypatch.setattr(bfs, "_ONE_WORD", words)
    monkeypatch.setattr(bfs, "_CACHE_LINE", words)
    random = np.random.default_rng(0)
    graph = lists(700, set(map(tuple, random.integers(700, size=(1800, 2)).tolist())))
    sources = random.integers(700, size=600)
    found = bfs.multi_source_bfs(*graph, sources)
    np.testing.assert_array_equal(found, bfs.multi_source_bfs_reference(*graph, sources))
    assert len(np.unique(found)) > 5


@pytest.mark.parametrize(("length", "dtype"), [(254, np.uint8), (255, np.uint16), (300, np.uint16)])
def test_long_distances_get_a_wider_type(length, dtype):
    distances = bfs.multi_source_bfs(*chain(length), np.array([0, length]))
    assert distances.dtype == dtype
    np.testing.assert_array_equal(distances[0], np.arange(length + 1))
    assert (distances[1, :length] == bfs.unreached(distances)).all()


def test_limit_keeps_the_narrow_type():
    assert bfs.multi_source_bfs(*chain(300), np.array([0]), 254).dtype == np.uint8


def test_limit_holds_beyond_the_narrow_type():
    distances = bfs.multi_source_bfs(*chain(300), np.array([0]), 280)
    assert (distances[0] != bfs.unreached(distances)).sum() == 281


def test_no_sources():
    assert bfs.multi_source_bfs(*chain(3), np.empty(0, np.int64)).shape == (0, 4)


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), limit=st.sampled_from([0, 1, 2, 3, bfs.NO_LIMIT]))
def test_detours_equal_reference(graph, limit):
    count, edges = graph
    heads, tails = (side.ravel() for side in np.meshgrid(np.arange(count), np.arange(count)))
    arguments = *lists(count, edges), *lists(count, {(t, h) for h, t in edges}), heads, tails, limit
    np.testing.assert_array_equal(bfs.detours(*arguments), bfs.detours_reference(*arguments))


def test_detour_goes_around_the_edge():
    there = {(0, 1), (1, 0), (0, 2), (2, 3), (3, 1)}
    arguments = *lists(4, there), *lists(4, {(t, h) for h, t in there})
    found = bfs.detours(*arguments, np.array([0, 1, 2]), np.array([1, 0, 2]))
    assert found.tolist() == [3, bfs.NO_PATH, 0]
