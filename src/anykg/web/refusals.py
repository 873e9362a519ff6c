"""Describe invalid requests in one sentence per problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anykg.errors import UnknownName, nearest

SHOWN = 3
"""Maximum number of problems that are listed."""
LONGEST = 60
"""Maximum number of characters of a value that are shown."""


def refusal(problems: Sequence[Mapping[str, Any]], fields: Iterable[str]) -> str:
    """The sentences for the errors of pydantic; `fields` are the names of the body's fields.

    >>> refusal([{"type": "extra_forbidden", "loc": ("body", "relatio"), "msg": "", "input": "x"}], ["relation"])
    "There is no field named 'relatio'. Did you mean 'relation'?"
    >>> refusal([{"type": "missing", "loc": ("body", "head"), "msg": "Field required", "input": {}}], ["head"])
    "The field 'head' is missing."
    """
    return " ".join(_sentence(problem, list(fields)) for problem in problems[:SHOWN])


def _sentence(problem: Mapping[str, Any], fields: list[str]) -> str:
    kind, place = problem["type"], [part for part in problem["loc"] if part not in ("body", "query", "path")]
    where = ".".join(str(part) for part in place)
    if kind == "json_invalid":
        return f"The body is not JSON: {problem.get('ctx', {}).get('error', problem['msg'])} at character {where}."
    if kind == "missing" and not where:
        return "The request needs a JSON body."
    if kind == "missing":
        return f"The field {where!r} is missing."
    if kind == "extra_forbidden":
        return str(UnknownName("field", where, nearest(where, fields) if len(place) == 1 else ()))
    found = repr(problem.get("input"))
    shown = found if len(found) <= LONGEST else f"{found[:LONGEST]}..."
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where or 'The request'}: {message[:1].lower()}{message[1:]}, found {shown}."
