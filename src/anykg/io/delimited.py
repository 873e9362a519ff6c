"""Triplets as delimited text: tabs, commas, pipes, semicolons or spaces; with or without a header; in any order.

How the file is written is told from its beginning. Then polars reads all of it at once; where there are quotes, or
where that does not give whole rows, a slower reader goes through the lines and either reads them or says which one is
wrong. Names in tab-separated files are taken as they are, quotes and all, as is the habit there; elsewhere quotes
enclose a name, as in CSV, and spaces around a name without quotes are not part of it. A line without any name is
skipped. No line is taken for a comment.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from anykg.errors import ConfigError, DataError
from anykg.io.source import SAMPLE_BYTES, Source

SEPARATORS = {"tab": "\t", "comma": ",", "pipe": "|", "semicolon": ";", "space": " "}
_BLANKS = " \t"
HEADERS = {
    "h": "head subject source from start h s subj src entity1 node1 head_id subject_id source_id start_id",
    "r": "relation predicate rel property edge r p type relationship relation_type edge_type relation_id",
    "t": "tail object target to end t o obj dst dest destination entity2 node2 tail_id object_id target_id end_id",
}
"""Words that name columns, in any case; neo4j writes them with a colon before."""
FIELDS = {"h": "head", "r": "relation", "t": "tail"}
LABEL_HEADERS = ({"id", "name", "entity", "relation", "iri", "uri", "key"}, {"label", "title", "description"})
SHOWN = 80


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is written."""

    separator: str
    columns: str
    """What each column holds: h, r, t, or _ for a column that is not read."""
    header: bool

    @property
    def quoted(self) -> bool:
        """Do quotes enclose names?"""
        return self.separator != "\t"

    @property
    def separator_name(self) -> str:
        """A word for the separator."""
        return next((name for name, character in SEPARATORS.items() if character == self.separator), self.separator)


def parse_triplets(
    source: Source, columns: str | None = None, separator: str | None = None, header: bool | None = None
) -> tuple[pl.DataFrame, Dialect]:
    """The names in a delimited file as columns head, relation, tail, and how the file is written."""
    if columns is not None:
        check_columns(columns)
    dialect = _detect(source, columns, _character(separator), header)
    table = _parse(source, dialect)
    if table.is_empty():
        found = "nothing below the header" if dialect.header else "only blank lines"
        raise DataError(f"{source.path}: expected a triplet on each line, found {found}.")
    return table.select(pl.col(letter).alias(FIELDS[letter]) for letter in "hrt"), dialect


def parse_labels(source: Source) -> dict[str, str]:
    """Labels by name, from a file of two columns; where a name comes twice, its first label counts."""
    sample = _sample(source)
    shares = {s: _part(Counter(map(len, _split(sample, s))), 2) for s in _candidates(source)}
    separator = max(shares, key=shares.__getitem__)
    first = next(_split(sample, separator), [])
    header = len(first) == 2 and all(
        field.strip().lower() in known for field, known in zip(first, LABEL_HEADERS, strict=True)
    )
    table = _parse(source, Dialect(separator, "nl", header)).unique("n", keep="first")
    return dict(zip(table["n"].to_list(), table["l"].to_list(), strict=True))


def check_columns(columns: str) -> None:
    """Refuse anything but h, r and t once each, with _ between them."""
    if sorted(columns.replace("_", "")) != ["h", "r", "t"]:
        raise ConfigError(
            f"Expected columns to name h, r and t once each, with _ for a column to skip, as in 'hrt' or 'h_tr'; "
            f"found {columns!r}."
        )


def header_columns(names: list[str]) -> str | None:
    """What the columns called `names` hold, as in `Dialect.columns`; None unless all three are there.

    Of three columns the one of a name not known is what the other two are not, if those are whole words.

    >>> header_columns(["id", "Subject", "Object", "predicate"])
    '_htr'
    >>> header_columns([":START_ID", ":END_ID", "what"])
    'htr'
    """
    columns = ""
    for name in names:
        word = name.strip().removeprefix(":").lower()
        letter = next((letter for letter, known in HEADERS.items() if word in known.split()), "_")
        columns += "_" if letter in columns else letter
    missing = set("hrt") - set(columns)
    if len(names) == 3 and len(missing) == 1 and min(map(len, names)) > 1:
        columns = columns.replace("_", missing.pop())
    return columns if set("hrt") <= set(columns) else None


