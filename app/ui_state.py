"""Values that the window keeps between runs: places, folders, theme, language, last choices."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from PySide6.QtCore import QRect, QSettings

from app.theme import tokens
from engine.core import paths
from engine.core.errors import SettingsError
from engine.core.serialization import parse_json
from engine.settings.schema import EngineSettings, JobSettings, describe, known

T = TypeVar("T")
S = TypeVar("S", JobSettings, EngineSettings)


class _Kept(Generic[T]):
    """An attribute that is a value of the file.

    Args:
        key: Its key.
        read: Makes it from its text; "" while there is none.
        write: Gives its text.
    """

    def __init__(
        self, key: str, read: Callable[[str], T], write: Callable[[T], object] = str
    ) -> None:
        self._key, self._read, self._write = key, read, write

    def __get__(self, state: UiState, _kind: type) -> T:
        return self._read(str(state.store.value(self._key, "")))

    def __set__(self, state: UiState, value: T) -> None:
        state.store.setValue(self._key, self._write(value))


def _switch(key: str, on: str, off: str) -> _Kept[bool]:
    return _Kept(key, lambda text: text == on, lambda value: on if value else off)


def _per_cent(text: str) -> int:
    try:
        return min(max(int(text), 0), 100)
    except ValueError:
        return 100


def _queue_width(text: str) -> int:
    try:
        return min(max(int(text), 0), tokens.QUEUE_MOST)
    except ValueError:
        return tokens.QUEUE_WIDTH


def _settings(kind: type[S], text: str) -> S:
    """Settings as they were kept; the defaults where they are invalid."""
    try:
        kept = parse_json(text or "{}")
        return kind(**known(kind, kept)) if isinstance(kept, dict) else kind()
    except (ValueError, TypeError, SettingsError):
        return kind()


def _choices_text(value: JobSettings) -> str:
    """Choices as JSON, without those that belong to one source."""
    about = describe(JobSettings)
    kept = {k: v for k, v in dataclasses.asdict(value).items() if about[k].scope != "source"}
    return json.dumps(kept)


def _names(text: str) -> tuple[str, ...]:
    try:
        kept = parse_json(text or "[]")
    except ValueError:
        return ()
    return tuple(map(str, kept)) if isinstance(kept, list) else ()


class UiState:
    """An ini file in the data folder; values that make no sense any more are ignored."""

    language = _Kept("language", str)  # its code; "" when none was chosen
    theme = _Kept("theme", str)  # dark or light; "" when none was chosen
    screen = _Kept("screen", str)  # the screen that the window was on last; "" at the first start
    queue_width = _Kept("queue_width", _queue_width)  # px; 0 for a queue that was folded
    is_maximised = _switch("maximised", "true", "false")
    source_folder = _Kept("source_folder", lambda text: Path(text or Path.home()))  # of files added
    volume = _Kept("volume", _per_cent)  # of playback
    is_muted = _switch("muted", "yes", "no")
    shows_all_models = _switch("all_models", "yes", "no")  # whether the page of models is unfolded
    choices = _Kept("choices", partial(_settings, JobSettings), _choices_text)  # of the last job
    engine_settings = _Kept(  # apply to all videos
        "engine",
        partial(_settings, EngineSettings),
        lambda value: json.dumps(dataclasses.asdict(value)),
    )
    # Situations of the NVIDIA runtime that the user has hidden.
    runtime_hidden = _Kept("runtime_hidden", _names, json.dumps)

    def __init__(self, path: Path | None = None) -> None:
        file = path or paths.data_folder() / "window.ini"
        self.store = QSettings(str(file), QSettings.Format.IniFormat)

    def place(self, screen: str) -> QRect:
        """Place of the window on a screen, in logical px; not valid where it was never there."""
        value = self.store.value(f"places/{screen}")
        return value if isinstance(value, QRect) else QRect()

    def keep_place(self, screen: str, place: QRect) -> None:
        """Remember where the window is on a screen."""
        self.store.setValue(f"places/{screen}", place)

    def save(self) -> None:
        """Write the file now."""
        self.store.sync()
