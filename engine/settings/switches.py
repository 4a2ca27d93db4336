"""Which optimisations a job uses: those of its models and those of the machine around them.

What is written in the setting `switches` ("vae.temporal_winograd=on,run.tf32=on") counts most, then
the environment (UPREEL_VAE_TEMPORAL_WINOGRAD=on), then the defaults of the device.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.errors import SettingsError
from engine.settings.optimisations import (
    GROUPS,
    Choice,
    DitSwitches,
    Entry,
    RunSwitches,
    VaeSwitches,
    choices,
    switches,
)

Value = bool | str
Changes = dict[str, Value]  # "vae.in_place" -> what it is to be

_WORDS = {"on": True, "yes": True, "true": True, "1": True} | {
    "off": False,
    "no": False,
    "false": False,
    "0": False,
}
_LINES: dict[str, Entry] = {entry.key: entry for entry in (*switches(), *choices())}
_VARIABLES: dict[str, Entry] = {entry.variable: entry for entry in _LINES.values()}
_PREFIXES = tuple(f"UPREEL_{group}_".upper() for group in GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Every switch of a job, as the planner set it."""

    vae: VaeSwitches = field(default_factory=VaeSwitches)
    dit: DitSwitches = field(default_factory=DitSwitches)
    run: RunSwitches = field(default_factory=RunSwitches)

    def changes_from(self, usual: Switches) -> Changes:
        """What differs from others, in the order of the registry."""
        found: Changes = {}
        for entry in _LINES.values():
            mine, other = (getattr(sets, entry.group) for sets in (self, usual))
            value = getattr(mine, entry.name, None)
            if value != getattr(other, entry.name, None):
                found[entry.key] = value if value is not None else ""
        return found


def default_switches(device: str, capability: tuple[int, int] | None = None) -> Switches:
    """The defaults on a kind of device ("cpu" or "cuda"), a card of this capability."""
    return Switches(
        vae=VaeSwitches.default_on(device, capability),
        dit=DitSwitches.default_on(device, capability),
        run=RunSwitches.default_on(device, capability),
    )


def switches_of(
    text: str,
    device: str,
    capability: tuple[int, int] | None,
    environ: Mapping[str, str] | None = None,
) -> Switches:
    """Defaults of an architecture with the changes that a user wants.

    Args:
        text: Changes as in the setting `switches`.
        device: "cpu" or "cuda".
        capability: Of the card.
        environ: None takes that of the process.

    Raises:
        SettingsError: An unknown name, or an impossible value.
    """
    found = default_switches(device, capability)
    for key, value in _wanted(text, environ).items():
        entry = _LINES[key]
        if isinstance(entry, Choice) and entry.setting:
            continue
        change: dict[str, Any] = {entry.name: value}
        group: dict[str, Any] = {entry.group: replace(getattr(found, entry.group), **change)}
        found = replace(found, **group)
    return found


def settings_of(text: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings of a job that are lines of the registry as well, as text and environment want them.

    Raises:
        SettingsError: An unknown name, or an impossible value.
    """
    wanted = _wanted(text, environ).items()
    lines = ((_LINES[key], value) for key, value in wanted)
    return {
        entry.setting: str(value)
        for entry, value in lines
        if isinstance(entry, Choice) and entry.setting
    }


def without_effect(
    text: str, device: str, capability: tuple[int, int] | None = None
) -> tuple[str, ...]:
    """Names that a text turns on where they do nothing."""
    return tuple(
        key
        for key, value in changes_of(text).items()
        if value not in (False, getattr(_LINES[key], "default", None))
        and not _LINES[key].works_on(device, capability)
    )


def changes_of(text: str) -> Changes:
    """What a text wants; of a name that stands there twice the last one counts.

    Raises:
        SettingsError: An unknown name (with the nearest one), or an impossible value.
    """
    found: Changes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        key = name.strip().lower().replace("-", "_")
        if not separator:
            raise SettingsError(
                f"{part!r} is not name=value.",
                hint="Write for example vae.temporal_winograd=on.",
                setting="switches",
            )
        if key not in _LINES:
            raise _unknown(key, _LINES)
        found[key] = _value(_LINES[key], key, value)
    return found


def environment_changes(environ: Mapping[str, str] | None = None) -> Changes:
    """What the environment wants.

    Raises:
        SettingsError: A variable that looks like a switch and is none, or an impossible value.
    """
    found: Changes = {}
    for name, value in sorted((os.environ if environ is None else environ).items()):
        variable = name.upper()  # on Windows all names are
        if not variable.startswith(_PREFIXES):
            continue
        if variable not in _VARIABLES:
            raise _unknown(variable, _VARIABLES)
        entry = _VARIABLES[variable]
        found[entry.key] = _value(entry, variable, value)
    return found


def text_of(changes: Changes) -> str:
    """Changes as the setting `switches` has them."""
    words = {True: "on", False: "off"}
    return ",".join(
        f"{key}={words[value] if isinstance(value, bool) else value}"
        for key, value in changes.items()
    )


def is_switch(name: str) -> bool:
    """Whether a name is meant as one of a switch: "vae.something"."""
    group, dot, _ = name.partition(".")
    return bool(dot) and group in GROUPS


def check_switches(text: str) -> None:
    """Refuse a text that `switches_of` could not read.

    Raises:
        SettingsError: An unknown name, or an impossible value.
    """
    changes_of(text)


def _wanted(text: str, environ: Mapping[str, str] | None) -> Changes:
    return environment_changes(environ) | changes_of(text)


def _value(entry: Entry, name: str, text: str) -> Value:
    text = text.strip().lower()
    if isinstance(entry, Choice):
        if entry.has(text):
            return text
        allowed = [value for value in entry.values if entry.has(value)]
    else:
        if text in _WORDS:
            return _WORDS[text]
        allowed = ["on", "off"]
    raise SettingsError(
        f"{name} cannot be {text!r}.",
        hint=f"Choose one of: {', '.join(allowed)}.",
        setting="switches",
        value=text,
        allowed=", ".join(allowed),
    )


def _unknown(name: str, known: Mapping[str, Entry]) -> SettingsError:
    near = difflib.get_close_matches(name, list(_nearest(name, known)), n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
    return SettingsError(f"There is no switch {name!r}.", hint=hint, setting="switches", value=name)


def _nearest(name: str, known: Mapping[str, Entry]) -> Iterator[str]:
    """Names that may be meant: those of the same group before all others."""
    group = name.partition(".")[0]
    same = [key for key in known if key.startswith(f"{group}.")]
    yield from same or known
