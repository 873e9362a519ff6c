"""Tables as delimited text: tabs, commas, pipes, semicolons or spaces; with or without a header; in any order.

`dialect.py` detects the dialect from the first lines. Then polars reads the whole file at once; if there are quotes or
incomplete rows, a slower line-by-line reader either reads them or reports the malformed line. Names in tab-separated
files are taken literally, including quotes, as is usual there; in other formats, quotes enclose a name, as in CSV, and
spaces around an unquoted name are stripped.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from anykg.errors import DataError
from anykg.io.columns import Roles, plain
from anykg.io.dialect import BLANKS, COMMENT, Dialect, advice, choose_roles, detect, is_blank, records, shown
from anykg.io.options import ReadOptions
from anykg.io.parsed import MALFORMED, Malformed, Parsed, of_roles
from anykg.io.source import SAMPLE_BYTES, Source, decode
from anykg.io.where import columns_of


def read(source: Source, options: ReadOptions) -> Parsed:
    """The links in a delimited file."""
    source = _single_separator(source)
    dialect = detect(source, options)
    if is_blank(source, dialect):
        raise DataError(f"{source.path}: expected a fact on each line, found only blank lines.")
    parsed = _parsed(source, dialect, choose_roles(source, dialect, options), options)
    if parsed.frame.is_empty():
        content = "nothing below the header" if dialect.header else "only comments"
        content = "only malformed lines" if parsed.malformed else content
        raise DataError(f"{source.path}: expected a fact on each line, found {content}.")
    return parsed


def stream(sources: Iterator[Source], options: ReadOptions) -> Iterator[Parsed]:
    """The links in the parts of a delimited file; the dialect is detected from the first."""
    dialect: Dialect | None = None
    roles: Roles | None = None
    for source in sources:
        source = _single_separator(source)
        if dialect is None or roles is None:
            dialect = detect(source, options)
            roles = choose_roles(source, dialect, options)
            yield _parsed(source, dialect, roles, options)
        else:
            yield _parsed(source, replace(dialect, skip=0, header=False, counted=False), roles, options)


def _parsed(source: Source, dialect: Dialect, roles: Roles, options: ReadOptions) -> Parsed:
    names = dialect.columns
    positions = sorted({*roles.used(), *(names.index(name) for name in columns_of(options.where, names))})
    frame, left_out, malformed = parse_rows(
        source,
        dialect,
        positions,
        required=(roles.head, roles.relation, roles.tail),
        skip_malformed=options.skip_malformed,
    )
    if options.strict:
        _refuse_blanks(source, dialect, roles, frame, left_out["comments"])
    parsed = of_roles(
        frame,
        roles,
        names,
        format="delimited",
        separator=dialect.separator_name,
        header=dialect.header,
        left_out=left_out,
        malformed=malformed,
    )
    notes = []
    if dialect.counted:
        notes.append("the first line counts the rows, as OpenKE's files do, so columns are h, t, r")
    if malformed:
        notes.append(f"the first malformed line is line {malformed[0].line}, which has {malformed[0].found}")
    return parsed.but(notes=tuple(notes))


def parse_labels(source: Source) -> dict[str, str]:
    """Labels by name, from a file of two columns or a list of nodes; a name's first label counts."""
    dialect = detect(_single_separator(source), ReadOptions(), labels=True)
    if dialect.header and dialect.names and dialect.width > 1:
        name, label = _label_columns(source, dialect)
    else:
        name, label = 0, 1
        if dialect.width != 2:
            raise DataError(
                f"{source.path}: expected a name and its label on each line, found {dialect.width} fields; give a file "
                "of two columns, or one with a header that has id and name."
            )
    frame = parse_rows(source, dialect, [name, label], required=()).frame
    columns = dialect.columns
    pairs = frame.drop_nulls().unique(columns[name], keep="first")
    return dict(zip(pairs[columns[name]].to_list(), pairs[columns[label]].to_list(), strict=True))


