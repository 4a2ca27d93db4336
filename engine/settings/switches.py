"""Which optimisations a job uses: those of its models and those of the machine around them.

What is written in the setting `switches` ("vae.temporal_winograd=on,run.tf32=on") counts most, then
the environment (UPREEL_VAE_TEMPORAL_WINOGRAD=on), then the defaults of the device. Groups change
many at once: "vae.all=off", "dit.all=off", "run.all=off", "all=off". "exact" computes as the plain
variants of the models do: every optimisation off, convolutions and attention as published. "fp4"
takes what belongs together on RTX 50: matrix products in FP4, and attention where this program can
have the package for it. An unknown name or an
impossible value raises SettingsError.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.errors import SettingsError
from engine.settings.optimisations import (
    ALL,
    EXACT,
    GROUPS,
    DitSwitches,
    Optimisation,
    RunSwitches,
    SwitchChoice,
    SwitchEntry,
    VaeSwitches,
    Value,
    choices,
    optimisations,
    variable_of,
)
from engine.settings.requirements import ATTENTION

Changes = dict[str, Value]  # "vae.in_place" -> its new value

_BOOLEANS = {"on": True, "yes": True, "true": True, "1": True} | {
    "off": False,
    "no": False,
    "false": False,
    "0": False,
}
_ENTRIES: dict[str, SwitchEntry] = {entry.key: entry for entry in (*optimisations(), *choices())}
_OLD_KEYS = {
    f"{entry.group}.{name}": key for key, entry in _ENTRIES.items() for name in entry.old_names
}
_GONE = ("dit.fp16_accumulation",)  # of earlier versions, where it changed nothing: ignored
_MEMBERS = {f"{name}.{ALL}": group.optimisations() for name, group in GROUPS.items()} | {
    ALL: optimisations()
}
_KEYS = (*_ENTRIES, *_MEMBERS)
_FP4_ATTENTION = {"dit.attention": "sage3-fp4"} if "sage3-fp4" in ATTENTION else {}
_MODES = {"fp4": {"dit.matmul": "nvfp4", **_FP4_ATTENTION}}  # that belong together
_VARIABLES = {variable_of(old): key for old, key in _OLD_KEYS.items()} | {
    variable_of(key): key for key in _KEYS
}
_PREFIXES = tuple(variable_of(f"{group}.") for group in GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Every switch of a job, as the planner set it."""

    vae: VaeSwitches = field(default_factory=VaeSwitches)
    dit: DitSwitches = field(default_factory=DitSwitches)
    run: RunSwitches = field(default_factory=RunSwitches)

    def changes_from(self, usual: Switches) -> Changes:
        """Differences from others, in the order of the table."""
        found: Changes = {}
        for entry in _ENTRIES.values():
            mine, other = (getattr(sets, entry.group) for sets in (self, usual))
            value = getattr(mine, entry.name, None)
            if value != getattr(other, entry.name, None):
                found[entry.key] = value if value is not None else ""
        return found


@dataclass(frozen=True, slots=True)
class _Change:
    """One switch that a text or the environment sets."""

    entry: SwitchEntry
    value: Value
    is_named: bool = True  # by itself, not as a member of a group


def default_switches(device: str, capability: tuple[int, int] | None = None) -> Switches:
    """The defaults on a kind of device ("cpu" or "cuda"), a GPU of this capability."""
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
    *,
    is_careful: bool = False,
) -> Switches:
    """Defaults of an architecture with the changes that a user requests.

    Args:
        text: Changes as in the setting `switches`.
        device: "cpu" or "cuda".
        capability: Compute capability of the GPU.
        environ: None takes that of the process.
        is_careful: The GPU was lost before: the defaults are those of `careful`.

    Raises:
        SettingsError: An unknown name, or an impossible value.
    """
    found = default_switches(device, capability)
    found = careful(found) if is_careful else found
    for change in (*_in_environment(environ), *_in_text(text)):
        entry = change.entry
        if isinstance(entry, SwitchChoice) and entry.setting:
            continue
        if change.value is True and not (change.is_named or entry.works_on(device, capability)):
            continue  # a group turns on what works
        value: dict[str, Any] = {entry.name: change.value}
        group: dict[str, Any] = {entry.group: replace(getattr(found, entry.group), **value)}
        found = replace(found, **group)
    return found


def careful(switches: Switches) -> Switches:
    """The switches for a GPU that was lost: no trials of cuDNN at full size, nothing pinned."""
    switches = unpinned(switches)
    return replace(switches, run=replace(switches.run, cudnn_benchmark=False))


def unpinned(switches: Switches) -> Switches:
    """The switches without pinned main memory."""
    return replace(switches, run=replace(switches.run, pinned_transfers=False))


