"""What loading a model refuses, and what it still accepts."""

import json
from pathlib import Path

import pytest
import torch

from anykg.errors import CheckpointError
from anykg.models.folders import MODEL_FILE, WEIGHTS_FILE, read_description
from anykg.models.isdea.isdea import ISDEA, ISDEAConfig
from anykg.models.store import load_model, load_tensors, save_description, save_tensors, save_weights


def saved(folder: Path, model: ISDEA) -> Path:
    save_description(folder, "isdea+", model, {})
    save_weights(folder, model, {})
    return folder


def test_isdea_is_saved_as_named_tensors(tmp_path: Path) -> None:
    model = ISDEA(ISDEAConfig(width=4, hidden=8, states=4, distance=4, scorer=8))
    folder = saved(tmp_path / "run", model)
    tensors, _ = load_tensors(folder / WEIGHTS_FILE)
    assert tensors["weights.scorer.weight.0"].shape == (8, 3 * 4 + 4)
    assert "weights.flat" not in tensors
    assert torch.equal(load_model(folder).weights.flat, model.weights.flat)


def test_runs_of_version_0_1_still_load(tmp_path: Path) -> None:
    model = ISDEA()
    folder = saved(tmp_path / "run", model)
    save_tensors(folder / WEIGHTS_FILE, {"weights.flat": model.weights.flat.detach()}, {})
    assert torch.equal(load_model(folder).weights.flat, model.weights.flat)
    save_tensors(folder / WEIGHTS_FILE, {"weights.flat": model.weights.flat.detach()[1:]}, {})
    with pytest.raises(CheckpointError, match="is missing"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nested", '{"model": ' + "[" * 100_000),
        ("not text", "\udcff"),
        ("no object", "[]"),
        ("no config", '{"model": "gin"}'),
        ("config of lists", '{"model": "gin", "config": []}'),
        ("wrong types", '{"model": "gin", "config": {"width": "wide"}}'),
        ("negative", '{"model": "gin", "config": {"width": -4}}'),
        ("too large", '{"model": "gin", "config": {"width": 1e18}}'),
        ("huge", '{"model": "gin", "config": {"width": 100000000000}}'),
        ("unknown field", '{"model": "gin", "config": {"depth": 3}}'),
    ],
)
def test_damaged_descriptions_are_refused(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=MODEL_FILE):
        load_model(tmp_path)


def test_folders_in_place_of_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).mkdir()
    with pytest.raises(CheckpointError, match=f"found no {MODEL_FILE}"):
        read_description(tmp_path)
    (tmp_path / MODEL_FILE).rmdir()
    (tmp_path / MODEL_FILE).write_text(json.dumps({"model": "uqer", "config": {}}))
    (tmp_path / WEIGHTS_FILE).mkdir()
    with pytest.raises(CheckpointError, match="found none"):
        load_model(tmp_path)


def test_code_named_by_a_config_is_not_run_without_trust(tmp_path: Path) -> None:
    folder = saved(tmp_path / "run", ISDEA())
    described = read_description(folder)
    described["config"]["gnn"] = "os:listdir"
    (folder / MODEL_FILE).write_text(json.dumps(described))
    with pytest.raises(CheckpointError, match=r"names code outside anykg \(os:listdir\)"):
        load_model(folder)
