"""`anykg rules` and `anykg explain` as a person types them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.answers.rules import apply_rules
from anykg.cli.main import app
from anykg.cli.wording import as_typed
from anykg.errors import InputError, Interrupted, SettingError
from anykg.io.catalog import as_graph
from anykg.rules import mine
from anykg.rules.clause import parse

COUPLES = "".join(
    f"m{i}\twed\tw{i}\nw{i}\tin\ttown{i % 4}\n" + (f"m{i}\tin\ttown{i % 4}\n" if i else "") for i in range(12)
)
WED = "(E1, 'wed', E3) & (E3, 'in', E2) => (E1, 'in', E2)"


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.tsv"
    path.write_text(COUPLES, encoding="utf-8")
    return path


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_mine_show_apply(facts: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    printed = call("rules", "mine", facts, "--length", "2", "--nulls", "2", "--min-support", "3", "--out", rules)
    assert "Wrote" in printed
    content = json.loads(rules.read_text())
    best = {row["clause"]: row for row in content["clauses"]}["(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)"]
    assert (best["implied"], best["support"], best["null"]["graphs"]) == (12, 11, 2)
    assert content["groundings"][0]["rule"] == WED
    assert "11" in call("rules", "show", rules, "-k", "3", "--by", "support", "--family", "path")
    new = json.loads(call("rules", "apply", rules, facts, "-k", "1", "--format", "json"))["rows"]
    assert (new[0]["head"], new[0]["relation"], new[0]["tail"]) == ("m0", "in", "town0")
    assert new[0]["because"] == "(m0, wed, w0) & (w0, in, town0)"
    assert new[0]["rule"] == WED
    assert new[0]["confidence"] == pytest.approx(11 / 12)
    out = tmp_path / "new.tsv"
    call("rules", "apply", "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)", facts, "--out", out)
    assert "m0\tin\ttown0" in out.read_text()


def test_a_printed_rule_can_be_typed(facts: Path) -> None:
    expected = {"head": "m0", "relation": "in", "tail": "town0", "confidence": 11 / 12}
    expected |= {"because": "(m0, wed, w0) & (w0, in, town0)"}
    for text in (WED, '(x, "wed", y) & (y, "in", z) => (x, "in", z)', "(x, r, y) & (y, 'in', z) => (x, 'in', z)"):
        assert json.loads(call("rules", "apply", text, facts, "--format", "json"))["rows"] == [
            expected | {"rule": text}
        ]
    assert "C2 is 'wed'" in call("rules", "show", WED)


def test_what_a_typed_clause_implies_is_matched_if_it_is_no_path(facts: Path) -> None:
    text = "(x, 'in', y) & (z, 'in', y) & (z, 'wed', w) => (x, 'wed', w)"
    found = json.loads(call("rules", "apply", text, facts, "--format", "json", "-k", "1"))
    assert found["rows"][0]["because"].count("in, town") == 2
    assert found["rows"][0]["relation"] == "wed"


@pytest.mark.parametrize(
    ("clause", "complaint"),
    [
        ("(x, wed, y) & (y, in, z) => (x, in, z)", "'in' and 'wed' are relations of this graph"),
        ("(x, wed, y) & (y, r, z) => (x, r, z)", "Write (.., 'wed', ..) for the relation"),
        ("(x, 'wedd', y) => (y, 'in', x)", "There is no relation named 'wedd'. Did you mean 'wed'?"),
    ],
)
def test_names_of_relations_are_not_taken_for_variables(facts: Path, clause: str, complaint: str) -> None:
    error = CliRunner().invoke(app, ["rules", "apply", clause, str(facts)]).exception
    assert isinstance(error, InputError)
    assert complaint in str(error)


def test_names_of_entities_are_warned_of(facts: Path) -> None:
    found = apply_rules("(m1, 'wed', y) => (y, 'wed', m1)", facts)
    assert found.warnings == ("m1 is a variable in the clause and does not refer to the entity of that name.",)
    assert not apply_rules("(x, 'wed', y) => (y, 'wed', x)", facts).warnings


def test_the_confidence_of_a_clause_is_measured(facts: Path) -> None:
    text = "(E1, C2, E3) & (E2, C2, E3) => (E1, C1, E2)"
    implied = mine.measure([parse(text)], as_graph(facts))[0]
    assert 0 < implied.confidence < 0.2
    rows = json.loads(call("rules", "apply", text, facts, "--format", "json"))["rows"]
    assert {row["confidence"] for row in rows} == {implied.confidence}
    error = CliRunner().invoke(app, ["rules", "apply", text, str(facts), "--min-confidence", "0.2"]).exception
    assert isinstance(error, SettingError)
    assert f"no rule reaches 0.2; the best one has {implied.confidence:.3g}" in str(error)


def test_what_is_left_out_is_said(facts: Path, tmp_path: Path) -> None:
    text = "(E1, C2, E3) & (E2, C2, E3) => (E1, C1, E2)"
    total = apply_rules(text, facts).total
    assert total > 20
    assert f"The best 20 of {total} implied facts; --top sets the number." in call("rules", "apply", text, facts)
    assert "The best" not in call("rules", "apply", text, facts, "-k", total)
    out = tmp_path / "new.csv"
    assert f"Wrote {total} rows" in call("rules", "apply", text, facts, "--out", out)
    assert len(out.read_text().splitlines()) == total + 1
    limited = CliRunner().invoke(app, ["rules", "apply", text, str(facts), "--out", str(out), "-k", "3"])
    assert "Wrote 3 rows" in limited.stdout
    assert f"The best 3 of {total} implied facts; --top sets the number." in limited.stderr


def test_json_is_what_the_file_holds(facts: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    printed = call("rules", "mine", facts, "--length", "1", "--nulls", "0", "--format", "json", "--out", rules)
    found, kept = json.loads(printed), json.loads(rules.read_text())
    assert len(found["rows"]) == len(kept["clauses"]) + len(kept["groundings"])
    assert {row["rule"] for row in found["rows"]} >= {row["clause"] for row in kept["clauses"]}
    assert found["rows"][0]["z"] is None


def test_a_clause_is_shown() -> None:
    printed = call("rules", "show", "(x, r, y) => (y, r, x)")
    assert "(E2, C1, E1) => (E1, C1, E2)" in printed


def test_explain_prints_writes_and_draws(facts: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "why.json", tmp_path / "why.svg"
    printed = call("explain", facts, "m0", "in", "town0", "--out", out, "--picture", picture, "--draws", "1")
    assert "m0 -wed-> w0 -in-> town0" in printed
    assert printed == call("explain", facts, "--head", "m0", "--relation", "in", "--tail", "town0", "--draws", "1")
    assert picture.read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert json.loads(call("explain", facts, "m0", "in", "town0", "--draws", "1", "--format", "json")) == json.loads(
        out.read_text()
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["rules", "apply", "(E1, C2) => (E1, C1, E2)", "atlas"], "expected (ENTITY, RELATION, ENTITY)"),
        (["rules", "show", "nothing.json"], "cannot be read"),
        (["explain", "atlas", "France", "borders", "Germny"], "Did you mean 'Germany'"),
        (["explain", "atlas", "France", "borders"], "found 2 parts"),
        (["explain", "atlas", "France", "borders", "Germany", "--head", "France"], "not both"),
        (["explain", "atlas", "France", "borders", "Germany", "--picture", "x.pdf"], "ends with .svg or .png"),
    ],
)
def test_mistakes_are_said_in_one_sentence(arguments: list[str], complaint: str) -> None:
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, InputError)
    assert complaint in str(error)


def test_an_interrupt_says_that_mining_resumes(facts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anykg.answers.rules.mine", stop)
    stopped = CliRunner().invoke(app, ["rules", "mine", str(facts)]).exception
    assert isinstance(stopped, Interrupted)
    assert "Run it again to resume" in str(stopped)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"clauses": 3}', "rules.json: .*something else; give such a file"),
        ("[]", "rules.json: .*something else; give such a file"),
        ('{"clauses": [\n', "rules.json:2: .*not JSON or is cut short; mine them again"),
    ],
)
def test_damaged_rules_are_refused(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(content)
    error = CliRunner().invoke(app, ["rules", "show", str(path)]).exception
    assert isinstance(error, InputError)
    assert "expected rules as written by" in str(error)
    assert re.search(found, str(error))
    assert "Error(" not in str(error), "no Python in it"


def test_too_many_relations_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "many.tsv"
    path.write_text("".join(f"e{i % 900}\tr{i}\te{i * 7 % 900}\n" for i in range(60_000)), encoding="utf-8")
    error = CliRunner().invoke(app, ["rules", "mine", str(path), "--nulls", "0"]).exception
    assert isinstance(error, InputError)
    assert "60,000 relations needs about" in str(error)
    assert "use --seconds 60 to sample rules" in as_typed(str(error))
