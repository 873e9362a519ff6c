import pytest

from anykg.models.nbf import fast


@pytest.fixture(autouse=True)
def compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs are computed by the compiled kernels too, which these tests are about."""
    monkeypatch.setattr(fast, "SMALL", -1)
