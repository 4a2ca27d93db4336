"""The context that every command gets: the console and the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.cli.console import Console
from engine.core.errors import SettingsError
from engine.protocol.plan import Notice
from engine.settings.schema import EngineSettings
from engine.settings.store import load_engine_settings

if TYPE_CHECKING:
    from engine.cli.services import ApiServices

DONE = 0
FAILED = 1
WRONG_USAGE = 2
CANCELLED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Console and services for a command; tests replace the services by fakes."""

    console: Console
    services: ApiServices

    def own_settings(self) -> EngineSettings:
        """This user's settings of the engine; the defaults, with a notice, without a right file."""
        try:
            return load_engine_settings()
        except SettingsError as err:
            problem = err.as_message
            params = {"problem": problem, "advice": problem.hint}
            self.console.notice(Notice(code="settings-unused", severity="warning", params=params))
            return EngineSettings()
