"""The engine as the commands see it; loaded when the command is known: help is instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine import api
from engine.hardware.gpu_table import GpuSpec
from engine.protocol.commands import AddJob, AdoptJob
from engine.protocol.events import EventSink
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import DoctorLine, EncodedLatents, Report
from engine.settings.schema import EngineSettings, JobSettings


class ApiServices:
    """`engine.api` as the commands see it."""

    def open(self, sink: EventSink, settings: EngineSettings) -> api.Engine:
        """An engine that is not started yet."""
        return api.Engine(sink, settings=settings)

    def probe(self, source: Path) -> MediaInfo:
        """Read what a file is."""
        return api.probe(source)

    def findings(self, media: MediaInfo) -> Sequence[Notice]:
        """Findings in its frames."""
        return api.findings(media)

    def plan(
        self,
        source: Path,
        job: JobSettings,
        output: Path | None,
        settings: EngineSettings,
        pretend: Sequence[GpuSpec],
    ) -> Plan:
        """Decide everything without starting."""
        return api.plan(source, job, output, engine_settings=settings, pretend=pretend)

    def verify(
        self, source: Path, output: Path, video_stream: int, start: str, stop: str
    ) -> Report:
        """Compare a result with its source."""
        return api.verify(source, output, video_stream, start, stop)

    def encode_latents(
        self,
        source: Path,
        output: Path,
        model: str,
        job: JobSettings,
        settings: EngineSettings,
        tell: Callable[[int, int], None],
    ) -> EncodedLatents:
        """Write a video as a file of latents."""
        return api.encode_latents(source, output, model, job, engine_settings=settings, report=tell)

    def commands_for(
        self,
        sources: Sequence[Path],
        job: JobSettings,
        output: Path | None,
        settings: EngineSettings,
    ) -> Sequence[AddJob | AdoptJob]:
        """The commands that begin or continue jobs."""
        return api.commands_for(sources, job, output, engine_settings=settings)

    def unfinished(self) -> Sequence[api.UnfinishedJob]:
        """Jobs that can be resumed."""
        return api.unfinished()

    def doctor(self) -> Sequence[DoctorLine]:
        """Run the self-test."""
        return api.doctor()

    def write_diagnostics(
        self, path: Path, lines: Sequence[DoctorLine], *, with_names: bool
    ) -> None:
        """Write the archive of a report."""
        api.write_diagnostics(path, lines, with_names=with_names)
