import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from anykg.errors import CheckpointError, ConfigError, InputError, Interrupted
from anykg.graph.split import hold_out
from anykg.models.homogeneous import GraphConv
from anykg.models.recipe import Recipe
from anykg.models.store import load_model, load_tensors, save_tensors
from anykg.threads import threads
from anykg.training import loop
from anykg.training.loop import Report, TrainingGraph, train
from anykg.training.step import repeatable
from graphs import random_graph

RECIPE = replace(GraphConv.recipe, epochs=3, batch_size=16)


def graphs(count: int = 1) -> list[TrainingGraph]:
    parts = [hold_out(random_graph(40, 3, 120, seed), 0.2, 0, "valid") for seed in range(count)]
    return [TrainingGraph(f"g{i}", rest, held) for i, (rest, held) in enumerate(parts)]


def model() -> GraphConv:
    torch.manual_seed(0)
    return GraphConv()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "weights.safetensors")


def equal(one: Path, two: Path) -> bool:
    """Whether both the last and the best weights are the same."""
    for file in (loop.LAST_FILE, "weights.safetensors"):
        first, second = (load_file(folder / file) for folder in (one, two))
        if first.keys() != second.keys() or not all(torch.equal(first[k], second[k]) for k in first):
            return False
    return True


@pytest.mark.parametrize("count", [1, 2])
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path, count: int) -> None:
    train("graphconv", model(), graphs(count), RECIPE, out=tmp_path / "whole")

    def stop(report: Report) -> None:
        if (report.epoch, report.step) == (1, 3):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="resume=True"):
        train("graphconv", model(), graphs(count), RECIPE, out=tmp_path / "parts", on_step=stop)
    train("graphconv", model(), graphs(count), RECIPE, out=tmp_path / "parts", resume=True)
    assert equal(tmp_path / "whole", tmp_path / "parts")
    logs = [
        [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in (tmp_path / f / "log.jsonl").open()]
        for f in ("whole", "parts")
    ]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 3


