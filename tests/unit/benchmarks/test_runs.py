import json
import multiprocessing
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from anykg.atomic import write_json
from anykg.benchmarks import runs
from anykg.benchmarks.experiment import Cell, Experiment, ModelRow, experiment_names, load_experiment
from anykg.benchmarks.report import collect, load_published, write_tables
from anykg.errors import ConfigError
from anykg.graph.split import hold_out
from anykg.graph.task import Task
from anykg.io.catalog import find, get_dataset
from anykg.models.registry import MODELS
from graphs import random_graph

EXPERIMENT = Experiment(
    "pediatypes", "PediaTypes", ("atlas",), 2, "paper", (ModelRow("random", "Rand"), ModelRow("gin", "GIN"))
)


def fake(experiment: Experiment, cell: Cell, folder: Path, data_dir: Path | None) -> runs.Tests:
    with (folder / "calls.txt").open("a") as file:
        file.write(f"{cell.model.name} {cell.task} {cell.seed}\n")
    metrics = {"hits@1": 0.1, "hits@5": 0.2, "hits@10": 0.3 + cell.seed / 10, "mrr": 0.4}
    found = {kind: {"seed": cell.seed, "metrics": metrics} for kind in ("node", "relation")}
    also = dict.fromkeys(experiment.protocols(cell.model)[1:], found)
    tests = {graph: found | {"also": also} for graph in experiment.tested_on(cell)}
    write_json(runs.folder_of(folder, experiment, cell) / "result.json", {"tests": tests, "seconds": 1.0})
    return tests


def work(folder: Path) -> None:
    runs.run_cell = fake
    runs.run_all(EXPERIMENT, folder / "runs", tell=lambda cell, text: None)


