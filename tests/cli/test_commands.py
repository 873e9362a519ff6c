"""Commands as a person types them: what they print, and how they fail."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from anykg.cli import main
from anykg.cli.main import app, message_of
from anykg.errors import InputError
from anykg.io.catalog import find, get_dataset

FACTS = "".join(f"person{i}\tknows\tperson{(i * 7 + 1) % 30}\nperson{i}\tlikes\tthing{i % 5}\n" for i in range(30))


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS, encoding="utf-8")
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """The real program, with its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "anykg", *map(str, arguments)], capture_output=True, text=True, encoding="utf-8"
    )
    return done.returncode, done.stdout, done.stderr


def call(*arguments: object) -> str:
    """The same in this process, for commands that succeed."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_train_then_evaluate(facts: Path, tmp_path: Path) -> None:
    call("train", "gin", facts, "--out", tmp_path / "run", "--epochs", "2", "--width=8", "--batch-size", "8")
    saved = json.loads((tmp_path / "run" / "model.json").read_text())
    assert saved["config"]["width"] == 8
    assert saved["trained"]["recipe"]["epochs"] == 2
    out = tmp_path / "result.json"
    printed = call("evaluate", tmp_path / "run", facts, "--protocol", "full", "--out", out)
    assert "half-links seen" in printed
    result = json.loads(out.read_text())
    assert result["summary"]["protocol"]["name"] == "full"
    assert result == json.loads(call("evaluate", tmp_path / "run", facts, "--protocol", "full", "--format", "json"))
    assert "The symmetry holds." in call("verify", tmp_path / "run", "--dataset", facts)


def test_random_needs_no_checkpoint(facts: Path) -> None:
    assert "random on facts.tsv" in call("evaluate", "random", facts)


LISTS = ("predict", "complete", "audit", "schema", "rules mine", "rules show", "rules apply")


def options_of_commands() -> dict[str, list[list[str]]]:
    """The flags of every option, by command."""
    found: dict[str, list[list[str]]] = {}

    def visit(command: Any, name: str) -> None:
        for below, other in getattr(command, "commands", {}).items():
            visit(other, f"{name} {below}".strip())
        found[name] = [sorted(option.opts) for option in command.params]

    visit(get_command(app), "")
    return found


def test_one_option_says_how_many_are_listed() -> None:
    options = options_of_commands()
    assert {name for name, flags in options.items() if ["--top", "-k"] in flags} == set(LISTS)
    lone = [name for name, flags in options.items() if ["--top"] in flags or ["-k"] in flags or ["--k"] in flags]
    assert not lone


@pytest.mark.parametrize("flag", ["--top", "-k"])
def test_the_number_listed_is_taken(flag: str, facts: Path) -> None:
    said = call("rules", "apply", "(E1, R1, E2) => (E2, R1, E1)", facts, flag, "2", "--format", "tsv")
    assert "The best 2 of 60 implied facts; --top sets the number." in said


def test_models_are_listed_with_their_settings() -> None:
    assert "graphconv" in call("models")
    assert "--positive-weight" in call("models", "gin")


def test_settings_of_a_trained_model(facts: Path, tmp_path: Path) -> None:
    small = ["--entity-width", "4", "--relation-width", "4", "--entity-layers", "1", "--relation-layers", "1"]
    call("train", "ingram", facts, "--out", tmp_path / "run", "--epochs", "1", *small)
    ranks = tmp_path / "ranks.tsv"
    arguments = ("evaluate", tmp_path / "run", facts, "--samples", "4", "--format", "json", "--ranks", ranks)
    result = json.loads(call(*arguments))
    lines = [line.split("\t") for line in ranks.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 1 + result["summary"]["counts"]["ranked"]
    found = [float(line[lines[0].index("score_error")]) for line in lines[1:]]
    assert sum(found) / len(found) == pytest.approx(result["summary"]["score_errors"]["mean"], rel=1e-4)
    assert "--entity-width" in errors("evaluate", tmp_path / "run", facts, "--entity-width", "8")


@pytest.mark.parametrize("command", [[], ["train"], ["evaluate"], ["verify"], ["models"], ["data"], ["reproduce"]])
def test_help_has_examples(command: list[str]) -> None:
    printed = call(*command, "--help")
    assert "anykg" in printed
    if command and command != ["data"]:
        assert "Examples:" in printed


def test_verify_a_users_own_model(facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from anykg.models.random import RandomConfig, RandomScorer\n"
        "from anykg.models.base import Symmetry\n"
        "class Cheat(RandomScorer):\n    symmetry = Symmetry.EXACT\n"
    )
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run("verify", "mine:Cheat", "--dataset", facts)
    assert (code, "does NOT hold" in printed) == (1, True)


BAD = {
    "empty": (b"", "empty"),
    "binary": (bytes(range(256)) * 20, "binary"),
    "two fields": (b"a\tr\tb\nc\ts\n", ":2: "),
    "truncated gz": (gzip.compress(FACTS.encode())[:-40], "truncated"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_bad_files(kind: str, tmp_path: Path) -> None:
    content, expected = BAD[kind]
    path = tmp_path / ("facts.tsv.gz" if kind.endswith("gz") else "facts.tsv")
    path.write_bytes(content)
    code, printed, complaint = run("train", "gin", path, "--out", tmp_path / "run")
    assert code == 2
    assert printed == ""
    assert expected in complaint
    assert "Traceback" not in complaint
    assert len(complaint.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def errors(*arguments: object) -> str:
    """What a command that must fail on its input complains of."""
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return message_of(caught.value)


def test_unknown_names_get_suggestions(facts: Path, tmp_path: Path) -> None:
    assert "EN-FR" in errors("evaluate", "random", "EN-FP")
    assert "graphconv" in errors("train", "graphcov", facts, "--out", tmp_path / "run")
    assert "--epochs" in errors("train", "gin", facts, "--out", tmp_path / "run", "--epoch", "3")
    assert "expected int, found 'many'" in errors("train", "gin", facts, "--out", tmp_path / "r", "--epochs", "many")
    assert "paper-ingram" in errors("evaluate", "random", facts, "--protocol", "papr")
    assert "model.json" in errors("evaluate", tmp_path / "nowhere", facts)
    assert "pediatypes" in errors("reproduce", "pediatype")
    assert "'France'" in errors("predict", "atlas", "--head", "Frence", "--relation", "borders")
    assert "borders" in errors("predict", "atlas", "--head", "France", "--relation", "border")


def test_reproduce_a_cell_and_report(tmp_path: Path) -> None:
    if find(get_dataset("EN-FR")) is None:
        pytest.skip("PediaTypes is not here")
    results = ["--results", tmp_path / "results"]
    part = ["--models", "random", "--tasks", "EN-FR", "--seeds", 1, "--runs", tmp_path / "runs"]
    printed = call("reproduce", "pediatypes", *part, *results)
    assert "random EN-FR seed 0: node Hits@10" in printed
    assert call("reproduce", "pediatypes", *part, *results).startswith("Tables: ")  # nothing is run again
    call("reproduce", "report", *results, "--page", tmp_path / "page.md")
    assert "- random: 1 of 5 seeds of EN-FR." in (tmp_path / "page.md").read_text()
    assert (tmp_path / "results" / "scaling" / "table.md").exists()
    assert "it has art, award" in errors("reproduce", "wikitopics", "--tasks", "arts")


def test_plausible_mistakes(facts: Path, tmp_path: Path) -> None:
    assert "multiple of heads" in errors("train", "gat", facts, "--out", tmp_path / "r", "--heads", "3")
    assert "nothing to train" in errors("train", "random", facts, "--out", tmp_path / "r", "--epochs", "1")
    assert "subclass of anykg.LinkPredictor" in errors("verify", "os:path")
    assert "The symmetry holds." in call("verify", "anykg-small")
    assert "The symmetry holds." in call("verify", "anykg-base+rules")


def test_a_mean_of_nothing_is_null(facts: Path) -> None:
    result = json.loads(call("evaluate", "random", facts, "--limit", "1", "--format", "json"))
    assert result["summary"]["standard_errors"]["mrr"] is None


def test_models_blind_to_relations_are_ranked_by_the_papers_rule(facts: Path, tmp_path: Path) -> None:
    call("train", "gin", facts, "--out", tmp_path / "run", "--epochs", "1")
    arguments = ("evaluate", tmp_path / "run", facts, "--task", "relation", "--format", "json")
    assert json.loads(call(*arguments))["summary"]["protocol"]["ties"] == "rounded"
    assert json.loads(call(*arguments, "--ties", "realistic"))["summary"]["protocol"]["ties"] == "realistic"


def test_files_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("".join(f"person {i},friend {i + 1},knows\n" for i in range(9)), encoding="utf-8")
    printed = call("predict", path, "--columns", "htr", "--head", "person 1", "--relation", "knows", "--known")
    assert "friend 2" in printed


def test_exit_codes() -> None:
    code, _, complaint = run("evaluate", "random", "no-such-dataset")
    assert code == 2
    assert "no-such-dataset" in complaint
    assert run("--help")[0] == 0


def test_grid_keeps_the_best(facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anykg.models.homogeneous import GIN

    monkeypatch.setattr(GIN, "grid", {"lr": ("0.0", "0.01"), "width": ("8",)})
    printed = call("train", "gin", facts, "--out", tmp_path / "run", "--epochs", "2", "--batch-size", "8", "--grid")
    tried = json.loads((tmp_path / "run" / "grid.json").read_text())["tried"]
    assert [row["settings"]["lr"] for row in tried] == ["0.0", "0.01"]
    best = max(tried, key=lambda row: row["reached"])["settings"]["lr"]
    assert f"lr {best}" in printed
    kept = json.loads((tmp_path / "run" / "model.json").read_text())["trained"]["recipe"]
    assert kept["lr"] == float(best)
    assert "no grid" in errors("train", "graphconv", facts, "--out", tmp_path / "other", "--grid")


def test_verify_two_graphs(tmp_path: Path) -> None:
    lines = {"one": "a\tr\tb\nb\ts\tc\n", "same": "x\tu\ty\ny\tv\tz\n", "turned": "x\tu\ty\nz\tv\ty\n"}
    for name, text in lines.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    one, same, turned = (tmp_path / f"{name}.tsv" for name in lines)
    printed = call("verify", "--isomorphic", one, same)
    assert "r -> u" in printed
    assert "c -> z" in printed
    code, printed, _ = run("verify", "--isomorphic", one, turned)
    assert code == 1
    assert "NOT isomorphic" in printed


def test_evaluate_draws_relations_with_replacement(facts: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    call("evaluate", "random", facts, "--task", "relation", "--replacement", "--out", out)
    assert json.loads(out.read_text())["summary"]["protocol"]["relations"] == "with-replacement"
    call("evaluate", "random", facts, "--task", "relation", "--protocol", "paper-ingram", "--distinct", "--out", out)
    assert json.loads(out.read_text())["summary"]["protocol"]["relations"] == "distinct-if-possible"
    assert "--replacement" in errors("evaluate", "random", facts, "--replacement")


def test_only_the_named_command_is_prepared() -> None:
    only = main._only_named(main.app, ["--quiet", "predict", "atlas"])
    assert [command.name for command in only.registered_commands] == ["predict"]
    assert not only.registered_groups
    assert [group.name for group in main._only_named(main.app, ["data", "list"]).registered_groups] == ["data"]
    for arguments in ([], ["--help"], ["predct"]):
        assert main._only_named(main.app, arguments) is main.app, "help and suggestions need all of them"
    assert len(main.app.registered_commands) > 10


def test_ctrl_c_is_answered_in_any_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anykg.answers.check.check", stop)
    monkeypatch.setattr("sys.argv", ["anykg", "check", "atlas"])
    with pytest.raises(SystemExit) as stopped:
        main.run()
    assert stopped.value.code == 130
    assert "Interrupted." in capsys.readouterr().err
