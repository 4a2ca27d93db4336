"""Reading sizes off the names and shapes in a file: what several configurations need. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from statistics import mode
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]


def count(shapes: Iterable[str], prefix: str) -> int:
    """How many of "prefix with 0", "prefix with 1", ... there are names for."""
    number = 0
    while any(name.startswith(prefix.format(number)) for name in shapes):
        number += 1
    return number


def size(shapes: Shapes, name: str, axis: int, otherwise: int) -> int:
    """One side of one tensor; `otherwise` when there is no such tensor or side."""
    shape = shapes.get(name, ())
    return shape[axis] if len(shape) > axis else otherwise


def agreed(sizes: Iterable[int], otherwise: int) -> int:
    """What most tensors say: a single wrong one does not change the picture."""
    known = [found for found in sizes if found > 0]
    return mode(known) if known else otherwise


def told_by(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Sizes written beside the tensors: the entry "config", or "constructor" in it, as JSON.

    Empty when there are none.
    """
    try:
        told = json.loads(metadata.get("config", "{}"))
    except ValueError:
        return {}
    if isinstance(told, dict) and isinstance(told.get("constructor"), dict):
        told = told["constructor"]
    return told if isinstance(told, dict) else {}


def number(told: Mapping[str, Any], name: str, otherwise: int) -> int:
    """A positive whole number that was told; `otherwise` for anything else."""
    value = told.get(name)
    return value if isinstance(value, int) and value > 0 else otherwise
