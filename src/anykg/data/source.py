"""The bytes of a file and the format they are in, before anything is made of them.

The format comes from the extension; where that says nothing (`.txt`, none), from the content. `.gz` and `.zst` are
unpacked in memory. Text is UTF-8 whatever the locale; a byte order mark is taken off.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from anykg.core.errors import DataError

FORMATS = {
    ".tsv": "delimited",
    ".tab": "delimited",
    ".csv": "delimited",
    ".psv": "delimited",
    ".nt": "nt",
    ".nq": "nq",
    ".ttl": "ttl",
    ".rdf": "rdf",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
PACKED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
PARQUET = b"PAR1"
SAMPLE_BYTES = 1 << 16  # what is looked at to find out the format
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TRIPLE = re.compile(rb'(<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+(<[^<>\s]*>|_:\S+|".*)\s*(<[^<>\s]*>\s*)?\.\s*$')


class Source(NamedTuple):
    """Unpacked content of a file."""

    path: Path
    data: bytes
    format: str
    """delimited, nt, nq, ttl, rdf, parquet or jsonl."""
    extension: str
    """The extension without `.gz` or `.zst`, in lower case."""


def load(path: Path | str) -> Source:
    """Read and unpack a file, and say what format it is in."""
    path = Path(path)
    extension, packing = _extensions(path)
    data = _read_bytes(path)
    if packing:
        data = _unpack(path, data, packing)
    if data.startswith(BYTE_ORDER_MARK):
        data = data[len(BYTE_ORDER_MARK) :]
    if not data:
        raise DataError(f"{path}: the file is empty; expected a triplet on each line.")
    format = FORMATS.get(extension) or _format_of(data)
    _refuse_other_content(path, data, format)
    return Source(path, data, format, extension)


def _extensions(path: Path) -> tuple[str, str | None]:
    """The extension of the content, and that of the packing around it."""
    last = path.suffix.lower()
    if last in PACKED:
        return Path(path.stem).suffix.lower(), last
    return last, None


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path}: expected a file, found a folder; give one of the files in it.")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _unpack(path: Path, data: bytes, packing: str) -> bytes:
    if data and not data.startswith(PACKED[packing]):
        raise DataError(
            f"{path}: expected {packing[1:]} content by the extension, found something else; "
            f"rename the file without {packing} if it is not compressed."
        )
    try:
        return gzip.decompress(data) if packing == ".gz" else _unpack_zstd(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the compressed file is cut short or damaged ({error}); fetch or make it anew."
        ) from error


def _unpack_zstd(data: bytes) -> bytes:
    """All frames of a zstd file; a last frame without its end raises `EOFError`."""
    import zstandard

    parts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
        if not frame.eof:
            raise EOFError("the end of the last frame is missing")
        data = frame.unused_data
    return b"".join(parts)


def _format_of(data: bytes) -> str:
    """The format of content whose extension says nothing."""
    if data.startswith(PARQUET):
        return "parquet"
    line = data[:SAMPLE_BYTES].lstrip().split(b"\n", 1)[0].strip()
    if line.lower().startswith((b"@prefix ", b"prefix ", b"@base ", b"base <")):
        return "ttl"
    if line.startswith(b"<?xml"):
        return "rdf"
    triple = _TRIPLE.fullmatch(line)
    if triple:
        return "nq" if triple.group(3) else "nt"
    return "jsonl" if line.startswith(b'{"') and line.endswith(b"}") else "delimited"


def _refuse_other_content(path: Path, data: bytes, format: str) -> None:
    """Raise where the content is plainly not what its extension says."""
    if format == "parquet":
        if not data.startswith(PARQUET):
            raise DataError(f"{path}: expected Parquet by the extension, found something else; rename the file.")
        return
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: expected UTF-8 text, found UTF-16; save the file as UTF-8.")
    for name, start in (*PACKED.items(), (".parquet", PARQUET)):
        if data.startswith(start):
            raise DataError(f"{path}: expected text, found {name[1:]} content; rename the file to end in {name}.")
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise DataError(
            f"{path}:{line}: expected UTF-8 text, found a NUL byte: this looks like a binary "
            "file; give a text file, Parquet, .gz or .zst."
        )
