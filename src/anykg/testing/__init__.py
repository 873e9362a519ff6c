"""Test a model against the contract of `anykg.models.base`.

>>> from anykg.testing import check_model
>>> check_model(MyModel)                    # doctest: +SKIP
>>> check_model(MyModel, MyConfig(width=8)) # doctest: +SKIP

A model that passes can be trained, evaluated, asked, verified and explained like the built-in ones. The checks run on
small graphs and take seconds. All failures are reported together, each with what to change.
"""

from anykg.testing.check import CHECKS, ContractError, check_model

__all__ = ["CHECKS", "ContractError", "check_model"]
