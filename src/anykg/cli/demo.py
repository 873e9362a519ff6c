"""`anykg demo`: recover hidden facts about countries with a model that never saw the graph and does not use names."""

from __future__ import annotations

import typer

HELP = "Hide facts about the world's countries and recover them with a model that never saw the graph."
EXAMPLES, RELATIONS = 12, 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=HELP)(demo)


def demo() -> None:
    from anykg.answers.check import check
    from anykg.cli.loading import graph_named, model_named
    from anykg.cli.output import say, show
    from anykg.cli.progress import progress_bar
    from anykg.evaluation.symmetry import verify
    from anykg.models.folders import DEFAULT_MODEL, FOUNDATION

    atlas, model = graph_named("atlas", None, {}), model_named(DEFAULT_MODEL)
    say(
        f"atlas: {atlas.num_triplets:,} facts about the world's countries, {atlas.num_entities:,} entities, "
        f"{atlas.num_relations} relations.\n"
        f"{FOUNDATION} was trained on other graphs and does not use names. Some facts are hidden, and rules are mined "
        "on the rest. Can the model and the rules recover the hidden facts?\n\n"
        f"$ anykg check atlas --examples {EXAMPLES}\n"
    )
    with progress_bar("predicting hidden facts") as advance:
        report = check(atlas, model=model, progress=advance)
    show(*report.example_renderables(EXAMPLES), "", *report.renderables(RELATIONS))
    verdict = verify(model, atlas)
    say(
        f"\nWith all names shuffled, scores change by at most {verdict.largest:.0e}: the model only uses structure."
        "\n\n"
        "Now try your own graph (after `make demo`, anykg is in .venv/bin: `source .venv/bin/activate`):\n"
        "  anykg check FILE                                  how far to trust the answers\n"
        "  anykg predict FILE --head NAME --relation NAME    one question\n"
        "  anykg complete FILE                               the most plausible missing facts"
    )
