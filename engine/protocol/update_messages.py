"""Commands about updates, what the engine answers, and where an update stands: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.core.errors import ErrorInfo
from engine.protocol.commands import Command
from engine.protocol.events import Event

Phase = Literal["check", "download", "install"]
Install = Literal["setup", "portable", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateState:
    """What is known of updates without asking anybody.

    `newer` is "" where no newer version is known: none was looked for, or there is none.
    """

    version: str  # of this program
    is_in_build: bool = False  # this build knows where updates are published
    installed_as: Install = "sources"  # only a copy that a setup installed is updated by one
    was_checked: bool = False  # somebody asked for it since the program was started
    newer: str = ""
    date: str = ""  # of the newer version, "2026-12-01"
    notes: dict[str, str] = field(default_factory=dict)  # Markdown by language
    setup: str = ""  # name of its file
    bytes: int = 0  # to load
    done_bytes: int = 0  # what is there of it
    is_ready: bool = False  # it was loaded, and was the right one


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCommand(Command):
    """Something about updates; jobs go on meanwhile.

    Answered by UpdateKnown, then UpdateDone, UpdateFailed or UpdateStopped, with UpdateProgress
    before.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowUpdate(UpdateCommand):
    """Say what is known, without asking anybody; answered by UpdateKnown alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUpdate(UpdateCommand):
    """Ask where updates are published whether there is a newer version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadUpdate(UpdateCommand):
    """Load the setup of the newer version that is known, or go on where that ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallUpdate(UpdateCommand):
    """See that the setup may be started. Whoever sent this then ends, and starts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopUpdate(UpdateCommand):
    """End what runs; what was loaded stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateKnown(Event):
    """Where an update stands; said when asked, and again whenever it has changed."""

    state: UpdateState


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEvent(Event):
    """Something about what was asked for; MB are 10**6 bytes."""

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProgress(UpdateEvent):
    """How far it is; all zero where nothing can be counted."""

    done_mb: float = 0.0
    total_mb: float = 0.0
    mb_per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDone(UpdateEvent):
    """It went well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFailed(UpdateEvent):
    """It did not; the program stays as it is, and what was loaded is kept."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStopped(UpdateEvent):
    """The user stopped it; what was loaded stays."""
