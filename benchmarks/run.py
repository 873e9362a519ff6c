"""`make bench`: every benchmark in turn, nothing else running; ratios against a reference in the same run."""

from __future__ import annotations

import sys
from importlib import import_module

BENCHMARKS = ("reading", "distances", "isdea", "relational", "ingram")


def main() -> None:
    asked = sys.argv[1:] or BENCHMARKS
    for name in asked:
        print(f"== {name}", flush=True)
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