# -- how the file is written ------------------------------------------------------------------------------------


def _detect(source: Source, columns: str | None, separator: str | None, header: bool | None) -> Dialect:
    sample = _sample(source)
    candidates = [separator] if separator else _candidates(source)
    if header is not False:
        for candidate in candidates:
            named = header_columns(next(_split(sample, candidate), []))
            if named:
                return Dialect(candidate, columns or named, True)
    width = len(columns or "hrt")
    widths = {candidate: Counter(map(len, _split(sample, candidate))) for candidate in candidates}
    # Names with spaces in a tab-separated file may split evenly at the spaces as well, never the other way round. The
    # same goes for the separator that the extension promises. Lines of another width are complained about later.
    for promised, least in (("\t", 2), (candidates[0], 3)):
        if promised in widths and _regular(widths[promised], least) >= 0.5:
            return Dialect(promised, columns or "hrt", bool(header))
    best = max(candidates, key=lambda s: _part(widths[s], width))
    if not widths[best][width]:
        best = max(candidates, key=lambda s: _regular(widths[s], 2))
    return Dialect(best, columns or "hrt", bool(header))


def _character(separator: str | None) -> str | None:
    if separator is None or separator in SEPARATORS:
        return SEPARATORS.get(separator or "")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise ConfigError(
            f"Expected a separator that is {', '.join(SEPARATORS)} or one ASCII character; found {separator!r}."
        )
    return separator


def _candidates(source: Source) -> list[str]:
    """The separators to try; the first of equals is taken."""
    first = {".csv": ",", ".psv": "|"}.get(source.extension, "\t")
    return sorted(SEPARATORS.values(), key=lambda s: s != first)


def _sample(source: Source) -> str:
    """The first lines of a file, whole ones if there are any."""
    start = source.data[:SAMPLE_BYTES]
    if len(start) < len(source.data):
        start = start[: start.rfind(b"\n") + 1] or start
    return start.decode("utf-8", errors="replace")


def _split(text: str, separator: str) -> Iterator[list[str]]:
    """The fields of every line that has some, as far as the quotes go."""
    try:
        for _, fields in _records(text, separator):
            yield fields
    except csv.Error:
        return


def _part(widths: Counter[int], width: int) -> float:
    """The part of the records that have `width` fields."""
    return widths[width] / max(widths.total(), 1)


def _regular(widths: Counter[int], least: int) -> float:
    """The part of the records that have as many fields as most, if those are at least so many."""
    width = max(widths, key=widths.__getitem__, default=0)
    return _part(widths, width) if width >= least else 0.0


# -- its rows ---------------------------------------------------------------------------------------------------


def _parse(source: Source, dialect: Dialect) -> pl.DataFrame:
    """The columns that are read, each called by its letter."""
    table = _parse_fast(source.data, dialect)
    return _parse_lines(source, dialect) if table is None else table


