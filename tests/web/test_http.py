"""The HTTP interface: what it answers, and how it refuses."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import anykg
from anykg.answers.audit import FOLDS, effort_of
from anykg.answers.auditing.plausibility import is_kept
from anykg.web.pool import Busy

pytest.importorskip("fastapi", reason="the server needs the extra [serve]")

G = "/graphs/people"


def wait(client: Any, job: dict[str, Any], seconds: float = 120) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while job["state"] in ("waiting", "running") and time.monotonic() < end:
        time.sleep(0.2)
        job = client.get(f"/jobs/{job['id']}").json()
    return job


def test_the_graph_is_described(client: Any) -> None:
    (summary,) = client.get("/graphs").json()["graphs"]
    assert (summary["id"], summary["facts"]) == ("people", len(client.state.collection.get("people").graph))
    detail = client.get(G).json()
    assert {row["name"] for row in detail["relation_list"]} == {"works for", "knows", "lives in", "based in"}
    assert detail["examples"]


def test_search_pages_and_forgives(client: Any) -> None:
    found = client.get(f"{G}/search", params={"q": "person", "limit": 10, "offset": 20}).json()
    assert (len(found["matches"]), found["total"]) == (4, 24)
    assert client.get(f"{G}/search", params={"q": "zurch"}).json()["matches"][0]["name"] == "Zürich"
    assert client.get(f"{G}/search", params={"kind": "relation"}).json()["total"] == 4


def test_an_entity_has_its_facts_capped(client: Any) -> None:
    found = client.get(f"{G}/entity", params={"name": "Firm 0", "cap": 2}).json()
    group = next(group for group in found["groups"] if group["direction"] == "in")
    assert (len(group["entities"]), group["total"], group["more"]) == (2, 5, 3)
    rest = client.get(
        f"{G}/facts", params={"entity": "Firm 0", "relation": "works for", "direction": "in", "offset": 2}
    ).json()
    assert (len(rest["entities"]), rest["more"]) == (3, 0)
    assert client.get(f"{G}/facts", params={"entity": "Firm 0", "relation": "knows"}).json()["total"] == 0


def test_a_neighbourhood_is_capped_and_says_what_is_left_out(client: Any) -> None:
    found = client.get(f"{G}/neighbourhood", params={"entity": "Firm 0", "limit": 3, "per_relation": 2}).json()
    assert len(found["edges"]) == 3
    assert sum(row["count"] for row in found["more"]) == 6 - 3
    assert {edge["head"] for edge in found["edges"]} | {edge["tail"] for edge in found["edges"]} <= {
        node["name"] for node in found["nodes"]
    }


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        ({"head": "Person 0", "relation": "lives in"}, "tail"),
        ({"relation": "lives in", "tail": "Berlin"}, "head"),
        ({"head": "Person 0", "tail": "Firm 0"}, "relation"),
        ({"head": "Person 0", "relation": "works for", "tail": "Firm 0"}, None),
    ],
)
def test_questions_are_answered(client: Any, ask: dict[str, str], asked: str | None) -> None:
    found = client.post(f"{G}/predict", ask | {"k": 3}).json()
    assert found["page"]["asked"] == asked
    assert 1 <= len(found["rows"]) <= 3
    for row in found["rows"]:
        assert all(row[part] == name for part, name in ask.items())
    if asked is None:
        assert found["rows"][0]["known"]
        assert found["rows"][0]["tail_rank"] >= 1


FACT = {"head": "Person 1", "relation": "works for", "tail": "Firm 2"}


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, apart from rounding and from the time that work took."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one if name != "seconds")
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == pytest.approx(other, rel=1e-3, abs=1e-4) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ({"head": "Person 1", "relation": "works for", "k": 5, "known": False}, ["predict", "-k", "5"]),
        (FACT, ["predict"]),
        ({"facts": [list(FACT.values())]}, ["score"]),
        (FACT, ["explain"]),
        ({"facts": 20}, ["check", "--facts", "20"]),
        ({"count": 5, "relations": ["lives in"]}, ["complete", "--top", "5", "--relations", "lives in"]),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else "",
)
def test_one_shape_over_http_on_the_command_line_and_in_python(
    client: Any,
    graph_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: dict[str, Any],
    arguments: list[str],
) -> None:
    import anykg
    from anykg.cli.main import app

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    command, *options = arguments
    facts = tmp_path / "facts.tsv"
    facts.write_text("\t".join(FACT.values()) + "\n", encoding="utf-8")
    asked = {name: value for name, value in body.items() if name in FACT}
    typed = [str(facts)] if command == "score" else [part for name in asked for part in (f"--{name}", asked[name])]
    answer = client.post(f"{G}/{command}", body).json()
    if "page" not in answer:  # a job
        job = wait(client, answer)
        assert job["state"] == "done", job["error"]
        answer = client.get(f"/jobs/{job['id']}/result").json()
    answer.pop("page", None)
    printed = CliRunner().invoke(app, [command, str(graph_file), *typed, *options, "--format", "json"])
    assert same(answer, json.loads(printed.stdout))
    given = {"facts": [tuple(FACT.values())]} if command == "score" else body
    python = getattr(anykg, command)(graph_file, **given).to_dict()
    assert same(answer, python)


def test_an_explanation_names_facts_of_the_graph(client: Any) -> None:
    found = client.post(f"{G}/explain", {"head": "Person 1", "relation": "lives in", "tail": "Zürich"}).json()["page"]
    assert found["known"]
    graph = client.state.collection.get("people").graph.to_polars().rows()
    for path in found["paths"]:
        for fact in path["facts"]:
            assert tuple(fact[part]["name"] for part in ("head", "relation", "tail")) in graph


def test_an_explanation_contrasts_the_answer_with_the_runner_up(client: Any) -> None:
    found = client.post(f"{G}/explain", {"head": "Person 1", "relation": "works for", "tail": "Firm 1"}).json()["page"]
    contrast, singles = found["contrast"], found["facts"]
    assert contrast["name"] not in ("Firm 1", "Person 1")
    assert contrast["lead"] == pytest.approx(found["score"] - contrast["score"], abs=1e-4)
    assert 0 < contrast["tested"] <= contrast["nearby"]
    assert singles
    assert [one["effect"] for one in singles] == sorted((one["effect"] for one in singles), reverse=True)
    for one in singles:
        assert one["lead"] == pytest.approx(contrast["lead"] - one["effect"], abs=1e-3)
    graph = client.state.collection.get("people").graph.to_polars().rows()
    assert all(tuple(one[part]["name"] for part in ("head", "relation", "tail")) in graph for one in singles)


def test_a_fitted_model_answers_again_after_a_restart(client: Any, tmp_path: Path) -> None:
    from anykg.web.served import Collection

    path = tmp_path / "tree.tsv"
    path.write_text("".join(f"a{i}\tr\tb{i % 7}\na{i}\ts\ta{i // 2}\nb{i % 7}\tt\ta{i}\n" for i in range(150)))
    collection = client.state.collection
    shipped = collection.add(str(path)).model_name
    fact = {"head": "a1", "relation": "r", "tail": "b2"}
    client.post("/graphs/tree/decisions", fact | {"id": "no", "verdict": "reject", "source": "complete"})
    job = wait(client, client.post("/graphs/tree/fit", {"minutes": 0.05}).json())
    assert job["state"] == "done", job["error"]
    assert job["settings"]["negatives"] == 1
    assert client.get("/graphs/tree").json()["model"] == "fitted-1"

    def restarted(model: str | None = None, source: Path = path) -> str:
        return Collection(collection.data, model=model).add(str(source)).model_name

    assert restarted() == "fitted-1"
    assert restarted(model=shipped) == shipped, "as asked for"
    other = tmp_path / "other.tsv"
    other.write_text(path.read_text() + "a3\tr\tb1\n")
    assert restarted(source=other) == shipped, "it was fitted to another graph"
    assert client.http.put("/api/v1/graphs/tree/model", json={"model": shipped}).status_code == 200
    assert restarted() == shipped, "the last choice is kept"


def test_audits_here_and_elsewhere_share_what_they_found(client: Any) -> None:
    graph = next(iter(client.state.collection)).graph
    found = anykg.audit(graph, count=5, max_plausibility=1, minutes=0.06, again=True)
    job = wait(client, client.post(f"{G}/audit", {"count": 5, "max_plausibility": 1, "minutes": 0.05}).json())
    rows = client.get(f"/jobs/{job['id']}/result").json()["rows"]
    assert [row["plausibility"] for row in rows] == found.to_polars()["plausibility"].to_list()
    done = client.get(f"/jobs/{job['id']}").json()
    assert done["done"] == done["total"] > 0
    wait(client, client.post(f"{G}/audit", {"count": 5, "max_plausibility": 1, "minutes": 0.08}).json())
    effort = effort_of(graph, FOLDS, 0.08, None)
    assert is_kept(graph, folds=FOLDS, effort=effort), "what a job found is used by `anykg audit`, too"


def test_an_audit_ends_in_review(client: Any) -> None:
    job = wait(client, client.post(f"{G}/audit", {"count": 5, "max_plausibility": 1, "minutes": 0.05}).json())
    assert job["state"] == "done", job["error"]
    page = client.get(f"{G}/candidates", params={"source": "audit"}).json()
    graph = client.state.collection.get("people").graph.to_polars().rows()
    fact = tuple(page["rows"][0][part]["name"] for part in ("head", "relation", "tail"))
    assert len(page["rows"]) == 5
    assert fact in graph
    names = dict(zip(("head", "relation", "tail"), fact, strict=True))
    made = client.post(f"{G}/decisions", names | {"id": "a", "verdict": "reject", "source": "audit"}).json()
    assert made["exportable"] == {"complete": 0, "audit": 1}
    assert client.get(f"{G}/export", params={"verdict": "reject"}).text == "\t".join(fact) + "\n"


def test_none_of_these_is_passed_on(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import anykg

    real = anykg.predict

    class WithNone:
        def __init__(self, found: Any) -> None:
            self.found = found

        def to_dict(self) -> dict[str, Any]:
            found = self.found.to_dict()
            return found | {"summary": found["summary"] | {"none_of_these": 0.25}}

    monkeypatch.setattr(anykg, "predict", lambda *given, **options: WithNone(real(*given, **options)))
    found = client.post(f"{G}/predict", {"head": "Person 1", "relation": "works for"}).json()
    assert found["summary"]["none_of_these"] == 0.25


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("get", "/graphs/peopel", None, 404),
        ("get", f"{G}/entity?name=Berlinn", None, 404),
        ("post", f"{G}/predict", {"head": "Berlinn", "relation": "knows"}, 404),
        ("post", f"{G}/predict", {"head": "Person 1"}, 422),
        ("post", f"{G}/predict", {"head": "Person 1", "relation": "knows", "k": 0}, 422),
        ("post", f"{G}/predict", {"head": "Person 1", "relation": "knows", "kk": 1}, 422),
        ("get", "/jobs/none", None, 404),
        ("get", "/nothing", None, 404),
        ("post", "/graphs", {}, 405),
        ("post", f"{G}/score", {"facts": []}, 422),
        ("get", f"{G}/export?format=exe", None, 422),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(client: Any, method: str, path: str, body: Any, status: int) -> None:
    answer = client.get(path) if method == "get" else client.post(path, body)
    assert answer.status_code == status
    assert answer.json()["error"].endswith((".", "?"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"relatio": "knows"}, "There is no field named 'relatio'. Did you mean 'relation'?"),
        ({"head": "Person 1", "relation": "knows", "k": 0}, "k: input should be greater than or equal to 1, found 0."),
    ],
)
def test_what_is_wrong_with_a_field_is_said(client: Any, body: Any, sentence: str) -> None:
    assert client.post(f"{G}/predict", body).json()["error"] == sentence


def test_a_body_that_is_not_json(client: Any) -> None:
    answer = client.http.post(f"/api/v1{G}/predict", content=b'{"head": ', headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("The body is not JSON: ")


def test_an_unknown_name_comes_with_suggestions(client: Any) -> None:
    problem = client.get(f"{G}/entity?name=Berlinn").json()
    assert problem["suggestions"] == ["Berlin"]
    assert problem["error"] == "There is no entity named 'Berlinn'. Did you mean 'Berlin'?"


def test_a_full_queue_is_said_and_not_waited_for(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> None:
        raise Busy

    monkeypatch.setattr(client.state.computing, "run", full)
    answer = client.post(f"{G}/predict", {"head": "Person 1", "relation": "knows"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_questions_that_wait_together_are_asked_together(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from anykg.web import asking

    sizes, release = [], threading.Event()
    real = asking.predict_all

    def counted(graph: Any, model: Any, questions: Any, **options: Any) -> Any:
        release.wait(10)
        sizes.append(len(questions))
        return real(graph, model, questions, **options)

    monkeypatch.setattr(asking, "predict_all", counted)
    answers: dict[str, str] = {}

    def ask(person: str) -> None:
        found = client.post(f"{G}/predict", {"head": person, "relation": "works for", "k": 1}).json()
        answers[person] = found["rows"][0]["head"]
        assert "query" not in found["rows"][0]

    people = [f"Person {i}" for i in range(8)]
    threads = [threading.Thread(target=ask, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    time.sleep(1)
    release.set()
    for thread in threads:
        thread.join()
    assert answers == {person: person for person in people}
    assert sum(sizes) == 8
    assert len(sizes) <= 3


def test_an_upload_is_described_before_it_is_used(client: Any) -> None:
    content = "head,relation,tail\na,likes,b\nb,likes,c\nc,hates,a\n"
    sent = client.post("/uploads", files={"file": ("../../evil name.csv", content)})
    assert sent.status_code == 201
    assert sent.json()["first"][0] == ["a", "likes", "b"]
    assert len(client.get("/graphs").json()["graphs"]) == 1
    opened = client.post(f"/uploads/{sent.json()['id']}/open").json()
    assert opened["facts"] == 3
    found = client.post(f"/graphs/{opened['id']}/predict", {"head": "a", "relation": "likes"})
    assert found.status_code == 200
    uploads = Path(client.state.uploads.folder)
    assert all(uploads in path.parents for path in uploads.rglob("*"))
    assert client.post(f"/uploads/{sent.json()['id']}/open").status_code == 404


def test_malformed_lines_of_an_upload_are_refused_or_skipped(client: Any) -> None:
    file = {"file": ("x.tsv", "a\tlikes\tb\nb\tlikes\nc\tlikes\ta\n")}
    refused = client.post("/uploads", files=file)
    assert (refused.status_code, "x.tsv:2: expected 3" in refused.json()["error"]) == (422, True)
    sent = client.post("/uploads", files=file, data={"skip_malformed": "true"})
    assert sent.json()["facts"] == 2
    assert "1 malformed lines" in sent.json()["sentence"]


@pytest.mark.parametrize("name", ["x.tsv", "x.parquet", "x.gz", "x.nt", "x.jsonl", "x"])
def test_binary_uploads_are_refused(client: Any, name: str) -> None:
    answer = client.post("/uploads", files={"file": (name, bytes(range(256)) * 400)})
    assert answer.status_code == 422
    assert str(client.state.uploads.folder) not in answer.json()["error"]


def test_large_uploads_and_bodies_are_refused(client: Any) -> None:
    answer = client.post("/uploads", files={"file": ("x.tsv", b"a\tb\tc\n" * 400_000)})
    assert answer.status_code == 413
    assert "too large" in answer.json()["error"]
    assert client.post(f"{G}/predict", {"head": "x" * (3 << 20)}).status_code == 413


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(client: Any) -> None:
    import bz2
    import gzip
    import lzma

    for pack in (gzip.compress, bz2.compress, lzma.compress):
        bomb = pack(b"a\tb\tc\n" * 4_000_000)
        assert len(bomb) < 1 << 20
        answer = client.post("/uploads", files={"file": ("x.tsv", bomb)})
        assert answer.status_code == 413


def test_a_check_makes_probabilities(client: Any) -> None:
    before = client.post(f"{G}/predict", {"head": "Person 0", "relation": "lives in"}).json()
    assert not before["page"]["calibrated"]
    job = wait(client, client.post(f"{G}/check", {"facts": 20}).json())
    assert job["state"] == "done", job["error"]
    assert client.get(f"/jobs/{job['id']}/result").json()["summary"]["hidden_facts"] == 20
    after = client.post(f"{G}/predict", {"head": "Person 0", "relation": "works for"}).json()
    assert after["page"]["calibrated"]
    assert all(0 <= row["probability"] <= 1 for row in after["rows"])
    assert "hidden facts of 'works for'" in after["page"]["trust"]["sentence"]
    with client.http.stream("GET", f"/api/v1/jobs/{job['id']}/events") as stream:
        assert "event: job" in next(stream.iter_text())


def test_review_from_candidates_to_export(client: Any) -> None:
    nothing = client.get(f"{G}/candidates", params={"source": "audit"})
    assert nothing.status_code == 404
    assert nothing.json()["error"].startswith("There is nothing to review: no audit job")
    order = {"count": 8, "relations": ["lives in"]}
    job = wait(client, client.post(f"{G}/complete", order).json())
    assert job["state"] == "done", job["error"]
    page = client.get(f"{G}/candidates").json()
    assert page["progress"]["total"] == page["total"] == 8
    rows = page["rows"]

    def decide(row: dict[str, Any], verdict: str, name: str, **more: Any) -> Any:
        fact = {part: row[part]["name"] for part in ("head", "relation", "tail")}
        return client.post(f"{G}/decisions", fact | {"id": name, "verdict": verdict, "source": "complete"} | more)

    assert decide(rows[0], "accept", "1", replaces=None).json()["progress"]["complete"]["accepted"] == 1
    assert decide(rows[1], "reject", "2", replaces=None).status_code == 201
    assert decide(rows[1], "accept", "3", replaces=None).status_code == 409
    assert decide(rows[2], "accept", "4", replaces=None).status_code == 201
    assert decide(rows[2], "undo", "5", replaces="4").json()["current"] is None
    open_rows = client.get(f"{G}/candidates").json()["rows"]
    assert len(open_rows) == 6
    assert client.get(f"{G}/candidates", params={"state": "decided"}).json()["total"] == 2
    exported = client.get(f"{G}/export").text
    assert exported == "\t".join(rows[0][part]["name"] for part in ("head", "relation", "tail")) + "\n"

    # What was rejected is not proposed again: neither by a new job nor as an answer.
    again = wait(client, client.post(f"{G}/complete", order).json())
    proposed = client.get(f"{G}/candidates", params={"job": again["id"], "state": "all"}).json()["rows"]
    facts = [[row[part]["name"] for part in ("head", "relation", "tail")] for row in proposed]
    assert len(facts) == 8
    rejected = [rows[1][part]["name"] for part in ("head", "relation", "tail")]
    assert rejected not in facts
    answers = client.post(f"{G}/predict", {"head": rejected[0], "relation": rejected[1], "k": 100}).json()
    assert rejected[2] not in [row["tail"] for row in answers["rows"]]
    assert answers["page"]["rejected"] == 1
    assert answers["summary"]["count"] == len(answers["rows"])


def test_a_job_can_be_stopped_and_the_same_order_is_one_job(client: Any) -> None:
    first = client.post(f"{G}/check", {"facts": 40, "seed": 1}).json()
    assert client.post(f"{G}/check", {"facts": 40, "seed": 1}).json()["id"] == first["id"]
    client.post(f"/jobs/{first['id']}/stop")
    assert wait(client, client.get(f"/jobs/{first['id']}").json())["state"] == "stopped"
    assert client.get(f"/jobs/{first['id']}/result").status_code == 422


def test_a_job_is_about_the_graph_that_is_shown_even_if_the_file_is_gone(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "gone.tsv"
    path.write_text("".join(f"a{i}\tr\tb{i % 7}\na{i}\ts\ta{i // 2}\n" for i in range(40)))
    client.state.collection.add(str(path))
    path.unlink()
    job = wait(client, client.post("/graphs/gone/check", {"facts": 20}).json())
    assert job["state"] == "done", job["error"]


def test_finished_jobs_are_found_again(client: Any) -> None:
    from anykg.web.jobs import Jobs

    job = wait(client, client.post(f"{G}/check", {"facts": 20, "seed": 3}).json())
    again = Jobs(client.state.jobs.folder)
    found = again.get(job["id"])
    assert found is not None
    assert found.state == "done"
    assert again.result(job["id"])["command"] == "check"
    again.close()
