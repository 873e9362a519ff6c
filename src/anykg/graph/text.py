"""Names in memory-mapped buffers, decoded on demand.

The buffers are those of an Arrow file with one column of large strings, so that polars reads the same bytes. A sorted
list of positions finds a name by binary search: opening five million names creates no Python strings.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

COLUMN = "text"


@dataclass(frozen=True, eq=False)
class Text:
    """N strings, some of them missing."""

    arrow: np.ndarray  # uint8, an Arrow file
    offsets: np.ndarray  # int64 [N + 1], a part of `arrow`: string i is values[offsets[i]:offsets[i + 1]]
    values: np.ndarray  # uint8, UTF-8; a part of `arrow`
    order: np.ndarray  # uint32 [M], the positions of strings that are not missing, sorted by their bytes

    @classmethod
    def of(cls, strings: pl.Series) -> Text:
        """Lay out strings; empty ones count as missing if any is missing."""
        if strings.null_count():
            strings = strings.replace("", None)
        buffer = io.BytesIO()
        frame = strings.alias(COLUMN).rechunk().to_frame()
        frame.write_ipc(buffer, compat_level=pl.CompatLevel.oldest(), record_batch_size=max(len(strings), 1))
        arrow = np.frombuffer(buffer.getvalue(), np.uint8)
        lengths = strings.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        start, end = _positions(buffer.getvalue(), offsets, strings)
        order = strings.arg_sort(nulls_last=True).to_numpy()[: len(strings) - strings.null_count()]
        return cls(arrow, arrow[start : start + offsets.nbytes].view(np.int64), arrow[end : end + offsets[-1]], order)

    @classmethod
    def mapped(cls, arrow: np.ndarray, order: np.ndarray, layout: Mapping[str, int]) -> Text:
        """The same from stored buffers; see `layout`."""
        count, size = layout["count"], layout["bytes"]
        start, end = layout["offsets"], layout["values"]
        offsets = arrow[start : start + 8 * (count + 1)].view(np.int64)
        return cls(arrow, offsets, arrow[end : end + size], order)

    @property
    def layout(self) -> dict[str, int]:
        """The positions of the parts within `arrow`."""
        base = self.arrow.__array_interface__["data"][0]
        offsets, values = (part.__array_interface__["data"][0] - base for part in (self.offsets, self.values))
        return {"count": self.count, "bytes": len(self.values), "offsets": offsets, "values": values}

    @property
    def count(self) -> int:
        """N."""
        return len(self.offsets) - 1

    def at(self, index: int) -> str:
        """The string at a position; a missing one is empty."""
        return self._bytes(index).decode()

    def find(self, string: str) -> list[int]:
        """The positions of a string."""
        try:
            encoded = string.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which no file holds
            return []
        first = bisect_left(self.order, encoded, key=self._bytes)
        if first == len(self.order) or self._bytes(self.order[first]) != encoded:
            return []
        last = bisect_right(self.order, encoded, lo=first, key=self._bytes)
        return [int(position) for position in self.order[first:last]]

    def series(self) -> pl.Series:
        """All strings as a polars series."""
        return pl.read_ipc(self.arrow.tobytes())[COLUMN]

    def _bytes(self, index: int) -> bytes:
        position = int(index)
        return self.values[self.offsets[position] : self.offsets[position + 1]].tobytes()


def _positions(content: bytes, offsets: np.ndarray, strings: pl.Series) -> tuple[int, int]:
    """The position of the offsets and of the values in the file that polars wrote."""
    values = "".join(strings.fill_null("").to_list()).encode()
    start = content.find(offsets.tobytes())
    while start % 8:
        start = content.find(offsets.tobytes(), start + 1)
    end = content.find(values, start + offsets.nbytes)
    if min(start, end) < 0:
        raise RuntimeError("polars wrote strings in another layout than expected")
    return start, end
