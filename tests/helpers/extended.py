"""Cases of parametrised tests that wait for `pytest -m extended`."""

from collections.abc import Iterable
from typing import Any

import pytest


def extended(*cases: Any) -> list[Any]:
    """Cases marked as extended; a tuple has the values of several arguments."""
    parts = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*part, marks=pytest.mark.extended) for part in parts]


def rest_extended(every: Iterable[Any], *usual: Any) -> list[Any]:
    """All cases in their order; those that are not usual are marked as extended."""
    return [one if one in usual else extended(one)[0] for one in every]