def settings_of(text: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings of a job that are entries of the table as well, as text and environment set them."""
    changes = (*_in_environment(environ), *_in_text(text))
    return {
        change.entry.setting: str(change.value)
        for change in changes
        if isinstance(change.entry, SwitchChoice) and change.entry.setting
    }


def named_changes(text: str, environ: Mapping[str, str] | None = None) -> Changes:
    """Switches set by text and environment: of a group only what works here is turned on."""
    last = {change.entry: change for change in (*_in_environment(environ), *_in_text(text))}
    return {entry.key: change.value for entry, change in last.items() if change.is_named}


def entries() -> tuple[SwitchEntry, ...]:
    """Every switch and choice, in the order of the table."""
    return tuple(_ENTRIES.values())


def changes_of(text: str) -> Changes:
    """Changes by a text; where several parts set a switch the last one counts."""
    return {change.entry.key: change.value for change in _in_text(text)}


def environment_changes(environ: Mapping[str, str] | None = None) -> Changes:
    """Changes by the environment; a switch by itself counts more than its group."""
    return {change.entry.key: change.value for change in _in_environment(environ)}


def text_of(changes: Changes) -> str:
    """Changes as the setting `switches` has them."""
    return ",".join(
        f"{key}={('on' if value else 'off') if isinstance(value, bool) else value}"
        for key, value in changes.items()
    )


def is_switch(name: str) -> bool:
    """Whether a name is meant as one of a switch or of a group: "vae.something", "all"."""
    group, dot, _ = name.partition(".")
    return group in GROUPS if dot else name == ALL


def check_switches(text: str) -> None:
    """Refuse a text that `switches_of` could not read."""
    for _ in _in_text(text):
        pass


def _in_text(text: str) -> Iterator[_Change]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        key = name.strip().lower().replace("-", "_")
        if key == EXACT and not separator:
            yield from _exact()
        elif key in _MODES and not separator:
            yield from (_Change(_ENTRIES[name], word) for name, word in _MODES[key].items())
        elif not separator:
            raise SettingsError("switch-without-value", text=part)
        elif key in _GONE:
            continue
        elif _OLD_KEYS.get(key, key) not in _KEYS:
            raise _unknown(key, _KEYS)
        else:
            yield from _changes(_OLD_KEYS.get(key, key), key, value)


def _in_environment(environ: Mapping[str, str] | None) -> Iterator[_Change]:
    found: list[tuple[str, str, str]] = []
    for name, value in sorted((os.environ if environ is None else environ).items()):
        variable = name.upper()  # on Windows all names are
        if variable in _VARIABLES:
            found.append((_VARIABLES[variable], variable, value))
        elif variable.startswith(_PREFIXES) and variable not in map(variable_of, _GONE):
            raise _unknown(variable, map(variable_of, _KEYS))
    for key, variable, value in sorted(found, key=lambda one: -len(_MEMBERS.get(one[0], ()))):
        yield from _changes(key, variable, value)


def _changes(key: str, name: str, text: str) -> Iterator[_Change]:
    """The changes of a switch or a group that was written as `name`."""
    if key not in _MEMBERS:
        yield _Change(_ENTRIES[key], _value(_ENTRIES[key], name, text))
        return
    for entry in _MEMBERS[key]:
        yield _Change(entry, _value(entry, name, text), is_named=False)


def _exact() -> Iterator[_Change]:
    """Every optimisation off that has to do with the arithmetic; choices as published."""
    for entry in _ENTRIES.values():
        if isinstance(entry, Optimisation) and not entry.at_start:
            yield _Change(entry, False, is_named=False)
        elif isinstance(entry, SwitchChoice) and entry.plain:
            yield _Change(entry, entry.plain, is_named=False)


def _value(entry: SwitchEntry, name: str, text: str) -> Value:
    text = text.strip().lower()
    if isinstance(entry, SwitchChoice):
        if text in entry.values:
            return text
        allowed = list(entry.values)
    else:
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        allowed = ["on", "off"]
    raise SettingsError("unknown-choice", setting=name, value=text, allowed=", ".join(allowed))


def _unknown(name: str, known: Iterable[str]) -> SettingsError:
    names = list(known)
    near = difflib.get_close_matches(name, _nearest(name, names), n=1, cutoff=0.5)
    if near:
        return SettingsError("unknown-switch-similar", name=name, similar=near[0])
    return SettingsError("unknown-switch", name=name, known=", ".join(names))


def _nearest(name: str, known: list[str]) -> list[str]:
    """Names that may be meant: those of the same group before all others."""
    group = name.partition(".")[0]
    return [key for key in known if key.startswith(f"{group}.")] or known
