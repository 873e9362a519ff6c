"""Hidden facts, their figures, and the probabilities fitted to them."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anykg
from anykg.answers.calibrating import cache
from anykg.answers.calibrating.calibration import Calibration, Evidence, expected_calibration_error, fit
from anykg.answers.calibrating.lookup import calibration_of
from anykg.answers.calibrating.missing import MISSING, chance_hidden, missing_share
from anykg.answers.check import BRIEF, check
from anykg.answers.checking import training_data
from anykg.answers.checking.report import compare
from anykg.answers.hiding.recovery import ask_back, hide
from anykg.answers.predict import predict
from anykg.benchmarks.answers.staff import staff_graph
from anykg.errors import ConfigError, DataError, InputError
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.graph.sketch import share_in, sketch
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.random import RandomScorer
from anykg.models.rulebook import fit_rulebook
from anykg.models.store import load_model
from graphs import graphs, named, random_graph


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    others = [row[:3] != chance.questions.row(0)[:3] for row in chance.questions.rows()]
    fewer = replace(chance, model="fitted", per_fact=chance.per_fact[1:], questions=chance.questions.filter(others))
    apart = compare([fewer, replace(report, model="oracle")])
    assert apart.differences["fitted"].low > 0
    assert any("tested on different facts" in warning for warning in apart.warnings)


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
    tasks = check(random_graph(60, 4, 900), model=RandomScorer(), task="relation")
    assert tasks.overall.facts == 100
    assert "were hidden" not in " ".join(tasks.warnings), "as many as are hidden by default"
    assert "Without the facts given away by these" in text or "MRR" not in text
    lopsided = [*random_graph(30, 1, 200).to_polars().rows(), ("e1", "s", "e2"), ("e2", "s", "e3")]
    graph = named(*(" ".join(row) for row in lopsided))
    assert "of one relation, 'r0'" in " ".join(check(graph, model=RandomScorer(), facts=20).warnings)


def lists(random: np.random.Generator, questions: int, length: int = 3) -> Evidence:
    """Answers to questions about two relations, scores falling within a question."""
    scores = np.sort(random.normal(size=(questions, length)), axis=1)[:, ::-1]
    following = np.concatenate([scores[:, 1:], np.full((questions, 1), -np.inf)], axis=1)
    totals = np.repeat(np.log(np.exp(scores).sum(1) + 1), length)
    rows = np.repeat(np.arange(questions), length)
    leading = np.repeat(scores[:, 0], length)
    return Evidence(rows, rows % 4, scores.ravel(), leading, following.ravel(), totals, rows % 3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 100))
def test_curves_rise_and_stay_probabilities(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    evidence = lists(random, count)
    found = fit(evidence, random.random(3 * count) < 0.5, ["likes", "knows"])
    at, probabilities = found.curve
    assert (np.diff(at) >= 0).all()
    assert (np.diff(probabilities) >= 0).all()
    assert 0 < probabilities[0] <= probabilities[-1] < 1
    stated = found.probabilities(evidence, ["likes", "knows"])
    assert ((stated > 0) & (stated < 1)).all()


def test_probabilities_are_right_on_average_for_every_relation() -> None:
    """One curve for all would be off by 0.3 here: the relations differ and the scores do not."""
    random = np.random.default_rng(0)
    evidence = lists(random, 4000)
    truth = 1 / (1 + np.exp(-(evidence.scores - evidence.totals) - 2 * np.isin(evidence.groups, (0, 3)) - 0.5))
    right = random.random(len(truth)) < truth
    found = fit(evidence, right, ["likes", "knows"])
    stated = found.probabilities(evidence, ["likes", "knows"])
    assert found.error is not None
    assert found.error < 0.02
    assert np.abs(stated - truth).mean() < 0.03
    assert all(group.error < 0.03 for group in found.groups)
    assert {(group.relation, group.asked) for group in found.groups} == {
        (relation, asked) for relation in ("likes", "knows") for asked in ("head", "tail")
    }
    swapped = found.probabilities(evidence, ["other", "knows"])  # unknown relations have no effect of their own
    assert np.abs(swapped - stated).mean() > 0.05
    assert expected_calibration_error(np.full(100, 0.7), np.zeros(100)) == pytest.approx(0.7)


def test_curves_are_kept_for_their_graph_and_model(tmp_path: Path) -> None:
    graph, model = random_graph(25, 4, 160), RandomScorer()
    path = cache.path_of(graph, model, "node")
    assert cache.load(path) is None
    kept = check(graph, model=model, facts=20).calibration
    assert cache.load(path) == kept
    assert cache.path_of(random_graph(25, 4, 160, seed=1), model, "node") != path
    assert cache.path_of(graph, model, "relation") != path
    sure = Calibration((float(np.log(1 / 3)), *[0.0] * 5), {}, 1, None)
    cache.save(sure, path, graph)
    answers = predict(graph, head="e1", relation="r1", model=model, calibrated=True)
    none = answers.summary()["none_of_these"]
    assert [row["probability"] for row in answers] == pytest.approx([0.25 * (1 - none)] * len(answers))
    assert "score" not in answers.to_polars().columns
    assert "probability" in repr(answers)
    path.write_text("{}")
    assert cache.load(path) is None


def test_calibrations_are_kept_by_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of a neighbourhood are not those of the whole graph, so neither are the probabilities they stand for."""
    graph, model = random_graph(25, 4, 160, seed=4), load_model("popularity")
    whole = check(graph, model=model).calibration
    near = check(graph, model=model, budget=40).calibration
    assert near != whole
    assert check(graph, model=model, budget=0).calibration == whole
    for budget, expected in ((None, whole), (0, whole), (1000, whole), (40, near)):
        assert calibration_of(model, graph, "node", budget=budget) == expected
    sure = Calibration((float(np.log(1 / 3)), *[0.0] * 5), {}, 1, None)
    cache.save(sure, cache.path_of(graph, model, "node", 40), graph)
    question = {"head": "e1", "relation": "r1", "model": model, "calibrated": True}
    answers = predict(graph, **question, budget=40)
    none = answers.summary()["none_of_these"]
    assert [row["probability"] for row in answers] == pytest.approx([0.25 * (1 - none)] * len(answers))
    answers = predict(graph, **question)
    assert len({row["probability"] for row in answers}) > 1
    asked: list[int] = []
    monkeypatch.setattr("anykg.answers.check.ask_back", lambda *_, **__: asked.append(1))
    check(graph, model=model, budget=1000)  # all facts: what was asked without a budget is used again
    assert not asked


