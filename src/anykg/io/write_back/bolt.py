"""Write predictions as relationships of a property graph, merged with existing ones."""

from __future__ import annotations

from typing import Any

import polars as pl

from anykg.errors import DataError
from anykg.io.write_back.origin import Origin, Written

BATCH = 1_000


def write_bolt(rows: pl.DataFrame, skipped: dict[str, int], target: str, origin: Origin, dry_run: bool) -> Written:
    """Write rows between nodes that the database has."""
    from anykg.io.bolt import failure, naming_of, session
    from anykg.io.sources import address_of

    address = address_of(target)
    done = 0
    with session(address) as (run, errors):
        try:
            naming = naming_of(run, address)
            names = set(rows["head"].to_list()) | set(rows["tail"].to_list())
            answer = run(f"MATCH (n) RETURN {naming.of('n')} AS name, elementId(n) AS id")
            ids = {name: id for name, id in (record.values() for record in answer) if name in names}
        except errors as error:
            raise failure(error, address, 0) from error
    known = rows.filter(pl.col("head").is_in(list(ids)) & pl.col("tail").is_in(list(ids)))
    skipped = skipped | ({"rows with nodes that do not exist": n} if (n := rows.height - known.height) else {})
    if not known.height:
        raise DataError(f"{address.shown}: none of the {rows.height:,} rows is between nodes of the database.")
    preview: list[str] = []
    with session(address, write=True) as (write, errors):
        for (relation,), part in known.group_by("relation", maintain_order=True):
            statement = _merge(str(relation), origin)
            preview.append(f"{statement}  // {part.height:,} rows")
            if dry_run:
                continue
            for batch in part.iter_slices(BATCH):
                values = [
                    {"head": ids[row["head"]], "tail": ids[row["tail"]], "set": _properties(row, origin)}
                    for row in batch.iter_rows(named=True)
                ]
                try:
                    write(_run, statement, values)
                except errors as error:
                    raise failure(error, address, done, "written") from error
                done += len(values)
    return Written(address.shown, "bolt", known.height, skipped, tuple(preview), dry_run)


def _run(transaction: Any, statement: str, values: list[dict[str, Any]]) -> None:
    transaction.run(statement, rows=values).consume()


def _merge(relation: str, origin: Origin) -> str:
    """Cypher that writes rows of one relation; writing them again changes nothing."""
    kind = (relation if origin.accepted else origin.prefix + relation).replace("`", "``")
    done = "ON CREATE SET r += row.set" if origin.accepted else "SET r += row.set"
    return (
        "UNWIND $rows AS row MATCH (a) WHERE elementId(a) = row.head MATCH (b) WHERE elementId(b) = row.tail "
        f"MERGE (a)-[r:`{kind}`]->(b) {done}"
    )


def _properties(row: dict[str, Any], origin: Origin) -> dict[str, Any]:
    from anykg.io.bolt import MARK

    values = {"score": row["score"], "probability": row["probability"], "model": row["model"], "date": origin.day}
    values["accepted_from" if origin.accepted else MARK] = "anykg"
    return {name: value for name, value in values.items() if value is not None}
