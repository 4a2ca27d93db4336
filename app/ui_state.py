"""State that the window keeps between runs: places, folders, theme, language, choices."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QRect, QSettings

from engine.core import paths
from engine.core.errors import SettingsError
from engine.core.serialization import parse_json
from engine.settings.schema import EngineSettings, JobSettings, describe, known

S = TypeVar("S", JobSettings, EngineSettings)


class UiState:
    """An ini file in the data folder; values that make no sense any more are ignored."""

    def __init__(self, path: Path | None = None) -> None:
        file = path or paths.data_folder() / "window.ini"
        self._store = QSettings(str(file), QSettings.Format.IniFormat)

    @property
    def language(self) -> str:
        """Language code; "" when none was chosen."""
        return str(self._store.value("language", ""))

    @language.setter
    def language(self, value: str) -> None:
        self._store.setValue("language", value)

    @property
    def theme(self) -> str:
        """Name of the theme, dark or light; "" when none was chosen."""
        return str(self._store.value("theme", ""))

    @theme.setter
    def theme(self, value: str) -> None:
        self._store.setValue("theme", value)

    @property
    def screen(self) -> str:
        """The screen that the window was on last; "" at the first start."""
        return str(self._store.value("screen", ""))

    @screen.setter
    def screen(self, value: str) -> None:
        self._store.setValue("screen", value)

    @property
    def is_maximised(self) -> bool:
        """Whether the window filled its screen."""
        return str(self._store.value("maximised", "false")) == "true"

    @is_maximised.setter
    def is_maximised(self, value: bool) -> None:
        self._store.setValue("maximised", "true" if value else "false")

    def place(self, screen: str) -> QRect:
        """Place of the window on a screen, in logical px; not valid where it was never there."""
        value = self._store.value(f"places/{screen}")
        return value if isinstance(value, QRect) else QRect()

    def keep_place(self, screen: str, place: QRect) -> None:
        """Remember where the window is on a screen."""
        self._store.setValue(f"places/{screen}", place)

    @property
    def source_folder(self) -> Path:
        """Folder of the files that were added last."""
        return Path(str(self._store.value("source_folder", "") or Path.home()))

    @source_folder.setter
    def source_folder(self, value: Path) -> None:
        self._store.setValue("source_folder", str(value))

    @property
    def volume(self) -> int:
        """Volume of playback, %."""
        try:
            return min(max(int(str(self._store.value("volume", 100))), 0), 100)
        except ValueError:
            return 100

    @volume.setter
    def volume(self, value: int) -> None:
        self._store.setValue("volume", value)

    @property
    def is_muted(self) -> bool:
        """Whether playback is silent."""
        return str(self._store.value("muted", "no")) == "yes"

    @is_muted.setter
    def is_muted(self, value: bool) -> None:
        self._store.setValue("muted", "yes" if value else "no")

    @property
    def shows_all_models(self) -> bool:
        """Whether the page of models is unfolded."""
        return str(self._store.value("all_models", "no")) == "yes"

    @shows_all_models.setter
    def shows_all_models(self, value: bool) -> None:
        self._store.setValue("all_models", "yes" if value else "no")

    @property
    def choices(self) -> JobSettings:
        """Choices of the last job."""
        return self._settings("choices", JobSettings)

    @choices.setter
    def choices(self, value: JobSettings) -> None:
        about = describe(JobSettings)
        kept = {k: v for k, v in dataclasses.asdict(value).items() if about[k].scope != "source"}
        self._store.setValue("choices", json.dumps(kept))

    @property
    def engine_settings(self) -> EngineSettings:
        """Settings of every video."""
        return self._settings("engine", EngineSettings)

    @engine_settings.setter
    def engine_settings(self, value: EngineSettings) -> None:
        self._store.setValue("engine", json.dumps(dataclasses.asdict(value)))

    @property
    def runtime_hidden(self) -> tuple[str, ...]:
        """Situations of the NVIDIA runtime that the user has hidden."""
        try:
            kept = parse_json(str(self._store.value("runtime_hidden", "[]")))
        except ValueError:
            return ()
        return tuple(map(str, kept)) if isinstance(kept, list) else ()

    @runtime_hidden.setter
    def runtime_hidden(self, value: tuple[str, ...]) -> None:
        self._store.setValue("runtime_hidden", json.dumps(value))

    def save(self) -> None:
        """Write the file now."""
        self._store.sync()

    def _settings(self, key: str, kind: type[S]) -> S:
        """Settings as they were kept; those of delivery where they make no sense any more."""
        try:
            kept = parse_json(str(self._store.value(key, "{}")))
            return kind(**known(kind, kept)) if isinstance(kept, dict) else kind()
        except (ValueError, TypeError, SettingsError):
            return kind()
