import json
from dataclasses import asdict, replace
from pathlib import Path
from shutil import copytree

import pytest

from anykg.atomic import write_json
from anykg.benchmarks import statistics_table, zero_shot
from anykg.benchmarks.experiment import Experiment, experiment_names, load_experiment
from anykg.benchmarks.overview import EXPERIMENTS, results_page
from anykg.benchmarks.plots import draw
from anykg.benchmarks.reasons import read_reasons
from anykg.benchmarks.report import LABELS, figures, load_published, write_tables
from anykg.errors import ConfigError
from anykg.evaluation.protocol import PROTOCOLS
from anykg.io.catalog import find, get_dataset

ROOT = Path(__file__).parents[3]


def pretend(experiment: Experiment, results: Path, *, seeds: int, value: float = 0.5) -> None:
    """Results files as if every cell of the first seeds was run."""
    part = replace(experiment, seeds=seeds)
    for model in part.models:
        found = {kind: {"metrics": dict.fromkeys(LABELS, value)} for kind in ("node", "relation")}
        also = dict.fromkeys(part.protocols(model)[1:], found)
        rows = [
            {"task": cell.task, "graph": graph, "seed": cell.seed, "seconds": 1.0} | found | {"also": also}
            for cell in part.cells()
            if cell.model is model
            for graph in part.tested_on(cell)
        ]
        write_json(results / part.home / f"{model.name}.json", {"cells": rows})


def test_the_page_is_what_the_results_give() -> None:
    """If this fails, run `anykg reproduce report`."""
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page(ROOT / "results")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_tables_are_what_the_results_give(name: str, tmp_path: Path) -> None:
    """If this fails, run `anykg reproduce report`."""
    experiment = load_experiment(name)
    copytree(ROOT / "results" / experiment.home, tmp_path / experiment.home)
    write_tables(experiment, tmp_path)
    for file in ("table.md", "table.csv"):
        assert (tmp_path / name / file).read_text() == (ROOT / "results" / name / file).read_text(encoding="utf-8")


def test_the_zero_shot_table_is_what_the_results_give(tmp_path: Path) -> None:
    """If this fails, run `anykg reproduce report`."""
    copytree(ROOT / "results" / zero_shot.NAME, tmp_path / zero_shot.NAME)
    table = zero_shot.write_table(tmp_path).read_text(encoding="utf-8")
    assert table == (ROOT / "results" / zero_shot.NAME / "table.md").read_text(encoding="utf-8")


def test_every_experiment_is_on_the_page() -> None:
    assert sorted(EXPERIMENTS) == experiment_names()


def test_an_average_needs_all_its_graphs(tmp_path: Path) -> None:
    experiment = load_experiment("large")
    pretend(experiment.without(("yago3-10",)), tmp_path, seeds=2)
    found = {(f.column): f for f in figures(experiment, tmp_path) if (f.model, f.dataset) == ("isdea+", "loc")}
    assert found["mean of two"].ours == 50.0
    assert found["mean of two"].seeds == 2
    assert found["mean"].ours is None
    assert found["mean"].paper is not None


def test_figures_under_an_earlier_protocol_are_missing(tmp_path: Path) -> None:
    """paper-ingram once drew distinct relations where there are more than 50, which is harder."""
    experiment = load_experiment("pediatypes").only(["ingram"], ["EN-FR", "DB-YG"], 1)
    pretend(experiment, tmp_path, seeds=1)
    path = tmp_path / "pediatypes" / "ingram.json"
    cells = json.loads(path.read_text())["cells"]
    was = asdict(PROTOCOLS["paper-ingram"].with_replacement(False)) | {"ties": "pessimistic"}
    for cell in cells:
        relations = 101 if cell["task"] == "EN-FR" else 17
        for kind in ("node", "relation"):
            cell[kind] = cell[kind] | {"protocol": was, "counts": {"relations": relations}}
    write_json(path, {"cells": cells})
    found = {
        (f.dataset, f.task) for f in figures(experiment, tmp_path) if f.protocol == "paper-ingram" and f.ours is None
    }
    assert found == {("EN-FR", "relation")}


def test_pairs_are_compared_beside_the_paper(tmp_path: Path) -> None:
    experiment = load_experiment("negative-transfer")
    pretend(experiment, tmp_path, seeds=3)
    write_tables(experiment, tmp_path)
    table = (tmp_path / "negative-transfer" / "table.md").read_text()
    assert (
        "| infra | loc | zero-shot | +0.0% (-31.8%) | +0.0% (-31.8%) |  |  | +0.0% | +0.0% | +0.0% (-35.9%) |" in table
    )
    assert "| infra+sci | 3 | 50.0 ± 0.0 (81.7) | 50.0 ± 0.0 (41.9) |" in table


