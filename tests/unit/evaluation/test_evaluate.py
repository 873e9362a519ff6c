from dataclasses import replace

import numpy as np
import pytest
import torch

from anykg.evaluation import scoring as module
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import PROTOCOLS
from anykg.evaluation.ranks import Ties
from anykg.evaluation.report import as_json
from anykg.evaluation.strata import STRATA
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.split import hold_out
from anykg.io.exchange import to_pykeen
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.random import RandomScorer
from graphs import named, random_graph


class Table(LinkPredictor):
    """Scores looked up in a fixed table, coarse enough to tie."""

    symmetry = Symmetry.ENTITIES_ONLY

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = scores
        self.asked: list[int] = []

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        self.asked.append(len(triplets))
        inverse = triplets[:, 1] >= encoded.num_relations
        h, t = triplets[:, 0].where(~inverse, triplets[:, 2]), triplets[:, 2].where(~inverse, triplets[:, 0])
        return self.scores[h, triplets[:, 1] % encoded.num_relations, t]


@pytest.fixture(scope="module")
def task() -> tuple[KnowledgeGraph, KnowledgeGraph, Table]:
    graph = random_graph(25, 3, 260, seed=1)
    observed, test = hold_out(graph, 0.3, 0, "test")
    scores = torch.from_numpy(np.random.default_rng(2).integers(0, 9, size=(25, 3, 25)).astype(np.float32))
    return observed, test, Table(scores)