def test_every_cell_once_by_several_processes(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(tmp_path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    calls = (tmp_path / "runs" / "calls.txt").read_text().splitlines()
    assert sorted(calls) == sorted(f"{c.model.name} {c.task} {c.seed}" for c in EXPERIMENT.cells())


def test_results_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_cell", fake)
    (tmp_path / "runs").mkdir()
    missing = runs.run_all(EXPERIMENT, tmp_path / "runs", tell=lambda cell, text: None)
    assert missing == 0
    collect(EXPERIMENT, tmp_path / "runs", tmp_path / "results")
    collect(EXPERIMENT, tmp_path / "elsewhere", tmp_path / "results")  # nothing new: nothing lost
    kept = json.loads((tmp_path / "results" / "pediatypes" / "gin.json").read_text())
    assert [(c["task"], c["seed"]) for c in kept["cells"]] == [("atlas", 0), ("atlas", 1)]
    write_tables(EXPERIMENT, tmp_path / "results")
    assert "| gin | 2 | 35.0 ± 7.1 |" in (tmp_path / "results" / "pediatypes" / "table.md").read_text(encoding="utf-8")


def test_a_line_for_each_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_cell", fake)
    (tmp_path / "runs").mkdir()
    row = ModelRow("gin", "GIN", protocols=("full", "paper"), limits={"relation": 7})
    experiment = replace(EXPERIMENT, models=(row,))
    runs.run_all(experiment, tmp_path / "runs", tell=lambda cell, text: None)
    collect(experiment, tmp_path / "runs", tmp_path / "results")
    write_tables(experiment, tmp_path / "results")
    table = (tmp_path / "results" / "pediatypes" / "table.md").read_text(encoding="utf-8")
    assert "| gin (full) | 2 | 35.0" in table
    assert "| gin | 2 | 35.0" in table
    assert "gin: relation task on a seeded sample of at most 7 test triplets a graph." in table


def test_a_budget_of_nothing_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_cell", fake)
    assert runs.run_all(EXPERIMENT, tmp_path, minutes=-1, tell=lambda cell, text: None) == 4


def test_a_real_cell(tmp_path: Path) -> None:
    cell = Cell(EXPERIMENT.models[0], "atlas", 0)
    result = runs.run_cell(EXPERIMENT, cell, tmp_path, None)
    assert result["atlas"]["node"]["metrics"]["hits@10"] < 0.5


def test_a_row_uses_the_weights_of_another(tmp_path: Path) -> None:
    few = {"epochs": 1, "validation_limit": 2}
    trained = ModelRow("ingram", "InGram", recipe=few)
    averaged = ModelRow("deq", "DEq", weights_of=trained, config={"samples": 3}, protocols=("paper-ingram", "paper"))
    experiment = replace(EXPERIMENT, models=(averaged,))
    result = runs.run_cell(experiment, Cell(averaged, "atlas", 0), tmp_path, None)
    assert (tmp_path / "pediatypes" / "ingram" / "atlas" / "0" / "weights.safetensors").exists()
    assert result["atlas"]["node"]["protocol"]["name"] == "paper-ingram"
    assert list(result["atlas"]["also"]) == ["paper"]


def test_experts_are_the_models_of_other_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        name: hold_out(random_graph(40, 3, 120, number), 0.2, 0, "test")
        for number, name in enumerate(("of:a", "of:b", "c"))
    }
    monkeypatch.setattr(runs, "_load", lambda name, data_dir: Task(name, *parts[name], *parts[name]))
    row = ModelRow("gin", recipe={"epochs": 1, "validation_limit": 2}, limits={"node": 10, "relation": 10})
    chosen = ModelRow("experts", model="gin", graphs="experts", weights_of=row, limits=row.limits)
    experiment = replace(EXPERIMENT, tasks=("a+b",), models=(chosen,), family="of:", columns={"zero-shot": ("c",)})
    result = runs.run_cell(experiment, Cell(chosen, "a+b", 1), tmp_path, None)
    trained = {path.parent.parent.name for path in tmp_path.glob("pediatypes/gin/*/1/weights.safetensors")}
    assert trained == {"a", "b", "a+b"}
    experts = {result["c"][kind]["expert"] for kind in ("node", "relation")}
    assert experts <= trained
    collect(experiment, tmp_path, tmp_path / "results")
    kept = json.loads((tmp_path / "results" / "pediatypes" / "experts.json").read_text())
    assert {kept["cells"][0][kind]["expert"] for kind in ("node", "relation")} == experts


@pytest.mark.parametrize("name", experiment_names())
def test_recipes_name_what_exists(name: str) -> None:
    experiment = load_experiment(name)
    published = load_published(name)
    for model in experiment.models:
        trained_by = model.weights_of or model
        recipe = replace(MODELS.load(trained_by.model or trained_by.name).recipe, **trained_by.recipe)
        assert recipe.epochs or not recipe.steps_per_epoch
        rows = [key for key in published if key[0] == model.published]
        assert rows or not model.published or not published
        assert all(key[1] in experiment.tasks and key[2] in experiment.columns for key in rows)
    for cell in experiment.cells():
        for graph in (*experiment.trained_on(cell.task), *experiment.tested_on(cell)):
            assert graph.startswith(("valid:", "message:")) or get_dataset(graph)
    assert all(task in experiment.tasks for pair in experiment.pairs for task in pair)
    with pytest.raises(ConfigError, match=experiment.tasks[0]):
        experiment.only(None, ["XX-YY"], None)


def test_experiments_that_share_cells_share_their_settings() -> None:
    trained = {}
    for name in ("wikitopics", "negative-transfer", "large", "scaling"):
        experiment = load_experiment(name)
        assert experiment.home == "wikitopics"
        for model in experiment.models:
            assert trained.setdefault(model.name, replace(model, limits={})) == replace(model, limits={})


def test_a_topic_is_not_tested_on_itself() -> None:
    experiment = load_experiment("wikitopics")
    cell = Cell(experiment.models[0], "art", 0)
    tested = experiment.tested_on(cell)
    assert len(tested) == 10
    assert "wikitopics:art" not in tested


def test_training_graphs_merged_or_apart() -> None:
    experiment = load_experiment("negative-transfer")
    merged, apart = (m for m in experiment.models if m.name in ("isdea+", "isdea+ apart"))
    assert experiment.tested_on(Cell(merged, "infra+sci", 0))[0] == "message:infra+sci"
    assert experiment.tested_on(Cell(apart, "infra+sci", 0))[:2] == (
        "message:wikitopics:infra",
        "message:wikitopics:sci",
    )
    assert all("+" in cell.task for cell in experiment.cells() if cell.model == apart)  # one graph cannot be apart
    if find(get_dataset("wikitopics:infra")) is None or find(get_dataset("wikitopics:sci")) is None:
        pytest.skip("WikiTopics is not here")
    (both,) = runs.training_graphs(experiment, Cell(merged, "infra+sci", 0), None)
    assert both.train.num_entities == 19802
    assert both.train.entities == both.valid.entities
    assert both.train.relations == both.valid.relations
    parts = runs.training_graphs(experiment, Cell(apart, "infra+sci", 0), None)
    assert sum(len(part.train) for part in parts) == len(both.train) + 1  # a fact of both topics
    assert not both.train.contains(both.valid.triplets).any()


def test_training_figures_on_the_message_graph() -> None:
    """As in the public code of ISDEA+: a tenth of the training facts is held out, the rest is observed."""
    row = ModelRow("isdea+", training_graph="message")
    experiment = replace(EXPERIMENT, models=(row,), columns={"training": ("valid",)})
    cell = Cell(row, "atlas", 0)
    (graph,) = runs.training_graphs(experiment, cell, None)
    (asked,) = runs._asked_graphs(experiment, cell, [graph], None)
    assert asked.name == "message:atlas"
    assert len(asked.observed) == pytest.approx(0.9 * len(graph.train), rel=0.01)
    assert asked.test == graph.valid
    assert asked.also_known == graph.train  # a held-out fact is no negative


def test_results_of_before_stay_valid(tmp_path: Path) -> None:
    """A cell that was tested on one graph has its figures at the top of its file."""
    cell = EXPERIMENT.cells()[0]
    folder = runs.folder_of(tmp_path, EXPERIMENT, cell)
    write_json(folder / "result.json", {"node": {"metrics": 1}, "relation": {}, "also": {}, "seconds": 2.5})
    tests, seconds = runs.read_cell(folder, cell)
    assert tests["atlas"]["node"] == {"metrics": 1}
    assert seconds == 2.5


def test_a_graph_that_is_not_here_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYKG_DATA", str(tmp_path))
    columns = {"here": ("atlas",), "absent": ("yago3-10",), "both": ("atlas", "yago3-10")}
    experiment = replace(EXPERIMENT, columns=columns, optional=("yago3-10",))
    assert list(runs.with_available_graphs(experiment, tmp_path).columns) == ["here"]


def test_a_cell_goes_on_with_the_graph_it_was_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = replace(EXPERIMENT, columns={"training": ("valid",), "zero-shot": ("own",)})
    cell = Cell(EXPERIMENT.models[0], "atlas", 0)
    whole = runs.run_cell(experiment, cell, tmp_path / "whole", None)
    asked = runs.evaluate

    def stop_at_test(model: object, observed: object, test: object, **settings: object) -> object:
        if test == runs._load("atlas", None).test:
            raise KeyboardInterrupt
        return asked(model, observed, test, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "evaluate", stop_at_test)
    with pytest.raises(KeyboardInterrupt):
        runs.run_cell(experiment, cell, tmp_path / "parts", None)
    monkeypatch.setattr(runs, "evaluate", asked)
    folder = runs.folder_of(tmp_path / "parts", experiment, cell)
    assert list(runs.read_cell(folder, cell)[0]) == ["valid:atlas"]
    assert runs.run_cell(experiment, cell, tmp_path / "parts", None) == whole


def count_up(folder: Path) -> None:
    rows = (ModelRow("gin", recipe={"epochs": 2, "validation_limit": 20}, limits={"node": 40, "relation": 40}),)
    experiment = replace(EXPERIMENT, models=rows, columns={"training": ("valid",), "zero-shot": ("own",)})
    runs.run_all(experiment, folder / "runs", tell=lambda cell, text: None)
    collect(experiment, folder / "runs", folder / "results")
    write_tables(experiment, folder / "results")


@pytest.mark.slow
def test_kills_change_nothing(tmp_path: Path) -> None:
    """Killed at any time and started again until it is done, a command leaves the same results as one left alone."""

    def start(folder: Path) -> multiprocessing.process.BaseProcess:
        worker = multiprocessing.get_context("spawn").Process(target=count_up, args=(folder,))
        worker.start()
        return worker

    started = time.monotonic()
    start(tmp_path / "whole").join()
    whole = time.monotonic() - started
    for share in (0.5, 0.7, 0.8, 0.9):  # the first part of it is starting up
        worker = start(tmp_path / "killed")
        worker.join(share * whole)
        worker.kill()
        worker.join()
    start(tmp_path / "killed").join()
    kept = ["gin.json", "table.md", "table.csv"]
    texts = [
        [re.sub(r'"seconds": [0-9.]+', "", (folder / "results" / "pediatypes" / name).read_text()) for name in kept]
        for folder in (tmp_path / "whole", tmp_path / "killed")
    ]
    assert texts[0] == texts[1]
