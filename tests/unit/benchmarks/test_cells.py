import json
from pathlib import Path

import pytest

from anykg.atomic import write_json
from anykg.benchmarks.cells import read_cells, write_cells
from anykg.errors import CheckpointError

CELLS = [
    {
        "task": "atlas",
        "seed": seed,
        "node": {
            "protocol": {"name": "paper", "negatives": 50},
            "counts": {"ranked": 7},
            "metrics": {"mrr": 0.1234567891 + seed},
            "score_errors": None,
            "made_with": {"commit": "abc", "python": "3.11"},
        },
        "also": {"full": {"node": {"protocol": {"name": "full"}, "metrics": {"mrr": 0.5}}}},
    }
    for seed in range(3)
]


def test_a_line_a_cell_and_nothing_shared_twice(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    write_cells(path, CELLS, experiment="e", model="m")
    text = path.read_text()
    assert json.loads(text)["model"] == "m"
    assert text.count("abc") == 1
    assert sum('"seed"' in line for line in text.splitlines()) == 3
    again = read_cells(path)
    assert again[1]["node"]["made_with"] == {"commit": "abc", "python": "3.11"}
    assert again[1]["also"] == CELLS[1]["also"]
    assert again[1]["node"]["metrics"]["mrr"] == pytest.approx(1.12345678, abs=1e-5)
    assert "score_errors" not in again[0]["node"]
    write_cells(path, again, experiment="e", model="m")
    assert path.read_text() == text


def test_files_from_before_are_read(tmp_path: Path) -> None:
    write_json(tmp_path / "old.json", {"experiment": "e", "model": "m", "cells": CELLS})
    assert read_cells(tmp_path / "old.json") == CELLS
    assert read_cells(tmp_path / "none.json") == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"shared": {}, "cells": [{"protocol": 3}]}')
    with pytest.raises(CheckpointError, match=r"bad\.json"):
        read_cells(tmp_path / "bad.json")
