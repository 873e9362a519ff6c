"""Processor seconds of short commands, warm and cold, next to `import torch` in the same minutes.

`python -m benchmarks.startup [REPEATS [OTHER]]` prints a table of medians. Warm: kernels were compiled before. Cold:
the folder of compiled kernels (NUMBA_CACHE_DIR) is empty. A second time: with what the first kept in the user's cache,
such as mined rules. OTHER is another tree of anykg (the folder above `src`) to
measure in turn with this one, such as the version before a change.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import anykg

COMMANDS = {
    "--help": ["--help"],
    "predict": ["predict", "atlas", "--head", "France", "--relation", "borders"],
    "predict, a second time": ["predict", "atlas", "--head", "France", "--relation", "borders"],
    "check": ["check", "atlas", "--facts", "100"],
    "check, a second time": ["check", "atlas", "--facts", "100"],
    "explain": ["explain", "atlas", "France", "borders", "Germany"],
}


def seconds(arguments: list[str], source: Path, kernels: str, cache: str) -> float:
    """User and system seconds of one command, with folders of compiled kernels and for everything else it keeps."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = inherited | {
        "PYTHONPATH": str(source),
        "NUMBA_CACHE_DIR": kernels,
        "XDG_CACHE_HOME": cache,
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    trees = {"now": Path(anykg.__file__).parents[1]}
    if len(sys.argv) > 2:
        trees = {"before": Path(sys.argv[2]).resolve() / "src"} | trees
    with tempfile.TemporaryDirectory() as folder:
        warm = {tree: str(Path(folder) / tree) for tree in trees}
        found: dict[tuple[str, str, str], list[float]] = {}
        torch = []
        for turn in range(repeats):
            torch.append(seconds(["-c", "import torch"], trees["now"], folder, folder))
            for name, arguments in COMMANDS.items():
                for tree, source in trees.items():
                    run = ["-m", "anykg", *arguments]
                    again = name.endswith("a second time")
                    cache = str(Path(folder) / (f"{tree} kept" if again else f"{tree} {name} {turn}"))
                    if turn == 0 and not again:
                        kernels = str(Path(folder) / f"{tree}-{name}")
                        found[name, tree, "cold"] = [seconds(run, source, kernels, f"{cache} cold")]
                    if turn == 0:
                        seconds(run, source, warm[tree], cache if again else f"{cache} first")
                    found.setdefault((name, tree, "warm"), []).append(seconds(run, source, warm[tree], cache))
    base = statistics.median(torch)
    columns = [(tree, state) for state in ("warm", "cold") for tree in trees]
    print("| processor seconds | " + " | ".join(f"{tree}, {state}" for tree, state in columns) + " | x torch |")
    print("|---" * (len(columns) + 2) + "|")
    print(f"| `import torch` | {base:.2f}" + " |" * len(columns) + " 1 |")
    for name in COMMANDS:
        times = [found.get((name, tree, state)) for tree, state in columns]
        row = ["" if part is None else f"{statistics.median(part):.2f}" for part in times]
        ratio = statistics.median(found[name, "now", "warm"]) / base
        print(f"| `anykg {name}` | " + " | ".join(row) + f" | {ratio:.1f} |")


if __name__ == "__main__":
    main()
