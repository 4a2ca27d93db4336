"""Settings of this machine in a TOML file: read, checked, and replaced in one step.

Keys that this version does not know stay where they are, so that an older program does not delete
what a newer one wrote; comments do not survive. A settings class has a table of its own.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from datetime import date, time
from pathlib import Path
from typing import Any

from engine.core import atomic_file, paths
from engine.core.errors import OutputUnwritable, SettingsError
from engine.settings.schema import EngineSettings

_TABLE = "engine"


def settings_file() -> Path:
    """Where the settings of this user are."""
    return paths.data_folder() / "settings.toml"


def load_engine_settings(path: Path | None = None) -> EngineSettings:
    """The settings as kept; defaults for everything that the file does not say.

    Args:
        path: Another file than this user's.

    Raises:
        SettingsError: The file is no TOML, or a value in it is impossible; both name the file.
    """
    path = path or settings_file()
    table = _read(path).get(_TABLE, {})
    known = {field.name for field in dataclasses.fields(EngineSettings)}
    try:
        if not isinstance(table, dict):
            raise SettingsError(f"{_TABLE} must be a table.")
        return EngineSettings(**{name: table[name] for name in known & set(table)})
    except SettingsError as err:
        hint = f"{err.hint} The value stands in {path}.".strip()
        raise SettingsError(err.message, hint=hint, **err.params) from err


def save_engine_settings(settings: EngineSettings, path: Path | None = None) -> None:
    """Keep the settings; a reader sees the old file or the new one, never a half.

    A file that is no TOML is moved aside to "settings.toml.damaged" and not lost.

    Raises:
        OutputUnwritable: The folder or the file cannot be written.
    """
    path = path or settings_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            data = _read(path)
        except SettingsError:
            atomic_file.replace(path, path.with_name(path.name + ".damaged"))
            data = {}
        old = data.get(_TABLE)
        data[_TABLE] = (old if isinstance(old, dict) else {}) | dataclasses.asdict(settings)
        atomic_file.write_text(path, to_toml(data))
    except OSError as err:
        raise OutputUnwritable(
            f"The settings cannot be written to {path}.",
            hint=err.strerror or str(err),
            path=path,
        ) from err


def to_toml(data: dict[str, Any]) -> str:
    """A TOML document of plain values, lists and nested tables that `tomllib` reads back equal."""
    return "\n".join(_table_lines(data, ())).lstrip("\n") + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise SettingsError(
            f"The settings file is damaged: {err}.",
            hint=f"Repair or delete {path}.",
            path=path,
        ) from err
    except OSError as err:
        raise SettingsError(
            f"The settings file {path} cannot be read.",
            hint=err.strerror or str(err),
            path=path,
        ) from err


def _table_lines(table: dict[str, Any], name: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    if name and (lines or not table):
        lines = ["", f"[{'.'.join(map(_key, name))}]", *lines]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _table_lines(value, (*name, key))
    return lines


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _text(text)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)  # "inf" and "nan" are TOML too
        case str():
            return _text(value)
        case date() | time():  # datetime is a date
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            inside = ", ".join(f"{_key(key)} = {_value(entry)}" for key, entry in value.items())
            return f"{{{inside}}}"
    raise TypeError(f"no TOML for {type(value).__name__}")


def _text(text: str) -> str:
    # JSON's escapes are TOML's too; only DEL is forbidden in TOML and free in JSON.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
