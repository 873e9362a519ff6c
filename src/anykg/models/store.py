"""Save and load models: `model.json` (name, config, training) and `weights.safetensors`. Nothing is unpickled."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from anykg.atomic import atomic_path, write_json
from anykg.errors import CheckpointError, ConfigError, UnknownName, nearest
from anykg.models.base import LinkPredictor
from anykg.models.registry import MODELS
from anykg.settings import from_json

SHIPPED = files("anykg") / "weights"
"""Models shipped with the package, one folder each."""
MODEL_FILE, WEIGHTS_FILE = "model.json", "weights.safetensors"
WITH_RULES = "+rules"
"""Suffix of a name: the model mixed with rules of the graph that it is applied to."""
FOUNDATION = "anykg-base"
"""The shipped model that `fit` starts from."""
DEFAULT_MODEL = FOUNDATION + WITH_RULES
"""The model that is used by default."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


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
    if _is_with_rules(name_or_folder):
        return _with_rules(str(name_or_folder), trust)
    if str(name_or_folder) not in shipped() and str(name_or_folder) in MODELS and not Path(name_or_folder).exists():
        return _untrained(str(name_or_folder))
    folder = folder_of(name_or_folder)
    described = read_description(folder)
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


def has_rule_weights(name: str) -> bool:
    """Whether a shipped model can be mixed with rules, as NAME+rules."""
    return "rule_weights" in read_description(folder_of(name))


def _with_rules(name: str, trust: bool) -> LinkPredictor:
    """A model mixed with rules, by the weights in its description."""
    from anykg.models.mixture import with_rules

    base = name.removesuffix(WITH_RULES)
    folder = None if base in MODELS and not Path(base).exists() else folder_of(base)
    described = {} if folder is None else read_description(folder)
    weights = described.get("rule_weights")
    if folder is None or weights is None:
        raise CheckpointError(
            f"{name}: the description of this model has no weights for mixing it with rules (rule_weights); "
            f"{DEFAULT_MODEL} has them, and `anykg fit` learns them for one graph."
        )
    try:
        entities, relations = ([float(value) for value in weights[kind]] for kind in ("entities", "relations"))
        if len(entities) != 2 or len(relations) != 2:
            raise ValueError(f"found {len(entities)} and {len(relations)} weights")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / MODEL_FILE}: expected rule_weights with two numbers for entities and for relations ({error!r})."
        ) from error
    mixed = with_rules(load_model(folder, trust=trust), described["model"], entities, relations)
    mixed.loaded_as = name
    return mixed.eval()


def _untrained(name: str) -> LinkPredictor:
    """A model without parameters, which needs no training."""
    model = MODELS.load(name)()
    if list(model.parameters()):
        raise CheckpointError(f"{name} is an untrained model; `anykg train {name} GRAPH --out DIR` trains one in DIR.")
    model.loaded_as = name
    return model.eval()


def _is_with_rules(name_or_folder: Path | str) -> bool:
    """Whether a name asks for rules, and is not that of a folder."""
    return str(name_or_folder).endswith(WITH_RULES) and not Path(name_or_folder).expanduser().exists()


def folder_of(name_or_folder: Path | str) -> Path:
    """The folder of a model given by its folder, a shipped name, or a hub id, which is downloaded."""
    name = str(name_or_folder)
    if _is_with_rules(name_or_folder):
        name = name.removesuffix(WITH_RULES)
    if name in shipped():
        return Path(str(SHIPPED)) / name
    folder = Path(name).expanduser()
    if isinstance(name_or_folder, str) and not folder.exists() and _HUB_ID.fullmatch(name):
        return _from_hub(name)
    if not folder.exists() and folder.name == name:
        raise UnknownName("shipped model or folder", name, nearest(name, shipped()) or shipped())
    return folder


def _from_hub(name: str) -> Path:
    """Download a model from the hub."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"{name}: there is no such folder. Shipped models are {', '.join(shipped())}; to fetch one from the hub, "
            "install huggingface_hub: pip install 'anykg[hub]'."
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=[MODEL_FILE, WEIGHTS_FILE]))
    except Exception as error:  # the hub's errors have no common base class
        raise CheckpointError(
            f"{name}: there is no such folder, and the hub did not provide it ({first_line(error)})."
        ) from error


def shipped() -> list[str]:
    """The names of the shipped models."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir()) if SHIPPED.is_dir() else []


def read_description(folder: Path) -> dict[str, Any]:
    """The content of `model.json`."""
    path = folder / MODEL_FILE
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: expected a folder with {MODEL_FILE} and {WEIGHTS_FILE}, found no {MODEL_FILE}."
        )
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        name, config = described["model"], described["config"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected a JSON object with model and config ({error!r}).") from error
    if not isinstance(name, str) or not isinstance(config, dict):
        raise CheckpointError(f"{path}: expected a model's name and its config, found {name!r} and {config!r}.")
    return dict(described)


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


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
