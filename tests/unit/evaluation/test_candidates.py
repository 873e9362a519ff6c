import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anykg.evaluation.candidates import draw_entities, draw_relations, first_of_kind
from anykg.graph.graph import KnowledgeGraph
from graphs import graphs, random_graph


@given(graphs(min_triplets=1), st.integers(1, 15), st.integers(0, 2**32 - 1))
def test_entities_are_distinct_and_no_facts(known: KnowledgeGraph, count: int, seed: int) -> None:
    heads, relations = known.triplets[:, 0].astype(np.int64), known.triplets[:, 1].astype(np.int64)
    drawn = draw_entities(known, heads, relations, count, np.random.default_rng(seed))
    for row, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        real = drawn[row][drawn[row] >= 0]
        allowed = known.num_entities - len(known.answers(np.array([head]), np.array([relation])).values)
        assert len(set(real.tolist())) == len(real) == min(count, allowed)
        assert not known.contains(np.stack([np.full(len(real), head), np.full(len(real), relation), real], 1)).any()


def test_entities_are_uniform() -> None:
    known = random_graph(20, 2, 30)
    heads, relations = np.full(4000, known.triplets[0, 0]), np.full(4000, known.triplets[0, 1])
    drawn = draw_entities(known, heads, relations, 5, np.random.default_rng(0))
    allowed = np.setdiff1d(np.arange(20), known.answers(heads[:1], relations[:1]).values)
    counts = np.bincount(drawn.ravel(), minlength=20)[allowed]
    assert np.abs(counts / 4000 - 5 / len(allowed)).max() < 0.04


@given(graphs(max_relations=6, min_triplets=1), st.booleans(), st.integers(0, 2**32 - 1))
def test_relations_are_no_facts(known: KnowledgeGraph, distinct: bool, seed: int) -> None:
    heads, tails = known.triplets[:, 0].astype(np.int64), known.triplets[:, 2].astype(np.int64)
    drawn = draw_relations(known, heads, tails, 3, np.random.default_rng(seed), distinct=distinct)
    taken = known.relations_between(heads, tails)
    for row in range(len(heads)):
        free = set(range(known.num_relations)) - set(taken[row].tolist())
        assert set(drawn[row].tolist()) <= (free or {-1})
        if distinct and len(free) >= 3:
            assert len(set(drawn[row].tolist())) == 3


def test_first_of_kind() -> None:
    assert first_of_kind(np.array([[3, 1, 3, 1, 2]])).tolist() == [[3, 1, -1, -1, 2]]
