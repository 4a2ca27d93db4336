"""Presets: named settings that are applied over those already chosen, and the files of this user's.

Each preset of the user's own is one TOML file, written atomically, never replaced silently. It has
no settings of a single video or of this user (`Setting.scope`): no times, permissions or model
files, so that it can be given to others. Bad titles and files raise SettingsError, a disk that
refuses OutputError.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.core import atomic_file, paths
from engine.core.errors import EngineError, SettingsError
from engine.core.file_access import writing
from engine.core.serialization import read_toml
from engine.settings.schema import JobSettings, describe, renamed
from engine.settings.store import to_toml

logger = logging.getLogger(__name__)

Goal = Literal["fast", "balanced", "best"]
Value = str | int | float | bool

BUILT_IN = frozenset({"fast", "balanced", "best"})  # names that are taken
SUFFIX = ".toml"
_LONGEST = 60  # characters of a name, which is the name of a file too
_DEVICES = {"con", "prn", "aux", "nul"}  # and com1, lpt1: names of devices in Windows
_LARGEST_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Some settings; those it does not name stay as they are."""

    name: str  # for --preset: "fast", "balanced", "best", or of the user's own
    title: str  # displayed text: "RTX 5070 Ti, 16 GB: Best"
    goals: tuple[Goal, ...] = ()  # several where one choice serves them all
    tier: str = ""  # tier of GPUs, like "gpu"; "" for the user's own
    description: str = ""
    effect: str = ""  # consequence in a word or two; "" for the user's own
    changes: dict[str, Value] = field(default_factory=dict)
    is_own: bool = False
    automatic: str = ""  # model that "auto" stands for on the GPU of the preset; "" for own ones
    precision: str = ""  # precision of its transformer that suits the GPU; "" where it has none


def applied(preset: Preset, settings: JobSettings) -> JobSettings:
    """The settings with those of a preset.

    Raises:
        SettingsError: It names a setting that does not exist, or an impossible value.
    """
    changes: dict[str, Any] = dict(preset.changes)
    try:
        return dataclasses.replace(settings, **changes)
    except TypeError as err:
        known = {field.name for field in dataclasses.fields(JobSettings)}
        names = ", ".join(name for name in changes if name not in known)
        raise SettingsError("preset-of-another-version", title=preset.title, names=names) from err


def matching(presets: Sequence[Preset], settings: JobSettings) -> Preset | None:
    """The preset whose values these settings have; the one with the most, None for no preset."""
    same = (
        preset
        for preset in presets
        if all(getattr(settings, name, None) == value for name, value in preset.changes.items())
    )
    return max(same, key=lambda preset: len(preset.changes), default=None)


# --- files of the user's own


def folder() -> Path:
    """Folder of the presets; need not exist."""
    return paths.data_folder() / "presets"


def load_all() -> tuple[tuple[Preset, ...], tuple[EngineError, ...]]:
    """All that can be read, by title, and the errors of the other files."""
    found: list[Preset] = []
    failures: list[EngineError] = []
    for path in sorted(folder().glob(f"*{SUFFIX}")):
        try:
            found.append(read(path))
        except EngineError as err:
            logger.warning("preset %s: %s", path.name, err.message)
            failures.append(err)
    return tuple(sorted(found, key=lambda preset: preset.title.casefold())), tuple(failures)


def read(path: Path) -> Preset:
    """The preset in a file; its name is that of the file.

    Raises:
        SettingsError: The file cannot be read, is not a preset, or has impossible settings.
    """
    try:
        data = read_toml(path, _LARGEST_BYTES)
        title, description = data["title"], data.get("description", "")
        if not all(isinstance(text, str) and text.isprintable() for text in (title, description)):
            raise ValueError("no title")
        changes = dict(data["settings"])
    except OSError as err:
        reason = err.strerror or str(err)
        raise SettingsError("preset-unreadable", name=path.name, reason=reason) from err
    except (ValueError, KeyError, TypeError) as err:
        raise SettingsError("not-a-preset", name=path.name) from err
    changes = _of_presets(renamed(JobSettings, changes))
    preset = Preset(
        name=path.stem,
        title=title.strip(),
        description=description,
        changes=changes,
        is_own=True,
    )
    applied(preset, JobSettings())
    return preset


def save(title: str, settings: JobSettings) -> Preset:
    """Store all settings that a preset may have."""
    return _keep(title, "", _of_presets(dataclasses.asdict(settings)))


def take(path: Path) -> Preset:
    """Import a preset from a file."""
    found = read(path)
    return _keep(found.title, found.description, found.changes)


def export(preset: Preset, path: Path) -> None:
    """Write a preset to a file of the user's choice; an existing file is replaced."""
    _write(path, preset.title, preset.description, preset.changes)


def remove(name: str) -> None:
    """Delete a preset."""
    path = folder() / f"{name}{SUFFIX}"
    if name not in {known.stem for known in folder().glob(f"*{SUFFIX}")}:
        raise SettingsError("no-own-preset", name=name)
    with writing(path):
        path.unlink()


def name_of(title: str) -> str:
    """The name of a preset with this title: letters and digits of any script, in lower case."""
    letters = "".join(c if c.isalnum() else " " for c in title.casefold())
    name = "-".join(letters.split())[:_LONGEST].strip("-")
    if not name:
        raise SettingsError("title-without-letters")
    is_device = name in _DEVICES or (name[:3] in ("com", "lpt") and name[3:].isdecimal())
    return f"preset-{name}" if is_device else name


def _keep(title: str, description: str, changes: dict[str, Value]) -> Preset:
    title = " ".join("".join(c if c.isprintable() else " " for c in title).split())
    name = name_of(title)
    path = folder() / f"{name}{SUFFIX}"
    if name in BUILT_IN or path.exists():
        raise SettingsError("preset-exists", title=title)
    _write(path, title, description, changes)
    return read(path)


def _write(path: Path, title: str, description: str, changes: dict[str, Value]) -> None:
    data: dict[str, Any] = {"title": title, "description": description, "settings": changes}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_text(path, to_toml(data))


def _of_presets(values: dict[str, Any]) -> dict[str, Any]:
    """Values that a preset may have."""
    about = describe(JobSettings)
    return {
        name: value
        for name, value in values.items()
        if name not in about or about[name].scope == "any"
    }
