"""The table of answers: cells are kept, found again and shown side by side."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anykg.answers.checking.training_data import trained_on
from anykg.answers.explaining.contrast import contrast
from anykg.answers.hiding.recovery import hide_together
from anykg.benchmarks.answers import departments, explanations, links, planted, probabilities, run, table
from anykg.benchmarks.answers.completion import COUNTS, right_proposals
from anykg.benchmarks.answers.explanations import single_facts
from anykg.benchmarks.answers.staff import DEPARTMENT_OF, DEPARTMENTS, staff_graph
from anykg.benchmarks.cells import read_cells, write_cells
from anykg.errors import ConfigError
from anykg.evaluation.ranking import Best, best_answers
from anykg.graph.split import split_task
from anykg.io.catalog import load_task
from anykg.models.floors import Popularity
from anykg.models.folders import FOUNDATION
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.models.store import load_model


def cell(system: str, minutes: float, **figures: float) -> dict[str, object]:
    shown = {
        name.replace("_", "-"): {"mrr": value, "hits@10": value, "mrr_error": 0.01} for name, value in figures.items()
    }
    return {"graph": "staff", "minutes": minutes, "system": system, "limit": 10, "figures": shown}


def test_finished_cells_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[float]]] = []

    def once(system: str, task: object, minutes: list[float], *_: object) -> Iterator[dict[str, object]]:
        ran.append((system, minutes))
        for _length in minutes:
            yield {"figures": {"mixed" if system == "fit" else system: {"mrr": 0.5, "hits@10": 0.9, "mrr_error": 0.0}}}

    monkeypatch.setattr(links, "measure", once)
    monkeypatch.setattr(run, "load_task", lambda *_: split_task(staff_graph(), "staff"))
    messages: list[str] = []
    for _ in range(2):
        systems = ["zero-shot", "fit", "pykeen-rotate"]
        run.run(["staff-like"], [2.0, 1.0], systems, results=tmp_path, limit=10, tell=messages.append)
    # zero-shot does not depend on the minutes, and PyKEEN is trained once for all of them
    assert ran == [("zero-shot", [0.0]), ("fit", [2.0]), ("pykeen-rotate", [1.0, 2.0]), ("fit", [1.0])]
    monkeypatch.setattr(run, "network_digest", lambda: "other weights")
    run.run(["staff-like"], [2.0], ["fit", "pykeen-rotate"], results=tmp_path, limit=10)
    assert ran[4:] == [("fit", [2.0])], "PyKEEN does not depend on the weights of the network"
    assert len(read_cells(tmp_path / run.NAME / run.CELLS_FILE)) == 5, "a cell of other weights is replaced"
    assert messages[0] == "1 of 6: staff-like 0 min zero-shot ..."
    assert messages[1] == "staff-like 0 min zero-shot: MRR 50.0"


def test_the_table_sets_systems_side_by_side(tmp_path: Path) -> None:
    cells = [
        cell("zero-shot", 0.0, zero_shot=0.2) | {"calibration": {"groups": 3, "error": 0.21, "worst": 0.4}},
        cell("fit", 2.0, complex=0.4, mixed=0.5)
        | {"calibration": {"groups": 3, "error": 0.03, "worst": 0.1, "chance": 0.02, "by_question": 0.04}},
    ]
    write_cells(tmp_path / run.NAME / run.CELLS_FILE, cells, experiment=run.NAME)
    text = table.write_table(tmp_path, 10).read_text()
    assert "| graph | zero-shot | complex | mixed |" in text
    assert "| staff | 20.0 | 40.0 | 50.0 |" in text
    assert "| staff | 0 | zero-shot, one curve for all relations | 3 | 0.210 |  | 0.400 |  |" in text
    assert "| staff | 2 | fitted | 3 | 0.030 | 0.020 | 0.100 | 0.040 |" in text


def test_graphs_stand_in_the_order_in_which_they_are_measured() -> None:
    cells = [cell("fit", 2.0, mixed=0.5) | {"graph": graph} for graph in ("mine", "EN-FR", "Kinship")]
    text = table.markdown(cells, 10)
    assert text.index("| Kinship * |") < text.index("| EN-FR |") < text.index("| mine |")


def test_questions_are_asked_once_for_all_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = staff_graph()
    rest, hidden = hide_together(whole, 0.2, seed=0)
    asked = []

    def once(*args: Any, **options: Any) -> Best:
        asked.append(args)
        return best_answers(*args, **options)

    monkeypatch.setattr(probabilities, "best_answers", once)
    stated: dict[str, probabilities.Stated] = {
        "even": lambda evidence: np.full(len(evidence.scores), 0.5),
        "sure": lambda evidence: np.ones(len(evidence.scores)),
    }
    found = probabilities.calibration_errors(Popularity(), stated, rest, whole, hidden.triplets.astype(np.int64))
    assert len(asked) == 2  # tails and heads
    assert found["even"]["groups"] == found["sure"]["groups"] > 0
    assert found["even"]["chance"] > found["sure"]["chance"] == 0.0
    assert found["even"]["by_question"] != found["even"]["error"], "many facts share their question for heads"


def test_the_graph_of_staff_has_a_department_for_everyone() -> None:
    graph = staff_graph()
    assert 2500 < len(graph) < 3500
    assert graph == staff_graph()
    rows = graph.to_polars()
    departments = rows.filter(rows["relation"] == DEPARTMENT_OF)
    assert departments["head"].n_unique() == len(departments) == 360
    assert set(departments["tail"]) == set(DEPARTMENTS)


def test_uses_have_graphs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, float]] = []

    def once(name: str, minutes: float, _: object) -> dict[str, Any]:
        ran.append((name, minutes))
        return {"seconds": 60.0, "facts": 100, "planted": 1, "area": 0.75, "found": 1}

    use = run.USES["audit"]._replace(graphs={"one": 0.0, "two": 3.0}, measure=once)
    monkeypatch.setitem(run.USES, "audit", use)
    for _ in range(2):
        run.run(["two"], systems=["audit"], results=tmp_path)
    run.run(systems=["audit"], results=tmp_path)
    assert ran == [("two", 3.0), ("one", 0.0)]
    assert "| two | 100 | 1 | 1.0 | 0.750 | 1 |" in table.write_table(tmp_path).read_text()
    with pytest.raises(ConfigError, match="no system 'audits'"):
        run.run(systems=["audits"], results=tmp_path)
    with pytest.raises(ConfigError, match="nothing to measure on three; audit has one, two"):
        run.run(["three"], systems=["audit"], results=tmp_path)


def test_the_mix_is_compared_with_what_it_is_made_of_and_with_pykeen() -> None:
    cells = [
        cell("zero-shot", 0.0, zero_shot=0.2),
        cell("fit", 2.0, rules=0.3, complex=0.4, mixed=0.38),
        cell("pykeen-complex", 2.0, pykeen_complex=0.35),
    ]
    text = table.markdown(cells, 10)
    assert "minus that of zero-shot: +18.0 on average (1), +18.0 without stars (1); below 0: none." in text
    assert (
        "minus that of its best component: -2.0 on average (1), -2.0 without stars (1); below -0.5: staff -2.0." in text
    )
    assert "minus that of the better of PyKEEN's: +3.0 on average (1)" in text


def test_hidden_facts_among_proposals_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = staff_graph()
    rest, hidden = hide_together(whole, 0.1, seed=0)
    found = right_proposals(load_model("rulebook"), rest, whole)
    assert found["hidden"] == len(hidden)
    for title in ("score", "probability"):
        first, all_of = found[f"right_by_{title}"]
        assert 0 <= first <= all_of <= len(hidden)
    assert found["right_by_probability"][1] > 0
    assert found["promised"][0] <= COUNTS[0]
    assert found["backwards"] == 0


def test_planted_errors_are_new() -> None:
    whole = staff_graph()
    rest, _ = hide_together(whole, 0.1, seed=0)
    graph = planted.spoilt(rest, whole, 0.05, seed=0)
    wrong = ~rest.contains(graph.triplets)
    assert len(graph) == len(rest)
    assert 0.02 * len(rest) < wrong.sum() <= 0.05 * len(rest)
    assert not whole.contains(graph.triplets[wrong]).any()


def test_the_named_fact_is_compared_with_every_other_nearby(monkeypatch: pytest.MonkeyPatch) -> None:
    rest, hidden = hide_together(staff_graph().subset(np.arange(0, 2760, 4)), 0.1, seed=0)
    torch.manual_seed(0)
    model = Ultra(UltraConfig(width=16, relation_layers=2, entity_layers=2)).eval()
    fact = hidden.triplets[:1].astype(np.int64)
    assert single_facts(model, rest, fact)["largest"] == 1
    monkeypatch.setattr(explanations, "contrast", lambda *args: replace(contrast(*args), facts=()))
    nothing = single_facts(model, rest, fact)
    assert (nothing["facts"], nothing["largest"], nothing["unnamed"]) == (1, 0, 1)
    assert nothing["compared"] > 1


def test_departments_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(departments, "fit", lambda *_, **__: Popularity())
    monkeypatch.setattr(departments, "SEEDS", 1)
    found = departments.measure("staff", 2.0)
    assert found["people"] > 20
    assert 0 < found["right"] < 0.5, "popularity names the same department for all"
    assert "2 minutes of `fit`" in departments.lines([found | {"minutes": 2.0}])[-1]


@pytest.mark.parametrize("name", links.GRAPHS)
def test_starred_graphs_were_trained_on(name: str, data_dir: Path) -> None:
    graph = load_task(name, data_dir).observed
    warning = trained_on(load_model(FOUNDATION), graph, name)
    if name in ("wikitopics:art", "wikitopics:award"):  # a fifth of their facts, as the table says
        assert "in wd50k" in str(warning)
    else:
        assert (warning is not None) == (name in links.TRAINED_ON), warning
