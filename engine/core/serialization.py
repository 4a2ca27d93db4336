"""Plain data to and from JSON: dataclasses with Path, Fraction, tuples and unions in them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

T = TypeVar("T")
Data = typing.Mapping[str, Any]
Variants = typing.Mapping[Any, typing.Callable[[Data], type]]  # base class -> class of some data


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


def from_plain(kind: type[T], data: Any, variants: Variants | None = None) -> T:
    """The inverse of `to_plain`: a dataclass or another type from plain data.

    Unknown keys are ignored and missing ones take their default, so that files of another version
    can be read. A field with the metadata "old_names" is also read under those names; where both
    are there the present name counts.

    Args:
        kind: What to read.
        data: As `json.loads` gives it.
        variants: For base classes whose data stand for one of several subclasses: which one.

    Raises:
        ValueError, TypeError, KeyError: `data` does not describe a `kind`; the reader of the file
            translates them.
    """
    return typing.cast(T, _read(kind, data, variants or {}))


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:
    """Key in the data, old names first -> name and type of the field."""
    hints = typing.get_type_hints(kind)
    fields = [f for f in dataclasses.fields(kind) if f.init]
    old = {name: f.name for f in fields for name in f.metadata.get("old_names", ())}
    keys = old | {f.name: f.name for f in fields}
    return {key: (name, hints[name]) for key, name in keys.items()}


def _read(kind: Any, data: Any, variants: Variants) -> Any:
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(get_args(kind), data, variants)
    if origin is typing.Literal:
        if data not in get_args(kind):
            raise ValueError(f"{data!r} is none of {get_args(kind)}")
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise TypeError(f"{data!r} is not a list")
        return tuple(_read(get_args(kind)[0], item, variants) for item in data)
    if origin in (dict, Mapping):
        if not isinstance(data, Mapping):
            raise TypeError(f"{data!r} is not a table")
        return {key: _read(get_args(kind)[1], item, variants) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, dict):
            raise TypeError(f"{data!r} does not describe a {kind}")
        choose = variants.get(kind)
        make: Any = kind if choose is None else choose(data)
        found = {
            name: _read(hint, data[key], variants)
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


def _read_union(kinds: tuple[Any, ...], data: Any, variants: Variants) -> Any:
    """The first of the alternatives that describes `data`."""
    if data is None and types.NoneType in kinds:
        return None
    failures = []
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return _read(kind, data, variants)
            except (ValueError, TypeError, KeyError) as err:
                failures.append(err)
    raise failures[0]