@pytest.mark.parametrize(
    ("name", "stem"), [("negative-transfer", "pairs"), ("scaling", "lines"), ("wikitopics", "heatmap-isdea+")]
)
def test_plots_are_the_same_every_time(name: str, stem: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    whole = load_experiment(name)
    experiment = whole.only(["isdea+"], None, 1)
    assert draw(experiment, figures(experiment, tmp_path), tmp_path) == []
    pretend(experiment, tmp_path, seeds=1)
    contents = []
    for _ in range(2):
        paths = draw(experiment, figures(experiment, tmp_path), tmp_path)
        assert [path.name for path in paths] == [f"{stem}.svg"]
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]


def test_the_page_says_what_is_missing_and_what_is_off(tmp_path: Path) -> None:
    experiment = load_experiment("negative-transfer")
    pretend(experiment.only(["isdea+"], ["infra"], 1), tmp_path, seeds=1, value=0.7515)
    (tmp_path / "negative-transfer").mkdir()
    (tmp_path / "negative-transfer" / "notes.md").write_text("Loc may hurt.\n")
    page = results_page(tmp_path)
    assert "- isdea+, node Hits@1, above: infra 75.2 (39.8)." in page
    assert "- isdea+: 1 of 3 seeds of infra." in page
    assert "- ultra: not run." in page
    assert "\nLoc may hurt.\n" in page
    assert "Nothing that can be compared was run." in page  # large
    assert "The paper prints no numbers to compare with." in page  # wikitopics


def test_the_page_counts_the_cells_of_each_table(tmp_path: Path) -> None:
    experiment = load_experiment("negative-transfer")
    pretend(experiment.only(["ultra"], None, 1), tmp_path, seeds=1, value=0.70)
    page = results_page(tmp_path)
    assert "| Table 1, Hits@10 | 158 | 0 | 0 | 0 | 0 | 158 |" in page
    assert "| Tables 1 and 3 to 5 together | 632 | 0 | 0 | 0 | 0 | 632 |" in page
    published = [value for key, (value, _) in load_published("negative-transfer").items() if key[0] == "Ultra"]
    near, above = sum(abs(70 - v) <= 5 for v in published), sum(70 - v > 5 for v in published)
    assert f"| Table 2, negative transfer | 96 | 32 | {near} | {above} | {32 - near - above} | 64 |" in page


def test_figures_that_are_off_have_their_reason(tmp_path: Path) -> None:
    experiment = load_experiment("negative-transfer")
    pretend(experiment.only(["isdea+"], ["infra"], 1), tmp_path, seeds=1, value=0.7515)
    folder = tmp_path / "negative-transfer"
    folder.mkdir()
    entry = '[[reason]]\nmodels = ["isdea+"]\nkinds = ["node"]\ntested = true\ntext = """It\nrained."""\n'
    (folder / "reasons.toml").write_text(entry)
    page = results_page(tmp_path)
    assert "**Tested.** It rained.\n\n- isdea+, node Hits@1, above: infra 75.2 (39.8).\n" in page
    unexplained = page.partition("**Unexplained, and nothing was tried.**\n\n")[2]
    assert unexplained.startswith("- isdea+, relation Hits@1, below: infra 75.2 (80.7).")
    (folder / "reasons.toml").write_text('[[reason]]\ntext = "why"\n')
    with pytest.raises(ConfigError, match=r"reasons\.toml"):
        results_page(tmp_path)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_reasons_name_what_exists(name: str) -> None:
    experiment = load_experiment(name)
    for reason in read_reasons(ROOT / "results" / name):
        assert set(reason.models) <= {model.name for model in experiment.models}
        assert set(reason.datasets) <= set(experiment.tasks)
        assert set(reason.columns) <= set(experiment.columns)
        assert set(reason.metrics) <= set(experiment.metrics)


def test_statistics_beside_the_paper(tmp_path: Path) -> None:
    if find(get_dataset("wikitopics:tax")) is None:
        pytest.skip("WikiTopics is not here")
    statistics_table.run(tmp_path)
    statistics_table.write_tables(tmp_path)
    assert statistics_table.differences(tmp_path) == []
    assert "| Tax | wikitopics:tax, inference | 10000 | 31 | 19416 | 2157 | 4.31 (4.32) |" in (
        tmp_path / "statistics" / "table.md"
    ).read_text(encoding="utf-8")
    kept = json.loads((tmp_path / "statistics" / "statistics.json").read_text())
    kept["graphs"]["Tax"]["nodes"] = 9999
    write_json(tmp_path / "statistics" / "statistics.json", kept)
    assert statistics_table.differences(tmp_path) == ["Tax: 9999 nodes, paper 10000."]
