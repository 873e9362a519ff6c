"""Attributes of entities as numbers: columns of a table, encoded by name so that a model can use them in another graph.

A numeric column is one attribute, standardised within the graph. A text column is one-hot encoded: each frequent value
is an attribute named COLUMN=VALUE. Missing values are 0 everywhere.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph

MOST_VALUES = 64
"""Maximum number of values of a text column that become attributes, most frequent first; unique values never do."""
SEPARATOR = "|"
"""Separates names in the settings of a model; a name that contains it is skipped."""


def attribute_names(graph: KnowledgeGraph) -> list[str]:
    """The attributes of the graph's entities, in the order of the table's columns."""
    table = graph.entities.attributes
    if table is None:
        return []
    names: list[str] = []
    for column in table:
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            names.append(column.name)
        else:
            counts = column.cast(pl.String).drop_nulls().value_counts(name="count")
            kept = counts.filter(pl.col("count") > 1).sort(["count", column.name], descending=[True, False])
            names += [f"{column.name}={value}" for value in kept[column.name].head(MOST_VALUES).to_list()]
    return [name for name in names if SEPARATOR not in name]


def attribute_values(graph: KnowledgeGraph, names: tuple[str, ...]) -> np.ndarray:
    """The named attributes of all entities, float32 [N, len(names)]; 0 where this graph has no such column or value."""
    table = graph.entities.attributes
    values = np.zeros((graph.num_entities, len(names)), np.float32)
    if table is None:
        shown = ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])
        raise DataError(
            f"{graph.name}: the model reads attributes of entities ({shown}), but none were given; give a table of "
            "them with `attributes`."
        )
    for index, name in enumerate(names):
        column, _, value = name.partition("=")
        if name in table.columns:
            values[:, index] = _standardised(table[name])
        elif column in table.columns:
            values[:, index] = (table[column].cast(pl.String) == value).fill_null(False).to_numpy()
    return values


def _standardised(column: pl.Series) -> np.ndarray:
    numbers = column.cast(pl.Float64)
    deviation = numbers.std()
    if not isinstance(deviation, float) or deviation == 0:
        deviation = 1.0
    return ((numbers - numbers.mean()) / deviation).fill_null(0.0).fill_nan(0.0).to_numpy()
