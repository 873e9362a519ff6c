"""`anykg demo`: the main job, on a graph that everyone can judge, with a model that never saw it and reads no names."""

from __future__ import annotations

import typer

QUESTIONS = (
    {"head": "Kosovo", "relation": "in UN regional group"},
    {"relation": "member of", "tail": "European Union"},
    {"head": "Taiwan", "tail": "United Nations"},
)
COMPLETED = ("official language", "widely spoken language")
RELATIONS = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help="Check, predict and complete a graph of countries with a model that never saw it.")(demo)


def demo() -> None:
    from rich.console import Console

    from anykg.answers.check import check
    from anykg.answers.complete import complete
    from anykg.answers.predict import predict
    from anykg.answers.questions import Question
    from anykg.cli.output import show
    from anykg.cli.progress import progress_bar
    from anykg.evaluation.symmetry import verify
    from anykg.io.catalog import load_graph
    from anykg.models.store import DEFAULT_MODEL, load_model

    atlas, model, console = load_graph("atlas"), load_model(DEFAULT_MODEL), Console()
    typer.echo(
        f"atlas, facts about the world's countries: {atlas.num_triplets:,} facts, {atlas.num_entities:,} entities, "
        f"{atlas.num_relations} relations.\n{DEFAULT_MODEL} was trained on other graphs and reads no names."
    )
    _title("How far to trust it here?", "anykg check atlas")
    with progress_bar("checking") as advance:
        report = check(atlas, model=model, name=DEFAULT_MODEL, progress=advance)
    show(*report.renderables(RELATIONS))

    _title("What is missing?", 'anykg predict atlas --head Kosovo --relation "in UN regional group" --calibrated')
    for asked in QUESTIONS:
        question = Question(asked.get("head"), asked.get("relation"), asked.get("tail"))
        typer.echo(f"{question}: the best answers that are not in the graph")
        with progress_bar("checking relations") as advance:
            answers = predict(atlas, questions=[question], k=3, model=model, calibrated=True, progress=advance)
        console.print(answers.without("query").as_rich())
        typer.echo("")

    languages = " ".join(f'--relations "{name}"' for name in COMPLETED)
    _title("What else should be added?", f"anykg complete atlas {languages} --top 8")
    with progress_bar("completing") as advance:
        console.print(complete(atlas, model=model, count=8, relations=COMPLETED, progress=advance).as_rich())

    verdict = verify(model, atlas)
    typer.echo(
        f"\nAll names shuffled, the scores change by at most {verdict.largest:.0e}: it reads structure alone.\n"
        "Now yours:  anykg check FILE,  anykg predict FILE --head NAME --relation NAME,  anykg complete FILE"
    )


def _title(question: str, command: str) -> None:
    typer.echo(f"\n{question}  $ {command}\n")
