"""What every command gets: the console and the way to the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.bench.options import BenchOptions
from engine.cli.console import Console
from engine.hardware.gpu_table import GpuSpec
from engine.protocol.commands import Command
from engine.protocol.events import EventSink
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import DoctorLine, EncodedLatents, Report
from engine.settings.schema import EngineSettings, JobSettings

DONE = 0
FAILED = 1
WRONG_USAGE = 2
CANCELLED = 130


class Unfinished(Protocol):
    """A job of an earlier run that can go on."""

    @property
    def job_id(self) -> str:
        """Name of the job."""
        ...

    @property
    def source(self) -> Path:
        """Its film."""
        ...

    @property
    def output(self) -> Path:
        """Its result."""
        ...

    @property
    def frames_done(self) -> int:
        """Frames that need not be made again."""
        ...

    @property
    def frames_total(self) -> int:
        """Frames in all; an estimate where the film does not count them."""
        ...


class Front(Protocol):
    """The verbs of `engine.api.Engine`."""

    def start(self) -> None:
        """Start the engine thread."""
        ...

    def send(self, command: Command) -> None:
        """Hand over one command."""
        ...

    def close(self) -> bool:
        """End the engine thread; False when it did not end in time."""
        ...


class Services(Protocol):
    """The engine's front door, `engine.api` in short; tests put a fake in its place."""

    def open(self, sink: EventSink, settings: EngineSettings) -> Front:
        """An engine that is not started yet."""
        ...

    def probe(self, source: Path) -> MediaInfo:
        """Read what a file is."""
        ...

    def plan(
        self,
        source: Path,
        job: JobSettings,
        output: Path | None,
        settings: EngineSettings,
        pretend: GpuSpec | None,
    ) -> Plan:
        """Decide everything without starting; `pretend` is a card that is not here."""
        ...

    def verify(self, source: Path, output: Path) -> Report:
        """Compare a result with its source."""
        ...

    def encode_latents(
        self,
        source: Path,
        output: Path,
        model: str,
        job: JobSettings,
        settings: EngineSettings,
        tell: Callable[[int, int], None],
    ) -> EncodedLatents:
        """Write a film as a file of latents; `tell` gets frames done and of all."""
        ...

    def unfinished(self) -> Sequence[Unfinished]:
        """Jobs that can be resumed."""
        ...

    def start_update(self) -> Path:
        """Start the setup of a newer version that was loaded; this program has to end then."""
        ...

    def doctor(self) -> Sequence[DoctorLine]:
        """Run the self-test."""
        ...

    def bench(
        self, cases: Sequence[str], options: BenchOptions, tell: Callable[[str], None]
    ) -> list[dict[str, Any]]:
        """Measure the cases; `tell` gets a line after each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every command gets."""

    console: Console
    services: Services
