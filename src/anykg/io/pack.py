"""Packed graphs (`.anykg`): arrays and names in memory layout, opened by memory mapping and shared between processes.

| bytes | content |
|---|---|
| 8 | `MAGIC` |
| 4 + 4 | version, 0 |
| 8 | length of the header |
| 16 | BLAKE2b of the header |
| | header: JSON with sizes, digest, prefixes, how the source was read, and a row for each section |
| | sections, each at a multiple of 64: little-endian arrays; names are Arrow files (`anykg.graph.text`) |

Opening checks the header and the size of the file, which takes milliseconds; `verify` also checks the BLAKE2b of each
section. A version is read by the anykg that wrote it and by later ones.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np

from anykg.atomic import atomic_path
from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.text import Text
from anykg.graph.vocabulary import Vocabulary
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed
from anykg.io.source import Source

MAGIC = b"\x93ANYKG\r\n"
VERSION = 1
ALIGNMENT = 64
ARRAY = "array."
_FIXED = struct.Struct("<8sIIQ16s")
_AGAIN = "pack the source again with `anykg data pack`"
Buffer = mmap.mmap | bytes


def is_pack(path: Path | str) -> bool:
    """Whether a file starts with the signature of a packed graph."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_pack(
    graph: KnowledgeGraph,
    path: Path | str,
    read: Mapping[str, Any] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Write a packed graph atomically and return its size in bytes.

    Args:
        graph: The graph.
        path: The file to write.
        read: How the source was read.
        arrays: Further arrays to store; see `KnowledgeGraph.arrays`.
    """
    if graph.entities.attributes is not None:
        raise DataError(f"{path}: a packed graph cannot have attributes; give `attributes` when it is read instead.")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        _write(graph, file, read, graph.arrays if arrays is None else arrays)
        return file.tell()


def to_bytes(graph: KnowledgeGraph) -> bytes:
    """A packed graph as the content of a file."""
    import io

    buffer = io.BytesIO()
    _write(graph, buffer, None, graph.arrays)
    return buffer.getvalue()


def open_pack(path: Path | str) -> tuple[KnowledgeGraph, dict[str, Any]]:
    """Map a packed graph into memory; returns it with its header. A damaged file raises `DataError`."""
    buffer = _mapped(Path(path))
    header, start = _header(buffer, path)
    graph = _graph(buffer, header, start)
    graph.packed = Path(path).resolve()
    return graph, header


def verify_pack(path: Path | str) -> dict[str, Any]:
    """Check every byte of a packed graph and return its header; a damaged file raises `DataError`."""
    buffer = _mapped(Path(path))
    header, start = _header(buffer, path)
    for row in header["sections"]:
        if _checksum(_section(buffer, row, start)) != row["blake2b"]:
            raise DataError(f"{path}: the section {row['name']} is damaged; {_AGAIN}.")
    return header


def read(source: Source, options: ReadOptions) -> Parsed:
    """The facts of a packed graph as names, to read only some of them."""
    del options
    header, start = _header(source.data, source.path)
    graph = _graph(source.data, header, start)
    labels = {
        name: label
        for vocabulary in (graph.entities, graph.relations)
        if vocabulary.labels is not None
        for name, label in zip(vocabulary, vocabulary.labels.to_list(), strict=True)
        if label is not None
    }
    prefixes = graph.entities.prefixes
    return Parsed(graph.to_polars(), "head", "relation", "tail", format="anykg", labels=labels, prefixes=prefixes)


# -- writing --------------------------------------------------------------------------------------------------------


def _write(
    graph: KnowledgeGraph, file: IO[bytes], read: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]
) -> None:
    sections: dict[str, np.ndarray] = {"triplets": graph.triplets, **graph.lookups}
    sections |= {ARRAY + name: array for name, array in arrays.items()}
    layouts: dict[str, dict[str, int]] = {}
    for kind, vocabulary in (("entities", graph.entities), ("relations", graph.relations)):
        for part, strings in (("names", vocabulary.names), ("labels", vocabulary.labels)):
            if strings is None:
                continue
            text = Text.of(strings)
            layouts[f"{kind}.{part}"] = text.layout
            sections |= {f"{kind}.{part}": text.arrow, f"{kind}.{part}.order": text.order}
    rows: list[dict[str, Any]] = []
    end = 0
    for name, array in sections.items():
        array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        sections[name] = array
        at = _aligned(end)
        rows.append(
            {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "at": at, "blake2b": _checksum(array)}
        )
        end = at + array.nbytes
    header = {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triplets": len(graph),
        "digest": graph.digest,
        "prefixes": {"entities": graph.entities.prefixes, "relations": graph.relations.prefixes},
        "text": layouts,
        "read": read,
        "bytes": end,
        "sections": rows,
    }
    encoded = json.dumps(header, ensure_ascii=False).encode()
    file.write(_FIXED.pack(MAGIC, VERSION, 0, len(encoded), blake2b(encoded, digest_size=16).digest()) + encoded)
    start = _aligned(_FIXED.size + len(encoded))
    file.write(b"\0" * (start - _FIXED.size - len(encoded)))
    position = 0
    for row, array in zip(rows, sections.values(), strict=True):
        file.write(b"\0" * (row["at"] - position))
        file.write(array.reshape(-1).view(np.uint8).data)
        position = row["at"] + array.nbytes


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _checksum(array: np.ndarray) -> str:
    return blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


# -- reading --------------------------------------------------------------------------------------------------------


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            # Kernels are compiled for writable arrays. Nothing writes, so copy-on-write pages stay shared.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except ValueError as error:  # nothing to map
        raise DataError(f"{path}: the file is empty; {_AGAIN}.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _header(buffer: Buffer, path: object) -> tuple[dict[str, Any], int]:
    """The header, and the offset of the sections."""
    if len(buffer) < _FIXED.size or buffer[: len(MAGIC)] != MAGIC:
        raise DataError(f"{path}: expected a packed graph, found something else; {_AGAIN}.")
    _, version, _, length, checksum = _FIXED.unpack(buffer[: _FIXED.size])
    if version > VERSION:
        raise DataError(
            f"{path}: the packed graph has version {version}, and this anykg reads up to {VERSION}; update anykg, or "
            f"{_AGAIN}."
        )
    encoded = buffer[_FIXED.size : _FIXED.size + length]
    if blake2b(encoded, digest_size=16).digest() != checksum:
        raise DataError(f"{path}: the header of the packed graph is damaged; {_AGAIN}.")
    header: dict[str, Any] = json.loads(encoded)
    start = _aligned(_FIXED.size + length)
    if len(buffer) != start + header["bytes"]:
        raise DataError(
            f"{path}: expected {start + header['bytes']:,} bytes, found {len(buffer):,}: the file is cut short or "
            f"damaged; {_AGAIN}."
        )
    return header, start


def _section(buffer: Buffer, row: Mapping[str, Any], start: int) -> np.ndarray:
    shape, dtype = tuple(row["shape"]), np.dtype(row["dtype"])
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype)
    section = np.frombuffer(buffer, dtype, count, start + row["at"]).reshape(shape)
    if not row["name"].startswith(ARRAY):  # as in a graph that was not packed
        section.setflags(write=False)
    return section


def _graph(buffer: Buffer, header: Mapping[str, Any], start: int) -> KnowledgeGraph:
    sections = {row["name"]: _section(buffer, row, start) for row in header["sections"]}
    texts = {
        name: Text.mapped(sections[name], sections[f"{name}.order"], layout) for name, layout in header["text"].items()
    }
    entities, relations = (
        Vocabulary.mapped(kind, texts[f"{name}.names"], texts.get(f"{name}.labels"), header["prefixes"][name])
        for kind, name in (("entity", "entities"), ("relation", "relations"))
    )
    lookups = {name: sections[name] for name in ("keys", "inverse_keys", "pair_keys")}
    graph = KnowledgeGraph.stored(sections["triplets"], entities, relations, digest=header["digest"], **lookups)
    graph.arrays = {name.removeprefix(ARRAY): array for name, array in sections.items() if name.startswith(ARRAY)}
    return graph
