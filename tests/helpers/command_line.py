"""Runs commands on a fake engine: what they print, what they send, how they end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.core.errors import ErrorInfo
from engine.core.geometry import Size
from engine.hardware.gpu_table import GpuSpec
from engine.protocol import commands, events
from engine.protocol.media import MediaInfo
from engine.protocol.plan import notice_of_error
from engine.protocol.report import DoctorLine, EncodedLatents, Report
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.fakes import FakeEngine, make_media, make_plan, make_report


class Terminal(io.StringIO):
    """A standard stream at which a user sits."""

    def isatty(self) -> bool:
        return True


class ScriptedEngine(FakeEngine):
    """A FakeEngine whose every job does `script` as soon as it starts; by default it finishes."""

    def __init__(self, sink: events.EventSink, script: Callable[[ScriptedEngine], None]) -> None:
        super().__init__(sink)
        self.script = script

    def send(self, command: commands.Command) -> None:
        if isinstance(command, commands.AdoptJob) and command.job_id in self.reject:
            about = {"job_id": command.job_id, "source": command.job_id}
            self.sink.emit(events.JobRejected(**about, error=self.reject[command.job_id]))
            return
        if isinstance(command, commands.RemoveJob) and command.job_id in self.reject:
            error = self.reject[command.job_id].as_error
            notice = notice_of_error(error, "warning")
            self.sink.emit(events.Warned(job_id=command.job_id, notice=notice))
            return
        if isinstance(command, commands.AdoptJob):
            media = make_media(Path("old.mp4"))
            self.media["old.mp4"] = media
            self.plans[command.job_id] = make_plan(media)
            self.queue.append(command.job_id)
            self.sink.emit(events.JobQueued(job_id=command.job_id, media=media))
        super().send(command)

    def _start_next(self) -> None:
        before = self.running
        super()._start_next()
        if self.running is not None and self.running != before:
            self.script(self)


def finishing(engine: ScriptedEngine) -> None:
    """The script of a job that ends well."""
    engine.tile(0, 0)
    engine.advance(120)
    engine.emit_telemetry()
    engine.finish()


@dataclass
class FakeServices:
    """The front door; `engine` is the last engine that was opened."""

    script: Callable[[ScriptedEngine], None] = finishing
    reject: dict[str, ErrorInfo] = field(default_factory=dict)
    left_over: tuple[Any, ...] = ()
    report: Report | None = None
    error: Exception | None = None
    notices: tuple[Any, ...] = ()
    lines: tuple[DoctorLine, ...] = ()
    engine: ScriptedEngine | None = None
    settings: EngineSettings | None = None
    asked: list[Any] = field(default_factory=list)
    pretend: Sequence[GpuSpec] = ()

    def open(self, sink: events.EventSink, settings: EngineSettings) -> ScriptedEngine:
        self.settings = settings
        self.engine = ScriptedEngine(sink, self.script)
        self.engine.reject = self.reject
        self.engine.notices = self.notices
        return self.engine

    def probe(self, source: Path) -> Any:
        self._fail()
        return make_media(source)

    def findings(self, media: MediaInfo) -> tuple[Any, ...]:
        return self.notices

    def plan(
        self,
        source: Path,
        job: JobSettings,
        output: Path | None,
        settings: EngineSettings,
        pretend: Sequence[GpuSpec],
    ) -> Any:
        self._fail()
        self.pretend = pretend
        self.asked.append((job, output, settings))
        plan = make_plan(make_media(source), job, output=output, notices=self.notices)
        return replace(plan, is_pretended=bool(pretend))

    def verify(
        self, source: Path, output: Path, video_stream: int, start: str, stop: str
    ) -> Report:
        self._fail()
        return self.report or make_report(make_plan(make_media(source), output=output))

    def encode_latents(
        self,
        source: Path,
        output: Path,
        model: str,
        job: JobSettings,
        settings: EngineSettings,
        tell: Callable[[int, int], None],
    ) -> EncodedLatents:
        self._fail()
        self.asked.append((source, output, model, job, settings))
        tell(5, 7)
        tell(7, 7)
        return EncodedLatents(
            source=source,
            output=output,
            model=model,
            reading="raw",
            size=Size(250, 130),
            padded=Size(256, 136),
            frames=7,
            padded_frames=9,
            latents=3,
            bytes=98_000,
            seconds=2.0,
        )

    def commands_for(
        self,
        sources: Sequence[Path],
        job: JobSettings,
        output: Path | None,
        settings: EngineSettings,
    ) -> list[Any]:
        about = {"settings": job, "output": output}
        return [
            commands.AddJob(job_id=commands.new_job_id(), source=source, **about)
            for source in sources
        ]

    def unfinished(self) -> tuple[Any, ...]:
        return self.left_over

    def doctor(self) -> tuple[DoctorLine, ...]:
        return self.lines

    def write_diagnostics(
        self, path: Path, lines: tuple[DoctorLine, ...], *, with_names: bool
    ) -> None:
        self.asked.append((path, lines, with_names))

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """Each line of standard output as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """Calls commands and catches what they print."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.services = FakeServices()
        self._capture = capture

    @property
    def added(self) -> list[commands.AddJob]:
        """The jobs that the last engine was given."""
        engine = self.services.engine
        assert engine is not None
        return engine.asked(commands.AddJob)

    def __call__(self, *words: str) -> Ended:
        status = run(list(words), lambda: self.services)
        out, err = self._capture.readouterr()
        return Ended(status, out, err)
