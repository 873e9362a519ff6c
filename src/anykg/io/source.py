"""Load the bytes of a file, decompressed.

`.gz`, `.zst`, `.bz2`, `.xz` and `.zip` are recognised by their content and decompressed in memory. Text is UTF-8
regardless of the locale; a byte order mark is removed. `load` reads a whole file; `load_parts` reads line-based formats
in parts, so that a dump need not fit in memory.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from anykg.errors import DataError

PACKED = {
    ".gz": b"\x1f\x8b",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zip": b"PK\x03\x04",
}
STDIN = "-"
PART_BYTES = 1 << 25
SAMPLE_BYTES = 1 << 16  # bytes inspected to detect the format
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LARGEST_RATIO = 1000
"""Files that expand beyond a gigabyte and by more than this ratio are refused."""
_GIGABYTE = 1 << 30
_OFFICE = ("[Content_Types].xml", "mimetype")
"""Members that identify a .zip as a document."""


class Source(NamedTuple):
    """Unpacked content of a file."""

    path: Path
    """The file, for messages."""
    data: bytes
    extension: str
    """The extension without that of the compression, in lower case."""
    first_line: int = 1
    """The line of the file that `data` starts with."""

    @property
    def format(self) -> str:
        """The name of the content's format."""
        from anykg.io.formats import detect

        return detect(self).name

    @property
    def start(self) -> bytes:
        """The first bytes, from which the format is detected."""
        return self.data[:SAMPLE_BYTES]


def load(path: Path | str) -> Source:
    """Read and unpack a file, or standard input for `-`."""
    path = Path(path)
    if str(path) == STDIN:
        return of_bytes(Path("standard input"), sys.stdin.buffer.read())
    return of_bytes(path, _read_bytes(path))


def of_bytes(path: Path, data: bytes) -> Source:
    """Decompress content in memory; `path` names it in messages."""
    extension, _ = _extensions(path)
    packing = packing_of(data)
    if packing == ".zip":
        path, extension, data = _unzip(path, data)
        packing = packing_of(data) if extension != ".xlsx" else None
    if packing is not None:
        data = _unpack(path, data, packing)
    if data.startswith(BYTE_ORDER_MARK):
        data = data[len(BYTE_ORDER_MARK) :]
    if not data:
        raise DataError(f"{path}: the file is empty; expected a fact on each line.")
    return Source(path, data, extension)


def load_parts(
    path: Path | str,
    *,
    by_lines: Callable[[Source], bool],
    quoted: Callable[[Source], bool],
    size: int = PART_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Source]:
    """A file as parts of about `size` bytes, each of whole lines; a file in a format without lines as one part.

    `by_lines` decides from the first part whether the content is line-based, `quoted` whether quotes may enclose line
    ends. `progress` is called with the bytes read so far and the size of the file.
    """
    path = Path(path)
    extension, _ = _extensions(path)
    start = b"" if str(path) == STDIN else _start(path)
    packing = packing_of(start)
    if not start or packing == ".zip":
        yield load(path)  # raises if something is wrong with the file
        return
    with path.open("rb") as file:
        total, line, waiting, part = path.stat().st_size, 1, b"", b""
        parts = _chunks(path, file, packing, size)
        data = next(parts, b"").removeprefix(BYTE_ORDER_MARK)
        first = Source(path, data, extension)
        if not data or data.isspace() or not by_lines(first):
            yield load(path)
            return
        encloses = quoted(first)
        while data or waiting:
            data, more = waiting + data, next(parts, b"")
            end = _end_of_lines(data, quoted=encloses) if more else len(data)
            part, waiting, data = data[:end], data[end:], more
            if part and not part.isspace():
                yield Source(path, part, extension, line)
            if data or waiting:
                line += part.count(b"\n")
            if progress:
                progress(file.tell(), total)


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


def refuse_binary(source: Source) -> None:
    """Raise if the content is clearly not text."""
    data = source.data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{source.path}: expected UTF-8 text, found UTF-16; save the file as UTF-8.")
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + source.first_line
        raise DataError(
            f"{source.path}:{line}: expected UTF-8 text, found a NUL byte: this looks like a binary file; give one in "
            "a format of `anykg data formats`."
        )


