"""A model made for one graph: what it is made of, what it keeps, and what it says of a graph that has grown."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import anykg
from anykg.answers import work
from anykg.answers.fit import fit
from anykg.answers.fitting import components, spread, weights
from anykg.answers.fitting.assemble import remark_on_gain
from anykg.answers.fitting.parts import FOLDER, Parts
from anykg.answers.fitting.run import SHARE, Clock, Run
from anykg.answers.hiding.recovery import hide_together
from anykg.benchmarks.answers.staff import DEPARTMENT_OF, staff_graph
from anykg.errors import ConfigError, DataError, InputError, SettingError
from anykg.evaluation import reading
from anykg.graph.graph import KnowledgeGraph
from anykg.models.floors import PageRank, Popularity
from anykg.models.mixture import Mixture
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.models.store import load_model
from graphs import named, random_graph

GRAPH = staff_graph().subset(np.arange(0, 2760, 2))


def foundation() -> Ultra:
    torch.manual_seed(0)
    return Ultra(UltraConfig(width=16, relation_layers=2, entity_layers=2)).eval()


@pytest.fixture(scope="module", autouse=True)
def however_slow() -> Iterator[None]:
    """A busy machine leaves nothing out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(weights, "TOO_SLOW", 1e9)
        patched.setattr(components, "FEWEST_STEPS", -1e9)
        patched.setattr(weights, "FEWEST_QUESTIONS", 10)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mixture, Path]:
    folder = tmp_path_factory.mktemp("fit") / "mine"
    told: list[str] = []
    mixture = fit(GRAPH, minutes=0.1, out=folder, model=foundation(), tell=told.append)
    assert told[0].startswith("Fitting to 1,380 facts in about 0.1 minutes")
    return mixture, folder


def test_the_table_shows_every_component(made: tuple[Mixture, Path]) -> None:
    mixture, _ = made
    rows = {row["component"]: row for row in mixture.config.table}
    # On a busy machine the adapted model stands for the one it was made from.
    assert set(rows) | {"zero-shot"} == {
        "zero-shot",
        "adapted",
        "complex",
        "rules",
        "schema",
        "popularity",
        "degree",
        "pagerank",
        "mixed",
    }
    best = max(row["mrr"] for name, row in rows.items() if name != "mixed")
    assert rows["mixed"]["mrr"] >= best - 0.02  # of facts that the weights were not fitted to
    assert "mixed" in repr(mixture)


def test_saved_and_loaded_it_answers_alike(made: tuple[Mixture, Path]) -> None:
    mixture, folder = made
    loaded = load_model(folder)
    assert repr(loaded) == repr(mixture)
    question = {"head": "person 7", "relation": DEPARTMENT_OF}
    one, other = (anykg.predict(GRAPH, **question, calibrated=True, model=model) for model in (mixture, loaded))
    assert one.to_dict()["rows"] == other.to_dict()["rows"]
    assert all(0 <= row["probability"] <= 1 for row in one.to_dict()["rows"])
    assert not (folder / FOLDER).exists()


def test_probabilities_that_another_version_stored_are_made_again(made: tuple[Mixture, Path]) -> None:
    mixture, folder = made
    stored = {task: dict(part) | {"version": 0} for task, part in mixture.config.calibration.items()}
    old = load_model(folder)
    old.config = replace(mixture.config, calibration=stored)
    question = {"head": "person 7", "relation": DEPARTMENT_OF, "calibrated": True}
    now, before = (anykg.predict(GRAPH, **question, model=model).to_list() for model in (mixture, old))
    assert [row["probability"] for row in before] == pytest.approx([row["probability"] for row in now])
    assert "probability" in anykg.complete(GRAPH, model=old, count=5).to_polars().columns
    with pytest.raises(SettingError, match="whole graph"):
        anykg.predict(GRAPH, **question, budget=50, model=old)
    with pytest.raises(InputError, match="fitted to another graph"):
        anykg.predict(random_graph(30, 3, 200), head="e0", relation="r0", calibrated=True, model=mixture)
    assert "probability" not in anykg.score(random_graph(30, 3, 200), [("e0", "r0", "e1")], model=mixture).to_polars()
    with pytest.raises(InputError, match="fit the model again"):
        anykg.predict(GRAPH.subset(np.arange(len(GRAPH)) > 0), **question, model=old)


