"""Sizes from tensor names and shapes of a weights file, for several configurations. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mode
from typing import Any

from engine.core.serialization import parse_json

Shapes = Mapping[str, tuple[int, ...]]


def count(shapes: Iterable[str], prefix: str) -> int:
    """Number of blocks: how many of "prefix with 0", "prefix with 1", ... occur in a row."""
    number = 0
    while any(name.startswith(prefix.format(number)) for name in shapes):
        number += 1
    return number


def size(shapes: Shapes, name: str, axis: int, otherwise: int) -> int:
    """One side of one tensor; `otherwise` when there is no such tensor or side."""
    shape = shapes.get(name, ())
    return shape[axis] if len(shape) > axis else otherwise


def agreed(sizes: Iterable[int], otherwise: int) -> int:
    """The most frequent size: a single wrong tensor does not change it."""
    known = [found for found in sizes if found > 0]
    return mode(known) if known else otherwise


def stated_in(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Sizes written next to the tensors: the entry "config", or "constructor" in it, as JSON.

    Empty when there are none.
    """
    try:
        stated = parse_json(metadata.get("config", "{}"))
    except ValueError:
        return {}
    if isinstance(stated, dict) and isinstance(stated.get("constructor"), dict):
        stated = stated["constructor"]
    return stated if isinstance(stated, dict) else {}


def number(stated: Mapping[str, Any], name: str, otherwise: int) -> int:
    """A positive integer of the metadata; `otherwise` for anything else."""
    value = stated.get(name)
    return value if isinstance(value, int) and value > 0 else otherwise
