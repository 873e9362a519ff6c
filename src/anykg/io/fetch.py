"""Download public files: resumable, verified, and never left incomplete.

Bytes are written to NAME.part next to the target; a later attempt requests the rest. Only a complete file, verified if
its checksum is known, is renamed to the target. Only the expected files are extracted from an archive.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import logging
import os
import shutil
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from anykg.errors import InputError
from anykg.io.addresses import shown
from anykg.io.datasets import SUFFIXES, Dataset

logger = logging.getLogger("anykg")

CHUNK = 1 << 16
LARGEST = 1 << 30
"""Upper bound on the bytes of a file of the catalog."""
LARGEST_ADDRESS = 1 << 34
"""The same for a file at an address given by the user."""

Advance = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far and, if known, the total."""


class Checksum(NamedTuple):
    """The expected size and hash of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Fetched:
    """One file of a dataset in the data directory."""

    path: Path
    downloaded: bool
    """False if it was present before."""
    verified: bool
    """False if no checksum is known."""


@cache
def known_checksums() -> dict[str, Checksum]:
    """The checksum of every file of the catalog that has one, by its path below the data directory."""
    table = files("anykg.io").joinpath("embedded", "checksums.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines()[1:])
    return {path: Checksum(int(size), digest) for path, size, digest in rows}


def fetch(
    dataset: Dataset,
    data_dir: Path,
    *,
    checksums: Mapping[str, Checksum] | None = None,
    advance: Advance = lambda done, total: None,
    pause: float = 1.0,
) -> list[Fetched]:
    """Download the files of a dataset into `data_dir`; files that are present already are verified and kept."""
    checksums = known_checksums() if checksums is None else checksums
    if dataset.parts:
        fetched = (fetch(part, data_dir, checksums=checksums, advance=advance, pause=pause) for part in dataset.parts)
        return [file for part in fetched for file in part]
    if dataset.family == "embedded":
        raise InputError(f"{dataset.name} comes with anykg and needs no download.")
    if not dataset.source:
        raise InputError(
            f"{dataset.name} has no public address; put train.txt, valid.txt and test.txt into "
            f"{data_dir / dataset.prefix} yourself."
        )
    missing = [path for path in dataset.files if not _is_there(data_dir / path, checksums.get(path))]
    if missing and dataset.is_archive:
        _fetch_archive(dataset, data_dir, missing, checksums, advance, pause)
    elif missing:
        _fetch_files(dataset, data_dir, missing, checksums, advance, pause)
    return [Fetched(data_dir / path, path in missing, path in checksums) for path in dataset.files]


def download(
    url: str,
    path: Path,
    expected: Checksum | None = None,
    *,
    advance: Advance = lambda done, total: None,
    attempts: int = 4,
    pause: float = 1.0,
    largest: int = LARGEST,
) -> None:
    """Download one file to `path`, resuming from PATH.part if that exists.

    A broken connection is retried after `pause` seconds, then after twice that, and so on.
    """
    part = path.with_name(path.name + ".part")
    problem = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        resumed = part.exists()
        try:
            _receive(url, part, advance, largest)
        except _PassingError as error:
            problem = str(error)
            continue
        if expected is None or (checksum := _checksum(part)) == expected:
            with _writing(path):
                part.replace(path)
            return
        part.unlink()
        if not resumed:  # a resumed download may have had a wrong first part
            raise InputError(f"{shown(url)}: {_difference(expected, checksum)}; it was not kept. Try again later.")
        problem = "the partial file of an earlier attempt was wrong"
    raise InputError(f"{shown(url)}: could not be downloaded ({problem}). Try again later: the download resumes.")


def download_address(url: str, *, advance: Advance = lambda done, total: None, pause: float = 1.0) -> Path:
    """The file at an address, in the user's cache; it is downloaded again only if it changed at the source."""
    import json

    from platformdirs import user_cache_path

    name = PurePosixPath(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name or "graph"
    folder = user_cache_path("anykg") / "addresses" / hashlib.sha256(url.encode()).hexdigest()[:24]
    path, notes, under_way = folder / name, folder / "version.json", folder / "part.json"
    version = json.dumps(_version(url))
    known = version != "null"
    if path.is_file() and known and notes.is_file() and notes.read_text() == version:
        return path
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (under_way.is_file() and under_way.read_text() == version):
            path.with_name(path.name + ".part").unlink(missing_ok=True)  # of another version
        under_way.write_text(version)
    try:
        download(url, path, advance=advance, pause=pause, largest=LARGEST_ADDRESS)
    except InputError as error:
        if not path.is_file():
            raise
        logger.warning("%s The copy of an earlier download is used.", error)
        return path
    with _writing(folder):
        under_way.replace(notes)
    return path


def _version(url: str) -> dict[str, str] | None:
    """An identifier of a file's version; None if the server does not send one."""
    request = _prepared(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            known = ("ETag", "Last-Modified", "Content-Length")
            version = {name: response.headers[name] for name in known if response.headers.get(name)}
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return version if set(version) & {"ETag", "Last-Modified"} else None


def _prepared(url: str, method: str = "GET") -> urllib.request.Request:
    """A request with the credentials of the address moved to its header."""
    parts = urllib.parse.urlsplit(url)
    headers = {"User-Agent": "anykg", "Accept-Encoding": "identity"}
    if parts.username:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return urllib.request.Request(url, headers=headers, method=method)


def extract(archive: Path, folder: Path, names: set[str], largest: int = LARGEST) -> None:
    """Extract only the files called `names` from a .tar.gz into `folder`.

    Archives with a link, with a path that points outside, or of more than `largest` bytes are refused.
    """
    taken: set[str] = set()
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                    raise InputError(f"{archive}: refused, it holds the path {member.name!r} that leads out of it.")
                if member.issym() or member.islnk():
                    raise InputError(f"{archive}: refused, it holds the link {member.name!r}; expected plain files.")
                if member.offset_data + member.size > largest:
                    raise InputError(f"{archive}: refused, it is larger than {largest:,} bytes.")
                if not member.isreg() or member.issparse() or path.name not in names:
                    continue
                if path.name in taken:
                    raise InputError(f"{archive}: refused, it holds {path.name!r} more than once.")
                taken.add(path.name)
                content = members.extractfile(member)
                if content is not None:
                    with _writing(folder), (folder / path.name).open("wb") as file:
                        shutil.copyfileobj(content, file)
            while stream.read(CHUNK):  # to the end, where gzip stores a checksum of the whole content
                if stream.tell() > largest:
                    raise InputError(f"{archive}: refused, it is larger than {largest:,} bytes.")
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{archive}: cannot be unpacked ({error}); expected a .tar.gz. Fetch it again.") from error
    if taken != names:
        raise InputError(f"{archive}: expected the files {', '.join(sorted(names))}, found only {len(taken)} of them.")


def _fetch_files(
    dataset: Dataset,
    data_dir: Path,
    missing: list[str],
    checksums: Mapping[str, Checksum],
    advance: Advance,
    pause: float,
) -> None:
    total = sum(checksums[path].bytes for path in missing) if set(missing) <= checksums.keys() else None
    before = 0
    for path, suffix in zip(dataset.files, SUFFIXES[dataset.layout], strict=True):
        if path not in missing:
            continue
        target = data_dir / path
        with _writing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        download(
            dataset.source + suffix,
            target,
            checksums.get(path),
            advance=_shifted(advance, before, total),
            pause=pause,
        )
        before += target.stat().st_size


def _shifted(advance: Advance, before: int, total: int | None) -> Advance:
    """Progress within one file as progress within all of them."""
    return lambda done, _: advance(before + done, total)


def _fetch_archive(
    dataset: Dataset,
    data_dir: Path,
    missing: list[str],
    checksums: Mapping[str, Checksum],
    advance: Advance,
    pause: float,
) -> None:
    folder = data_dir / dataset.prefix
    archive = folder.with_name(folder.name + ".tar.gz")
    with _writing(archive.parent):
        archive.parent.mkdir(parents=True, exist_ok=True)
    if not archive.exists():  # it exists if an earlier run was interrupted while unpacking
        download(dataset.source, archive, advance=advance, pause=pause)
    try:
        with _writing(folder), tempfile.TemporaryDirectory(dir=archive.parent, prefix=".unpacked-") as unpacked:
            extracted = {path: Path(unpacked, PurePosixPath(path).name) for path in missing}
            extract(archive, Path(unpacked), {file.name for file in extracted.values()})
            for path, file in extracted.items():
                expected, found = checksums.get(path), _checksum(file)
                if expected is not None and found != expected:
                    difference = _difference(expected, found)
                    raise InputError(f"{dataset.source}: {file.name} in it: {difference}; nothing was kept.")
            folder.mkdir(exist_ok=True)
            for path, file in extracted.items():
                file.replace(data_dir / path)
    finally:
        archive.unlink(missing_ok=True)


class _PassingError(Exception):
    """The connection failed in a way that may be transient."""


def _receive(url: str, part: Path, advance: Advance, largest: int) -> None:
    """Append the missing bytes of `url` to `part`; raises `_PassingError` if the file is still incomplete."""
    done = part.stat().st_size if part.exists() else 0
    response = _request(url, done)
    if response is None:
        part.unlink()
        raise _PassingError("the server has no more data than the partial file of an earlier attempt")
    with response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            done = 0  # the server sends all of it
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with _writing(part), part.open("ab" if done else "wb") as file:
            for chunk in _chunks(response):
                file.write(chunk)
                done += len(chunk)
                if done > largest:
                    raise InputError(f"{shown(url)}: refused, it is larger than any file expected.")
                advance(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done < total:
        raise _PassingError(f"the connection ended after {done:,} of {total:,} bytes")


def _request(url: str, done: int) -> http.client.HTTPResponse | None:
    """The response to a request for the bytes after the first `done`; None if there are none."""
    request = _prepared(url)
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:
            return None
        answer = f"the server answered {error.code} {error.reason}"
        if error.code >= 500 or error.code in (408, 429):
            raise _PassingError(answer) from error
        raise InputError(f"{shown(url)}: {answer}; the address may have moved.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _PassingError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    return response


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body; read errors are attributed to the connection, not to the disk."""
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _PassingError(str(error) or type(error).__name__) from error
        if not chunk:
            return
        yield chunk


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Report which path could not be written."""
    try:
        yield
    except gzip.BadGzipFile:  # an OSError, but from reading
        raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}). Choose another folder with `data_dir`."
        ) from error


def _is_there(path: Path, expected: Checksum | None) -> bool:
    """Whether the file is present; raises if its content differs, because it may belong to the user."""
    if not path.is_file():
        return False
    if expected is not None and (checksum := _checksum(path)) != expected:
        raise InputError(f"{path}: {_difference(expected, checksum)}; move it away to download it again.")
    return True


def _difference(expected: Checksum, found: Checksum) -> str:
    return (
        f"expected {expected.bytes:,} bytes with SHA-256 {expected.sha256[:12]}..., "
        f"found {found.bytes:,} bytes with {found.sha256[:12]}..."
    )


def _checksum(path: Path) -> Checksum:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Checksum(path.stat().st_size, digest)