def packing_of(data: bytes) -> str | None:
    """The compression of content, by its first bytes."""
    return next((name for name, start in PACKED.items() if data.startswith(start)), None)


def _end_of_lines(data: bytes, *, quoted: bool) -> int:
    """The position after the last line end outside quotes; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end) if quoted else 0
    while quotes % 2:
        before = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end


def _start(path: Path) -> bytes:
    """The first raw bytes; errors are left to `_read_bytes`."""
    try:
        with path.open("rb") as file:
            return file.read(SAMPLE_BYTES)
    except OSError:
        return _read_bytes(path)


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path}: expected a file, found a folder; give one of the files in it.")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _extensions(path: Path) -> tuple[str, str | None]:
    """The extension of the content, and that of its compression."""
    last = path.suffix.lower()
    if last in PACKED:
        return Path(path.stem).suffix.lower(), last
    return last, None


# -- unpacking --------------------------------------------------------------------------------------------------


def _unpack(path: Path, data: bytes, packing: str) -> bytes:
    import io

    parts, size = [], 0
    for part in _chunks(path, io.BytesIO(data), packing, PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > _GIGABYTE and size > LARGEST_RATIO * len(data):
            raise DataError(f"{path}: refused, it unpacks to more than {LARGEST_RATIO:,} times its size.")
    return b"".join(parts)


def _chunks(path: Path, file: IO[bytes], packing: str | None, size: int) -> Iterator[bytes]:
    """The unpacked content, about `size` bytes at a time."""
    try:
        if packing == ".zst":
            yield from _zstd_chunks(file, size)
            return
        stream: IO[bytes] = file
        if packing == ".gz":
            stream = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        elif packing == ".bz2":
            stream = bz2.BZ2File(file)
        elif packing == ".xz":
            stream = lzma.LZMAFile(file)  # noqa: SIM115 - `file` is the caller's to close
        while part := stream.read(size):
            yield part
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise DataError(
            f"{path}: the compressed file is cut short or damaged ({error}); download or export it again."
        ) from error
    except OSError as error:
        if packing == ".bz2":  # which has no exception class of its own
            raise DataError(
                f"{path}: the compressed file is damaged ({error}); download or export it again."
            ) from error
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _zstd_chunks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """All frames of a zstd file; a last frame without its end raises `EOFError`."""
    import zstandard

    frame, ready, fresh = zstandard.ZstdDecompressor().decompressobj(), b"", True
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


def _unzip(path: Path, data: bytes) -> tuple[Path, str, bytes]:
    """The only file in a .zip, with its name and extension; a document such as .xlsx stays packed."""
    import io

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if any(name in _OFFICE for name in names):
                return path, ".xlsx", data
            members = [name for name in names if _is_data(name)]
            if len(members) != 1:
                shown = ", ".join(members[:5]) + (", ..." if len(members) > 5 else "")
                raise DataError(
                    f"{path}: expected one file of facts in the archive, found {len(members)}: {shown or 'none'}; "
                    "unpack it and give one of the files, or the folder if they are nodes and relationships."
                )
            member = archive.getinfo(members[0])
            if member.file_size > _GIGABYTE and member.file_size > LARGEST_RATIO * max(member.compress_size, 1):
                raise DataError(f"{path}: refused, it unpacks to more than {LARGEST_RATIO:,} times its size.")
            return path / members[0], PurePosixPath(members[0]).suffix.lower(), archive.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{path}: the archive is cut short or damaged ({error}); download or export it again."
        ) from error


def _is_data(name: str) -> bool:
    """Whether a member of an archive is content, not metadata or a readme."""
    parts = PurePosixPath(name)
    words = ("readme", "license", "licence", "changelog", "citation", "manifest")
    return (
        not any(part.startswith((".", "__")) for part in parts.parts)
        and not parts.stem.lower().startswith(words)
        and parts.suffix.lower() not in (".md", ".pdf", ".html", ".png", ".py")
    )
