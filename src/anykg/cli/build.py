"""`anykg data build`: benchmarks from raw graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.benchmarks.build.raw import Keep
    from anykg.graph.graph import KnowledgeGraph

app = typer.Typer(help="Build benchmarks from raw graphs of any size.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="The folder to write to.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]


@app.command()
@takes_reading(labels=False)
def pediatypes(
    raw: Annotated[list[Path], typer.Argument(metavar="RAW [RAW]", help="One raw graph, or a pair of them.")],
    out: Out,
    nodes: Annotated[int, typer.Option(help="Stop visiting entities once the sample has this many.")] = 5_000,
    edges: Annotated[int, typer.Option(help="Upper bound on facts.")] = 40_000,
    max_degree: Annotated[int, typer.Option(help="Upper bound on facts that a visited entity adds.")] = 50,
    seed: Seed = 0,
    *,
    reading: Reading,
) -> None:
    """Sample a connected part of a raw graph and split it 80/10/10, the way PediaTypes was made.

    Two raw graphs A and B give the tasks A2B and B2A: train on one, test on the other.

    Example: anykg data build pediatypes en.nt.gz fr.nt.gz --out data --nodes 5000 --edges 40000 --max-degree 50
    """
    from anykg.atomic import write_json
    from anykg.benchmarks.build import pediatypes as builder
    from anykg.benchmarks.build.folders import write_task
    from anykg.benchmarks.build.report import described
    from anykg.errors import ConfigError

    size = builder.SampleSize(nodes, edges, max_degree)
    names = [path.name.split(".")[0] for path in raw]
    if len(raw) > 2 or len(set(names)) != len(names):
        raise ConfigError(
            f"Expected one raw graph, or two with different file names; found {', '.join(map(str, raw))}."
        )
    parts = []
    for name, path in zip(names, raw, strict=True):
        graph, _ = _read(path, reading)
        parts.append(builder.build(name, graph, size, seed))
        typer.echo(
            f"{name}: {parts[-1].moved:,} facts moved to train so that all entities and relations to test are observed"
        )
    pairs = [(parts[0], parts[0])] if len(parts) == 1 else [(parts[0], parts[1]), (parts[1], parts[0])]
    tasks = [builder.task_of_pair(a.name if a is b else f"{a.name}2{b.name}", a, b) for a, b in pairs]
    for task in tasks:
        for folder in write_task(task, out):
            typer.echo(f"{folder}")
    settings: dict[str, Any] = {"builder": "pediatypes", "seed": seed, **vars(size), "raw": [p.name for p in raw]}
    moved = {part.name: part.moved for part in parts}
    write_json(out / "build.json", settings | {"moved_to_train": moved, "tasks": [described(task) for task in tasks]})


@app.command()
@takes_reading(labels=False)
def wikitopics(
    raw: Annotated[Path, typer.Argument(metavar="RAW", help="A raw graph.")],
    topics: Annotated[Path, typer.Option(help="A file of two columns: relation, topic.")],
    out: Out,
    nodes: Annotated[int, typer.Option(help="Entities in each graph.")] = 10_000,
    burning: Annotated[float, typer.Option(help="Burning probability of the forest fire.")] = 0.8,
    query: Annotated[float, typer.Option(help="Share of facts used as test questions.")] = 0.1,
    seed: Seed = 0,
    *,
    reading: Reading,
) -> None:
    """Split a raw graph into one graph per topic of relations, the way WikiTopics was made.

    Example: anykg data build wikitopics wikidata5m.txt.gz --topics topics.tsv --out data
    """
    from anykg.atomic import write_json
    from anykg.benchmarks.build import wikitopics as builder
    from anykg.benchmarks.build.folders import write_task
    from anykg.benchmarks.build.report import described
    from anykg.cli.progress import progress_bar
    from anykg.errors import DataError

    size = builder.FireSize(nodes, burning, query)
    topic_of = builder.read_topics(topics)
    keep = builder.has_topic(topic_of)
    graph, left_out = _read(raw, reading, keep)
    if not len(graph):
        raise DataError(f"{topics}: none of its {len(topic_of):,} relations is in {raw}.")
    typer.echo(f"{left_out:,} facts of relations without a topic left out")
    built = []
    total = len({topic_of[relation] for relation in graph.relations})
    with progress_bar("topics") as advance:
        advance(0, total)
        for name, topic_graph in builder.by_topic(graph, topic_of):
            topic = builder.build_topic(name, topic_graph, size, seed)
            write_task(topic.task, out)
            built.append(described(topic.task) | {"topic_entities": topic.entities, "topic_triplets": topic.triplets})
            sizes = f"{len(topic.task.observed):,} observed and {len(topic.task.test):,} test"
            typer.echo(f"{name}: {sizes} of {topic.triplets:,} facts")
            advance(len(built), total)
    settings: dict[str, Any] = {"builder": "wikitopics", "seed": seed, **vars(size), "raw": raw.name}
    write_json(out / "build.json", settings | {"left_out": left_out, "tasks": built})


def _read(path: Path, reading: Reading, keep: Keep | None = None) -> tuple[KnowledgeGraph, int]:
    """Read a raw graph with a progress bar; also the number of triplets left out."""
    from anykg.benchmarks.build.raw import read_raw
    from anykg.cli.progress import progress_bar

    with progress_bar(f"reading {path.name}") as advance:
        graph, left_out = read_raw(path, wanted=keep, progress=advance, **reading)
    sizes = f"{len(graph):,} facts, {graph.num_entities:,} entities, {graph.num_relations:,} relations"
    typer.echo(f"{path}: {sizes}")
    return graph, left_out