def test_a_smaller_check_does_not_replace_a_larger_one() -> None:
    graph, model = random_graph(25, 4, 160, seed=2), RandomScorer()
    kept = check(graph, model=model, facts=30).calibration
    report = check(graph, model=model, facts=2)
    assert cache.load(cache.path_of(graph, model, "node")) == kept
    assert "earlier check" in " ".join(report.warnings)
    for wrong in ({"task": "nodes"}, {"facts": 0}):
        with pytest.raises(ConfigError):
            check(graph, model=model, **wrong)  # type: ignore[arg-type]


def test_the_package_offers_it() -> None:
    assert anykg.check is check


def test_a_grown_graph_uses_the_calibration_of_its_earlier_version(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, model = random_graph(25, 4, 160), RandomScorer()
    monkeypatch.setattr(logging.getLogger("anykg"), "propagate", True)
    caplog.set_level(logging.INFO, "anykg")
    question = {"head": "e1", "relation": "r1", "model": model, "calibrated": True}
    check(graph, model=model, facts=20)
    grown = graph.subset(np.arange(len(graph)) > 2)
    kept = cache.kept(grown, model, "node")
    assert kept is not None
    assert kept.differing == 3
    predict(grown, **question)
    assert "Probabilities are calibrated on an earlier version of this graph: 3 facts differ" in caplog.text
    assert "a check runs first" not in caplog.text
    caplog.clear()
    other = graph.subset(np.arange(len(graph)) > 40)
    assert cache.kept(other, model, "node") is None
    predict(other, **question)
    assert "a check runs first: 1,000 questions about hidden facts, at most about" in caplog.text
    check(grown, model=model, facts=20, again=True)
    assert cache.kept(grown, model, "node").differing == 0, "calibrated anew"


@pytest.mark.parametrize("task", ["node", "relation"])
def test_a_graph_is_not_checked_twice(task: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same report at once; of a grown graph that about its earlier version, without facts that are gone."""
    graph = random_graph(25, 4, 160)
    first = check(graph, model="popularity", task=task, facts=20)
    with monkeypatch.context() as patch:
        patch.setattr("anykg.answers.check.ask_back", None)
        assert check(graph, model="popularity", task=task, facts=20).to_json() == first.to_json()
        hidden = first.questions.row(0, named=True)
        gone = graph.positions(
            np.array([graph.entities.index(hidden["head"]), graph.relations.index(hidden["relation"]),
                      graph.entities.index(hidden["tail"])])
        )  # fmt: skip
        facts = graph.subset(np.arange(len(graph)) != gone).to_polars()
        new = pl.DataFrame([("someone new", "r1", "e3")], schema=facts.columns, orient="row")
        grown = KnowledgeGraph.from_polars(pl.concat([new, facts[::-1]]))  # other ids
        found = check(grown, model="popularity", task=task, facts=20)
        assert any("an earlier version of this graph, in which 2 facts differ" in text for text in found.warnings)
        names = ["head", "relation", "tail"]
        left = first.questions.filter(pl.concat_str(names, separator="|") != "|".join(hidden[n] for n in names))
        assert found.questions.equals(left)
        with pytest.raises(TypeError):
            check(grown, model="popularity", task=task, facts=20, again=True)
        with pytest.raises(TypeError):
            check(graph, model="popularity", task=task, facts=20, seed=1)
    anew = check(grown, model="popularity", task=task, facts=20, again=True)
    assert not any("earlier check" in text for text in anew.warnings)


def people(count: int = 60) -> KnowledgeGraph:
    """Everybody lives in one town and works at its one site; a few do not have their site."""
    lines = [f"p{i} lives_in town{i % 5}" for i in range(count)] + [f"town{i} has_site site{i}" for i in range(5)]
    return named(*lines, *(f"p{i} works_at site{i % 5}" for i in range(count - 6)))


def test_a_list_ends_with_the_chance_that_none_of_it_is_right() -> None:
    graph = people()
    missing, known, both = (
        predict(graph, head=head, relation=relation, tail=tail, model="rulebook", calibrated=True, k=3)
        for head, relation, tail in (("p59", "works_at", None), ("p3", "works_at", None), ("p3", None, "site3"))
    )
    assert missing[0]["tail"] == "site4"
    assert missing[0]["probability"] > 0.7
    assert missing.summary()["none_of_these"] < 0.2
    assert known.summary()["none_of_these"] > 0.9  # nobody works at two sites
    assert 0 < both.summary()["none_of_these"] < 1
    for found in (missing, known, both):
        assert all(row["probability"] <= 1 - found.summary()["none_of_these"] + 1e-6 for row in found)
    last = repr(missing).splitlines()[-1].split()
    assert last[:1] + last[2:] == ["-", "p59", "works_at", "none", "of", "these"]
    many = predict(graph, questions=[("p59", "works_at", None), ("p3", "works_at", None)], model="rulebook", k=3,
                   calibrated=True)  # fmt: skip
    ends = many.summary()["none_of_these"]
    assert [end["query"] for end in ends] == [1, 2]
    assert ends[0]["probability"] == pytest.approx(missing.summary()["none_of_these"])
    assert repr(many).count("none of these") == 2
    written = many.rows_of_file().filter(pl.col("tail") == "none of these")
    assert written.columns == many.to_polars().columns
    assert written["head"].to_list() == ["p59", "p3"]
    assert written["rank"].to_list() == written["known"].to_list() == [None, None]
    assert written["probability"].to_list() == pytest.approx([end["probability"] for end in ends])
    assert many.rows_of_file()["query"].to_list() == [1] * 4 + [2] * 4
    assert both.rows_of_file()["relation"].to_list()[-1] == "none of these"
    limited = predict(graph, head="p59", relation="works_at", model="rulebook", calibrated=True, candidates=["site1"])
    assert "none_of_these" not in limited.summary()


def test_true_answers_that_are_not_hidden_do_not_lower_the_probabilities() -> None:
    """Half of the true answers are hidden facts; the others are missing from the graph and look wrong."""
    random = np.random.default_rng(0)
    evidence = lists(random, 4000)._replace(answered=np.full(12000, 500))
    truth = 1 / (1 + np.exp(-2 * (evidence.scores - evidence.totals) - 2))
    told = chance_hidden(evidence.answered, 0.1, 0.1)
    right = random.random(len(truth)) < truth * told
    assert told.mean() < 0.5
    naive, found = (fit(evidence, right, ["likes", "knows"], hidden=0.1, missing=share) for share in (0.0, 0.1))
    stated = [part.probabilities(evidence, ["likes", "knows"]) for part in (naive, found)]
    assert stated[0].mean() < 0.6 * truth.mean()
    assert np.abs(stated[1] - truth).mean() < 0.1
    assert found.error is not None
    assert found.error < 0.05


@pytest.mark.parametrize("lost", [0.0, 0.1, 0.2])
def test_the_most_reliable_rule_tells_how_much_is_missing(lost: float) -> None:
    """Marriages are known from both sides, except for those facts that are lost."""
    random = np.random.default_rng(1)
    rows = [(f"p{i}", "married to", f"p{i ^ 1}") for i in range(4000)]
    rows += [(f"p{i}", "lives in", f"c{random.integers(50)}") for i in range(4000)]
    graph = KnowledgeGraph.from_names(*zip(*(row for row in rows if random.random() >= lost), strict=True))
    assert missing_share(graph) == pytest.approx(lost, abs=0.03)


def test_without_a_reliable_rule_a_tenth_is_taken_to_be_missing() -> None:
    assert missing_share(random_graph(60, 3, 400)) == MISSING


def test_a_very_short_check_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(300, 3, 2000)
    saved: list[int] = []
    monkeypatch.setattr("anykg.answers.calibrating.cache.save", lambda curve, *_: saved.append(curve.answers))
    anykg.check(graph, model="popularity", facts=BRIEF - 1, floors=False)
    assert not saved
    anykg.check(graph, model="popularity", facts=BRIEF, floors=False)
    assert len(saved) == 1


def test_a_scored_fact_has_the_probability_it_has_as_an_answer() -> None:
    graph = people()
    assert "probability" not in anykg.score(graph, [("p59", "works_at", "site4")], model="rulebook").to_polars().columns
    scored = anykg.score(
        graph, [("p59", "works_at", "site4"), ("p3", "works_at", "site1"), ("p3", "works_at", "site3")],
        model="rulebook", calibrated=True,
    )  # fmt: skip
    answers = predict(graph, head="p59", relation="works_at", model="rulebook", calibrated=True, k=5).to_list()
    heads = predict(graph, relation="works_at", tail="site4", model="rulebook", calibrated=True, k=60).to_list()
    of_head = next(row["probability"] for row in heads if row["head"] == "p59")
    assert scored[0]["probability"] == pytest.approx(max(answers[0]["probability"], of_head), rel=1e-4)
    assert scored[1]["probability"] < 0.1  # p3 works elsewhere
    (warning,) = scored.warnings
    assert warning == (
        "1 fact contradicts a known one, as the relation gives only one answer: (p3, works_at, site1), but "
        "(p3, works_at, site3) is known."
    )
    assert scored[2]["known"]
    assert scored[2]["probability"] > 0.7  # hidden while it is scored
    given = predict(graph, head="p59", relation="works_at", tail="site4", model="rulebook", calibrated=True)
    assert given[0]["probability"] == scored[0]["probability"]


def test_floors_caveat_and_training_data(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people()
    report = check(graph, model="rulebook", facts=20)
    assert [part.name for part in report.floors] == ["popularity", "pagerank"]
    assert report.floors[0].facts == report.overall.facts
    assert set(report.to_polars().filter(pl.col("group") == "floor")["name"]) == {"popularity", "pagerank"}
    assert "missing from the graph count as errors" in repr(report)
    assert "popularity 0." in report.comparison
    itself = check(graph, model="popularity", facts=20)
    assert itself.comparison.startswith("MRR for comparison: pagerank")
    worse = replace(itself, model="other", overall=itself.floors[0])
    assert "other does not beat the baseline" in worse.comparison
    described = {"trained": {"datasets": ["mine"], "digests": [["0", "1"]], "facts": [sketch(people(57))]}}
    monkeypatch.setattr(training_data, "folder_of", Path)
    monkeypatch.setattr(training_data, "read_description", lambda folder: described)
    assert "trained on 9" in " ".join(check(graph, model="rulebook", facts=20).warnings)
    other = check(random_graph(25, 4, 160), model="rulebook", facts=9)
    assert "trained on" not in " ".join(other.warnings)


def test_a_model_that_has_seen_the_facts_is_not_checked() -> None:
    graph = people()
    with pytest.raises(InputError, match=r"may have seen .* with `fit`"):
        check(graph, model=fit_rulebook(graph, seconds=1.0), facts=20)


@pytest.mark.parametrize("model", ["popularity", DEFAULT_MODEL])
def test_what_fitting_would_bring(model: str) -> None:
    plain = check(staff_graph(), model=model, facts=60, floors=False)
    report = check(staff_graph(), model=model, facts=60, fit=0.05, floors=False)
    assert report.overall == plain.overall, "the same facts are hidden, with or without fitting"
    assert report.questions.equals(plain.questions)
    assert report.fitting is not None
    before, after = report.fitting.before, report.fitting.after
    assert before.facts == after.facts
    assert model == DEFAULT_MODEL or after.measures["mrr"].value > before.measures["mrr"].value
    rows = {row["group"]: row["mrr"] for row in report.to_polars().to_dicts() if "fitted" in row["group"]}
    assert rows == {"not fitted": before.measures["mrr"].value, "fitted": after.measures["mrr"].value}
    assert f"{model} has MRR {before.measures['mrr'].value:.2f}" in report.comparison
    assert f"fitted for 0.05 min, MRR {after.measures['mrr'].value:.2f}" in report.comparison
    assert "hidden at once: not fitted" in repr(report)


@settings(max_examples=30, deadline=None)
@given(graphs(min_triplets=1), st.data())
def test_a_sketch_tells_the_share_of_common_facts(graph: KnowledgeGraph, data: st.DataObject) -> None:
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(graph), max_size=len(graph))), bool)
    assert share_in(graph, sketch(graph.subset(keep))) == (pytest.approx(keep.mean()) if keep.any() else None)


def test_a_sketch_of_many_facts_estimates_the_share() -> None:
    whole = random_graph(300, 5, 6000)
    kept = np.random.default_rng(0).random(len(whole)) < 0.5
    assert share_in(whole, sketch(whole.subset(kept))) == pytest.approx(0.5, abs=0.15)
    assert share_in(random_graph(300, 5, 6000, seed=7), sketch(random_graph(40, 9, 300))) == pytest.approx(0, abs=0.1)
