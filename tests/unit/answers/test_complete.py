"""New facts of a whole graph: what is asked, what is proposed, stopping and going on."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.answers import complete as module
from anykg.answers.complete import complete, log_one_more, questions_of
from anykg.errors import ConfigError, DataError, Interrupted
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import symmetric_relations
from anykg.models.random import RandomScorer
from graphs import graphs, named, random_graph


def rows(graph: KnowledgeGraph, **how: object) -> list[tuple[object, ...]]:
    return complete(graph, model=RandomScorer(), **how).to_polars().rows()  # type: ignore[arg-type]


def test_relations_are_asked_from_their_smaller_end() -> None:
    graph = named("a in x", "b in x", "c in y", "x has a", "x has b", "y has c")
    asked = questions_of(graph, None, None)
    names = {(int(h) >= 0, graph.relations[r], int(t) >= 0) for h, r, t in asked}
    assert names == {(False, "in", True), (True, "has", False)}
    assert len(asked) == 4
    assert len(questions_of(graph, np.array([0]), None)) == 2
    assert questions_of(graph, None, np.array([1, 0])).tolist() == [[0, 0, -1], [0, 1, -1], [1, 0, -1], [1, 1, -1]]


def test_how_many_have_one_more() -> None:
    graph = named("a r x", "a r y", "b r z", "c r z")
    keys, values = log_one_more(graph)
    by_name = {(graph.entities[k // 2], int(k % 2)): v for k, v in zip(keys, values, strict=True)}
    assert by_name["b", 0] == pytest.approx(np.log(1.5 / 4))  # of three heads one has more than one tail
    assert by_name["a", 0] == pytest.approx(np.log(0.5 / 2))  # of one with two none has three
    assert by_name["z", 1] == pytest.approx(np.log(0.5 / 2))
    assert ("x", 0) not in by_name


@settings(max_examples=30, deadline=None)
@given(graphs(min_triplets=1), st.integers(1, 40))
def test_facts_are_new_distinct_and_half_known(graph: KnowledgeGraph, count: int) -> None:
    found = rows(graph, count=count)
    facts = np.array(
        [(graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)) for h, r, t, _, _ in found]
    ).reshape(-1, 3)
    assert len(found) <= count
    assert len({row[:3] for row in found}) == len(found)
    assert not graph.contains(facts).any()
    known = {(h, r) for h, r, _ in graph.triplets.tolist()} | {(r, t) for _, r, t in graph.triplets.tolist()}
    assert all((h, r) in known or (r, t) in known for h, r, t in facts.tolist())
    scores = [row[3] for row in found]
    assert scores == sorted(scores, reverse=True)
    assert [row[:3] for row in rows(graph, count=max(1, count // 2))] == [r[:3] for r in found[: max(1, count // 2)]]


def test_one_of_each_mirrored_pair() -> None:
    pairs = [(f"a{i}", f"a{i + 1}") for i in range(12)]
    graph = named(*(f"{h} near {t}" for h, t in pairs), *(f"{t} near {h}" for h, t in pairs))
    assert symmetric_relations(graph).tolist() == [True]
    found = {frozenset(row[::2][:2]) for row in rows(graph, count=1000)}
    assert len(found) == len(rows(graph, count=1000)) == 13 * 12 // 2 - 12


def test_only_what_was_asked_for() -> None:
    graph = random_graph(20, 3, 60)
    assert {row[1] for row in rows(graph, relations=["r2"])} == {"r2"}
    assert {row[0] for row in rows(graph, heads=["e4", "e7"])} == {"e4", "e7"}
    with pytest.raises(DataError, match="nothing to ask"):
        rows(graph, relations=[])


def test_interrupted_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, state = random_graph(40, 3, 150), tmp_path / "state"
    monkeypatch.setattr(module, "SLICE", 5)
    whole = rows(graph, count=30)

    def stop(done: int, total: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"20 of \d+ questions; run it again"):
        rows(graph, count=30, state=state, progress=stop)
    told: list[module.Estimate] = []
    assert rows(graph, count=30, state=state, announce=told.append) == whole
    assert told[0].done == 20
    assert told[0].questions > 20
    told.clear()
    rows(graph, count=31, state=state, announce=told.append)
    assert told[0].done == 0  # kept for other work
    state.write_bytes(b"damaged")
    assert rows(graph, count=30, state=state) == whole
    state.unlink()
    state.mkdir()
    with pytest.raises(ConfigError, match="found a folder"):
        rows(graph, count=30, state=state)
    with pytest.raises(Interrupted, match="nothing was kept"):
        rows(graph, count=30, progress=stop)
