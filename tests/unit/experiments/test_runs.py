import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from anykg.core.errors import ConfigError
from anykg.experiments import runs
from anykg.experiments.recipe import Cell, Experiment, ModelRow, load_experiment
from anykg.experiments.report import collect, load_published, write_tables

EXPERIMENT = Experiment(
    "pediatypes", "PediaTypes", ("atlas",), 2, "paper", (ModelRow("random", "Rand"), ModelRow("gin", "GIN"))
)


def fake(experiment: Experiment, cell: Cell, folder: Path, data_dir: Path | None) -> dict[str, object]:
    with (folder / "calls.txt").open("a") as file:
        file.write(f"{cell.model.name} {cell.task} {cell.seed}\n")
    metrics = {"hits@1": 0.1, "hits@5": 0.2, "hits@10": 0.3 + cell.seed / 10, "mrr": 0.4}
    part = {key: {} for key in ("protocol", "counts", "standard_errors", "ties", "by_stratum", "made_with")}
    found = {kind: part | {"seed": cell.seed, "metrics": metrics} for kind in ("node", "relation")}
    return found | {"also": dict.fromkeys(experiment.protocols(cell.model)[1:], found)}


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
    write_tables(EXPERIMENT, tmp_path / "results", tmp_path / "table")
    assert "| gin | 2 | 35.0 ± 7.1 |" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_a_line_for_each_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_cell", fake)
    (tmp_path / "runs").mkdir()
    row = ModelRow("gin", "GIN", protocols=("full", "paper"), limits={"relation": 7})
    experiment = replace(EXPERIMENT, models=(row,))
    runs.run_all(experiment, tmp_path / "runs", tell=lambda cell, text: None)
    collect(experiment, tmp_path / "runs", tmp_path / "results")
    write_tables(experiment, tmp_path / "results", tmp_path / "table")
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| gin (full) | 2 | 35.0" in table
    assert "| gin | 2 | 35.0" in table
    assert "gin: relation task on a seeded sample of 7 test triplets." in table


def test_a_budget_of_nothing_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_cell", fake)
    assert runs.run_all(EXPERIMENT, tmp_path, minutes=-1, tell=lambda cell, text: None) == 4


def test_a_real_cell(tmp_path: Path) -> None:
    cell = Cell(EXPERIMENT.models[0], "atlas", 0)
    result = runs.run_cell(EXPERIMENT, cell, tmp_path, None)
    assert result["node"]["metrics"]["hits@10"] < 0.5


def test_a_row_uses_the_weights_of_another(tmp_path: Path) -> None:
    few = {"epochs": 1, "validation_limit": 2}
    trained = ModelRow("ingram", "InGram", recipe=few)
    averaged = ModelRow("deq", "DEq", weights_of=trained, config={"samples": 3}, protocols=("paper-ingram", "paper"))
    experiment = replace(EXPERIMENT, models=(averaged,))
    result = runs.run_cell(experiment, Cell(averaged, "atlas", 0), tmp_path, None)
    assert (tmp_path / "pediatypes" / "ingram" / "atlas" / "0" / "weights.safetensors").exists()
    assert result["node"]["protocol"]["name"] == "paper-ingram"
    assert list(result["also"]) == ["paper"]


def test_recipes_name_what_exists() -> None:
    from anykg.data.catalog import get_dataset
    from anykg.models.registry import MODELS

    experiment = load_experiment("pediatypes")
    published = load_published("pediatypes")
    for model in experiment.models:
        MODELS.load((model.weights_of or model).name)
        assert not model.published or any(key[0] == model.published for key in published)
    for task in experiment.tasks:
        get_dataset(task)
    with pytest.raises(ConfigError, match="EN-FR"):
        experiment.only(None, ["XX-YY"], None)
