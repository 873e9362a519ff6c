"""The message about compiling, and where compiled code is kept."""

import os
import subprocess
import sys
from pathlib import Path

KERNEL = """
import numpy as np
from numba import njit
@njit(cache=True)
def add(x):
    values = np.zeros(3)
    values[1] = x
    return values[1] + 1
"""
USE = """
import sys
from anykg.compiling import announce
compiled = announce(print)
assert "numba" not in sys.modules
from kernel import add
assert (add(1), add(1), add(1.5)) == (2, 2, 2.5)
print(compiled.kernels)
if not compiled.kernels:
    assert "scipy.linalg" not in sys.modules  # numba's compiler was not prepared to load kernels,
    assert add(True) == 2 and compiled.kernels == 1  # and is when it compiles
"""


def test_compiling_is_told_once_and_done_once_where_the_installation_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "__pycache__").write_text("no folder can be made here, as in a read-only installation")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    outputs = [
        subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    told = "Compiling kernels of kernel for the first time, up to 5 s; `anykg warm-up` compiles all of them in advance."
    assert outputs[0] == f"{told}\n2\n"
    assert outputs[1] == "0\n" + outputs[0].splitlines()[0] + "\n"
    assert list((tmp_path / "cache").rglob("*.nbi"))
