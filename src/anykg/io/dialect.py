"""Detect the dialect of a delimited file from its first lines: separator, header, roles of the columns.

A line that starts with # or % is a comment if it has a different number of fields than the others, or is in a block of
such lines at the top that are not all facts.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from anykg.errors import ConfigError, DataError
from anykg.io.columns import PROPERTIES, TELLING, THINGS, Roles, by_choice, by_header, check_choice, plain, question
from anykg.io.options import ReadOptions
from anykg.io.source import SAMPLE_BYTES, Source

SEPARATORS = {"tab": "\t", "comma": ",", "pipe": "|", "semicolon": ";", "space": " "}
COMMENT = ("#", "%")
BLANKS = " \t"
OPEN = "?"
"""Marks what is asked for in a file of questions."""
LABEL_HEADERS = ({"id", "name", "entity", "relation", "iri", "uri", "key"}, {"label", "title", "description"})
SHOWN = 80
_WORD = re.compile(r"[:_#]?[A-Za-z][\w .:;()/-]{0,40}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """The dialect of a delimited file."""

    separator: str
    width: int
    header: bool = False
    names: tuple[str, ...] | None = None
    """The names in the header."""
    skip: int = 0
    """Lines before the header or the first row that are comments or counts."""
    counted: bool = False
    """Whether the first line is the number of rows, as in OpenKE's files."""

    @property
    def quoted(self) -> bool:
        """Whether quotes enclose names."""
        return self.separator != "\t"

    @property
    def separator_name(self) -> str:
        """The name of the separator."""
        return next((name for name, character in SEPARATORS.items() if character == self.separator), self.separator)

    @property
    def columns(self) -> list[str]:
        """A name for each column: those of the header, else numbers from 1; repeated names get their number."""
        names = list(self.names or ())[: self.width]
        names += [""] * (self.width - len(names))
        return [
            name if name and names.index(name) == index else f"{name}{index + 1}" for index, name in enumerate(names)
        ]


def detect(source: Source, options: ReadOptions, *, labels: bool = False) -> Dialect:
    """Detect the dialect of a file, as far as the options do not set it."""
    if options.columns is not None:
        check_choice(options.columns)
    sample = _sample(source)
    skip, sample = _leading_comments(sample)
    separator = _character(options.separator)
    candidates = [separator] if separator else _candidates(source)
    expected = 2 if labels else _expected_width(options)
    counted = options.header is None and not options.in_order and _is_counted(source, sample, candidates)
    if counted:
        skip, sample = skip + 1, sample.split("\n", 1)[1]
    best = _separator(sample, candidates, expected, options)
    rows = list(itertools.islice(_split(sample, best), 2000))
    first = rows[0] if rows else []
    widths = Counter(map(len, rows))
    if options.columns and "," not in options.columns:
        width = len(options.columns)
    else:
        width = 3 if widths[3] and not labels and widths.most_common(1)[0][1] == widths[3] else _mode(widths)
    header = options.header
    if header is None:
        header = not counted and (_label_header(first) if labels else is_header(rows, width))
    names = tuple(field.strip().lstrip("#%").strip() if i == 0 else field.strip() for i, field in enumerate(first))
    if header and len(first) > width:
        width = len(first)
    return Dialect(best, max(width, 1), header, names if header else None, skip, counted)


def choose_roles(source: Source, dialect: Dialect, options: ReadOptions) -> Roles:
    """The roles of the columns; raises an error that asks for them if they are ambiguous."""
    path, width = source.path, dialect.width
    if options.columns is not None:
        return by_choice(options.columns, dialect.names, width, options.relation, path)
    if dialect.counted:
        return Roles(0, 2, 1) if options.relation is None else Roles(0, None, 1)
    rows = list(itertools.islice(_split(_leading_comments(_sample(source))[1], dialect.separator), 2000))
    if dialect.header and dialect.names is not None:
        roles = by_header(dialect.names)
        if roles is not None and options.relation is not None:
            return roles._replace(relation=None, unclear=False)
        if roles is not None and not roles.unclear:
            return roles
        if not (options.header is True or options.in_order) or width != 3:
            why = "it is unclear which column is the relation" if roles is not None else ""
            raise question(path, dialect.names, why=why)
    elif width > 3 and all(len(row) == width and not row[-1] for row in rows):
        return Roles(0, 1, 2) if width == 4 else _too_wide(source, dialect, rows)
    if width == 2 and not options.in_order:
        return _pair(source, dialect, rows, options)
    if width == 3 and options.relation is not None:
        raise ConfigError(
            f"{path}: has three columns, so relation {options.relation!r} needs columns that say which two are head "
            "and tail, such as columns='h_t'."
        )
    if width != 3:
        return _too_wide(source, dialect, rows)
    if not options.in_order:
        _refuse_measures(source, rows[int(dialect.header) :])
    return Roles(0, 1, 2)


