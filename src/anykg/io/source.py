"""The bytes of a file and the format they are in, before anything is made of them.

The format comes from the extension; where that says nothing (`.txt`, none), from the content. `.gz` and `.zst` are
unpacked in memory. Text is UTF-8 whatever the locale; a byte order mark is taken off. `load` takes a file whole;
`load_parts` takes formats of lines in parts, so that a dump need not fit in memory.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from anykg.errors import DataError

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
OF_LINES = ("delimited", "nt", "nq", "jsonl")
"""Formats that can be cut at line ends."""
PART_BYTES = 1 << 25
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
    first_line: int = 1
    """The line of the file that `data` starts with."""


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
    if extension == ".json" and data.lstrip().startswith(b"["):
        raise DataError(f"{path}: expected a JSON object on each line, found an array; write JSON lines (.jsonl).")
    format = FORMATS.get(extension) or _format_of(data)
    _refuse_other_content(path, data, format)
    return Source(path, data, format, extension)


def load_parts(
    path: Path | str, *, size: int = PART_BYTES, progress: Callable[[int, int], None] | None = None
) -> Iterator[Source]:
    """A file as parts of about `size` bytes, each of whole lines; a file in a format without lines as one part.

    `progress` is told how many bytes of the file have been read, and how many there are.
    """
    path = Path(path)
    extension, packing = _extensions(path)
    start = _start(path)
    format = FORMATS.get(extension) or (_format_of(start) if start and not packing else "delimited")
    if not start or format not in OF_LINES or (packing and not start.startswith(PACKED[packing])):
        yield load(path)  # which says what is wrong with the file, where something is
        return
    with path.open("rb") as file:
        total, line, waiting = path.stat().st_size, 1, b""
        parts = _parts(path, file, packing, size)
        data = next(parts, b"").removeprefix(BYTE_ORDER_MARK)
        format = FORMATS.get(extension) or _format_of(data)
        quoted = format == "delimited" and b"\t" not in data[:SAMPLE_BYTES]
        while data or waiting:
            data, more = waiting + data, next(parts, b"")
            end = _end_of_lines(data, quoted=quoted) if more else len(data)
            part, waiting, data = data[:end], data[end:], more
            if part.strip():
                _refuse_other_content(path, part, format)
                yield Source(path, part, format, extension, line)
            line += part.count(b"\n")
            if progress:
                progress(file.tell(), total)
    if line == 1 and not part.strip():
        raise DataError(f"{path}: the file is empty; expected a triplet on each line.")


def _end_of_lines(data: bytes, *, quoted: bool) -> int:
    """Where the last line ends that does not end within quotes; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end) if quoted else 0
    while quotes % 2:
        before = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end


def _start(path: Path) -> bytes:
    """The first bytes as they are; whatever keeps a file from being read is said by `_read_bytes`."""
    try:
        with path.open("rb") as file:
            return file.read(SAMPLE_BYTES)
    except OSError:
        return _read_bytes(path)


def _parts(path: Path, file: IO[bytes], packing: str | None, size: int) -> Iterator[bytes]:
    """The unpacked content, `size` bytes at a time."""
    try:
        if packing == ".zst":
            yield from _unpacked_zstd(file, size)
            return
        stream = gzip.GzipFile(fileobj=file) if packing == ".gz" else file
        while part := stream.read(size):
            yield part
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the compressed file is cut short or damaged ({error}); fetch or make it anew."
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _unpacked_zstd(file: IO[bytes], size: int) -> Iterator[bytes]:
    """What `_unpack_zstd` gives, as it comes, in pieces of `size` bytes or somewhat more."""
    import zstandard

    frame, ready = zstandard.ZstdDecompressor().decompressobj(), b""
    fresh = True
    while packed := file.read(1 << 20):
        while packed:
            try:
                ready += frame.decompress(packed)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            packed, fresh = frame.unused_data if frame.eof else b"", frame.eof
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
        if len(ready) >= size:
            yield ready
            ready = b""
    if not fresh:
        raise EOFError("the end of the last frame is missing")
    if ready:
        yield ready


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
