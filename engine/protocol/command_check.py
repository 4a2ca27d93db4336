"""The values of a command, checked before it is carried out: they come from another program."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from engine.core.errors import CommandInvalid
from engine.protocol.commands import Command

_MOST = 2**62  # of a number
_MOST_SHOWN = 60  # characters of a value


def check(command: Command) -> None:
    """Refuse values of another kind than their fields, and those below the "low" of a field.

    Raises:
        CommandInvalid: Names the command, the field and the value.
    """
    kind: Any = type(command)
    kinds = _kinds(kind)
    for field in fields(command):
        value = getattr(command, field.name)
        low = field.metadata.get("low", -math.inf)
        if not _fits(value, kinds[field.name]) or _amount(value) < low:
            raise CommandInvalid(command=kind.__name__, field=field.name, value=_shown(value))


def _amount(value: Any) -> float:
    """Value that the "low" of a field is compared with."""
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int | float) else math.inf


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_MOST_SHOWN]
    except ValueError:  # an integer of thousands of digits
        return type(value).__name__


@cache
def _kinds(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if kind in (int, float):
        is_number = isinstance(value, int if kind is int else int | float)
        return is_number and not isinstance(value, bool) and abs(value) <= _MOST  # never NaN
    if kind in (str, Path) and isinstance(value, kind):
        return "\0" not in str(value)  # no name of the system has one
    return isinstance(value, origin or kind)
