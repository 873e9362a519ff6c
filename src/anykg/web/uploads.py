"""Uploaded graph files: stored under a safe name, read like other files, and described before they are used."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import threading
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anykg.errors import DataError, UnknownName

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph
    from anykg.io.read import ReadReport

KEPT = 4
"""Maximum number of files that are described but not yet used."""
GROWTH = 12
"""Ratio of the size limit after decompression to the upload limit."""
ROW_BYTES = 16
"""Minimum bytes of a row of a table."""
CHUNK = 1 << 20


class TooLarge(DataError):
    """A file beyond the size limit."""


@dataclass(frozen=True)
class Upload:
    """A file that was read."""

    id: str
    name: str
    path: Path
    graph: KnowledgeGraph
    report: ReadReport

    def public(self) -> dict[str, Any]:
        """The upload as JSON for clients."""
        how, *rest = (line for line in self.report.lines() if not line.startswith("  "))
        return {
            "id": self.id,
            "name": self.name,
            "facts": self.graph.num_triplets,
            "entities": self.graph.num_entities,
            "relations": self.graph.num_relations,
            "first": [list(row) for row in self.report.first],
            "sentence": "; ".join([how, *rest]).replace(str(self.path), self.name) + ".",
        }


class Uploads:
    """The files of a server, in a folder of its own."""

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit` is the largest file in bytes."""
        self.folder, self.limit = folder, limit
        self._kept: OrderedDict[str, Upload] = OrderedDict()
        self._guard = threading.Lock()

    def take(self, file: IO[bytes], name: str, reading: dict[str, Any]) -> Upload:
        """Copy a file, read it and describe it."""
        from anykg.io.read import read_with_report

        name = safe_name(name)
        path = self._copy(file, name)
        self._refuse_bombs(path)
        try:
            graph, report = read_with_report(path, **(reading | {"cache": False}))
        except DataError as error:
            raise DataError(str(error).replace(str(path), name)) from error
        upload = Upload(path.parent.name, name, path, graph, report)
        with self._guard:
            self._kept[upload.id] = upload
            self._kept.move_to_end(upload.id)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return upload

    def pop(self, name: str) -> Upload:
        """The upload of that id, to be used."""
        with self._guard:
            if name in self._kept:
                return self._kept.pop(name)
        raise UnknownName("upload (uploads expire after some time; send the file again)", name)

    def _copy(self, file: IO[bytes], name: str) -> Path:
        """Store the content under its digest, so that uploading the same file again gives the same graph."""
        self.folder.mkdir(parents=True, exist_ok=True)
        digest, size = blake2b(digest_size=8), 0
        temporary = self.folder / f"arriving-{threading.get_ident()}"
        try:
            with temporary.open("wb") as out:
                while part := file.read(CHUNK):
                    size += len(part)
                    if size > self.limit:
                        raise TooLarge(
                            f"{name}: expected at most {self.limit >> 20:,} MB; give the path to `anykg serve`."
                        )
                    digest.update(part)
                    out.write(part)
            folder = self.folder / digest.hexdigest()
            folder.mkdir(exist_ok=True)
            return temporary.replace(folder / name)
        finally:
            temporary.unlink(missing_ok=True)

    def _refuse_bombs(self, path: Path) -> None:
        """Refuse a small file that decompresses to a huge one, before it is decompressed in memory."""
        most = GROWTH * self.limit
        try:
            too_large = _unpacked_size(path, most) > most
        except Exception:  # the reader reports what is wrong with the file
            return
        if too_large:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise TooLarge(f"{path.name}: unpacks to more than {most >> 20:,} MB; give the path to `anykg serve`.")


def _unpacked_size(path: Path, most: int) -> int:
    """The decompressed size of the content; counting stops above `most`."""
    start = path.open("rb").read(8)
    if start.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            return sum(part.file_size for part in archive.infolist())
    if start.startswith(b"PAR1"):
        import polars as pl

        return int(pl.scan_parquet(path).select(pl.len()).collect().item()) * ROW_BYTES
    with path.open("rb") as raw:
        if start.startswith(b"\x1f\x8b"):
            return _count(gzip.GzipFile(fileobj=raw), most)
        if start.startswith(b"BZh"):
            return _count(bz2.BZ2File(raw), most)
        if start.startswith(b"\xfd7zXZ\0"):
            return _count(lzma.LZMAFile(raw), most)
        if start.startswith(b"\x28\xb5\x2f\xfd"):
            import zstandard

            return _count(zstandard.ZstdDecompressor().stream_reader(raw), most)
    return path.stat().st_size


def _count(stream: Any, most: int) -> int:
    total = 0
    while total <= most and (part := stream.read(CHUNK)):
        total += len(part)
    return total


def safe_name(name: str) -> str:
    r"""The last part of a path, restricted to safe characters; the extensions are kept.

    >>> safe_name("..\\..//etc/pass wd.tsv.gz"), safe_name("..")
    ('pass_wd.tsv.gz', 'graph')
    """
    last = re.split(r"[\\/]", name)[-1]
    return re.sub(r"[^\w.\-]", "_", last, flags=re.ASCII).lstrip(".")[-100:] or "graph"
