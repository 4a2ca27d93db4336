"""Plain data to and from JSON: dataclasses with Path, Fraction, tuples and unions in them.

JSON and TOML from outside are read here alone, within bounds of bytes, values, depth and digits: no
small file takes seconds or gigabytes, and whatever is wrong with one is a ValueError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from engine.core import atomic_file
from engine.core.errors import EngineError
from engine.core.paths import cache_folder
from engine.core.units import parse_fraction

logger = logging.getLogger(__name__)

_MOST_BYTES = 2**24  # a model's header has 0.3 MB, a list of a runtime's files 1 MB
_MOST_VALUES = 500_000
_MOST_DEPTH = 64
_MOST_BITS = 64  # of an integer
_ASIDE = ".damaged"  # ends the name of a file that is set aside
_MOST_DOTS = 200  # in a line of TOML: a key of n names takes time and memory with n * n

T = TypeVar("T")
Data = typing.Mapping[str, Any]
Variants = typing.Mapping[Any, typing.Callable[[Data], type]]  # base class -> class of some data


def parse_json(text: str | bytes) -> Any:
    """Plain data of JSON.

    Raises:
        ValueError: It is no JSON, has a value that is not finite, or goes beyond the bounds.
    """
    data = text.encode() if isinstance(text, str) else text
    _check_size(len(data))
    if data.count(b",") + data.count(b":") > _MOST_VALUES:
        raise ValueError("too many values")
    try:
        return _bounded(json.loads(data))
    except RecursionError as err:
        raise ValueError("nested too deep") from err


def parse_toml(text: str) -> dict[str, Any]:
    """Plain data of TOML.

    Raises:
        ValueError: Raised by `parse_json`.
    """
    _check_size(len(text))
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise ValueError("a line with too many dots")
    try:
        return typing.cast("dict[str, Any]", _bounded(tomllib.loads(text)))
    except RecursionError as err:
        raise ValueError("nested too deep") from err


def read_json(path: Path) -> Any:
    """Plain data of a JSON file.

    Raises:
        OSError: It cannot be read.
        ValueError: Raised by `parse_json`.
    """
    return parse_json(_content(path, _MOST_BYTES))


def read_toml(path: Path, most_bytes: int = 10**6) -> dict[str, Any]:
    """Plain data of a TOML file.

    Raises:
        OSError: It cannot be read.
        ValueError: Raised by `parse_json`; or it is larger than `most_bytes`.
    """
    return parse_toml(_content(path, most_bytes).decode("utf-8"))


@contextlib.contextmanager
def set_aside(path: Path) -> Iterator[None]:
    """Ends a block that reads a file at the first error in it; without the file it ends too.

    A file whose content is wrong is renamed to `<name>.damaged`, so that the next one takes its
    place and nothing is lost. One that the disk does not give stays. Both are logged.
    """
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as err:
        logger.warning("%s cannot be read: %s", path, err)
    except (ValueError, TypeError, KeyError, AttributeError, EngineError) as err:
        aside = path.with_name(f"{path.name}{_ASIDE}")
        logger.warning("%s is set aside as %s: %s", path, aside.name, err)
        with contextlib.suppress(OSError):  # a read-only folder
            path.replace(aside)


def _content(path: Path, most_bytes: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)  # whatever the system says of its size
    _check_size(len(content), most_bytes)
    return content


def _check_size(size: int, most_bytes: int = _MOST_BYTES) -> None:
    if size > most_bytes:
        raise ValueError(f"more than {most_bytes} bytes")


def _bounded(data: Any) -> Any:
    """Return data unchanged after checking that it is shallow, small and finite."""
    level, count = [data], 0
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif not isinstance(value, str):
                _check_number(value)
        count += len(level)
        if count > _MOST_VALUES:
            raise ValueError("too many values")
        if not below:
            return data
        level = below
    raise ValueError("nested too deep")


def _check_number(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("a number with too many digits")


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
        kind: Class to read.
        data: Result of `parse_json`.
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
    if kind is Fraction:
        return parse_fraction(data)
    if kind is Path:
        if "\0" in data:
            raise ValueError(f"{data!r} is no path")
        return Path(data)
    accepted = (int, float) if kind is float else kind
    if kind in (int, float, str, bool) and not (
        isinstance(data, accepted) and isinstance(data, bool) == (kind is bool)
    ):
        raise TypeError(f"{data!r} is not {kind.__name__}")
    return float(data) if kind is float else data


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


# --- results that are kept


class ResultFile:
    """Results by key, in a file of the cache folder; a lost or damaged file has none.

    Args:
        name: Name of the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def path(self) -> Path:
        """Path of the file."""
        return cache_folder() / self._name

    def get(self, key: str) -> dict[str, Any]:
        """The entry of a key; {} where there is none."""
        entry = self._entries().get(key)
        return entry if isinstance(entry, dict) else {}

    def text(self, key: str) -> str:
        """The entry of a key that is a text; "" where there is none."""
        entry = self._entries().get(key)
        return entry if isinstance(entry, str) else ""

    def put(self, key: str, entry: dict[str, Any] | str) -> None:
        """Add an entry; a file that cannot be written stays as it is."""
        self._store(self._entries() | {key: entry})

    def forget(self, key: str) -> None:
        """Remove the entry of a key; a file that cannot be written stays as it is."""
        entries = self._entries()
        if key in entries:
            del entries[key]
            self._store(entries)

    def _store(self, entries: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(self.path, entries, indent=1)

    def _entries(self) -> dict[str, Any]:
        with set_aside(self.path):
            return from_plain(dict[str, Any], read_json(self.path))
        return {}
