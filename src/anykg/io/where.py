"""Parse conditions on columns, such as `confidence >= 0.7 and source in (PubMed, "Clinical trials")`.

A small grammar becomes a polars expression; nothing is ever evaluated as Python.

    condition  = both {"or" both}
    both       = single {"and" single}
    single     = "not" single | "(" condition ")" | column test
    test       = ("=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "in" "(" value {"," value} ")"
               | ["not"] "contains" value | "is" ["not"] "null"

A column or value with spaces or punctuation is quoted with ' or ". Compared with a number, a column is parsed as
numbers and rows that are not numbers do not match; compared with text, it is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

import polars as pl

from anykg.errors import ConfigError, UnknownName, nearest

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)"""
    r"""|(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)|(?P<word>[^\s<>=!(),'"`]+))"""
)
_KEYWORDS = ("and", "or", "not", "in", "is", "null", "contains")
_SIGNS = {"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class _Token(NamedTuple):
    kind: str  # quoted, sign, word, end
    text: str


def columns_of(conditions: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns that the conditions use, in the order of `columns`."""
    used: set[str] = set()
    for text in conditions:
        used |= _Parser(text, columns).parse().used
    return [name for name in columns if name in used]


def filter_of(conditions: Sequence[str], columns: Sequence[str]) -> pl.Expr:
    """An expression that is true for the rows where all conditions hold."""
    parsed = [_Parser(text, columns).parse().expression for text in conditions]
    return reduce(and_, parsed, pl.lit(True))


class _Condition(NamedTuple):
    expression: pl.Expr
    used: set[str]


class _Parser:
    """Recursive descent over the tokens of one condition."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text, self.columns = text, list(columns)
        self.tokens, self.at = self._split(), 0

    def parse(self) -> _Condition:
        condition = self._condition()
        if self._next().kind != "end":
            raise self._error("the end")
        return condition

    def _split(self) -> list[_Token]:
        tokens, position = [], 0
        while self.text[position:].strip():
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise ConfigError(f"where: {self.text!r} cannot be read at {self.text[position:].strip()[:20]!r}.")
            kind = str(match.lastgroup)
            text = match.group(kind)
            tokens.append(_Token(kind, re.sub(r"\\(.)", r"\1", text[1:-1]) if kind == "quoted" else text))
            position = match.end()
        return [*tokens, _Token("end", "")]

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _takes(self, *words: str) -> bool:
        """Consume the next tokens if they match."""
        ahead = self.tokens[self.at : self.at + len(words)]
        texts = [token.text.lower() for token in ahead if token.kind in ("word", "sign")]
        if texts == list(words):
            self.at += len(words)
            return True
        return False

    def _condition(self) -> _Condition:
        left = self._both()
        while self._takes("or"):
            right = self._both()
            left = _Condition(left.expression | right.expression, left.used | right.used)
        return left

    def _both(self) -> _Condition:
        left = self._single()
        while self._takes("and"):
            right = self._single()
            left = _Condition(left.expression & right.expression, left.used | right.used)
        return left

    def _single(self) -> _Condition:
        if self._takes("not"):
            inner = self._single()
            return _Condition(~inner.expression, inner.used)
        if self._takes("("):
            inner = self._condition()
            if not self._takes(")"):
                raise self._error("a closing parenthesis")
            return inner
        return self._test(self._column())

    def _test(self, name: str) -> _Condition:
        column = pl.col(name)
        if self._takes("is", "not", "null"):
            return _Condition(column.is_not_null(), {name})
        if self._takes("is", "null"):
            return _Condition(column.is_null(), {name})
        negated = self._takes("not")
        if self._takes("in"):
            expression = self._among(column)
        elif self._takes("contains"):
            expression = column.cast(pl.String).str.contains(self._value(), literal=True)
        elif not negated and self._peek().kind == "sign" and self._peek().text in _SIGNS:
            sign = _SIGNS[self._next().text]
            expression = _compare(column, sign, self._value(), quoted=self.tokens[self.at - 1].kind == "quoted")
        else:
            raise self._error("=, !=, <, <=, >, >=, in, contains or is null")
        expression = expression.fill_null(False)
        return _Condition(~expression if negated else expression, {name})

    def _among(self, column: pl.Expr) -> pl.Expr:
        if not self._takes("("):
            raise self._error("an opening parenthesis")
        expression = pl.lit(False)
        while True:
            value = self._value()
            quoted = self.tokens[self.at - 1].kind == "quoted"
            expression = expression | _compare(column, "eq", value, quoted=quoted).fill_null(False)
            if self._takes(")"):
                return expression
            if not self._takes(","):
                raise self._error("a comma or a closing parenthesis")

    def _column(self) -> str:
        token = self._next()
        if token.kind not in ("word", "quoted"):
            self.at -= 1
            raise self._error("the name of a column")
        if token.text in self.columns:
            return token.text
        same = [name for name in self.columns if name.casefold() == token.text.casefold()]
        if len(same) == 1:
            return same[0]
        shown = ", ".join(self.columns[:12]) or "none"
        raise UnknownName(f"column (there are {shown})", token.text, nearest(token.text, self.columns))

    def _value(self) -> str:
        token = self._next()
        if token.kind == "quoted":
            return token.text
        if token.kind != "word" or token.text.lower() in _KEYWORDS:
            self.at -= 1
            raise self._error("a value")
        words = [token.text]
        while self._peek().kind == "word" and self._peek().text.lower() not in _KEYWORDS:
            words.append(self._next().text)
        return " ".join(words)

    def _error(self, expected: str) -> ConfigError:
        found = repr(self._peek().text) if self._peek().kind != "end" else "the end"
        return ConfigError(
            f'where: expected {expected} in {self.text!r}, found {found}; write it as in "confidence >= 0.7".'
        )


def _compare(column: pl.Expr, sign: str, value: str, *, quoted: bool) -> pl.Expr:
    number = None if quoted else _number(value)
    if number is None:
        return getattr(column.cast(pl.String), sign)(pl.lit(value))  # type: ignore[no-any-return]
    return getattr(column.cast(pl.Float64, strict=False), sign)(pl.lit(number))  # type: ignore[no-any-return]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
