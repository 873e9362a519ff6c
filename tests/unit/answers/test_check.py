"""Hidden facts, their figures, and the probabilities fitted to them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anykg
from anykg.answers import calibration
from anykg.answers.calibration import Curve, expected_calibration_error, fit
from anykg.answers.check import check, compare
from anykg.answers.hidden import ask_back, hide
from anykg.answers.predict import predict
from anykg.errors import ConfigError, DataError
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.protocol import PROTOCOLS
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.random import RandomScorer
from graphs import graphs, named, random_graph


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Oracle(LinkPredictor):
    """Knows a graph by heart."""

    symmetry = Symmetry.EXACT

    def __init__(self, truth: KnowledgeGraph) -> None:
        super().__init__()
        self.truth = truth

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.truth.contains(triplets.numpy())).float()


@settings(max_examples=40, deadline=None)
@given(graphs(min_triplets=1), st.integers(1, 30), st.integers(0, 5))
def test_nothing_is_left_without_facts(graph: KnowledgeGraph, facts: int, seed: int) -> None:
    try:
        rounds = hide(graph, facts, seed)
    except DataError:
        return
    assert 0 < sum(len(hidden) for _, hidden in rounds) <= facts
    for rest, hidden in rounds:
        assert rest.union(hidden) == graph
        assert len(rest) + len(hidden) == len(graph)
        assert set(rest.triplets[:, 1]) == set(graph.triplets[:, 1])
        assert set(rest.triplets[:, [0, 2]].ravel()) == set(graph.triplets[:, [0, 2]].ravel())


def test_a_graph_too_small_to_hide_anything() -> None:
    with pytest.raises(DataError, match="None of the 2 facts"):
        check(named("a r b", "c s d"), model=RandomScorer())


@pytest.mark.parametrize("task", ["node", "relation"])
def test_ranks_are_those_of_evaluate(task: str) -> None:
    graph, model = random_graph(25, 4, 160), RandomScorer()
    rounds = hide(graph, 8, seed=3)
    asked = ask_back(model, rounds, task, redundant_relations(graph))  # type: ignore[arg-type]
    (rest, hidden), *others = rounds
    assert not others
    expected = evaluate(model, rest, hidden, task=task, protocol=PROTOCOLS["full"])  # type: ignore[arg-type]
    ranks = expected.ranks.by(PROTOCOLS["full"].ties)
    assert sorted(asked.ranks) == sorted(ranks)
    assert sorted(asked.strata) == sorted(expected.strata)


def test_an_oracle_is_found_out() -> None:
    graph = random_graph(30, 3, 200)
    report = check(graph, model=Oracle(graph), facts=40)
    assert report.overall.measures["mrr"].value == 1.0
    assert report.overall.measures["mrr"].low == report.overall.measures["mrr"].high == 1.0
    assert report.calibration(np.array([1.0]))[0] > 0.9
    assert report.calibration(np.array([0.0]))[0] < 0.1
    chance = check(graph, model=RandomScorer(), facts=40, name="dice")
    assert chance.overall.measures["mrr"].value < 0.5
    verdict = compare([chance, replace(report, model="oracle")])
    assert verdict.sentence == "Use oracle: it is significantly better than the others."
    assert "not significant" in compare([chance, replace(chance, model="other dice")]).sentence


def test_parts_add_up() -> None:
    graph = random_graph(30, 3, 200)
    report = check(graph, model=RandomScorer(), facts=40)
    assert report.overall.facts == sum(part.facts for part in report.by_relation)
    assert report.overall.facts == sum(part.facts for part in report.by_stratum)
    assert report.to_dict()["summary"]["overall"]["mrr"]["value"] == report.overall.measures["mrr"].value
    assert "Asked for both ends of 40 hidden facts, RandomScorer ranked" in repr(report)


def test_warnings() -> None:
    pairs = [(f"a{i % 7}", f"b{i}") for i in range(30)]
    lines = [f"{h} likes {t}" for h, t in pairs] + [f"{t} liked {h}" for h, t in pairs] + ["a1 r a2", "a2 r a3"]
    text = " ".join(check(named(*lines), model=RandomScorer(), facts=20).warnings)
    assert "facts were hidden" in text
    assert "'liked' and 'likes' are inverses" in text
    assert "Without the facts given away by these" in text or "MRR" not in text
    lopsided = [*random_graph(30, 1, 200).to_polars().rows(), ("e1", "s", "e2"), ("e2", "s", "e3")]
    graph = named(*(" ".join(row) for row in lopsided))
    assert "of one relation, 'r0'" in " ".join(check(graph, model=RandomScorer(), facts=20).warnings)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 400))
def test_curves_rise_and_stay_probabilities(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=count).astype(np.float32)
    curve = fit(np.arange(count) // 3, scores, random.random(count) < 0.5)
    assert (np.diff(curve.scores) >= 0).all()
    assert (np.diff(curve.probabilities) >= 0).all()
    assert 0 < curve.probabilities[0] <= curve.probabilities[-1] < 1


def test_probabilities_are_right_on_average() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=20_000)
    truth = 1 / (1 + np.exp(-2 * scores))
    curve = fit(np.arange(len(scores)) // 10, scores, random.random(len(scores)) < truth)
    assert curve.error is not None
    assert curve.error < 0.02
    assert np.abs(curve(scores) - truth).mean() < 0.03
    assert expected_calibration_error(np.full(100, 0.7), np.zeros(100)) == pytest.approx(0.7)


def test_curves_are_kept_for_their_graph_and_model(tmp_path: Path) -> None:
    graph, model = random_graph(25, 4, 160), RandomScorer()
    place = calibration.place_of(graph, model, "node")
    assert calibration.load(place) is None
    kept = check(graph, model=model, facts=20).calibration
    assert calibration.load(place) == kept
    assert calibration.place_of(random_graph(25, 4, 160, seed=1), model, "node") != place
    assert calibration.place_of(graph, model, "relation") != place
    sure = Curve((0.0, 1.0), (0.25, 0.25), 1, None)
    calibration.save(sure, place)
    answers = predict(graph, head="e1", relation="r1", model=model, calibrated=True)
    assert {row["probability"] for row in answers} == {0.25}
    assert "score" not in answers.to_polars().columns
    assert "probability" in repr(answers)
    place.write_text("{}")
    assert calibration.load(place) is None


def test_a_smaller_check_does_not_replace_a_larger_one() -> None:
    graph, model = random_graph(25, 4, 160, seed=2), RandomScorer()
    kept = check(graph, model=model, facts=30).calibration
    report = check(graph, model=model, facts=2)
    assert calibration.load(calibration.place_of(graph, model, "node")) == kept
    assert "earlier check" in " ".join(report.warnings)
    for wrong in ({"task": "nodes"}, {"facts": 0}):
        with pytest.raises(ConfigError):
            check(graph, model=model, **wrong)  # type: ignore[arg-type]


def test_the_package_offers_it() -> None:
    assert anykg.check is check
