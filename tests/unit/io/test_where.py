"""Conditions on columns."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import ConfigError, InputError, UnknownName
from anykg.io.where import columns_of, filter_of

TABLE = pl.DataFrame(
    {
        "row": [1, 2, 3, 4],
        "confidence": ["0.9", "0.5", "high", None],
        "source": ["PubMed", "New York Times", "x", "it's"],
        "number of papers": [10, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("confidence >= 0.7", [1]),
        ("confidence < 0.7", [2]),
        ("confidence != 0.9", [2]),
        ("confidence = high", [3]),
        ("Confidence is null", [4]),
        ("confidence is not null and not source = x", [1, 2]),
        ("source = New York Times", [2]),
        ("source = 'it\\'s' or source = PubMed", [1, 4]),
        ("source in (PubMed, 'x')", [1, 3]),
        ("source not in (PubMed, x)", [2, 4]),
        ("source contains York", [2]),
        ('"number of papers" > 2 and (row = 1 or row = 3)', [1, 3]),
        ("`number of papers` <= 2", [2]),
        ("row = '1'", [1]),
    ],
)
def test_rows(condition: str, rows: list[int]) -> None:
    assert TABLE.filter(filter_of([condition], TABLE.columns))["row"].to_list() == rows


def test_all_conditions_hold() -> None:
    assert TABLE.filter(filter_of(["row > 1", "row < 3"], TABLE.columns))["row"].to_list() == [2]
    assert columns_of(["row > 1", "source = x"], TABLE.columns) == ["row", "source"]


@pytest.mark.parametrize(
    "condition", ["", "confidence", "confidence >", "confidence = 1 2 )", "(row = 1", "row in 1", "row = 1 or", "= 3"]
)
def test_what_cannot_be_read_is_said(condition: str) -> None:
    with pytest.raises(ConfigError, match="where"):
        filter_of([condition], TABLE.columns)


def test_unknown_columns_are_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'confidence'"):
        filter_of(["confidense > 1"], TABLE.columns)


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_an_error_that_people_can_mend(text: str) -> None:
    try:
        expression = filter_of([text], TABLE.columns)
    except InputError:
        return
    TABLE.filter(expression)
