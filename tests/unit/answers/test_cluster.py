"""Answers on a Ray cluster of two workers: the same to the bit, also if one is killed in mid-run."""

import operator
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from anykg.answers.audit import audit
from anykg.answers.check import check
from anykg.answers.complete import complete
from anykg.answers.fit import fit
from anykg.answers.predict import predict
from anykg.answers.work import Arrays, Store, Subject, results
from anykg.cluster import Cluster, SharedFile
from anykg.errors import DataError, Interrupted
from anykg.io.catalog import as_graph
from anykg.io.pack import write_pack
from anykg.models.store import load_model
from anykg.threads import threads
from graphs import random_graph

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers of one thread, as many as are used here, with a cache of their own."""
    with pytest.MonkeyPatch.context() as patch, threads(torch=1, kernels=1):
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False)
        yield Cluster("auto")
        ray.shutdown()


def kill_one(killed: list[int]) -> None:
    """Kill the first worker of this test that computes a part."""
    while not killed:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                if not killed and "ray::work_on" in " ".join(process.cmdline()):
                    process.kill()
                    killed.append(process.pid)
        time.sleep(0.05)


@pytest.mark.slow
def test_a_lost_worker_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    graph = as_graph("atlas")
    asked = {"model": "anykg-base", "count": 50, "calibrated": False, "relations": ["borders", "member of"]}
    killed: list[int] = []
    killer = threading.Thread(target=kill_one, args=(killed,), daemon=True)
    killer.start()
    there = complete(graph, cluster=cluster, **asked)  # type: ignore[arg-type]
    killer.join(timeout=5)
    assert killed
    here = complete(graph, **asked)  # type: ignore[arg-type]
    assert here.to_polars().equals(there.to_polars())


@pytest.mark.slow
def test_every_command_answers_the_same(cluster: Cluster) -> None:
    graph = random_graph(60, 5, 900)
    questions = [(f"e{h}", f"r{r}", None) for h in range(40) for r in range(4)]
    for model in ("popularity", "pagerank"):
        asked = {"questions": questions, "model": model, "k": 5, "calibrated": True}
        assert predict(graph, **asked).to_json() == predict(graph, cluster=cluster, **asked).to_json()  # type: ignore
    checked = [check(graph, model="pagerank", facts=120, again=True, cluster=where) for where in (None, cluster)]
    assert checked[0].to_json() == checked[1].to_json()
    found = [complete(graph, model="popularity", count=80, cluster=where) for where in (None, cluster)]
    assert found[0].to_polars().equals(found[1].to_polars())
    judged = [audit(graph, folds=3, epochs=2, again=True, cluster=where) for where in (None, cluster)]
    assert np.array_equal(judged[0].log_odds, judged[1].log_odds)
    assert judged[0].to_polars().equals(judged[1].to_polars())
    left = list((Path(os.environ["XDG_CACHE_HOME"]) / "anykg" / "work").glob("*"))
    assert len(left) == 1, "only what the audit found is left behind"


@pytest.mark.slow
def test_components_are_fitted_side_by_side(cluster: Cluster, tmp_path: Path) -> None:
    graph, messages = as_graph("atlas"), list[str]()
    made = fit(graph, minutes=0.2, model="popularity", cluster=cluster, out=tmp_path, tell=messages.append)
    assert {"rules", "complex"} <= {row["component"] for row in made.config.table}
    assert any("on 2 workers" in text for text in messages)
    assert any(text.startswith("complex: ") and "epochs" in text for text in messages), "a worker's words arrive"
    again = load_model(tmp_path)
    answers = predict(graph, head="Malta", relation="in subregion", model=again, known=True, k=1).to_list()
    assert answers[0]["tail"] == "Southern Europe"


def test_a_file_that_a_machine_does_not_see_is_sent_once(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.anykg"
    write_pack(random_graph(30, 3, 200), path)
    assert not cluster.share(path, "visible", Path.exists).blocks
    monkeypatch.setattr("anykg.cluster.BLOCK", 1000)
    shared = cluster.share(path, "copy.anykg", partial(operator.ne, path))
    assert len(shared.blocks) == -(-path.stat().st_size // 1000)
    copies = []
    for _ in range(2):
        (done,) = cluster.completed(SharedFile.here, [(shared,)])
        copies.append((done.result, done.result.stat().st_ino))
    assert copies[0] == copies[1]
    assert copies[0][0] != path
    assert copies[0][0].read_bytes() == path.read_bytes()
    damaged = replace(shared, blocks=shared.blocks[1:], name="damaged.anykg")
    with pytest.raises(DataError, match=r"^\S+: the copy that reached \S+ is damaged; run the command again\.$"):
        list(cluster.completed(SharedFile.here, [(damaged,)]))
    assert not copies[0][0].with_name("damaged.anykg").exists()


CALLS: list[int] = []


def squares(subject: Subject, stop_at: int, number: int) -> Arrays:
    CALLS.append(number)
    if number == stop_at:
        raise KeyboardInterrupt
    return {"square": np.array([number**2])}


def test_finished_parts_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    subject, parts = Subject(random_graph(10, 2, 20)), [(number,) for number in range(6)]
    store = Store("squares", np.arange(3))
    with pytest.raises(Interrupted, match="Run it again to resume"):
        list(results(squares, subject, parts, common=3, store=store))
    assert CALLS == [0, 1, 2, 3]
    again = Store("squares", np.arange(3))
    found = [int(part["square"][0]) for part in results(squares, subject, parts, common=-1, store=again)]
    assert found == [0, 1, 4, 9, 16, 25]
    assert CALLS == [0, 1, 2, 3, 3, 4, 5]
    store.clear()
    assert not store.folder.exists()
    assert Store("squares", np.arange(4)).folder != store.folder
    assert Store(np.arange(2), np.arange(1)).folder != Store(np.array([0]), np.array([1, 0])).folder


def test_work_does_not_need_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anykg").write_text("a file where the cache would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    subject, parts = Subject(random_graph(10, 2, 20)), [(number,) for number in range(3)]
    found = results(squares, subject, parts, common=-1, store=Store("no cache"))
    assert [int(part["square"][0]) for part in found] == [0, 1, 4]
    with pytest.raises(Interrupted, match="nothing was kept"):
        list(results(squares, subject, parts, common=2, store=Store("no cache")))
