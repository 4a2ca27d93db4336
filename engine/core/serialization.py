"""Plain data to and from JSON: dataclasses with Path, Fraction and tuples in them."""

from __future__ import annotations

import dataclasses
import types
import typing
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """A value that `json.dumps` can write.

    Fractions become "24000/1001", paths text, tuples lists, bytes None.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, Path | Fraction):
        return str(value)
    return None if isinstance(value, bytes) else value


def from_plain(kind: type[T], data: Any) -> T:
    """The inverse of `to_plain`: a dataclass or another type from plain data.

    Unknown keys are ignored and missing ones take their default, so that files of another version
    can be read. A field with the metadata "old_names" is also read under those names; where both
    are there the present name counts.

    Raises:
        ValueError, TypeError, KeyError: `data` does not describe a `kind`; the reader of the file
            translates them.
    """
    return typing.cast(T, _read(kind, data))


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:
    """Key in the data, old names first -> name and type of the field."""
    hints = typing.get_type_hints(kind)
    fields = [f for f in dataclasses.fields(kind) if f.init]
    old = {name: f.name for f in fields for name in f.metadata.get("old_names", ())}
    keys = old | {f.name: f.name for f in fields}
    return {key: (name, hints[name]) for key, name in keys.items()}


def _read(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _read(next(k for k in get_args(kind) if k is not type(None)), data)
    if origin is typing.Literal:
        if data not in get_args(kind):
            raise ValueError(f"{data!r} is none of {get_args(kind)}")
        return data
    if origin is tuple:
        return tuple(_read(get_args(kind)[0], item) for item in data)
    if origin is dict:
        return {key: _read(get_args(kind)[1], item) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, dict):
            raise TypeError(f"{data!r} does not describe a {kind}")
        make: Any = kind
        found = {
            name: _read(hint, data[key])
            for key, (name, hint) in _fields(make).items()
            if key in data
        }
        return make(**found)
    if kind is float:
        return float(data)
    if kind in (Path, Fraction):
        return kind(data)
    if kind in (int, str, bool) and not isinstance(data, kind):
        raise TypeError(f"{data!r} is not {kind.__name__}")
    return data
