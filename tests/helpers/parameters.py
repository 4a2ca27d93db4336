"""Parameters of tests, most of which wait for the extended run."""

from collections.abc import Iterable
from typing import Any

import pytest


def rest_extended(every: Iterable[Any], *usual: Any) -> list[Any]:
    """All of them in their order; those that are not usual are marked as extended."""
    mark = pytest.mark.extended
    return [
        one
        if one in usual
        else pytest.param(*(one if isinstance(one, tuple) else [one]), marks=mark)
        for one in every
    ]
