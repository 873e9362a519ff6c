"""Read and write typed tables: Parquet, Feather, Excel, JSON lines of flat objects, data frames."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from anykg.errors import ConfigError, DataError
from anykg.io.columns import MEASURES, THINGS, Roles, by_choice, by_header, plain, question
from anykg.io.escapes import escape_where
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed, of_roles
from anykg.io.source import Source

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph

CELL = 32_767
"""Upper bound on the characters of an Excel cell."""
GRAPHRAG = {"source", "target", "description", "text_unit_ids"}
"""Columns of the relationships of GraphRAG, which have no types."""
_NAMELESS = re.compile(r"(column_?|unnamed:? ?|field_?|f)?\d+|[a-z]")


def of_frame(frame: pl.DataFrame, options: ReadOptions, format: str, path: object) -> Parsed:
    """The links in a frame, by the names of its columns or the user's choice."""
    if not frame.height:
        raise DataError(f"{path}: the table has no rows; expected a fact in each.")
    names = frame.columns
    roles = _roles(frame, names, options, path)
    return of_roles(frame, roles, names, format=format, header=True)


def _roles(frame: pl.DataFrame, names: Sequence[str], options: ReadOptions, path: object) -> Roles:
    if options.columns is not None:
        return by_choice(options.columns, names, len(names), options.relation, path)
    if {plain(name) for name in names} >= GRAPHRAG:
        return Roles(names.index("source"), None, names.index("target"))
    roles = by_header(names)
    if roles is not None:
        if options.relation is not None:
            return roles._replace(relation=None, unclear=False)
        if not roles.unclear:
            return roles
        raise question(path, names, why="it is unclear which column is the relation")
    if options.in_order and len(names) == 3:
        return Roles(0, 1, 2)
    words = {plain(name) for name in names}
    nameless = all(_NAMELESS.fullmatch(name.lower()) for name in names)
    if len(names) == 3 and (nameless or not words & (THINGS | MEASURES)):
        _refuse_measures(frame, path)
        return Roles(0, 1, 2)
    if len(names) == 2 and options.relation is not None:
        return Roles(0, None, 1)
    raise question(path, names)


def _refuse_measures(frame: pl.DataFrame, path: object) -> None:
    """Raise if the middle column has many values and the last few, as in ratings."""
    middle, last = (frame.to_series(i).head(2000).n_unique() for i in (1, 2))
    if middle > 20 and middle > 5 * last:
        raise question(path, frame.columns, why=f"the second column has {middle} values and the third only {last}")


def read_parquet(source: Source, options: ReadOptions) -> Parsed:
    """The links in a Parquet file."""
    try:
        frame = pl.read_parquet(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{source.path}: this Parquet file is cut short or damaged; download or export it again."
        ) from error
    return of_frame(frame, options, "parquet", source.path)


def read_feather(source: Source, options: ReadOptions) -> Parsed:
    """The links in a Feather (Arrow IPC) file."""
    try:
        frame = pl.read_ipc(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{source.path}: this Feather file is cut short or damaged; download or export it again."
        ) from error
    return of_frame(frame, options, "feather", source.path)


def read_excel(source: Source, options: ReadOptions) -> Parsed:
    """The links in the first sheet of an Excel file that has some."""
    rows = _excel_rows(source)
    if not rows:
        raise DataError(f"{source.path}: the sheet is empty; expected a fact in each row.")
    from anykg.io.dialect import Dialect, is_header

    texts = [[_cell(value) for value in row] for row in rows]
    width = max(map(len, texts))
    texts = [row + [""] * (width - len(row)) for row in texts]
    header = is_header(texts[:2000], width) if options.header is None else options.header
    dialect = Dialect(",", width, header, tuple(texts[0]) if header else None)
    columns = zip(*texts[int(header) :], strict=True)
    named = zip(dialect.columns, columns, strict=True)
    frame = pl.DataFrame([pl.Series(name, [value or None for value in values], pl.String) for name, values in named])
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    parsed = of_frame(frame, options, "excel", source.path)
    return parsed.but(header=header)


def _excel_rows(source: Source) -> list[list[object]]:
    try:
        import openpyxl
    except ImportError as error:
        raise DataError(
            f"{source.path}: reading Excel needs openpyxl; `pip install 'anykg[excel]'`, or save CSV."
        ) from error
    try:
        book = openpyxl.load_workbook(io.BytesIO(source.data), read_only=True, data_only=True)
    except Exception as error:  # openpyxl raises whatever its parts raise
        raise DataError(
            f"{source.path}: this is not an Excel file (.xlsx) or it is damaged ({type(error).__name__}); save it as "
            ".xlsx or CSV."
        ) from error
    try:
        for sheet in book.worksheets:
            rows = [list(row) for row in sheet.iter_rows(values_only=True) if any(value is not None for value in row)]
            if rows:
                return rows
    finally:
        book.close()
    return []


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


# -- writing ----------------------------------------------------------------------------------------------------


def facts(graph: KnowledgeGraph) -> pl.DataFrame:
    """The facts of a graph as a table of names, with empty names escaped so that they are not read as blank."""
    return graph.to_polars().select(pl.all().map_batches(lambda names: escape_where(names, lambda n: n == "")))


def write_parquet(graph: KnowledgeGraph) -> bytes:
    """The content of a Parquet file."""
    buffer = io.BytesIO()
    facts(graph).write_parquet(buffer)
    return buffer.getvalue()


def write_feather(graph: KnowledgeGraph) -> bytes:
    """The content of a Feather file."""
    buffer = io.BytesIO()
    facts(graph).write_ipc(buffer)
    return buffer.getvalue()


def write_excel(graph: KnowledgeGraph) -> bytes:
    """The content of an Excel file."""
    table = graph.to_polars().select(pl.all().map_batches(lambda names: escape_where(names, _not_for_cells)))
    return excel_of(table)


def excel_of(table: pl.DataFrame) -> bytes:
    """The content of an Excel file with the rows of a table."""
    try:
        import openpyxl
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise ConfigError("Writing Excel needs openpyxl; `pip install 'anykg[excel]'`, or write CSV.") from error
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("facts")

    def cell(value: object) -> object:
        if not isinstance(value, str):
            return value
        if len(value) > CELL:
            raise DataError(f"Excel cannot hold the {len(value):,} characters of {value[:20]!r}...; write CSV.")
        made = WriteOnlyCell(sheet, value)
        made.data_type = "s"  # a name that starts with = is not a formula
        return made

    sheet.append(list(table.columns))
    for row in table.iter_rows():
        sheet.append([cell(value) for value in row])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _not_for_cells(names: pl.Series) -> pl.Series:
    """Names that Excel would change: control characters, line ends, leading and trailing spaces."""
    return (names == "") | names.str.contains(r"[\x00-\x1f\x7f\ufffe\uffff]|^\s|\s$|_x[0-9A-Fa-f]{4}_")
