"""Apply the user's reading options to the output of a reader: the same steps for every format.

Conditions, blank fields, one relation for links without a type, escaped names, properties of Wikibase, prefixed names,
bins of numbers, relations to keep and to drop. The result is a table of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import polars as pl

from anykg.errors import DataError, UnknownName, nearest
from anykg.io import wikibase
from anykg.io.escapes import OWN, unescape
from anykg.io.options import ReadOptions
from anykg.io.parsed import TRIPLET, Parsed, added
from anykg.io.where import filter_of

BLANK = "rows with a blank field"
CONDITIONS = "rows by conditions"
RELATIONS = "facts of relations that were not selected"
LITERALS = "statements about literals"
_WRITTEN = r'^"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"(?:\^\^<[^>]*>)?$'
_DATE = r'^"?([+-]?\d{4,})-\d\d(?:-\d\d.*)?$'
_NUMBER = r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*$"


class Names(NamedTuple):
    """The triplets of a file as names, and how they were parsed."""

    table: pl.DataFrame
    """head, relation, tail: strings, none empty unless written so, and none missing unless blank rows were kept."""
    parsed: Parsed
    labels: Mapping[str, str]
    prefixes: Mapping[str, str]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def header(self) -> bool:
        """Whether the first line was read as a header."""
        return self.parsed.header


def names_of(parsed: Parsed, options: ReadOptions, path: object = "", *, keep_blank: bool = False) -> Names:
    """A table of names from the output of a reader; rows with a blank field are left out unless `keep_blank`."""
    frame, left_out, notes = parsed.frame, dict(parsed.left_out), list(parsed.notes)
    if options.where:
        kept = frame.filter(filter_of(options.where, parsed.context))
        left_out = added(left_out, {CONDITIONS: frame.height - kept.height})
        frame = kept
    table = _strings(frame, parsed, options, path)
    labels = dict(parsed.labels)
    whole = table if keep_blank else table.drop_nulls(TRIPLET)
    blank = table.height - whole.height
    if blank and options.strict:
        row = table.with_row_index().filter(pl.any_horizontal(pl.col(TRIPLET).is_null()))["index"][0]
        missing = next(name for name in TRIPLET if table[name][row] is None)
        raise DataError(
            f"{path}: expected a {missing} in every row, found none in row {row + 1}; leave out `strict` to skip such "
            "rows."
        )
    left_out = added(left_out, {BLANK: blank})
    labels = _label_columns(whole, parsed) | labels
    table = whole.select(*TRIPLET, *(["literal"] if parsed.literal else []))
    table, labels = _decoded(table, labels)
    table, labels = _one_property(table, labels)
    if options.bins is not None:
        table, dropped = _binned(table, options)
        left_out = added(left_out, {LITERALS: dropped})
    table = table.select(TRIPLET)
    if options.names == "prefixed" and parsed.prefixes:
        table, labels = _prefixed(table, labels, parsed.prefixes)
    if options.keep or options.drop:
        before = table.height
        table = _chosen(table, labels, parsed.prefixes, options)
        left_out = added(left_out, {RELATIONS: before - table.height})
    if parsed.relation is None and options.relation is None:
        notes.append(
            f"the links have no types, so all are read as one relation, {parsed.untyped!r}: questions for a relation "
            "are meaningless (`relation` names it)"
        )
    return Names(table, parsed, labels, parsed.prefixes, left_out, tuple(notes))


# -- columns as names -------------------------------------------------------------------------------------------


def _strings(frame: pl.DataFrame, parsed: Parsed, options: ReadOptions, path: object) -> pl.DataFrame:
    """Columns head, relation, tail (and literal, and those of labels) as strings; blank is null."""
    columns = [
        _names(frame[parsed.head], path).alias("head"),
        (
            pl.repeat(options.relation or parsed.untyped, frame.height, dtype=pl.String, eager=True)
            if parsed.relation is None
            else _names(frame[parsed.relation], path)
        ).alias("relation"),
        _names(frame[parsed.tail], path, numbers=options.bins is not None).alias("tail"),
    ]
    if parsed.literal is not None:
        columns.append(frame[parsed.literal].alias("literal"))
    for name, label in _label_pairs(parsed):
        columns.append(frame[label].cast(pl.String).alias(f"label of {name}"))
    return pl.DataFrame(columns)


def _names(values: pl.Series, path: object, *, numbers: bool = False) -> pl.Series:
    """Names as strings; integers become digits, as do integral floats, which columns with missing values have."""
    kind = values.dtype
    if kind.is_float() and not numbers:
        whole = values.drop_nulls().drop_nans()
        if len(whole) and not (whole == whole.round()).all():
            raise DataError(
                f"{path}: expected names in column {values.name!r}, found values of type {kind}; use bins=10 if "
                "these are numbers that facts are about, or `columns` for other columns."
            )
        values = values.fill_nan(None).cast(pl.Int64)
    elif kind in (pl.List, pl.Struct, pl.Array, pl.Object, pl.Binary):
        raise DataError(f"{path}: expected names in column {values.name!r}, found values of type {kind}.")
    if kind == pl.Null:
        return pl.Series(values.name, [None] * len(values), pl.String)
    text = values.cast(pl.String)
    return text.replace("", None) if kind == pl.String and (text == "").any() else text


def _label_pairs(parsed: Parsed) -> list[tuple[str, str]]:
    pairs = zip(TRIPLET, (parsed.head_label, parsed.relation_label, parsed.tail_label), strict=True)
    return [(name, label) for name, label in pairs if label is not None]


def _label_columns(table: pl.DataFrame, parsed: Parsed) -> dict[str, str]:
    """Labels by name, from the columns of labels."""
    labels: dict[str, str] = {}
    for name, _ in _label_pairs(parsed):
        pairs = table.select(pl.col(name).alias("name"), pl.col(f"label of {name}").alias("label"))
        pairs = pairs.drop_nulls().unique("name", keep="first", maintain_order=True)
        labels |= dict(pairs.iter_rows())
    return labels


def _decoded(table: pl.DataFrame, labels: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Undo the escaping of names by `anykg.io.escapes`."""
    if not table.select(pl.any_horizontal(pl.col(TRIPLET).str.starts_with(OWN).any())).item():
        return table, labels
    from anykg.io.escapes import unescaped

    decoded = [unescape(table[name]) for name in TRIPLET]
    return table.with_columns(decoded), {unescaped(name): label for name, label in labels.items()}


