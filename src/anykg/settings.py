"""Settings as frozen dataclasses: described by their field docstrings, read from text, kept as JSON.

A field is an int, float, bool, str or a Literal of strings.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from anykg.errors import ConfigError, nearest

S = TypeVar("S")


class Setting(NamedTuple):
    """One field as a user sees it."""

    name: str
    kind: str
    default: Any
    help: str


def describe(settings: type) -> list[Setting]:
    """The fields of a settings class with the docstring below each."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            docs[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    hints = get_type_hints(settings)
    return [
        Setting(field.name, _kind(hints[field.name]), field.default, docs.get(field.name, ""))
        for field in dataclasses.fields(settings)
    ]


def changed(settings: S, values: Mapping[str, str]) -> S:
    """The settings with some fields replaced by values given as text."""
    hints = get_type_hints(type(settings))
    names = [field.name for field in dataclasses.fields(settings)]  # type: ignore[arg-type]
    parsed = {}
    for name, text in values.items():
        if name not in names:
            near = " or ".join(f"--{n.replace('_', '-')}" for n in nearest(name, names)) or "`anykg models NAME`"
            raise ConfigError(f"There is no setting --{name.replace('_', '-')}; see {near}.")
        parsed[name] = _parse(name, hints[name], text)
    return dataclasses.replace(settings, **parsed)  # type: ignore[type-var]


def from_json(settings: type[S], values: Mapping[str, Any]) -> S:
    """Settings from what `dataclasses.asdict` wrote; unknown fields are refused by name.

    A field that came later has its default, which must leave everything as it was before there was such a field.
    """
    unknown = sorted(set(values) - {field.name for field in dataclasses.fields(settings)})  # type: ignore[arg-type]
    if unknown:
        raise ConfigError(
            f"{settings.__name__} has no field named {', '.join(unknown)}; was it saved by a newer version?"
        )
    return settings(**values)


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return str(getattr(hint, "__name__", hint))


def _parse(name: str, hint: Any, text: str) -> Any:
    if get_origin(hint) is Literal:
        if text in get_args(hint):
            return text
    elif hint is bool:
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
    else:
        try:
            return hint(text)
        except ValueError:
            pass
    raise ConfigError(f"--{name.replace('_', '-')}: expected {_kind(hint)}, found {text!r}.")
