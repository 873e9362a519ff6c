"""`anykg demo`: the main job, on a graph that everyone can judge, with a model that never saw it and reads no names."""

from __future__ import annotations

import typer

QUESTIONS = (
    {"head": "Kosovo", "relation": "in UN regional group"},
    {"relation": "member of", "tail": "European Union"},
    {"head": "Taiwan", "tail": "United Nations"},
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help="Predict hidden facts about countries with a model that never saw this graph.")(demo)


def demo() -> None:
    from anykg.answers import Question, predict
    from anykg.cli.predict import print_answers
    from anykg.data.catalog import load_graph
    from anykg.data.split import hold_out
    from anykg.evaluation.evaluate import evaluate
    from anykg.evaluation.metrics import summarise
    from anykg.evaluation.protocol import PROTOCOLS
    from anykg.evaluation.symmetry import verify
    from anykg.training.checkpoint import load_model

    atlas, model = load_graph("atlas"), load_model("anykg-small")
    typer.echo(f"atlas, facts about the world's countries: {atlas}")
    known, hidden = hold_out(atlas, 0.1, 0, "demo")
    typer.echo(
        f"{len(hidden)} facts are hidden. The model was trained on other graphs; none of these names is known to it.\n"
    )

    result = evaluate(model, known, hidden, task="node", protocol=PROTOCOLS["full"])
    figures = summarise(result.ranks.by(result.protocol.ties))
    typer.echo(
        f"Asked for either end of every hidden fact, it puts the right one of {atlas.num_entities:,} entities first in "
        f"{figures['hits@1']:.0%}, among the first 10 in {figures['hits@10']:.0%} (by chance in 1%)."
    )
    result = evaluate(model, known, hidden, task="relation", protocol=PROTOCOLS["full"])
    figures = summarise(result.ranks.by(result.protocol.ties))
    typer.echo(
        f"Asked how two entities are related, it puts the right one of {atlas.num_relations} relations first in "
        f"{figures['hits@1']:.0%} (by chance {1 / atlas.num_relations:.0%}).\n"
    )
    for asked in QUESTIONS:
        question = Question(**asked)
        parts = (question.head or "?", question.relation or "?", question.tail or "?")
        typer.echo(f"({', '.join(parts)}): the best answers that are not known facts")
        print_answers(predict(model, atlas, question, k=3))
        typer.echo("")
    verdict = verify(model, atlas)
    typer.echo(
        f"All names shuffled: the scores changed by at most {verdict.largest:.0e}. It reads structure alone.\n"
        "Now yours:  anykg predict FILE --head NAME --relation NAME"
    )
