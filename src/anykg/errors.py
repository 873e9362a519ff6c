"""Every error a user can meet, and the exit code it ends the program with.

An `InputError` is the user's to mend and ends with exit code 2; any other exception is ours and ends with 1.
Its message is one sentence: where, what was expected, what was found, what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class InputError(Exception):
    """Something the user gave cannot be used."""


class Interrupted(Exception):
    """Long work was stopped by the user; it can be resumed."""


class DataError(InputError):
    """A file or a table of triplets cannot be read as a graph."""


class ConfigError(InputError):
    """A setting has a value it cannot have."""


class CheckpointError(InputError):
    """A saved model is missing, incomplete or not what it says it is."""


class UnknownName(InputError):
    """A name that is not there, with the nearest ones that are."""

    def __init__(self, kind: str, name: str, near: Sequence[str] = ()) -> None:
        hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        super().__init__(f"There is no {kind} named {name!r}.{hint}")
        self.kind, self.name, self.near = kind, name, list(near)

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, list[str]]]:
        return type(self), (self.kind, self.name, self.near)


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `name`, ignoring case."""
    by_folded: dict[str, str] = {}
    for known in names:
        by_folded.setdefault(known.casefold(), known)
    return [by_folded[key] for key in get_close_matches(name.casefold(), list(by_folded), n=count, cutoff=0.6)]