# -- relations --------------------------------------------------------------------------------------------------


def _one_property(table: pl.DataFrame, labels: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Use one relation for each property of a Wikibase."""
    renamed = wikibase.property_names(table["relation"])
    if not renamed:
        return table, labels
    return table.with_columns(pl.col("relation").replace(renamed)), labels


def _chosen(
    table: pl.DataFrame, labels: Mapping[str, str], prefixes: Mapping[str, str], options: ReadOptions
) -> pl.DataFrame:
    """The facts of the relations to keep, without those to drop."""
    relations = table["relation"].unique().to_list()
    known: dict[str, set[str]] = {}
    for name in relations:
        for word in (name, labels.get(name), short(name, prefixes)):
            if word:
                known.setdefault(word, set()).add(name)

    def matching(patterns: tuple[str, ...]) -> set[str]:
        all_matched: set[str] = set()
        for pattern in patterns:
            matched = {
                name
                for word, names in known.items()
                if word == pattern or ("*" in pattern and fnmatchcase(word, pattern))
                for name in names
            }
            if not matched:
                raise UnknownName("relation", pattern, nearest(pattern, known))
            all_matched |= matched
        return all_matched

    kept = matching(options.keep) if options.keep else set(relations)
    kept -= matching(options.drop)
    return table.filter(pl.col("relation").is_in(sorted(kept)))


def short(name: str, prefixes: Mapping[str, str]) -> str | None:
    """A name shortened by the longest prefix that fits.

    >>> short("http://www.wikidata.org/entity/Q42", {"wd": "http://www.wikidata.org/entity/"})
    'wd:Q42'
    """
    fitting = [(len(iri), prefix) for prefix, iri in prefixes.items() if iri and name.startswith(iri)]
    if not fitting:
        return None
    length, prefix = max(fitting)
    local = name[length:]
    return f"{prefix}:{local}" if re.fullmatch(r"[\w.~-]*", local) and local else None


def _prefixed(
    table: pl.DataFrame, labels: dict[str, str], prefixes: Mapping[str, str]
) -> tuple[pl.DataFrame, dict[str, str]]:
    distinct = pl.concat([table[name] for name in TRIPLET]).unique().to_list()
    shortened = {name: word for name in distinct if (word := short(name, prefixes))}
    taken = set(distinct)
    shortened = {name: word for name, word in shortened.items() if word not in taken}
    table = table.with_columns(pl.col(TRIPLET).replace(shortened))
    return table, {shortened.get(name, name): label for name, label in labels.items()}


# -- numbers ----------------------------------------------------------------------------------------------------


def _binned(table: pl.DataFrame, options: ReadOptions) -> tuple[pl.DataFrame, int]:
    """Bin numbers into ranges of about equally many facts per relation; also count the literals that were dropped.

    In RDF, the datatype of a literal determines whether it is a number, and dates count as their year. In other
    formats, the tails of a relation are numbers if all of them parse as numbers.
    """
    assert options.bins is not None
    tail = pl.col("tail")
    has_types = "literal" in table.columns
    number = pl.coalesce(tail.str.extract(_WRITTEN), tail.str.extract(_DATE), tail.str.extract(_NUMBER))
    table = table.with_columns(number.cast(pl.Float64, strict=False).alias("number"))
    if has_types:
        table = table.with_columns(pl.when(pl.col("literal")).then(pl.col("number")))
    else:
        table = table.with_columns(
            pl.when(pl.col("number").is_not_null().all().over("relation")).then(pl.col("number"))
        )
    numeric = table.filter(pl.col("number").is_not_null())
    ranges: dict[str, pl.DataFrame] = {}
    for (relation,), part in numeric.group_by("relation", maintain_order=True):
        ranges[str(relation)] = _ranges(str(relation), part["number"], options.bins)
    if ranges:
        names = pl.concat(ranges.values())
        table = table.join(names, on=["relation", "number"], how="left", maintain_order="left")
        table = table.with_columns(pl.coalesce("range", "tail").alias("tail")).drop("range")
    dropped = 0
    if has_types and options.literals == "drop":
        other = pl.col("literal") & pl.col("number").is_null()
        before = table.height
        table = table.filter(~other)
        dropped = before - table.height
    return table.drop("number"), dropped


def _ranges(relation: str, numbers: pl.Series, count: int) -> pl.DataFrame:
    """The range of each distinct number, by quantiles, so that ranges hold about equally many facts."""
    import numpy as np

    values = numbers.to_numpy()
    edges = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)))
    distinct = np.unique(values)
    at = np.clip(np.searchsorted(edges, distinct, side="right") - 1, 0, max(len(edges) - 2, 0))
    last = edges[np.minimum(at + 1, len(edges) - 1)]
    word = re.split(r"[/#:]", relation)[-1] or relation  # ages and heights do not share their ranges
    names = [f"{word}: {_plain(edges[i])} to {_plain(end)}" for i, end in zip(at, last, strict=True)]
    return pl.DataFrame({"relation": [relation] * len(distinct), "number": distinct, "range": names})


def _plain(number: float) -> str:
    return f"{number:.6g}" if abs(number) < 1e6 and number != int(number) else f"{number:.0f}"
