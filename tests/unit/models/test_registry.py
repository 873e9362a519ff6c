"""Models by name, from anykg, installed packages, or `module:class`."""

import sys
from pathlib import Path

import pytest

from anykg.errors import ConfigError, InputError, UnknownName
from anykg.models.homogeneous import GIN
from anykg.models.registry import MODELS
from anykg.plugins import entry_points, import_object

PLUGIN = """
from anykg import LinkPredictor, Symmetry

class Added(LinkPredictor):
    symmetry = Symmetry.EXACT
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with entry points, as pip would have installed it."""
    (tmp_path / "added_models.py").write_text(PLUGIN)
    info = tmp_path / "added_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: added-models\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[anykg.models]\nadded = added_models:Added\nbroken = added_models:Missing\n"
        "wrong = pathlib:Path\ngin = pathlib:Path\n[anykg.formats]\nfmt = pathlib:Path\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_models_are_imported_by_name_or_path() -> None:
    assert MODELS.load("gin") is GIN
    assert MODELS.load("anykg.models.homogeneous:GIN") is GIN
    with pytest.raises(UnknownName, match="Did you mean 'ultra'"):
        MODELS.load("ulta")
    with pytest.raises(ConfigError, match="expected a subclass of"):
        MODELS.load("pathlib:Path")
    for path in ("nowhere:x", "pathlib:Nothing"):
        with pytest.raises(InputError, match="Cannot import"):
            import_object(path)


def test_installed_packages_add_models(installed: Path) -> None:
    assert MODELS.load("added").__name__ == "Added"
    assert "added" in MODELS
    assert "added" not in list(MODELS)  # iterating gives what anykg itself answers for
    assert MODELS.summaries()["added"] == "From the package added-models."
    assert set(entry_points("anykg.formats")) == {"fmt"}
    assert MODELS.load("gin") is GIN  # a package cannot replace a built-in model
    with pytest.raises(ConfigError, match="the package added-models provides as 'broken'"):
        MODELS.load("broken")
    with pytest.raises(ConfigError, match="expected a subclass"):
        MODELS.load("wrong")
    with pytest.raises(UnknownName, match="Did you mean 'added'"):
        MODELS.load("addd")


def test_the_working_directory_is_searched_only_if_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_data.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    with pytest.raises(ConfigError, match="trust=True"):
        MODELS.load("beside_the_data:Added")
    assert str(tmp_path) not in sys.path
    assert MODELS.load("beside_the_data:Added", trust=True).__name__ == "Added"
    assert sys.path[-1] == str(tmp_path)  # after everything installed