def test_check_reports_what_was_asked_while_it_was_made(made: tuple[Mixture, Path]) -> None:
    mixture, _ = made
    report = anykg.check(GRAPH, model=mixture, budget=50)
    assert not any("Answered from" in text for text in report.warnings), "it was asked about the whole graph"
    mixed = next(row for row in mixture.config.table if row["component"] == "mixed")
    assert report.overall.measures["mrr"].value == pytest.approx(mixed["mrr"], abs=1e-3)
    assert report.calibration.error is not None
    assert report.calibration.groups


def test_what_was_learnt_on_the_whole_graph_is_asked_of_it(
    made: tuple[Mixture, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights and probabilities come from the whole graph: a large one is read whole, and a part has scores only."""
    mixture, _ = made
    monkeypatch.setattr(reading, "LARGE", 100)
    monkeypatch.setattr(reading, "BUDGET", 50)
    question = {"head": "person 7", "relation": DEPARTMENT_OF, "model": mixture}
    whole = anykg.predict(GRAPH, **question, calibrated=True)
    assert not whole.warnings
    assert whole.to_list() == anykg.predict(GRAPH, **question, calibrated=True, budget=0).to_list()
    with pytest.raises(SettingError, match="whole graph"):
        anykg.predict(GRAPH, **question, calibrated=True, budget=50)
    with pytest.raises(SettingError, match="whole graph"):
        anykg.complete(GRAPH, model=mixture, budget=50)
    assert "Answered from" in anykg.predict(GRAPH, **question, budget=50).warnings[0]
    fact = [("person 7", DEPARTMENT_OF, "Finance")]
    assert "probability" in anykg.score(GRAPH, fact, model=mixture).to_list()[0]
    assert "probability" not in anykg.score(GRAPH, fact, model=mixture, budget=50).to_list()[0]


def test_facts_that_it_was_fitted_to_are_marked(made: tuple[Mixture, Path]) -> None:
    fact = next(iter(GRAPH.to_polars().rows()))
    assert "partly support themselves" in anykg.score(GRAPH, [fact], model=made[0]).warnings[0]
    assert not anykg.score(GRAPH, [fact], model=foundation()).warnings


def test_a_grown_graph_is_answered(made: tuple[Mixture, Path]) -> None:
    """New people and a new relation: the components that go by names step back, and nothing is NaN."""
    mixture, _ = made
    rows = [*GRAPH.to_polars().rows()]
    rows += [
        ("new person", DEPARTMENT_OF, "Finance"),
        ("new person", "mentors", "person 3"),
        ("person 3", "likes", "tea"),
    ]
    grown = KnowledgeGraph.from_names(*zip(*rows, strict=True))
    for question in (
        {"head": "new person", "relation": "has skill"},
        {"head": "person 3", "relation": "mentors"},
        {"head": "new person", "tail": "person 4"},
    ):
        scores = [row["score"] for row in anykg.predict(grown, **question, model=mixture).to_dict()["rows"]]
        assert len(scores) > 3
        assert np.isfinite(scores).all()
    assert mixture.unknown_to(grown) == {"complex": (2, 2)}
    assert mixture.unknown_to(GRAPH) == {}


def test_an_interrupted_fit_mixes_what_it_has_and_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(components, "_adapted", stop)
        partial = fit(GRAPH, minutes=0.05, out=tmp_path, model=foundation())
    assert "adapted" not in {row["component"] for row in partial.config.table}
    assert "complex" in {row["component"] for row in partial.config.table}
    assert (tmp_path / "model.json").exists()
    with pytest.raises(ConfigError, match="already holds a model"):
        fit(GRAPH, minutes=0.05, out=tmp_path, model=foundation())
    told: list[str] = []
    whole = fit(GRAPH, minutes=0.05, out=tmp_path, model=foundation(), resume=True, tell=told.append)
    assert "adapted" in {row["component"] for row in whole.config.table}
    assert told.count("complex: finished before") == told.count("rules: finished before") == 1


def test_components_that_are_too_slow_are_left_out_but_for_one_that_was_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "TOO_SLOW", 0.0)
    monkeypatch.setattr(components, "FEWEST_STEPS", 10**9)
    told: list[str] = []
    made = fit(GRAPH, minutes=0.02, model=foundation(), tell=told.append)
    *left, mixed = [row["component"] for row in made.config.table]
    assert (len(left), mixed) == (1, "mixed")
    assert left[0] in ("rules", "complex")
    omitted = [text.split(":")[0] for text in told if "left out" in text]
    assert [name for name in omitted if name != "complex"][:2] == ["adapted", "zero-shot"]
    assert any("may answer better on its own" in text for text in told)
    answers = anykg.predict(GRAPH, head="person 7", relation=DEPARTMENT_OF, model=made).to_dict()["rows"]
    assert np.isfinite([row["score"] for row in answers]).all()


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(DataError, match="too few to learn from"):
        fit(named("a r b", "c s d"), model=foundation())
    with pytest.raises(ConfigError, match="minutes"):
        fit(GRAPH, minutes=0, model=foundation())
    with pytest.raises(ConfigError, match="found the mix"):
        fit(GRAPH, model="anykg-base+rules")


def test_where_every_component_is_slow_the_fastest_answers_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {Popularity: 8e9, PageRank: 7e9}  # PageRank says nothing of relations
    monkeypatch.setattr(weights, "_relation_cost", lambda model, *asked: costs.get(type(model), 9e9))
    mixture = fit(GRAPH, minutes=0.05, model=foundation())
    answering = mixture.relation_weights.nonzero().squeeze(1).tolist()
    assert [mixture.names[index] for index in answering] == ["popularity"]


def test_ctrl_c_on_a_cluster_keeps_every_finished_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_first(_: Any, function: Any, subject: Any, parts: Any, __: Any, common: Any, ___: Any) -> Iterator[Any]:
        names = [name for name, _ in parts]
        yield names.index("complex"), function(subject, common, "complex", 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "_elsewhere", second_first)
    told: list[str] = []
    parts = Parts(tmp_path, {"graph": "staff"})
    run = Run(GRAPH, *hide_together(GRAPH, SHARE, 0), Popularity(), Clock(10), 0, parts, told.append)
    workers: Any = SimpleNamespace(slots=3)
    spread.fit_components(run, workers)
    assert run.clock.interrupted
    assert list(run.models) == ["zero-shot", "schema", "popularity", "degree", "pagerank", "complex"]
    assert parts.load("complex") is not None, "--resume finds it"


def test_a_fit_says_whether_it_paid_off() -> None:
    def remark(mixed: list[int], before: list[int]) -> str | None:
        return remark_on_gain("anykg-base+rules", np.array(before), np.array(mixed))

    assert "than anykg-base+rules without fitting: MRR +0.000" in str(remark([1, 2, 2, 1], [2, 1, 1, 2]))
    assert "is better than anykg-base+rules" in str(remark([1, 1, 1, 2], [2, 2, 2, 3]))
    assert remark([1], [2]) is None


def test_the_table_shows_what_answers_without_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_adapted", lambda *_: None)
    rows = {row["component"]: row for row in fit(GRAPH, minutes=0.05).config.table}
    assert list(rows)[-2:] == ["anykg-base+rules", "mixed"]
    assert 0.1 < rows["anykg-base+rules"]["mrr"] <= 1
    assert "weight" not in rows["anykg-base+rules"]


def test_only_its_own_folder_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine.txt").write_text("a file of the user's")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(components, "FITTED", ())
        fit(GRAPH, minutes=0.01, out=tmp_path, model=foundation())
    assert (tmp_path / "parts" / "mine.txt").exists()
    assert (tmp_path / "model.json").exists()
    assert not (tmp_path / FOLDER).exists()


def test_a_finished_fit_is_not_repeated(made: tuple[Mixture, Path]) -> None:
    mixture, folder = made
    told: list[str] = []
    again = fit(GRAPH, minutes=0.01, out=folder, resume=True, tell=told.append)
    assert repr(again) == repr(mixture)
    assert told == [f"{folder}: the fit is finished; there is nothing to resume."]
    with pytest.raises(SettingError, match="holds a model for another graph"):
        fit(random_graph(30, 3, 200), out=folder, resume=True)