def _label_columns(source: Source, dialect: Dialect) -> tuple[int, int]:
    """The columns of names and labels of a list of nodes with a header."""
    words = [plain(name) for name in dialect.names or ()]
    ids = [i for i, raw in enumerate(dialect.names or ()) if ":ID" in raw]
    ids += [i for word in ("id", "name", "entity", "relation", "iri", "uri", "key", "curie") for i in _at(words, word)]
    if not ids:
        ids = [0]
    titles = [
        i for word in ("label", "name", "title", "display_name", "description") for i in _at(words, word) if i != ids[0]
    ]
    if not titles and dialect.width == 2:
        titles = [1 - ids[0]]
    if not titles:
        raise DataError(
            f"{source.path}: expected a column of labels called label, name or title, found "
            f"{', '.join(dialect.names or ())}; rename the column that has them."
        )
    return ids[0], titles[0]


def _at(words: Sequence[str], word: str) -> list[int]:
    return [words.index(word)] if word in words else []


def _single_separator(source: Source) -> Source:
    """Replace the separator ::, as in MovieLens, by a tab."""
    sample = source.data[:SAMPLE_BYTES]
    first = sample.split(b"\n", 1)[0]
    if first.count(b"::") < 2 or b"\t" in sample or b"," in first:
        return source
    return source._replace(data=source.data.replace(b"::", b"\t"))


class Rows(NamedTuple):
    """Rows of a delimited file."""

    frame: pl.DataFrame
    """The wanted columns; blank fields are nulls."""
    left_out: dict[str, int]
    """The numbers of skipped comments, repeated headers and malformed lines."""
    malformed: tuple[Malformed, ...]


def parse_rows(
    source: Source,
    dialect: Dialect,
    wanted: Sequence[int],
    *,
    required: Sequence[int | None],
    skip_malformed: bool | None = None,
) -> Rows:
    """The `wanted` columns of a delimited file.

    Rows in which the `required` columns are all blank are dropped. Headers are repeated in files that were
    concatenated. Lines with too few or too many fields are skipped with `skip_malformed`; otherwise the first one
    raises, and the message mentions the option unless it is None.
    """
    data, skipped = _after_lines(source.data, dialect.skip)
    frame = _parse_fast(data, dialect, wanted)
    comments = skipped - int(dialect.counted)
    malformed: list[Malformed] = []
    if frame is None:
        rest = source._replace(data=data, first_line=source.first_line + skipped)
        frame, num_comments, malformed = _parse_lines(rest, dialect, wanted, skip_malformed)
        comments += num_comments
    names = dialect.columns
    needed = [names[index] for index in required if index is not None]
    if needed and any(frame[name].null_count() for name in needed):
        frame = frame.filter(~pl.all_horizontal(pl.col(needed).is_null()))
    left_out = {"comments": comments}
    if dialect.names is not None and needed:
        again = pl.all_horizontal(pl.col(name) == name for name in needed)
        before = frame.height
        frame = frame.filter(~again.fill_null(False))
        left_out["repeated headers"] = before - frame.height
    if malformed:
        left_out[MALFORMED] = len(malformed)
    return Rows(frame, left_out, tuple(malformed))


def _after_lines(data: bytes, count: int) -> tuple[bytes, int]:
    """The content after its first `count` lines."""
    position = 0
    for _ in range(count):
        position = data.find(b"\n", position) + 1
    return (data[position:], count) if count else (data, 0)


