"""Settings from texts, "name=value", and from values by name."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engine.core.errors import SettingsError
from engine.settings.schema import (
    EngineSettings,
    JobSettings,
    current_names,
    describe,
    type_name,
    types_of,
)
from engine.settings.switches import is_switch

S = TypeVar("S", JobSettings, EngineSettings)

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_PLACES = ("path", "folder")  # kinds of settings


def with_text(settings: S, assignments: list[str]) -> S:
    """A copy of `settings` with "name=value" texts applied, as `--set` gives them.

    A path is taken from the current folder.

    The name of a switch ("vae.temporal_winograd=on") or of a group of them ("vae.all=off") adds
    it to the setting `switches`.

    Raises:
        SettingsError: Unknown name (with the nearest one), wrong type, limit or choice.
    """
    kind: Any = type(settings)
    types, names = types_of(kind), current_names(kind)
    changes: dict[str, Any] = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not separator:
            raise SettingsError("assignment-without-value", text=text)
        if is_switch(name) and "switches" in types:
            before = changes.get("switches", getattr(settings, "switches", ""))
            name, value = "switches", ",".join(filter(None, (before, text.strip())))
        if name not in names:
            raise unknown_setting(name, types)
        name = names[name]
        parsed = _parse(name, value.strip(), types[name])
        is_place = describe(kind)[name].kind in _PLACES
        changes[name] = _absolute(parsed) if is_place else parsed
    return dataclasses.replace(settings, **changes)


def with_named(settings: S, values: Mapping[str, object]) -> S:
    """A copy of `settings` with values by name, as Python programs give them.

    Args:
        settings: Settings of a job, or of the program.
        values: Each has the type of its setting, or is a text like that of `--set`. A time may be
            a number of seconds, and a path is taken from the current folder.

    Raises:
        SettingsError: Unknown name (with the nearest one), wrong type, limit or choice.
    """
    kind: Any = type(settings)
    types, names = types_of(kind), current_names(kind)
    changes: dict[str, Any] = {}
    for given, value in values.items():
        if given not in names:
            raise unknown_setting(given, types)
        name = names[given]
        about = describe(kind)[name]
        if isinstance(value, os.PathLike) or (about.kind in _PLACES and isinstance(value, str)):
            value = _absolute(value)
        elif about.kind == "time" and isinstance(value, int | float):
            value = str(value)
        if isinstance(value, str) and types[name] is not str:
            value = _parse(name, value.strip(), types[name])
        changes[name] = value
    return dataclasses.replace(settings, **changes)


def unknown_setting(name: str, known: Iterable[str]) -> SettingsError:
    """Error for a name that no setting has, with the most similar of the known ones."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return SettingsError("unknown-name-similar", setting=name, similar=near[0])
    return SettingsError("unknown-name", setting=name, known=", ".join(known))


def _absolute(place: str | os.PathLike[str]) -> str:
    return str(Path(place).absolute()) if place else ""


def _parse(name: str, text: str, expected: type[Any]) -> Any:
    if expected is bool:
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        raise SettingsError("not-yes-or-no", setting=name, value=text)
    try:
        return expected(text)
    except ValueError as err:
        raise SettingsError(
            "unreadable-value", setting=name, value=text, expected=type_name(expected)
        ) from err
