"""Settings of models on the command line: `--lr 0.01` sets the field `lr` of the recipe or the model's config."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from anykg.errors import ConfigError, nearest
from anykg.models.base import LinkPredictor
from anykg.models.recipe import Recipe
from anykg.settings import changed


def parse_settings(
    arguments: Sequence[str], model: type[LinkPredictor], config: Any | None = None
) -> tuple[Any, Recipe]:
    """The config given or the model's own, and its recipe, with the fields named in `arguments` changed."""
    config, recipe = model.Config() if config is None else config, model.recipe
    names = {which: {f.name for f in dataclasses.fields(which)} for which in (config, recipe)}
    values: dict[Any, dict[str, str]] = {config: {}, recipe: {}}
    for name, value in _pairs(arguments):
        owner = next((which for which in names if name in names[which]), None)
        if owner is None:
            everything = sorted(set().union(*names.values()))
            near = " or ".join(f"--{n.replace('_', '-')}" for n in nearest(name, everything)) or "`anykg models NAME`"
            raise ConfigError(f"There is no setting --{name.replace('_', '-')}; see {near}.")
        values[owner][name] = value
    return changed(config, values[config]), changed(recipe, values[recipe])


def configured(model: LinkPredictor, arguments: Sequence[str]) -> LinkPredictor:
    """The trained model under the settings named in `arguments`, where its weights allow them."""
    if not arguments:
        return model
    config = changed(model.config, dict(_pairs(arguments)))
    try:
        return model.with_config(**dataclasses.asdict(config))
    except RuntimeError as error:
        named = ", ".join(arguments[::2])
        raise ConfigError(
            f"{named}: the weights were trained under another value; train a model with this one."
        ) from error


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


def _pairs(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """`--name value` and `--name=value` as pairs, dashes in names as underscores."""
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
