import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from anykg.atomic import atomic_path, write_text
from anykg.errors import ConfigError, UnknownName, nearest
from anykg.models.recipe import Recipe
from anykg.seeds import derive, generator, torch_generator
from anykg.settings import changed, describe, from_json


@dataclasses.dataclass(frozen=True)
class Example:
    """Settings."""

    width: int = 3
    """How wide."""
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    """Which
    one."""
    fast: bool = False


def test_settings_are_described_by_their_docstrings() -> None:
    rows = {row.name: row for row in describe(Example)}
    assert (rows["width"].kind, rows["width"].default, rows["width"].help) == ("int", 3, "How wide.")
    assert (rows["kind"].kind, rows["kind"].help, rows["rate"].help) == ("a | b", "Which one.", "")


def test_every_setting_of_a_recipe_is_explained() -> None:
    assert all(row.help for row in describe(Recipe))


def test_settings_from_text() -> None:
    new = changed(Example(), {"width": "7", "rate": "1e-3", "kind": "b", "fast": "true"})
    assert new == Example(7, 1e-3, "b", True)
    for name, value, message in (
        ("width", "1.5", "expected int"),
        ("kind", "c", "a | b"),
        ("fast", "maybe", "bool"),
        ("widht", "1", "width"),
    ):
        with pytest.raises(ConfigError) as caught:
            changed(Example(), {name: value})
        assert message in str(caught.value)


def test_settings_round_trip() -> None:
    assert from_json(Example, dataclasses.asdict(Example(9))) == Example(9)
    with pytest.raises(ConfigError, match="depth"):
        from_json(Example, dataclasses.asdict(Example()) | {"depth": 1})
    assert from_json(Example, {"rate": 0.1, "kind": "a", "fast": False}) == Example(rate=0.1, kind="a", fast=False)


def test_streams_depend_on_their_names_alone() -> None:
    assert generator(0, "a", 1).random() == generator(0, "a", 1).random()
    assert len({derive(0, "a"), derive(0, "b"), derive(1, "a"), derive(0, "a", 0), derive(0, "a0")}) == 5
    assert torch_generator(0, "a").initial_seed() == derive(0, "a") >= 0


def test_atomic_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_names_get_suggestions() -> None:
    assert nearest("offical language", ["Official Language", "capital"]) == ["Official Language"]
    assert str(UnknownName("relation", "x", ["y"])) == "There is no relation named 'x'. Did you mean 'y'?"