def _pair(source: Source, dialect: Dialect, rows: list[list[str]], options: ReadOptions) -> Roles:
    """Two columns are links of one relation if the user says so, or if some names are in both."""
    pairs = [row for row in rows[int(dialect.header) :] if len(row) == 2]
    linked = {row[0] for row in pairs} & {row[1] for row in pairs}
    if options.relation is None and not linked:
        raise DataError(
            f"{source.path}: has two columns, {dialect.separator_name}-separated, with no name in both; if each line "
            "is a link, give relation='NAME'; if these are names and labels, give them with `labels` beside a file "
            "of facts; if fields are separated otherwise, use `separator`."
        )
    return Roles(0, None, 1)


def _too_wide(source: Source, dialect: Dialect, rows: list[list[str]]) -> Roles:
    fields = next((row for row in rows if len(row) == dialect.width), rows[0] if rows else [])
    raise DataError(
        f"{source.path}:{dialect.skip + 1 + int(dialect.header)}: expected 3 {dialect.separator_name}-separated "
        f"fields, found {len(fields)}: {shown(fields, dialect)}. {advice(fields, dialect, first=True)}"
    )


def _refuse_measures(source: Source, rows: list[list[str]]) -> None:
    """Raise if the middle column has many values and the last few: ratings, or a relation in the last column."""
    whole = [row for row in rows if len(row) == 3]
    middle, last = {row[1] for row in whole}, {row[2] for row in whole}
    if len(middle) > 20 and len(middle) > 5 * len(last):
        raise DataError(
            f"{source.path}: the second column has {len(middle)} different values in the first {len(whole)} rows and "
            f"the third only {len(last)}, so the second does not look like the relation; use columns='htr' if the "
            "third is, columns='ht_', relation='NAME' if all rows are of one relation, or columns='hrt' as it is."
        )


def _expected_width(options: ReadOptions) -> int:
    if options.columns and "," not in options.columns:
        return len(options.columns)
    return 2 if options.relation is not None and options.columns is None else 3


def _separator(sample: str, candidates: list[str], expected: int, options: ReadOptions) -> str:
    """The separator that makes the most regular rows."""
    if options.header is not False:
        for candidate in candidates:
            first = next(_split(sample, candidate), [])
            if len(first) > 2 and by_header(first) is not None:
                return candidate
    splitting = [candidate for candidate in candidates if len(next(_split(sample, candidate), [])) > 1]
    candidates = splitting or candidates
    widths = {candidate: Counter(map(len, _split(sample, candidate))) for candidate in candidates}
    # Names with spaces in a tab-separated file may also split evenly at the spaces, but never the reverse. The
    # same goes for the separator that the extension suggests. Lines of another width are reported later.
    for promised, least in (("\t", 2), (candidates[0], 3)):
        if promised in widths and _regular(widths[promised], least) >= 0.5:
            return promised
    best = max(candidates, key=lambda s: _part(widths[s], expected))
    if not widths[best][expected]:
        best = max(candidates, key=lambda s: _regular(widths[s], 2))
    return best


def is_header(rows: list[list[str]], width: int) -> bool:
    """Whether the first row names the columns."""
    first, rest = [field.strip() for field in rows[0]] if rows else [], rows[1:]
    if len(first) < 2 or OPEN in first:
        return False
    roles = by_header(first)
    words = [plain(field) for field in first]
    things = sum(word in THINGS for word in words)
    if roles is not None and not (things >= 2 and len(first) == 3):
        return True
    if any(":ID" in field or field.startswith(":") for field in first):
        return True
    whole = [row for row in rest if len(row) == len(first)]
    if not whole or len(set(first)) != len(first) or not all(_WORD.fullmatch(field) for field in first):
        return False
    columns = [{row[index] for row in whole} for index in range(len(first))]
    if any(field in values for field in first for values in columns):
        return False  # a repeated name is data
    if set(words) & TELLING or things >= 2 or (sum(word in PROPERTIES for word in words) >= 2):
        return True
    if any(all(_NUMBER.fullmatch(value) for value in values) for values in columns):
        return True
    changes = sum(first[i][:1].islower() and _mostly_capitals(columns[i]) for i in range(len(first)))
    return len(whole) >= 5 and changes >= 2


def _mostly_capitals(values: set[str]) -> bool:
    return sum(value[:1].isupper() or value[:1].isdigit() for value in values) >= 0.9 * len(values)


def _label_header(first: list[str]) -> bool:
    words = [plain(field) for field in first]
    if any(":ID" in field for field in first):
        return True
    if len(words) == 2:
        return all(word in known for word, known in zip(words, LABEL_HEADERS, strict=True)) or words == ["id", "name"]
    return len(set(words) & PROPERTIES) >= 2


def _is_counted(source: Source, sample: str, candidates: list[str]) -> bool:
    """Whether the first line is the number of the lines that follow, all of three integers."""
    first, _, rest = sample.partition("\n")
    if not first.strip().isdigit() or not rest.strip():
        return False
    row = next(_split(rest, "\t" if "\t" in rest else " "), [])
    lines = source.data.count(b"\n") - 1 + (not source.data.endswith(b"\n"))
    return len(row) == 3 and all(field.isdigit() for field in row) and abs(int(first) - lines) <= 1


