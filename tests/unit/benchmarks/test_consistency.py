from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anykg.benchmarks.consistency import impossible, mrr_bounds
from anykg.benchmarks.experiment import load_experiment
from anykg.benchmarks.report import figures, load_published
from anykg.evaluation.metrics import summarise

ROOT = Path(__file__).parents[3]


@given(st.lists(st.integers(2, 102).map(lambda twice: twice / 2), min_size=1, max_size=30))
def test_ranks_keep_the_bounds(ranks: list[float]) -> None:
    found = {name: 100 * value for name, value in summarise(np.array(ranks)).items()}
    least, most = mrr_bounds(found["hits@1"], found["hits@5"], found["hits@10"])
    assert least - 1e-9 <= found["mrr"] <= most + 1e-9


def test_the_bounds_are_reached() -> None:
    for ranks, side in (([1, 5, 10, 51], 0), ([1, 1.5, 5.5, 10.5], 1)):
        found = summarise(np.array(ranks, float))
        assert abs(mrr_bounds(25, 50, 75)[side] - 100 * found["mrr"]) < 1e-9


def test_the_papers_rows_of_ultra_contradict_themselves() -> None:
    rows = impossible(load_published("pediatypes"))
    assert [row.model for row in rows].count("Ultra") == 11
    assert {row.model for row in rows} == {"Ultra", "InGram"}


def test_our_rows_do_not() -> None:
    experiment = load_experiment("pediatypes")
    ours = {
        (f"{f.model} {f.protocol}", f.dataset, f.column, f.task, f.metric): (f.ours, None)
        for f in figures(experiment, ROOT / "results")
        if f.ours is not None
    }
    assert len(ours) > 300
    assert impossible(ours) == []