def _parse_fast(data: bytes, dialect: Dialect, wanted: Sequence[int]) -> pl.DataFrame | None:
    """The rows as polars reads them; None if any is incomplete, or if polars might parse it differently."""
    if dialect.quoted and b'"' in data:
        return None  # polars accepts quotes that do not match
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None  # polars treats some lone carriage returns as line ends
    if dialect.separator == " " and any(run in b"\n" + data for run in (b"  ", b" \n", b" \r", b"\n ")):
        return None  # polars takes every space as a separator
    names = dialect.columns
    try:
        table = pl.read_csv(
            data.lstrip(b"\r\n") if data[:1] in (b"\r", b"\n") else data,
            separator=dialect.separator,
            has_header=dialect.header,
            schema=dict.fromkeys(names, pl.String),
            columns=list(wanted),
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    if dialect.separator != "\t":
        table = table.select(pl.all().str.strip_chars_start(" ").str.strip_chars_end(BLANKS))
    blank = any(column.null_count() or (column == "").any() for column in table)
    if not blank:
        return table
    if dialect.separator == " ":
        return None  # a blank at the end of a line is no field
    # polars fills short lines with nulls, so counting separators distinguishes them from blank fields.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if data.count(dialect.separator.encode()) != lines * (dialect.width - 1):
        return None
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


def _parse_lines(
    source: Source, dialect: Dialect, wanted: Sequence[int], skip_malformed: bool | None
) -> tuple[pl.DataFrame, int, list[Malformed]]:
    """The same rows one by one, the number of comments, and the lines that were skipped as malformed."""
    path, width = source.path, dialect.width
    rows: list[list[str | None]] = []
    malformed: list[Malformed] = []
    line = comments = 0
    before = source.first_line - 1
    rows_of = records(decode(source), dialect.separator)
    limit = csv.field_size_limit(1 << 30)
    try:
        for line, fields in itertools.islice(rows_of, int(dialect.header), None):
            if len(fields) != width:
                if fields[0].startswith(COMMENT):
                    comments += 1
                    continue
                if skip_malformed:
                    malformed.append(Malformed(before + line, _found(fields, dialect)))
                    continue
                hint = " Use `skip_malformed` to skip and count such lines." if skip_malformed is False and rows else ""
                raise DataError(
                    f"{path}:{before + line}: expected {width} {dialect.separator_name}-separated fields, found "
                    f"{len(fields)}: {shown(fields, dialect)}. {advice(fields, dialect, first=not rows)}{hint}"
                )
            rows.append([fields[i] or None for i in wanted])
    except csv.Error as error:
        raise DataError(
            f"{path}:{before + line + 1}: the quotes or line ends at or below this line are not those of CSV "
            f'({error}); write a quote within a quoted name as "".'
        ) from error
    finally:
        csv.field_size_limit(limit)
    columns = zip(*rows, strict=True) if rows else ([] for _ in wanted)
    names = dialect.columns
    frame = pl.DataFrame([pl.Series(names[i], c, pl.String) for i, c in zip(wanted, columns, strict=True)])
    return frame, comments, malformed


def _found(fields: Sequence[str], dialect: Dialect) -> str:
    count = f"{len(fields)} {'field' if len(fields) == 1 else 'fields'} instead of {dialect.width}"
    return f"{count}: {shown(list(fields), dialect)}"


def _refuse_blanks(source: Source, dialect: Dialect, roles: Roles, frame: pl.DataFrame, comments: int) -> None:
    """With `strict`: raise with the line of the first comment or blank field."""
    names = dialect.columns
    needed = [index for index in (roles.head, roles.relation, roles.tail) if index is not None]
    if not comments and not any(frame[names[index]].null_count() for index in needed):
        return
    for position, (line, fields) in enumerate(records(decode(source), dialect.separator)):
        where = f"{source.path}:{source.first_line - 1 + line}"
        if fields[0].startswith(COMMENT) and (position < dialect.skip or len(fields) != dialect.width):
            raise DataError(f"{where}: expected a fact, found a comment: {shown(fields, dialect)}; leave out `strict`.")
        if position >= dialect.skip + dialect.header and any(not fields[index] for index in needed):
            raise DataError(
                f"{where}: expected a name in every field, found an empty one: {shown(fields, dialect)}; leave out "
                "`strict` to skip such lines."
            )
