"""Make the binary files of this folder again: `python tests/formats/make_binary.py`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import zipfile
from pathlib import Path

import openpyxl
import polars as pl
import zstandard

FILES = Path(__file__).parent / "files"
TEXT = (FILES / "plain.tsv").read_bytes()


def main() -> None:
    (FILES / "packed.tsv.gz").write_bytes(gzip.compress(TEXT, mtime=0))
    (FILES / "packed.tsv.bz2").write_bytes(bz2.compress(TEXT))
    (FILES / "packed.tsv.xz").write_bytes(lzma.compress(TEXT))
    (FILES / "packed.tsv.zst").write_bytes(zstandard.compress(TEXT))
    zipped("packed.zip", {"data/facts.tsv": TEXT, "README.md": b"# facts"})
    zipped("packed-two.zip", {"one.tsv": TEXT, "two.tsv": TEXT})
    facts = pl.DataFrame({"head": [1, 2], "relation": ["r", "s"], "tail": [2, 3], "score": [0.5, 0.9]})
    facts.write_parquet(FILES / "integers.parquet")
    facts.write_ipc(FILES / "integers.feather")
    folder = FILES / "graphrag"
    folder.mkdir(exist_ok=True)
    pl.DataFrame(
        {
            "id": ["r1", "r2"],
            "human_readable_id": [0, 1],
            "source": ["SCROOGE", "SCROOGE"],
            "target": ["MARLEY", "CRATCHIT"],
            "description": ["partners", "employer"],
            "weight": [9.0, 7.0],
            "combined_degree": [3, 3],
            "text_unit_ids": [["t1"], ["t2"]],
        }
    ).write_parquet(folder / "relationships.parquet")
    pl.DataFrame(
        {
            "id": ["e1", "e2"],
            "title": ["SCROOGE", "MARLEY"],
            "type": ["person", "person"],
            "text_unit_ids": [["t1"], ["t1"]],
        }
    ).write_parquet(folder / "entities.parquet")
    excel("sheet.xlsx", [["Person", "Role", "Company"], ["Anna", "engineer", "Acme"], ["Bob", "director", "Acme"]])
    excel("sheet-no-header.xlsx", [["Anna", "knows", "Bob"], ["Bob", "knows", 7.0]])
    path = FILES / "facts.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE facts (subject TEXT, predicate TEXT, object TEXT, confidence REAL)")
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", [("a", "r", "b", 0.9), ("b", "r", "c", 0.1)])
    connection.close()


def zipped(name: str, members: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    (FILES / name).write_bytes(buffer.getvalue())


def excel(name: str, rows: list[list[object]]) -> None:
    book = openpyxl.Workbook()
    book.active.title = "empty"
    sheet = book.create_sheet("facts")
    for row in rows:
        sheet.append(row)
    book.save(FILES / name)


if __name__ == "__main__":
    main()