def test_the_rate_falls_to_nothing(tmp_path: Path) -> None:
    rates: list[float] = []
    step = loop.Adam.step

    def spied(self: loop.Adam, lr: float) -> None:
        rates.append(lr)
        step(self, lr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Adam, "step", spied)
        train("graphconv", model(), graphs(), replace(RECIPE, schedule="linear"), out=tmp_path / "run")
    assert rates == pytest.approx([RECIPE.lr * (1 - i / len(rates)) for i in range(len(rates))])


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """kill -9 at some step, whatever it is: nothing is half-written and the end is the same."""
    (tmp_path / "facts.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in random_graph(60, 3, 400, 1).to_polars().rows()), encoding="utf-8"
    )
    command = [sys.executable, "-m", "anykg", "train", "graphconv", str(tmp_path / "facts.tsv"), "--epochs", "30"]
    command += ["--batch-size", "16", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    killed = subprocess.Popen(
        [*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log = tmp_path / "killed" / loop.LOG_FILE
    while killed.poll() is None and not (log.exists() and len(log.read_text().splitlines()) >= 2):
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    again = subprocess.run([*command, str(tmp_path / "killed"), "--resume"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert equal(tmp_path / "whole", tmp_path / "killed")


def test_same_seed_same_weights(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train("graphconv", model(), graphs(), RECIPE, out=tmp_path / name, seed=seed)
    assert equal(tmp_path / "a", tmp_path / "b")
    assert not equal(tmp_path / "a", tmp_path / "c")


def test_best_weights_are_returned_and_saved(tmp_path: Path) -> None:
    trained = train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    loaded = load_model(tmp_path)
    for key, value in trained.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[key])
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").open()]
    best = max(lines, key=lambda line: (line["node/mrr"], line["epoch"]))
    assert json.loads((tmp_path / "model.json").read_text())["trained"]["recipe"]["epochs"] == 3
    from anykg.models.store import load_tensors

    assert load_tensors(tmp_path / "weights.safetensors")[1]["epoch"] == best["epoch"]


def test_early_stop(tmp_path: Path) -> None:
    train("graphconv", model(), graphs(), replace(RECIPE, epochs=50, lr=0.0, patience=2), out=tmp_path)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3


def test_of_equally_good_weights_the_last_are_kept(tmp_path: Path) -> None:
    from anykg.models.store import load_tensors

    train("graphconv", model(), graphs(), replace(RECIPE, epochs=3, lr=0.0), out=tmp_path)
    assert load_tensors(tmp_path / "weights.safetensors")[1]["epoch"] == 3


@pytest.mark.parametrize(("checkpoint", "epoch"), [("best", 1), ("last", 3)])
def test_the_best_or_the_last_weights_are_kept(
    checkpoint: str, epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = iter([0.9, 0.5, 0.4])
    monkeypatch.setattr(loop, "_validate", lambda *_: next(worse))
    train("graphconv", model(), graphs(), replace(RECIPE, checkpoint=checkpoint), out=tmp_path)
    assert load_tensors(tmp_path / "weights.safetensors")[1]["epoch"] == epoch


def test_held_out_targets_are_not_in_the_message_graph() -> None:
    from anykg.training.epoch import draw_epoch

    recipe = replace(RECIPE, targets="held-out", target_share=0.2, inverses=True, negative_relations=1)
    graph = graphs()[0].train
    batches = [draw() for draw in draw_epoch([graph], recipe, 0, 0)]
    targets = [row for batch in batches for row in batch.rows[:, 0].tolist()]
    assert len(targets) == 2 * round(0.2 * len(graph))
    for batch in batches:
        assert not batch.graph.contains(batch.rows[:, 0]).any()
        assert graph.contains(batch.rows[:, 0]).all()
        assert not graph.contains(batch.rows[:, 1:]).any()


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    with pytest.raises(ConfigError, match="resume=True"):
        train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    with pytest.raises(CheckpointError, match="other settings"):
        train("graphconv", model(), graphs(), replace(RECIPE, lr=0.5), out=tmp_path, resume=True)


def test_a_loss_that_explodes_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="learning rate"):
        train("graphconv", model(), graphs(), replace(RECIPE, lr=1e30, gradient_norm=0.0), out=tmp_path)


def test_selection_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="node/METRIC"):
        train("graphconv", model(), graphs(), Recipe(select="node/auc"), out=tmp_path)


@pytest.mark.parametrize("damage", ["missing", "reshaped", "unknown", "nan", "truncated", "no config", "foreign"])
def test_damaged_checkpoints(tmp_path: Path, damage: str) -> None:
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    path, tensors = tmp_path / "weights.safetensors", weights(tmp_path)
    key = "readout.0.bias"
    if damage == "missing":
        del tensors[key]
    elif damage == "reshaped":
        tensors[key] = tensors[key][:-1].clone()
    elif damage == "unknown":
        tensors["extra"] = torch.zeros(1)
    elif damage == "nan":
        tensors[key][0] = float("nan")
    save_file(tensors, path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:200])
    described = json.loads((tmp_path / "model.json").read_text())
    if damage == "no config":
        (tmp_path / "model.json").write_text("{}")
    elif damage == "foreign":
        (tmp_path / "model.json").write_text(json.dumps(described | {"model": "os:system"}))
    expected = {
        "missing": "tensor 'readout.0.bias' is missing",
        "reshaped": r"expected \[32\], found \[31\]",
        "unknown": "'extra' is not part",
        "nan": "not finite",
        "truncated": "damaged",
        "no config": "expected a JSON object",
        "foreign": "trust=True",
    }
    with pytest.raises(CheckpointError, match=expected[damage]):
        load_model(tmp_path)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """A write that fails half way, as on a full disk: one sentence, and the old file is whole."""
    code = """
import resource, sys
from pathlib import Path
import torch
from anykg.errors import InputError
from anykg.models.store import save_tensors
out = Path(sys.argv[1])
save_tensors(out, {"a": torch.ones(10)}, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save_tensors(out, {"a": torch.zeros(100_000)}, {})
except InputError as error:
    print(error)
"""
    import subprocess

    out = tmp_path / "weights.safetensors"
    done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True)
    assert "unchanged" in done.stdout, done
    assert torch.equal(load_file(out)["a"], torch.ones(10))
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        train("graphconv", model(), graphs(), RECIPE, out=tmp_path / "file" / "run")


def test_an_epoch_can_be_a_part_of_the_targets() -> None:
    from anykg.training.epoch import draw_epoch

    recipe = replace(RECIPE, sides="halves", steps_per_epoch=2)
    first, second = ([draw() for draw in draw_epoch([g.train for g in graphs(2)], recipe, 0, e)] for e in (0, 1))
    assert len(first) == len(second) == 2
    assert first[0].rows.tolist() != second[0].rows.tolist()
    half = len(first[0].rows) // 2
    assert (first[0].rows[:half, :, 0] == first[0].rows[:half, :1, 0]).all()


def test_nothing_to_validate_on_keeps_the_last_weights(tmp_path: Path) -> None:
    whole = graphs()[0]
    empty = TrainingGraph("g", whole.train, whole.train.subset(np.zeros(len(whole.train), bool)))
    trained = train("graphconv", model(), [empty], replace(RECIPE, patience=1), out=tmp_path)
    last = load_file(tmp_path / loop.LAST_FILE)
    assert all(torch.equal(value, last[f"model.{key}"]) for key, value in trained.state_dict().items())
    assert "node/mrr" not in (tmp_path / "log.jsonl").read_text()


def test_settings_that_came_later_do_not_keep_a_run_from_going_on(tmp_path: Path) -> None:
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    tensors, note = load_tensors(tmp_path / loop.LAST_FILE)
    del note["trained"]["recipe"]["hide_pairs"], note["trained"]["config"]["width"]
    save_tensors(tmp_path / loop.LAST_FILE, tensors, note)
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"other settings \(lr .*, not 0\.5\)"):
        train("graphconv", model(), graphs(), replace(RECIPE, lr=0.5), out=tmp_path, resume=True)


def test_resuming_with_another_graph_is_refused(tmp_path: Path) -> None:
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    other = [TrainingGraph("g0", *graphs(2)[1][1:])]
    with pytest.raises(CheckpointError, match="other settings"):
        train("graphconv", model(), other, RECIPE, out=tmp_path, resume=True)


def test_long_settings_are_cut_short_in_messages(tmp_path: Path) -> None:
    train("graphconv", model(), graphs(), RECIPE, out=tmp_path)
    tensors, note = load_tensors(tmp_path / loop.LAST_FILE)
    note["trained"]["datasets"] = [f"graph {number}" for number in range(500)]
    save_tensors(tmp_path / loop.LAST_FILE, tensors, note)
    with pytest.raises(CheckpointError, match=r"datasets \['graph 0', .* \.\.\., not \['") as refused:
        train("graphconv", model(), graphs(), RECIPE, out=tmp_path, resume=True)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("name", "value"), [("validate_every", 0), ("lr", -1.0), ("batch_size", -1), ("target_share", 0.0)]
)
def test_recipes_are_checked(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        replace(RECIPE, **{name: value})


def test_training_can_start_from_given_weights(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anykg", "train", "graphconv", "atlas", "--epochs", "0", "--out"]
    subprocess.run([*command, str(tmp_path / "first"), "--seed", "3"], check=True, capture_output=True)
    subprocess.run(
        [*command, str(tmp_path / "next"), "--weights", str(tmp_path / "first")], check=True, capture_output=True
    )
    first, following = (load_file(tmp_path / name / "weights.safetensors") for name in ("first", "next"))
    assert all(torch.equal(first[key], following[key]) for key in first)
    described = json.loads((tmp_path / "next" / "model.json").read_text(encoding="utf-8"))
    assert str(tmp_path / "first") in json.dumps(described)
    other = subprocess.run(
        [*command, str(tmp_path / "other"), "--weights", str(tmp_path / "first"), "--width", "8"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == 2


def test_equal_indices_add_up_alike_on_several_threads() -> None:
    """Gradients of indexing, which torch otherwise adds in the order in which its threads come."""
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 50, 40_000))
    gradient = torch.from_numpy(np.random.default_rng(1).normal(size=(40_000, 32)).astype(np.float32))
    found = []
    with repeatable(), threads(torch=4):
        for _ in range(8):
            table = torch.zeros(50, 32, requires_grad=True)
            table[ids].backward(gradient)
            found.append(table.grad)
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert torch.get_deterministic_debug_mode() == 0


@pytest.mark.parametrize(("share", "edges"), [(0.0, {False}), (0.5, {False, True}), (1.0, {True})])
def test_pairs_are_hidden_in_as_many_steps_as_asked(share: float, edges: set[bool], tmp_path: Path) -> None:
    """A model that is told what to leave out is told all facts between the ends of its targets."""
    given = []

    class Listening(GraphConv):
        hides_facts = True

        def training_scores(self, graph, rows, seed, targets=None):  # type: ignore[no-untyped-def]
            given.append(targets is not None)
            assert targets is None or len(targets) >= len(rows)
            return super().training_scores(graph, rows, seed, targets)

    torch.manual_seed(0)
    train("graphconv", Listening(), graphs(), replace(RECIPE, hide_pairs=share, epochs=3), out=tmp_path / "run")
    assert set(given) == edges
