"""Settings of models on the command line: `--lr 0.01` sets the field `lr` of the recipe or the model's config."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anykg.errors import ConfigError
from anykg.settings import changed

if TYPE_CHECKING:
    from anykg.models.base import LinkPredictor


def configured(model: LinkPredictor, arguments: Sequence[str]) -> LinkPredictor:
    """The trained model with the settings in `arguments`, if its weights allow them."""
    if not arguments:
        return model
    config = changed(model.config, dict(setting_pairs(arguments)))
    try:
        other = model.with_config(**dataclasses.asdict(config))
    except RuntimeError as error:
        named = ", ".join(arguments[::2])
        raise ConfigError(
            f"{named}: the weights were trained with another value; train a model with this one."
        ) from error
    other.loaded_as = model.loaded_as
    return other


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names, separated by commas or spaces, and settings (`--name value` or `--name=value`), from one command line."""
    names: list[str] = []
    settings: list[str] = []
    rest = list(arguments)
    while rest:
        first = rest.pop(0)
        if not first.startswith("--"):
            names += first.split(",")
        elif "=" in first or not rest:
            settings.append(first)
        else:
            settings += [first, rest.pop(0)]
    return names, settings


def setting_pairs(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """`--name value` and `--name=value` as pairs, with underscores in names."""
    pairs, rest = [], list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--"):
            raise ConfigError(f"Expected a setting such as --lr 0.001, found {flag!r}.")
        name, equals, value = flag[2:].partition("=")
        if not equals:
            if not rest:
                raise ConfigError(f"--{name}: expected a value, found none.")
            value = rest.pop(0)
        pairs.append((name.replace("-", "_"), value))
    return pairs
