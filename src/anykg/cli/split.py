"""The command `anykg data split`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anykg.cli.options import DataDir
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph

SHOWN = 20
"""Number of dropped names that are printed; the report has them all."""


class KindName(StrEnum):
    """What training and inference may share."""

    TRANSDUCTIVE = "transductive"
    INDUCTIVE = "inductive"
    FULLY_INDUCTIVE = "fully-inductive"


EXAMPLES = """
Split your own graph into a task, with a report of its coverage and leakage.

transductive: one graph, with a tenth for validation and a tenth for testing. inductive: training and inference share no
entities. fully-inductive: they share neither entities nor relations.

Example: anykg data split facts.tsv --kind fully-inductive --out tasks
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("split", help=EXAMPLES)(split)


@takes_reading(labels=False)
def split(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A file of triples, a folder or a dataset's name.")],
    kind: Annotated[KindName, typer.Option(help="What training and inference may share.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    share: Annotated[float, typer.Option(help="Share of entities for inference, unless transductive.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.atomic import write_json
    from anykg.benchmarks.build.folders import write_folder, write_task
    from anykg.benchmarks.build.report import described
    from anykg.benchmarks.inductive import split_by_kind
    from anykg.benchmarks.leakage import leakage_of
    from anykg.errors import DataError
    from anykg.io.catalog import locate

    name = locate(graph, data_dir).name.split(".")[0]
    whole = _whole(graph, data_dir, reading)
    task, dropped = split_by_kind(whole, name, kind.value, seed=seed, share=share)
    empty = [part for part in ("train", "valid", "observed", "test") if not len(getattr(task, part))]
    if empty:
        raise DataError(
            f"{graph}: {' and '.join(empty)} would be empty; the graph is too small for this split, or try another "
            "--share or --seed."
        )
    leakage = leakage_of(task)
    kept = (
        len(task.train) + len(task.valid) + len(task.test) + (0 if task.train is task.observed else len(task.observed))
    )
    folders = [write_folder(task, out)] if kind is KindName.TRANSDUCTIVE else write_task(task, out)
    report: dict[str, Any] = {
        "kind": kind.value,
        "seed": seed,
        "share": share,
        "task": described(task),
        "coverage": {"triplets": len(whole), "kept": kept},
        "dropped": vars(dropped),
        "leakage": vars(leakage) | {"inverses": [pair._asdict() for pair in leakage.inverses]},
    }
    write_json(out / f"{name}-split.json", report)
    for folder in folders:
        typer.echo(f"{folder}")
    for line in _lines(report):
        typer.echo(line)


def _whole(graph: str, data_dir: Path | None, reading: Reading) -> KnowledgeGraph:
    """All facts: of a task, those of its four parts."""
    from anykg.io.catalog import load_graph, load_task, locate

    if locate(graph, data_dir).is_graph:
        return load_graph(graph, data_dir, **reading)
    task = load_task(graph, data_dir, **reading)
    return task.train.union(task.valid).union(task.observed).union(task.test)


def _lines(report: dict[str, Any]) -> list[str]:
    """The report as lines of text."""
    task, dropped, leakage = report["task"], report["dropped"], report["leakage"]
    kept, whole = report["coverage"]["kept"], report["coverage"]["triplets"]
    lines = [f"{stem}: {task[stem]['triplets']:,} facts" for stem in ("train", "valid", "observe", "test")]
    lines.append(f"kept {kept:,} of {whole:,} facts ({kept / max(whole, 1):.1%})")
    lines.append(
        f"dropped: {dropped['between']:,} facts between the two sides, {dropped['other_relations']:,} with relations "
        f"that their side does not have, {len(dropped['entities']):,} entities, {len(dropped['relations']):,} relations"
    )
    for what in ("entities", "relations"):
        names = dropped[what]
        if names:
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            lines.append(f"  {what} dropped: {', '.join(names[:SHOWN])}{more}")
    lines.append(
        f"training and inference share {leakage['shared_entities']:,} entities, {leakage['shared_relations']:,} "
        f"relations, {leakage['shared_triplets']:,} facts"
    )
    lines.append(
        f"of {leakage['asked']:,} test facts, {leakage['asked_with_fact_back']:,} have an observed fact in the "
        f"other direction and {leakage['asked_with_inverse']:,} are observed as an inverse duplicate "
        f"({len(leakage['inverses'])} pairs of relations)"
    )
    return lines
