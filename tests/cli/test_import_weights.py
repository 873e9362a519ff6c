from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from anykg.cli.main import app
from anykg.errors import CheckpointError
from anykg.models.store import load_model


@pytest.mark.parametrize(
    ("file", "name", "parameters"),
    [
        ("ultra_3g.pth", "ultra", 168_705),
        ("isdea_plus_EN2FR.safetensors", "isdea+", None),
        ("ingram_DB2YG.safetensors", "ingram", None),
    ],
)
def test_published_weights(golden_dir: Path, tmp_path: Path, file: str, name: str, parameters: int | None) -> None:
    arguments = ["import-weights", str(golden_dir / file), "--out", str(tmp_path / "model")]
    printed = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert f"Saved {name}" in printed
    count = sum(p.numel() for p in load_model(tmp_path / "model").parameters())
    assert parameters in (None, count)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("executed",)


@pytest.mark.parametrize("content", ["text", "pickle", "other"])
def test_bad_files(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weights.pth"
    if content == "text":
        path.write_text("not weights")
    elif content == "pickle":
        torch.save({"model": Evil()}, path)
    else:
        torch.save({"model": {"layer.weight": torch.ones(2)}}, path)
    with pytest.raises(CheckpointError):
        CliRunner().invoke(app, ["import-weights", str(path), "--out", str(tmp_path / "model")], catch_exceptions=False)
    assert "executed" not in capsys.readouterr().out
    assert not (tmp_path / "model").exists()
