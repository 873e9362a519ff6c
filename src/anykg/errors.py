"""Errors that users see, and the exit codes of the command line.

An `InputError` is caused by the user's input and exits with code 2; any other exception is a bug and exits with 1. Its
message says where, what was expected, what was found, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches


class InputError(Exception):
    """The user's input cannot be used."""


class Interrupted(Exception):
    """The user stopped long work; it can be resumed."""


class DataError(InputError):
    """A file or table cannot be read as a graph, or the graph lacks the requested data."""


class ConfigError(InputError):
    """A setting or argument has an invalid value."""


class SettingError(ConfigError):
    """A setting does not exist or has an invalid value; the command line shows it as an option.

    >>> print(SettingError("batch_size", "expected int, found 'many'"))
    batch_size: expected int, found 'many'.
    >>> print(SettingError("epoch", "there is no such setting", near=["epochs"]).as_option())
    --epoch: there is no such setting; did you mean --epochs?
    """

    def __init__(self, setting: str, reason: str, near: Sequence[str] = ()) -> None:
        self.setting, self.reason, self.near = setting, reason, list(near)
        super().__init__(self._text(str))

    def as_option(self) -> str:
        """The message with command-line options instead of Python arguments."""
        return self._text(lambda name: f"--{name.replace('_', '-')}")

    def _text(self, shown: Callable[[str], str]) -> str:
        hint = f"; did you mean {' or '.join(map(shown, self.near))}?" if self.near else "."
        return f"{shown(self.setting)}: {self.reason}{hint}"

    def __reduce__(self) -> tuple[type[SettingError], tuple[str, str, list[str]]]:
        return type(self), (self.setting, self.reason, self.near)


class CheckpointError(InputError):
    """A saved model is missing, damaged or of a different type."""


class UnknownName(InputError):
    """A name that does not exist, with the closest ones that do; `others` counts further unknown names.

    `where` is where it was given, such as the line of a file; `note` is an additional sentence.
    """

    def __init__(
        self, kind: str, name: str, near: Sequence[str] = (), others: int = 0, where: str = "", note: str = ""
    ) -> None:
        *first, last = [repr(n) for n in near] or [""]
        hint = f" Did you mean {', '.join(first)}{' or ' if first else ''}{last}?" if near else ""
        more = f" {others:,} more of the names given {'is' if others == 1 else 'are'} unknown." if others else ""
        before = f"{where}: " if where else ""
        after = f" {note}" if note else ""
        super().__init__(f"{before}There is no {kind} named {name!r}.{hint}{after}{more}")
        self.kind, self.name, self.near, self.others, self.where, self.note = (
            kind,
            name,
            list(near),
            others,
            where,
            note,
        )

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, list[str], int, str, str]]:
        return type(self), (self.kind, self.name, self.near, self.others, self.where, self.note)


ALIKE = 0.65
"""Minimum similarity of a suggested name, from 0 to 1."""


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the names most similar to `name`, ignoring case; first those with the same words in another order.

    >>> nearest("Ingrid Wagner", ["Wagner, Ingmar", "Wagner, Ingrid", "Ingrid Wegener"])
    ['Wagner, Ingrid', 'Ingrid Wegener']
    """
    by_folded: dict[str, str] = {}
    for known in names:
        by_folded.setdefault(known.casefold(), known)
    folded = name.casefold()
    words = words_of(folded)
    reordered = [key for key in by_folded if words_of(key) == words] if len(words) > 1 else []
    alike = get_close_matches(folded, list(by_folded), n=count, cutoff=ALIKE)
    return [by_folded[key] for key in dict.fromkeys(reordered + alike)][:count]


def words_of(text: str) -> list[str]:
    """The words of a text in alphabetical order.

    >>> words_of("Wagner, Ingrid")
    ['Ingrid', 'Wagner']
    """
    return sorted(re.findall(r"[^\W_]+", text))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
