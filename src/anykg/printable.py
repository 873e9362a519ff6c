r"""Escape text from files before printing, so that a name cannot control the terminal.

>>> printable("red \x1b[31m")
'red \\x1b[31m'
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0 and C1 controls, among them ESC
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, and what reverses the reading direction
    "\ud800-\udfff]"  # lone surrogates, which cannot be encoded
)


def printable(text: str, *, lines: bool = False, tabs: bool = False) -> str:
    r"""Escape control characters as Python does; with `lines`, line breaks stay, with `tabs`, tabs.

    >>> printable("a\nb\t\u202ec"), printable("a\nb", lines=True)
    ('a\\nb\\t\\u202ec', 'a\nb')
    """
    kept = ("\n" if lines else "") + ("\t" if tabs else "")
    return _CONTROL.sub(lambda found: found[0] if found[0] in kept else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
