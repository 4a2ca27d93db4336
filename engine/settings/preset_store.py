"""Presets of this user: a TOML file each, written whole or not at all, never replaced silently.

A preset says how films are made, not which: times, permissions and files of models stay out, so
that it can be given to others.
"""

from __future__ import annotations

import dataclasses
import logging
import tomllib
from pathlib import Path
from typing import Any

from engine.core import atomic_file, paths
from engine.core.errors import EngineError, OutputUnwritable, SettingsError
from engine.settings.presets import Preset, Value, applied
from engine.settings.schema import JobSettings
from engine.settings.store import to_toml

logger = logging.getLogger(__name__)

BUILT_IN = frozenset({"fast", "balanced", "best"})  # names that are taken
SUFFIX = ".toml"
_OF_ONE_FILM = frozenset(
    {
        *("start", "stop", "overwrite", "accept_damaged"),
        *("dit", "vae", "text_embedding", "latent_vae", "latents", "latent_rate"),
    }
)
_LONGEST = 60  # letters of a name, which is the name of a file too
_DEVICES = {"con", "prn", "aux", "nul"}  # and com1, lpt1: Windows takes them for no files
_LARGEST_BYTES = 100_000


def folder() -> Path:
    """Where they are; need not exist."""
    return paths.data_folder() / "presets"


def load_all() -> tuple[tuple[Preset, ...], tuple[EngineError, ...]]:
    """All that can be read, by title, and what is wrong with the other files."""
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
    """A preset of a file, whose name is its own.

    Raises:
        SettingsError: It cannot be read, is no preset, or names impossible settings.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ValueError("too large")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        title, description = data["title"], data.get("description", "")
        if not all(isinstance(text, str) and text.isprintable() for text in (title, description)):
            raise ValueError("no title")
        changes = dict(data["settings"])
    except OSError as err:
        hint = err.strerror or str(err)
        raise SettingsError(f"{path.name} cannot be read.", hint=hint, name=path.name) from err
    except (ValueError, KeyError, TypeError) as err:
        raise SettingsError(
            f"{path.name} is no preset.", hint="Choose a file that was exported.", name=path.name
        ) from err
    changes = {name: value for name, value in changes.items() if name not in _OF_ONE_FILM}
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
    """Keep all settings that are not of one film.

    Raises:
        SettingsError: The title has no letters, or there is a preset of this name.
        OutputUnwritable: The disk refuses.
    """
    values = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in _OF_ONE_FILM
    }
    return _keep(title, "", values)


def take(path: Path) -> Preset:
    """Import a preset from a file.

    Raises:
        SettingsError: It is none, or there is a preset of this name.
        OutputUnwritable: The disk refuses.
    """
    found = read(path)
    return _keep(found.title, found.description, found.changes)


def export(preset: Preset, path: Path) -> None:
    """Write a preset to a file of the user's choice; somebody asked before it is replaced.

    Raises:
        OutputUnwritable: The disk refuses.
    """
    _write(path, preset.title, preset.description, preset.changes)


def remove(name: str) -> None:
    """Delete one.

    Raises:
        SettingsError: There is none of this name.
        OutputUnwritable: The disk refuses.
    """
    path = folder() / f"{name}{SUFFIX}"
    if name not in {known.stem for known in folder().glob(f"*{SUFFIX}")}:
        raise SettingsError(
            f"There is no preset {name} of your own.",
            hint="Those that come with the program stay.",
            name=name,
        )
    try:
        path.unlink()
    except OSError as err:
        raise _unwritable(path, err) from err


def name_of(title: str) -> str:
    """The name of a preset with this title: letters and figures of any script, in small.

    Raises:
        SettingsError: The title has none.
    """
    letters = "".join(c if c.isalnum() else " " for c in title.casefold())
    name = "-".join(letters.split())[:_LONGEST].strip("-")
    if not name:
        raise SettingsError("A preset needs a name.", hint="Give it a title with letters.")
    is_device = name in _DEVICES or (name[:3] in ("com", "lpt") and name[3:].isdecimal())
    return f"preset-{name}" if is_device else name


def _keep(title: str, description: str, changes: dict[str, Value]) -> Preset:
    name = name_of(title)
    path = folder() / f"{name}{SUFFIX}"
    if name in BUILT_IN or path.exists():
        raise SettingsError(
            f"There is a preset {title.strip()} already.",
            hint="Choose another title, or remove that one first.",
            name=name,
        )
    _write(path, title.strip(), description, changes)
    return read(path)


def _write(path: Path, title: str, description: str, changes: dict[str, Value]) -> None:
    data: dict[str, Any] = {"title": title, "description": description, "settings": changes}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_text(path, to_toml(data))
    except OSError as err:
        raise _unwritable(path, err) from err


def _unwritable(path: Path, err: OSError) -> OutputUnwritable:
    return OutputUnwritable(
        f"{path.name} cannot be written.", hint=err.strerror or str(err), path=path
    )
