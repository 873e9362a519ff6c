from pathlib import Path

import pytest
import torch

from anykg.errors import CheckpointError, ConfigError
from anykg.models.average import average_weights
from anykg.models.folders import read_description
from anykg.models.nbf.trix import TRIX, TRIXConfig
from anykg.models.store import load_model, save_description, save_weights


def saved(folder: Path, seed: int, config: TRIXConfig) -> Path:
    torch.manual_seed(seed)
    model = TRIX(config)
    save_weights(folder, model, {})
    save_description(folder, "trix", model, {"seed": seed})
    return folder


def test_weights_are_averaged(tmp_path: Path) -> None:
    config = TRIXConfig(width=16, networks="entity")
    folders = [saved(tmp_path / str(seed), seed, config) for seed in range(3)]
    average_weights(folders, tmp_path / "mean")
    states = [load_model(folder).state_dict() for folder in folders]
    for key, value in load_model(tmp_path / "mean").state_dict().items():
        torch.testing.assert_close(value, sum(state[key] for state in states) / 3)
    described = read_description(tmp_path / "mean")
    assert described["trained"]["average_of"] == [{"seed": seed} for seed in range(3)]
    with pytest.raises(ConfigError, match="another folder"):
        average_weights(folders, tmp_path / "mean")


def test_other_models_are_refused(tmp_path: Path) -> None:
    one = saved(tmp_path / "one", 0, TRIXConfig(width=16, networks="entity"))
    other = saved(tmp_path / "other", 0, TRIXConfig(width=16, networks="entity", relation_steps=1))
    with pytest.raises(CheckpointError, match="kind and config"):
        average_weights([one, other], tmp_path / "mean")
    with pytest.raises(ConfigError, match="at least 2"):
        average_weights([one], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
