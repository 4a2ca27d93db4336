"""Any of our plain data as JSON: dataclasses by field name, exact rates as "24000/1001"."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.core.messages import Message, text_of
from engine.protocol.events import Picture
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Plan
from engine.protocol.report import DoctorLine, Report

# Properties that belong to the JSON.
_PROPERTIES = {
    DoctorLine: ("hint",),
    Plan: ("frames", "fits"),
    Report: ("passed",),
    VideoInfo: ("seen_size",),
}


def encode(value: Any) -> Any:
    """The value as JSON knows it: messages as English text; pictures and raw bytes are left out."""
    if isinstance(value, Message):
        return text_of(value)
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
    names += _PROPERTIES.get(type(value), ())
    pairs = ((name, getattr(value, name)) for name in names)
    return {name: encode(entry) for name, entry in pairs if not isinstance(entry, bytes | Picture)}