@pytest.mark.parametrize("chunk", [1, 10**9])
def test_full_protocol_equals_pykeen(task: tuple, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models.mocks import FixedModel

    observed, test, model = task
    monkeypatch.setattr(module, "BYTES_PER_SCORE", 2**60 if chunk == 1 else 1)

    class Fixed(FixedModel):
        def score_hrt(self, hrt_batch: torch.Tensor, **_: object) -> torch.Tensor:
            return model.scores[hrt_batch[:, 0], hrt_batch[:, 1], hrt_batch[:, 2]][:, None]

        def score_t(self, hr_batch: torch.Tensor, **_: object) -> torch.Tensor:
            return model.scores[hr_batch[:, 0], hr_batch[:, 1]]

        def score_h(self, rt_batch: torch.Tensor, **_: object) -> torch.Tensor:
            return model.scores[:, rt_batch[:, 0], rt_batch[:, 1]].T

    theirs = RankBasedEvaluator(filtered=True).evaluate(
        Fixed(triples_factory=to_pykeen(observed)),
        torch.from_numpy(test.triplets.astype(np.int64)),
        additional_filter_triples=[torch.from_numpy(observed.triplets.astype(np.int64))],
        batch_size=8,
        use_tqdm=False,
    )
    ours = evaluate(model, observed, test, task="node", protocol=PROTOCOLS["full"])
    for side, name in (("both", "all"), ("head", "head"), ("tail", "tail")):
        ranks = ours.ranks if side == "both" else ours.ranks[ours.sides == name]
        for rule in (Ties.OPTIMISTIC, Ties.REALISTIC, Ties.PESSIMISTIC):
            mine = summarise(ranks.by(rule))
            for metric, key in (("mrr", "inverse_harmonic_mean_rank"), ("mr", "arithmetic_mean_rank")):
                assert mine[metric] == pytest.approx(theirs.get_metric(f"{side}.{rule.value}.{key}"), rel=1e-5)
            for k in (1, 3, 5, 10):
                assert mine[f"hits@{k}"] == pytest.approx(theirs.get_metric(f"{side}.{rule.value}.hits_at_{k}"))


def test_relation_task_against_brute_force(task: tuple) -> None:
    observed, test, model = task
    ours = evaluate(model, observed, test, task="relation", protocol=PROTOCOLS["full"])
    known = {tuple(t) for t in np.concatenate([observed.triplets, test.triplets]).tolist()}
    assert len(ours.triplets) + ours.unrankable == len(test)
    for row, (h, r, t) in enumerate(ours.triplets.tolist()):
        scores = [model.scores[h, k, t] for k in range(3) if k == r or (h, k, t) not in known]
        assert ours.ranks.better[row] == sum(s > model.scores[h, r, t] for s in scores)
        assert ours.ranks.ties[row] == sum(s == model.scores[h, r, t] for s in scores) - 1


def test_equal_questions_are_scored_once(task: tuple) -> None:
    observed, test, model = task
    model.asked.clear()
    evaluate(model, observed, test, task="node", protocol=PROTOCOLS["full"].with_sides("tail"))
    assert sum(model.asked) == len(np.unique(test.triplets[:, :2], axis=0)) * observed.num_entities


def test_paper_protocol_ranks_among_51(task: tuple) -> None:
    observed, test = random_graph(200, 3, 300, seed=3), random_graph(200, 3, 50, seed=4)
    result = evaluate(RandomScorer(), observed, test, task="node", protocol=PROTOCOLS["paper"])
    assert set(result.ranks.candidates.tolist()) == {51}
    assert set(result.sides.tolist()) == {"tail"}
    both = evaluate(RandomScorer(), observed, test, task="node", protocol=PROTOCOLS["paper-ingram"])
    assert sorted(np.unique(both.sides).tolist()) == ["head", "tail"]
    assert PROTOCOLS["paper-both"] == replace(PROTOCOLS["paper"], name="paper-both", sides="both", ties=Ties.ROUNDED)
    few = evaluate(RandomScorer(), observed, test, task="relation", protocol=PROTOCOLS["paper-ingram"])
    assert few.ranks.candidates.max() <= 3  # each of the other relations counts once
    many = evaluate(RandomScorer(), observed, test, task="relation", protocol=PROTOCOLS["paper"])
    assert many.ranks.candidates.max() == 51


def test_paper_ingram_draws_relations_with_replacement_and_counts_each_once() -> None:
    """50 draws from 100 relations are 39.5 different ones on average: a random scorer has Hits@10 25.0, not 19.6."""
    observed, test = random_graph(60, 101, 300, seed=0), random_graph(60, 101, 3000, seed=1)
    found = {
        name: evaluate(RandomScorer(), observed, test, task="relation", protocol=protocol)
        for name, protocol in PROTOCOLS.items()
    }
    assert found["paper-ingram"].ranks.candidates.mean() == pytest.approx(40.5, abs=0.5)
    hits = (found["paper-ingram"].ranks.by(Ties.PESSIMISTIC) <= 10).mean()
    assert hits == pytest.approx(0.25, abs=0.03)
    assert set(found["paper"].ranks.candidates.tolist()) == {51}
    distinct, replaced = (PROTOCOLS["paper"].with_replacement(choice) for choice in (None, True))
    assert distinct == PROTOCOLS["paper"]
    ranks = [evaluate(RandomScorer(), observed, test, task="relation", protocol=p).ranks for p in (distinct, replaced)]
    assert ranks[1].candidates.tolist() == ranks[0].candidates.tolist()  # repeated ones count each time
    assert ranks[0].ties.max() == 0
    assert PROTOCOLS["paper-ingram"].with_replacement(False).relations == "distinct-if-possible"


def test_what_cannot_be_ranked_is_counted() -> None:
    both = named("a r b", "a s b")
    observed, test = both.subset(np.array([True, False])), both.subset(np.array([False, True]))
    result = evaluate(RandomScorer(), observed, test, task="relation", protocol=PROTOCOLS["paper"])
    assert (len(result.ranks), result.unrankable) == (0, 1)


def test_same_seed_same_result(task: tuple) -> None:
    observed, test, model = task
    few = replace(PROTOCOLS["paper"], negatives=5)
    one, two, other = (evaluate(model, observed, test, task="node", protocol=few, seed=seed) for seed in (0, 0, 1))
    assert (one.ranks.better == two.ranks.better).all()
    assert (one.ranks.better != other.ranks.better).any()


def test_limit_is_a_sample(task: tuple) -> None:
    observed, test, model = task
    result = evaluate(model, observed, test, task="node", protocol=PROTOCOLS["paper"], limit=7)
    assert len(np.unique(result.triplets, axis=0)) == 7
    assert test.contains(result.triplets).all()


def test_strata_against_brute_force(task: tuple) -> None:
    observed, test, model = task
    result = evaluate(model, observed, test, task="node", protocol=PROTOCOLS["paper"])
    facts = observed.triplets.tolist()
    for (h, r, t), stratum in zip(result.triplets.tolist(), result.strata, strict=True):
        tail_side = any(a == h and b == r and c != t for a, b, c in facts)
        head_side = any(c == t and b == r and a != h for a, b, c in facts)
        expected = {(0, 0): "neither", (1, 0): "head-relation", (0, 1): "relation-tail", (1, 1): "both"}
        assert STRATA[stratum] == expected[int(tail_side), int(head_side)]


def test_report_has_what_a_reader_needs(task: tuple) -> None:
    observed, test, model = task
    result = as_json(
        evaluate(model, observed, test, task="node", protocol=PROTOCOLS["full"]), observed, model="table", dataset="d"
    )
    assert result["protocol"]["name"] == "full"
    assert result["counts"]["ranked"] == 2 * len(test)
    assert sum(part["count"] for part in result["by_relation"].values()) == 2 * len(test)
    assert sum(part["count"] for part in result["by_stratum"].values()) == 2 * len(test)
    assert {"commit", "torch", "anykg"} <= set(result["made_with"])
    assert result["ties"]["realistic"] == result["metrics"]
