"""Escape names that a format cannot hold as IRIs that every format can: `urn:anykg:` and the percent-encoded name.

Every reader decodes them again, so that what is written in any format is read back as the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote

import polars as pl

OWN = "urn:anykg:"
SUFFIX = "#_"
"""Appended to a relation in RDF/XML, so that its element has a name."""


def escaped(name: str) -> str:
    """A name as an IRI.

    >>> escaped("a b"), escaped("")
    ('urn:anykg:a%20b', 'urn:anykg:')
    """
    return OWN + quote(name, safe="")


def unescaped(name: str) -> str:
    """The name that an IRI encodes; other names are unchanged."""
    return unquote(name.removeprefix(OWN).removesuffix(SUFFIX)) if name.startswith(OWN) else name


def escape_where(names: pl.Series, needed: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Escape the names that a format cannot hold, and those that look escaped already."""
    odd = names.filter(needed(names) | names.str.starts_with(OWN)).unique()
    if not len(odd):
        return names
    return names.replace(odd, pl.Series([escaped(name) for name in odd.to_list()], dtype=pl.String))


def unescape(names: pl.Series) -> pl.Series:
    """Names with the escaped ones decoded."""
    odd = names.filter(names.str.starts_with(OWN)).unique()
    if not len(odd):
        return names
    return names.replace(odd, pl.Series([unescaped(name) for name in odd.to_list()], dtype=pl.String))
