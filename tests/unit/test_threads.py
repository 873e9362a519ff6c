"""Numbers of threads are restored, whatever a model sets while it computes."""

import os
import subprocess
import sys

import pytest
import torch

from anykg.threads import _scipy_blas, threads


def test_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), threads(torch=3, numba=1, blas=1):
        assert torch.get_num_threads() == 3
        assert [library.num_threads for library in _scipy_blas()] == [1] * len(_scipy_blas())
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == before


def test_models_leave_them_as_they_were() -> None:
    """In a process with two threads: InGram uses one of numba's on a small graph, ISDEA+ one of scipy's BLAS."""
    code = """
import numba, torch, scipy.linalg
from threadpoolctl import threadpool_info
numba.set_num_threads(2)
found = lambda: (numba.get_num_threads(), torch.get_num_threads(), [p["num_threads"] for p in threadpool_info()])
before = found()
import anykg
from anykg.models.registry import MODELS
graph = anykg.read_graph([(f"e{i % 7}", f"r{i % 3}", f"e{i * 5 % 11}") for i in range(40)])
for name in ("ingram", "isdea+"):
    kind = MODELS.load(name)
    model = kind.build(kind.Config(), graph)
    rows = torch.from_numpy(graph.triplets[:4].astype("int64"))[:, None].repeat(1, 2, 1)
    model.training_scores(graph, rows, 0).sum().backward()
    anykg.predict(graph, head="e1", relation="r1", model=model)
# Libraries that were loaded since come after those that were there.
assert found()[:2] == before[:2], (before, found())
assert found()[2][: len(before[2])] == before[2], (before, found())
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
