"""Settings as frozen dataclasses: documented by field docstrings, parsed from text, stored as JSON.

A field is an int, float, bool, str or a Literal of strings.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from anykg.errors import ConfigError, SettingError, nearest

S = TypeVar("S")


class Setting(NamedTuple):
    """A field as shown to the user."""

    name: str
    kind: str
    default: Any
    help: str


def describe(settings: type) -> list[Setting]:
    """Return the fields of a settings class, each with the docstring below it."""
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


def changed(settings: S, values: Mapping[str, Any]) -> S:
    """Return the settings with some fields replaced, each given as a value or as text."""
    hints = get_type_hints(type(settings))
    names = [field.name for field in dataclasses.fields(settings)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise unknown_setting(name, names)
    parsed = {name: _parse(name, hints[name], value) for name, value in values.items()}
    return dataclasses.replace(settings, **parsed)  # type: ignore[type-var]


def unknown_setting(name: str, names: Sequence[str]) -> SettingError:
    """The error for a setting that does not exist, with near matches."""
    return SettingError(name, "there is no such setting", near=nearest(name, names))


def from_json(settings: type[S], values: Mapping[str, Any]) -> S:
    """Restore settings from what `dataclasses.asdict` returned; unknown fields raise `ConfigError`.

    A field added later gets its default, which must reproduce the behaviour from before the field existed.
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


def _parse(name: str, hint: Any, value: Any) -> Any:
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and type(value) is hint and hint is not str:
        return value
    text = str(value)
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
    raise SettingError(name, f"expected {_kind(hint)}, found {text!r}")
