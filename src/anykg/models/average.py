"""Average the weights of several training runs of one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from anykg.errors import CheckpointError, ConfigError
from anykg.models.base import LinkPredictor
from anykg.models.folders import MODEL_FILE, folder_of, read_description
from anykg.models.store import load_model, save_description, save_weights


def average_weights(models: Sequence[Path | str], out: Path, *, trust: bool = False) -> LinkPredictor:
    """Save the mean of the weights of several models in `out` and return it; model and config must be the same."""
    if len(models) < 2:
        raise ConfigError(f"average_weights needs at least 2 models, found {len(models)}.")
    if (out / MODEL_FILE).exists():
        raise ConfigError(f"{out}: already holds a model; write to another folder.")
    folders = [folder_of(name) for name in models]
    descriptions = [read_description(folder) for folder in folders]
    loaded = [load_model(name, trust=trust) for name in models]
    for folder, described, model in zip(folders[1:], descriptions[1:], loaded[1:], strict=True):
        if described["model"] != descriptions[0]["model"] or model.config != loaded[0].config:
            raise CheckpointError(f"{folder}: expected a model of the kind and config of {folders[0]}, found another.")
    states = [model.state_dict() for model in loaded]
    mean = {key: torch.stack([state[key].double() for state in states]).mean(0) for key in states[0]}
    result = loaded[0]
    result.load_state_dict({key: value.to(states[0][key].dtype) for key, value in mean.items()})
    trained = [described.get("trained", {}) for described in descriptions]
    save_weights(out, result, {"average_of": len(models)})
    save_description(out, descriptions[0]["model"], result, {"average_of": trained})
    return result
