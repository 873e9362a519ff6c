"""The table of answers: cells are kept, found again and shown side by side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anykg.answers.hidden import hide_together
from anykg.benchmarks import answers
from anykg.benchmarks.cells import write_cells
from anykg.benchmarks.staff import DEPARTMENT_OF, DEPARTMENTS, staff_graph
from anykg.evaluation.ranking import Best, best_answers
from anykg.graph.split import split_task
from anykg.models.floors import Popularity


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
            yield {"figures": {answers._first(system): {"mrr": 0.5, "hits@10": 0.9, "mrr_error": 0.0}}}

    monkeypatch.setattr(answers, "_cells", once)
    monkeypatch.setattr(answers, "load_task", lambda *_: split_task(staff_graph(), "staff"))
    messages: list[str] = []
    for _ in range(2):
        systems = ["zero-shot", "fit", "pykeen-rotate"]
        answers.run(["staff"], [2.0, 1.0], systems, results=tmp_path, limit=10, tell=messages.append)
    # zero-shot does not depend on the minutes, and PyKEEN is trained once for all of them
    assert ran == [("zero-shot", [0.0]), ("fit", [2.0]), ("pykeen-rotate", [1.0, 2.0]), ("fit", [1.0])]
    assert messages[0] == "1 of 6: staff 0 min zero-shot ..."
    assert messages[1] == "staff 0 min zero-shot: MRR 50.0"


def test_the_table_sets_systems_side_by_side(tmp_path: Path) -> None:
    cells = [
        cell("zero-shot", 0.0, zero_shot=0.2) | {"calibration": {"groups": 3, "error": 0.21, "worst": 0.4}},
        cell("fit", 2.0, complex=0.4, mixed=0.5)
        | {"calibration": {"groups": 3, "error": 0.03, "worst": 0.1, "chance": 0.02}},
    ]
    write_cells(tmp_path / answers.NAME / answers.CELLS_FILE, cells, experiment=answers.NAME)
    text = answers.write_table(tmp_path, 10).read_text()
    assert "| graph | zero-shot | complex | mixed |" in text
    assert "| staff | 20.0 | 40.0 | 50.0 |" in text
    assert "| staff | 0 | before: zero-shot, one curve for all relations | 3 | 0.210 |  | 0.400 |" in text
    assert "| staff | 2 | fitted | 3 | 0.030 | 0.020 | 0.100 |" in text


def test_questions_are_asked_once_for_all_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = staff_graph()
    rest, hidden = hide_together(whole, 0.2, seed=0)
    asked = []

    def once(*args: Any, **options: Any) -> Best:
        asked.append(args)
        return best_answers(*args, **options)

    monkeypatch.setattr(answers, "best_answers", once)
    stated: dict[str, answers.Stated] = {
        "even": lambda evidence: np.full(len(evidence.scores), 0.5),
        "sure": lambda evidence: np.ones(len(evidence.scores)),
    }
    found = answers.calibration_errors(Popularity(), stated, rest, whole, hidden.triplets.astype(np.int64))
    assert len(asked) == 2  # tails and heads
    assert found["even"]["groups"] == found["sure"]["groups"] > 0
    assert found["even"]["chance"] > found["sure"]["chance"] == 0.0


def test_the_graph_of_staff_has_a_department_for_everyone() -> None:
    graph = staff_graph()
    assert 2500 < len(graph) < 3500
    assert graph == staff_graph()
    rows = graph.to_polars()
    departments = rows.filter(rows["relation"] == DEPARTMENT_OF)
    assert departments["head"].n_unique() == len(departments) == 360
    assert set(departments["tail"]) == set(DEPARTMENTS)
