"""Measurements, each a module with `measure` and `main`."""

import anykg  # noqa: F401 - before torch: it lets torch's threads sleep while they wait
