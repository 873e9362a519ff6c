"""Translate messages of the library for the command line: Python arguments become options."""

from __future__ import annotations

import re

OPTIONS = {
    "columns": "--columns",
    "separator": "--separator",
    "header": "--header",
    "relation": "--one-relation",
    "where": "--where",
    "keep": "--keep",
    "drop": "--drop",
    "literals": "--literals",
    "bins": "--bins",
    "labels": "--labels",
    "attributes": "--attributes",
    "language": "--language",
    "names": "--names",
    "query": "--query",
    "strict": "--strict",
    "skip_malformed": "--skip-malformed",
    "fit": "--fit",
    "budget": "--budget",
    "seconds": "--seconds",
    "resume": "--resume",
    "out": "--out",
    "state": "--out",
    "data_dir": "--data-dir",
    "share": "--share",
    "seed": "--seed",
    "trust": "--trust",
    "grid": "--grid",
    "again": "--again",
    "known": "--known",
    "k": "--top",
    "calibrated": "--calibrated",
}
"""Options by their names in Python."""
_NAMES = "|".join(OPTIONS)
_VALUE = re.compile(rf"\b({_NAMES})=(?:'([^']*)'|(\d+)|True)(?:, (?=(?:{_NAMES})=))?")
_NAME = re.compile(rf"`({_NAMES})`")


def as_typed(text: str) -> str:
    """A message with options instead of arguments.

    >>> as_typed("give columns='a,b', relation='NAME', or leave out `strict`")
    'give --columns a,b --one-relation NAME, or leave out --strict'
    >>> as_typed("use query='SELECT a FROM b'")
    'use --query "SELECT a FROM b"'
    >>> as_typed("continue with resume=True, out='runs/one'")
    'continue with --resume --out runs/one'
    """

    def option(match: re.Match[str]) -> str:
        value = match[2] if match[2] is not None else match[3]
        shown = "" if value is None else f' "{value}"' if " " in value else f" {value}"
        return OPTIONS[match[1]] + shown + (" " if match[0].endswith(", ") else "")

    return _NAME.sub(lambda match: OPTIONS[match[1]], _VALUE.sub(option, text))
