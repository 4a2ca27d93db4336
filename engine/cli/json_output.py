"""Any of our plain data as JSON: dataclasses by field name, exact rates as "24000/1001"."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.core.messages import Message
from engine.protocol.events import Picture
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report

# What readers of the JSON want and the classes work out.
_WORKED_OUT = {Plan: ("frames", "fits"), Report: ("passed",), VideoInfo: ("seen_size",)}


def encode(value: Any) -> Any:
    """The value as JSON knows it: messages in English, without pictures and other raw bytes."""
    if isinstance(value, Message):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Fraction() | Path():
            return str(value)
        case dict():
            return {str(key): encode(entry) for key, entry in value.items()}
        case tuple() | list() | set() | frozenset():
            return [encode(entry) for entry in value]
    raise TypeError(f"no JSON for {type(value).__name__}")


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    names += _WORKED_OUT.get(type(value), ())
    pairs = ((name, getattr(value, name)) for name in names)
    return {name: encode(entry) for name, entry in pairs if not isinstance(entry, bytes | Picture)}
