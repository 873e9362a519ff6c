"""Save and load models: `model.json` (name, config, training) and `weights.safetensors`. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from anykg.atomic import atomic_path, write_json
from anykg.errors import CheckpointError, ConfigError, first_line
from anykg.models.base import LinkPredictor
from anykg.models.folders import MODEL_FILE, WEIGHTS_FILE, Saved, saved_model
from anykg.models.registry import MODELS
from anykg.settings import from_json


def save_description(folder: Path, name: str, model: LinkPredictor, trained: Mapping[str, Any]) -> None:
    """Write `model.json`: which model this is and where its weights come from."""
    write_json(folder / MODEL_FILE, {"model": name, "config": asdict(model.config), "trained": dict(trained)})


def save_weights(folder: Path, model: LinkPredictor, note: Mapping[str, Any]) -> None:
    """Write `weights.safetensors`, with `note` in its header."""
    save_tensors(folder / WEIGHTS_FILE, dict(model.state_dict()), note)


def load_model(name_or_folder: Path | str, *, trust: bool = False) -> LinkPredictor:
    """Load the model saved in a folder, shipped under a name, or kept on the Hugging Face hub (OWNER/NAME).

    NAME+rules is that model mixed with rules, which are mined on each graph that it is applied to.

    A model class that is neither built in nor registered by an installed package, or a config that names code, is
    imported only with `trust`: importing runs it.
    """
    saved = saved_model(name_or_folder)
    if saved is None:
        return _untrained(str(name_or_folder))
    if saved.rule_weights is not None:
        return _with_rules(saved, str(name_or_folder), trust)
    folder, described = saved.folder, saved.described
    name = described["model"]
    if name not in MODELS and not trust:
        raise _untrusted(folder, name)
    model_class = MODELS.load(name, trust=trust)
    try:
        config: Any = from_json(model_class.Config, described["config"])
        foreign = model_class.foreign_code(config)
        if foreign and not trust:
            raise _untrusted(folder, ", ".join(foreign))
        model: LinkPredictor = model_class(config)
    except (ConfigError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise CheckpointError(f"{folder / MODEL_FILE}: config does not fit {name} ({first_line(error)}).") from error
    tensors, _ = load_tensors(folder / WEIGHTS_FILE)
    restore(model, tensors, folder / WEIGHTS_FILE)
    model.loaded_as = str(name_or_folder)
    return model.eval()


def _untrusted(folder: Path, code: str) -> CheckpointError:
    return CheckpointError(
        f"{folder / MODEL_FILE}: names code outside anykg ({code}); pass trust=True to import and run it."
    )


def _with_rules(saved: Saved, name: str, trust: bool) -> LinkPredictor:
    """A model mixed with rules, by the weights in its description."""
    from anykg.models.mixture import with_rules

    assert saved.rule_weights is not None
    mixed = with_rules(load_model(saved.folder, trust=trust), saved.described["model"], *saved.rule_weights)
    mixed.loaded_as = name
    return mixed.eval()


def _untrained(name: str) -> LinkPredictor:
    """A model without parameters, which needs no training."""
    model = MODELS.load(name)()
    if list(model.parameters()):
        raise CheckpointError(f"{name} is an untrained model; `anykg train {name} GRAPH --out DIR` trains one in DIR.")
    model.loaded_as = name
    return model.eval()


def restore(model: LinkPredictor, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into the model; all must be there, with the right shape and finite values."""
    tensors = model.upgrade(tensors)
    expected = model.state_dict()
    for key, parameter in expected.items():
        if key not in tensors:
            raise CheckpointError(f"{path}: tensor {key!r} is missing; the file is not a checkpoint of this model.")
        if tensors[key].shape != parameter.shape:
            shapes = f"expected {list(parameter.shape)}, found {list(tensors[key].shape)}"
            raise CheckpointError(f"{path}: tensor {key!r} has another shape: {shapes}.")
        if not bool(torch.isfinite(tensors[key]).all()):
            raise CheckpointError(f"{path}: tensor {key!r} has values that are not finite.")
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise CheckpointError(f"{path}: tensor {unknown[0]!r} is not part of this model.")
    model.load_state_dict(dict(tensors))


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors and a JSON note to one file, atomically."""
    data = save({key: value.contiguous() for key, value in tensors.items()}, {"note": json.dumps(dict(note))})
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote."""
    if not path.is_file():
        raise CheckpointError(f"{path}: expected a safetensors file, found none.")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            note = json.loads((file.metadata() or {}).get("note", "{}"))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error}); the file is damaged.") from error
    if not isinstance(note, dict):
        raise CheckpointError(f"{path}: expected a JSON object as note, found {type(note).__name__}.")
    return tensors, note


def digest_of(model: LinkPredictor) -> str:
    """A hash of a model's kind, settings and weights."""
    content = blake2b(f"{type(model).__qualname__} {getattr(model, 'config', None)}".encode(), digest_size=16)
    for key, value in sorted(model.state_dict().items()):
        content.update(key.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return content.hexdigest()
