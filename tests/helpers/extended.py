"""Cases that only `pytest -m extended` runs."""

from typing import Any

import pytest


def extended(*cases: Any) -> list[Any]:
    """Parameters so marked; a tuple has those of several arguments."""
    parts = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*part, marks=pytest.mark.extended) for part in parts]