def _leading_comments(sample: str) -> tuple[int, str]:
    """The number of comment lines at the top, and the content after them.

    A block of lines that all have as many fields as the first line after it, and no space after the sign, are facts;
    a last line of it that names columns is a header.
    """
    lines = sample.split("\n")
    count = next((i for i, line in enumerate(lines) if not line.lstrip("\r").startswith(COMMENT)), len(lines))
    following = next((line for line in lines[count:] if line.strip()), "")
    if not count or not following:
        return 0, sample
    separators = [s for s in SEPARATORS.values() if s in following]
    block = lines[:count]
    last = block[-1].rstrip("\r")
    for separator in separators:
        fields = [field.strip() for field in last.lstrip("#%").strip().split(separator)]
        if len(fields) > 1 and by_header([field for field in fields if field]) is not None:
            return count - 1, "\n".join(lines[count - 1 :])

    def is_fact(line: str) -> bool:
        return not line[1:2].isspace() and any(
            line.count(s) == following.count(s) for s in separators if s in line and (s != " " or len(separators) == 1)
        )

    if all(is_fact(line) for line in block):
        return 0, sample
    return count, "\n".join(lines[count:])


def _character(separator: str | None) -> str | None:
    if separator is None or separator in SEPARATORS:
        return SEPARATORS.get(separator or "")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise ConfigError(
            f"Expected a separator that is {', '.join(SEPARATORS)} or one ASCII character; found {separator!r}."
        )
    return separator


def _candidates(source: Source) -> list[str]:
    """The separators to try; ties go to the first."""
    first = {".csv": ",", ".psv": "|"}.get(source.extension, "\t")
    return sorted(SEPARATORS.values(), key=lambda s: s != first)


def _sample(source: Source) -> str:
    """The first lines of a file, complete ones if there are any."""
    start = source.data[:SAMPLE_BYTES]
    if len(start) < len(source.data):
        start = start[: start.rfind(b"\n") + 1] or start
    return start.decode("utf-8", errors="replace")


def is_blank(source: Source, dialect: Dialect) -> bool:
    """Whether the first lines have no record."""
    return not any(_split(_sample(source), dialect.separator))


def _split(text: str, separator: str) -> Iterator[list[str]]:
    """The fields of every non-blank line, up to a quoting error."""
    try:
        for _, fields in records(text, separator):
            yield fields
    except csv.Error:
        return


def _mode(widths: Counter[int]) -> int:
    return max(widths, key=widths.__getitem__, default=0)


def _part(widths: Counter[int], width: int) -> float:
    """The share of the records that have `width` fields."""
    return widths[width] / max(widths.total(), 1)


def _regular(widths: Counter[int], least: int) -> float:
    """The share of the records with the most common number of fields, if that is large enough."""
    width = _mode(widths)
    return _part(widths, width) if width >= least else 0.0


def records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number at which a record starts, and its fields; blank lines are skipped."""
    lines = io.StringIO(text, newline="\n")
    if separator == "\t":
        for number, line in enumerate(lines, 1):
            fields = line.removesuffix("\n").removesuffix("\r").split(separator)
            if _has_name(fields):
                yield number, fields
        return
    spaces = separator == " "  # a run of spaces is one separator
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    last, bare = 0, '"' not in text  # within quotes a space at the end is part of the name
    for fields in reader:
        if bare:
            fields = [field.rstrip(BLANKS) for field in fields]
        if spaces and len(fields) > 1 and not fields[-1]:
            fields.pop()
        if _has_name(fields):
            yield last + 1, fields
        last = reader.line_num


def _has_name(fields: list[str]) -> bool:
    return any(fields) and not (len(fields) == 1 and not fields[0].strip())


def shown(fields: list[str], dialect: Dialect) -> str:
    """The beginning of a line, for messages."""
    return repr(dialect.separator.join(fields)[:SHOWN])


def advice(fields: list[str], dialect: Dialect, first: bool) -> str:
    """Advice for a malformed line; the first line is taken as typical."""
    if len(fields) > dialect.width and not first and dialect.quoted:
        return f"If a name has a {dialect.separator_name} in it, put it in quotes."
    if len(fields) > 3 and dialect.separator != " ":
        skipped = "_" * (len(fields) - 3)
        return (
            f"Say what the columns are, as in columns='hrt{skipped}', or columns='ht_{skipped}', relation='NAME' if "
            "all rows are of one relation."
        )
    if dialect.separator == " ":
        return 'Put names with spaces in quotes ("New York"), or use `separator` if spaces do not separate.'
    if len(fields) == 1:
        return "Use separator='space' (or comma, pipe, semicolon, tab) if the fields are separated otherwise."
    return "Fix the line, or use `separator` if the fields are separated otherwise."
