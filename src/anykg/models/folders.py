"""Find saved models: shipped with the package, in a folder, or on the Hugging Face hub.

A saved model is a folder with `model.json` and `weights.safetensors`. Only the first is read here, so a name that does
not exist is refused before torch is imported; `models.store` loads the model itself.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from anykg.errors import CheckpointError, UnknownName, first_line, nearest
from anykg.models.registry import MODELS

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


class Saved(NamedTuple):
    """A saved model."""

    folder: Path
    described: dict[str, Any]
    """The content of its `model.json`."""
    rule_weights: tuple[list[float], list[float]] | None = None
    """Weights for entities and for relations, each of the model and of rules, if its name asks for rules."""


def saved_model(name_or_folder: Path | str) -> Saved | None:
    """The saved model of a name, with or without rules; None for a kind of model, which is not saved.

    Raises an `InputError` if there is none.
    """
    rules = is_with_rules(name_or_folder)
    name = str(name_or_folder).removesuffix(WITH_RULES) if rules else str(name_or_folder)
    if name not in shipped() and name in MODELS and not Path(name).exists():
        if rules:
            raise _no_rule_weights(str(name_or_folder))
        return None
    folder = folder_of(name_or_folder)
    described = read_description(folder)
    return Saved(folder, described, _rule_weights(str(name_or_folder), folder, described) if rules else None)


def _rule_weights(name: str, folder: Path, described: dict[str, Any]) -> tuple[list[float], list[float]]:
    weights = described.get("rule_weights")
    if weights is None:
        raise _no_rule_weights(name)
    try:
        entities, relations = ([float(value) for value in weights[kind]] for kind in ("entities", "relations"))
        if len(entities) != 2 or len(relations) != 2:
            raise ValueError(f"found {len(entities)} and {len(relations)} weights")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / MODEL_FILE}: expected rule_weights with two numbers for entities and for relations ({error!r})."
        ) from error
    return entities, relations


def _no_rule_weights(name: str) -> CheckpointError:
    return CheckpointError(
        f"{name}: the description of this model has no weights for mixing it with rules (rule_weights); "
        f"{DEFAULT_MODEL} has them, and `anykg fit` learns them for one graph."
    )


def has_rule_weights(name: str) -> bool:
    """Whether a shipped model can be mixed with rules, as NAME+rules."""
    return "rule_weights" in read_description(folder_of(name))


def is_with_rules(name_or_folder: Path | str) -> bool:
    """Whether a name asks for rules, and is not that of a folder."""
    return str(name_or_folder).endswith(WITH_RULES) and not Path(name_or_folder).expanduser().exists()


def folder_of(name_or_folder: Path | str) -> Path:
    """The folder of a model given by its folder, a shipped name, or a hub id, which is downloaded."""
    name = str(name_or_folder)
    if is_with_rules(name_or_folder):
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
