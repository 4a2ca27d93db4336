"""Settings from texts: "name=value", as `--set` and the offers of notices give them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, TypeVar

from engine.core.errors import SettingsError
from engine.settings.schema import (
    EngineSettings,
    JobSettings,
    current_names,
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
