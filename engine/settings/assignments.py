"""Settings from text and tables: `--set name=value`, files, presets, the environment.

Names of earlier versions are understood everywhere; see `setting(..., old_names=...)`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from engine.core.errors import SettingsError
from engine.settings.schema import EngineSettings, JobSettings, type_name, types_of
from engine.settings.switches import is_switch, settings_of

S = TypeVar("S", JobSettings, EngineSettings)

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def renamed(settings: type[Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with every old name of a setting replaced; where both are there the new one counts.

    Unknown names stay as they are.
    """
    names = current_names(settings)
    old = {names[name]: value for name, value in table.items() if names.get(name, name) != name}
    return old | {name: value for name, value in table.items() if names.get(name, name) == name}


def known(settings: type[Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """As `renamed`, without the names that this version does not know."""
    names = {field.name for field in fields(settings)}
    found = renamed(settings, table)
    return {name: value for name, value in found.items() if name in names}


def current_names(settings: type[Any]) -> dict[str, str]:
    """Every name under which a setting may be given, old ones too, with its name of today."""
    return {
        name: field.name
        for field in fields(settings)
        for name in (*field.metadata["old_names"], field.name)
    }


def with_text(settings: S, assignments: list[str]) -> S:
    """A copy of `settings` with "name=value" texts applied, as `--set` gives them.

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
            raise _unknown(name, list(types))
        name = names[name]
        changes[name] = _parse(name, value.strip(), types[name])
    return dataclasses.replace(settings, **changes)


def with_environment(settings: JobSettings) -> JobSettings:
    """The same with the switches that are settings of their own, where these are at their default.

    The text `switches` and the environment (UPREEL_DIT_ATTENTION) may set them as well.

    Raises:
        SettingsError: The environment has a switch that does not exist, or an impossible value.
    """
    usual = {field.name: field.default for field in fields(JobSettings)}
    changes: dict[str, Any] = {
        name: value
        for name, value in settings_of(settings.switches).items()
        if getattr(settings, name) == usual[name]
    }
    return dataclasses.replace(settings, **changes)


def _unknown(name: str, known: list[str]) -> SettingsError:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return SettingsError("unknown-name-similar", setting=name, similar=near[0])
    return SettingsError("unknown-name", setting=name, known=", ".join(known))


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
