"""Test a model against the contract of `anykg.models.base`.

>>> from anykg.testing import check_model
>>> check_model(MyModel)                    # doctest: +SKIP
>>> check_model(MyModel, MyConfig(width=8)) # doctest: +SKIP

A model that passes can be used in train, evaluate, predict, verify and explain like the built-in ones. The checks run
on small graphs and take seconds. All failures are reported together, each with a hint on how to fix it.
"""

from anykg.testing.check import CHECKS, ContractError, check_model

__all__ = ["CHECKS", "ContractError", "check_model"]
