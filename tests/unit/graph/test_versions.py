"""Differences of graphs by sketches: exact for small graphs, close for samples, whatever the ids."""

from pathlib import Path

import numpy as np
import pytest

from anykg.graph import versions
from anykg.graph.graph import KnowledgeGraph
from graphs import random_graph


def shuffled(graph: KnowledgeGraph, seed: int) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    return graph.relabel(rng.permutation(graph.num_entities), rng.permutation(graph.num_relations))


def test_the_difference_of_small_graphs_is_exact() -> None:
    graph = random_graph(30, 3, 200)
    grown = KnowledgeGraph.from_polars(graph.to_polars().vstack(random_graph(40, 4, 30, seed=1).to_polars()))
    fewer = graph.subset(np.arange(len(graph)) > 4)
    old = versions.sketch_of(graph)
    added = len(grown) - len(graph)
    assert added > 5
    assert versions.difference(old, versions.sketch_of(shuffled(graph, 0))) == 0
    assert versions.difference(old, versions.sketch_of(shuffled(grown, 1))) == added
    assert versions.difference(old, versions.sketch_of(fewer)) == 5
    assert versions.difference(versions.sketch_of(grown), versions.sketch_of(fewer)) == added + 5


def test_the_difference_of_larger_graphs_is_estimated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(versions, "SIZE", 2000)
    graph = random_graph(300, 5, 20_000)
    other = graph.subset(np.arange(len(graph)) % 20 > 0)  # a twentieth has gone
    versions.save(versions.sketch_of(graph), tmp_path / "a.npy")
    stored = versions.load(tmp_path / "a.npy")
    assert stored is not None
    assert len(stored.keys) == 2000
    gone = len(graph) - len(other)
    assert versions.difference(stored, versions.sketch_of(shuffled(other, 2))) == pytest.approx(gone, rel=0.25)
    assert versions.difference(stored, versions.sketch_of(random_graph(300, 5, 20_000, seed=9))) > 10_000
    (tmp_path / "a.npy").write_bytes(b"junk")
    assert versions.load(tmp_path / "a.npy") is None
