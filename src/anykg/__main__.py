"""`python -m anykg` is `anykg`."""

from anykg.cli.main import run

run()