def _parse_fast(data: bytes, dialect: Dialect) -> pl.DataFrame | None:
    """The rows as polars reads them; None if any is not whole, or polars could read it otherwise than we do."""
    if dialect.quoted and b'"' in data:
        return None  # polars accepts quotes that do not match
    if data.count(b"\r") != data.count(b"\r\n"):
        return None  # polars takes some of the others for line ends
    if dialect.separator == " " and any(run in b"\n" + data for run in (b"  ", b" \n", b" \r", b"\n ")):
        return None
    wanted = [i for i, letter in enumerate(dialect.columns) if letter != "_"]
    try:
        table = pl.read_csv(
            data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data,
            separator=dialect.separator,
            has_header=dialect.header,
            schema={str(i): pl.String for i in range(len(dialect.columns))},
            columns=wanted,
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    table.columns = [dialect.columns[i] for i in wanted]
    if dialect.separator != "\t":
        table = table.select(pl.all().str.strip_chars_start(" ").str.strip_chars_end(_BLANKS))
    if any(column.null_count() for column in table):
        table = table.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
    return None if any(column.null_count() or (column == "").any() for column in table) else table


def _parse_lines(source: Source, dialect: Dialect) -> pl.DataFrame:
    """The same rows one by one; raises with the number of the first line that is wrong."""
    path, width = source.path, len(dialect.columns)
    rows: list[list[str]] = []
    line = 0
    before = source.first_line - 1
    records = _records(decode(source), dialect.separator)
    wanted = [i for i, letter in enumerate(dialect.columns) if letter != "_"]
    try:
        for line, fields in itertools.islice(records, int(dialect.header), None):
            if len(fields) != width:
                raise DataError(
                    f"{path}:{before + line}: expected {width} {dialect.separator_name}-separated fields, found "
                    f"{len(fields)}: {_shown(fields, dialect)}. {_advice(fields, dialect, first=not rows)}"
                )
            row = [fields[i] for i in wanted]
            if "" in row:
                raise DataError(
                    f"{path}:{before + line}: expected a name in every field, found an empty one: "
                    f"{_shown(fields, dialect)}."
                )
            rows.append(row)
    except csv.Error as error:
        raise DataError(
            f"{path}:{before + line + 1}: the quotes or line ends at or below this line are not those of CSV "
            f'({error}); write a quote within a quoted name as "".'
        ) from error
    columns = zip(*rows, strict=True) if rows else ([] for _ in wanted)
    return pl.DataFrame([pl.Series(dialect.columns[i], c, pl.String) for i, c in zip(wanted, columns, strict=True)])


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The number of the line where a record starts, and its fields; lines without any name are left out."""
    lines = io.StringIO(text, newline="\n")
    if separator == "\t":
        for number, line in enumerate(lines, 1):
            fields = line.removesuffix("\n").removesuffix("\r").split(separator)
            if _has_name(fields):
                yield number, fields
        return
    spaces = separator == " "  # runs of them separate once
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    last, bare = 0, '"' not in text  # within quotes a space at the end is part of the name
    for fields in reader:
        if bare:
            fields = [field.rstrip(_BLANKS) for field in fields]
        if spaces and len(fields) > 1 and not fields[-1]:
            fields.pop()
        if _has_name(fields):
            yield last + 1, fields
        last = reader.line_num


def _has_name(fields: list[str]) -> bool:
    return any(fields) and not (len(fields) == 1 and not fields[0].strip())


def _shown(fields: list[str], dialect: Dialect) -> str:
    return repr(dialect.separator.join(fields)[:SHOWN])


def _advice(fields: list[str], dialect: Dialect, first: bool) -> str:
    """What to do about a line; the first one tells what the others are like."""
    if len(fields) > len(dialect.columns) and not first and dialect.quoted:
        return f"If a name has a {dialect.separator_name} in it, put it in quotes."
    if dialect.columns == "hrt" and len(fields) > 3 and dialect.separator != " ":
        return f"Say what the columns are, as in --columns hrt{'_' * (len(fields) - 3)}."
    if dialect.separator == " ":
        return 'Put names with spaces in quotes ("New York"), or use --separator if spaces do not separate.'
    if len(fields) == 1:
        return "Use --separator space (or comma, pipe, semicolon, tab) if the fields are separated otherwise."
    return "Mend the line, or use --separator if the fields are separated otherwise."


def decode(source: Source) -> str:
    """The content as text; raises with the line that is not UTF-8."""
    try:
        return source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = source.data.count(b"\n", 0, error.start) + source.first_line
        raise DataError(
            f"{source.path}:{line}: expected UTF-8 text, found the byte 0x{source.data[error.start]:02x}; "
            "save the file as UTF-8."
        ) from error
