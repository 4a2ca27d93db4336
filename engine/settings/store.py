"""Settings of this machine from a TOML file that its user writes; a document as TOML."""

from __future__ import annotations

import json
import re
from datetime import date, time
from pathlib import Path
from typing import Any

from engine.core import paths
from engine.core.errors import SettingsError
from engine.core.serialization import read_toml
from engine.settings.schema import EngineSettings, known

_TABLE = "engine"


def settings_file() -> Path:
    """Path of this user's settings."""
    return paths.data_folder() / "settings.toml"


def load_engine_settings(path: Path | None = None) -> EngineSettings:
    """The settings as stored; defaults for everything that is not in the file.

    Args:
        path: Another file than this user's.

    Raises:
        SettingsError: The file is no TOML, or a value in it is impossible; both name the file.
    """
    path = path or settings_file()
    table = _read(path).get(_TABLE, {})
    try:
        if not isinstance(table, dict):
            raise SettingsError("not-a-table", name=_TABLE)
        return EngineSettings(**known(EngineSettings, table))
    except SettingsError as err:
        problem = err.as_message
        raise SettingsError(
            "in-settings-file", problem=problem, advice=problem.hint, path=path
        ) from err


def to_toml(data: dict[str, Any]) -> str:
    """A TOML document of plain values, lists and nested tables that `tomllib` reads back equal."""
    return "\n".join(_table_lines(data, ())).lstrip("\n") + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except FileNotFoundError:
        return {}
    except ValueError as err:
        raise SettingsError("file-damaged", path=path, reason=err) from err
    except OSError as err:
        reason = err.strerror or str(err)
        raise SettingsError("file-unreadable", path=path, reason=reason) from err


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
