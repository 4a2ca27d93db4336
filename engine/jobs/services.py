"""Services next to the jobs: each answers a class of commands with events or with a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from engine.hardware.devices import fastest
from engine.hardware.gpu_table import GpuSpec
from engine.jobs import diagnostics_archive
from engine.jobs.job import Job
from engine.jobs.job_service import JobService
from engine.jobs.reading_marks import being_read
from engine.jobs.task_runner import RunningTask, Task
from engine.pipeline.model_file_check import ready_vae
from engine.pipeline.prepare import examined_source, required_latents
from engine.planner import preset_choice
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import TaskKind
from engine.settings import presets


class Service(Protocol):
    """Answers the commands of one class."""

    @property
    def kind(self) -> TaskKind:
        """Kind of its tasks, and of the TaskFailed where a command is answered at once."""
        ...

    @property
    def commands(self) -> type[c.Command]:
        """The class of its commands."""
        ...

    def answer(self, command: Any) -> Task | tuple[e.Event, ...]:
        """A task that takes a while, or events at once.

        Raises:
            EngineError: The command cannot be carried out.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHost:
    """Interface of the engine thread for the services of wings."""

    sink: e.EventSink
    send: Callable[[c.Command], None]  # may be called in any thread
    is_busy: Callable[[], bool]  # whether a job or an excerpt runs
    jobs_port: Callable[[], int]  # port of this computer at which others join its jobs
    at_end: list[Callable[[float], None]] = field(default_factory=list)  # called with seconds


class DiagnosticsService:
    """Writes the archive for a report of a fault."""

    kind = TaskKind.DIAGNOSTICS
    commands = c.WriteDiagnostics

    def answer(self, command: c.WriteDiagnostics) -> Task:
        """A task."""
        return Task(
            kind=self.kind, subject=str(command.path), do=partial(_write_archive, command.path)
        )


def _write_archive(path: Path, work: RunningTask) -> None:
    from engine import diagnostics

    lines = diagnostics.examine()
    work.control.check()
    diagnostics_archive.write(path, lines)


class LatentService:
    """Shows what is in .latent files; only the latest that waits is shown.

    Memory: a Wan VAE while a picture is made, in main memory: GPUs are left to the jobs.
    """

    kind = TaskKind.LATENT
    commands = c.ShowLatent

    def answer(self, command: c.ShowLatent) -> Task:
        """A task that emits LatentRead and LatentShown."""
        do = partial(_show_latent, command)
        return Task(kind=self.kind, subject=str(command.path), do=do, turn="replaces")


def _show_latent(command: c.ShowLatent, work: RunningTask) -> None:
    latents = required_latents(command.path)
    header, guess = latents.examined(command.path)
    work.emit(
        e.LatentRead(
            path=command.path,
            model=header.model,
            channels=header.channels,
            size=header.film.size,
            frames=header.film.frames,
            frame_rate=header.film.rate,
            guess=guess.reading,
            is_sure=guess.is_sure,
        )
    )
    vae = ready_vae(header.model, command.vae)
    from engine.pipeline.display import first_picture

    raw, normalised, is_whole = first_picture(latents, command.path, vae, command.longest_side)
    work.emit(e.LatentShown(path=command.path, raw=raw, normalised=normalised, is_whole=is_whole))


class OverviewService:
    """Reads the timelines of videos that are looked at, also while a job runs.

    Args:
        jobs: Whose sources are read.
    """

    kind = TaskKind.OVERVIEW
    commands = c.ReadOverview

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs

    def answer(self, command: c.ReadOverview) -> Task:
        """A task that emits OverviewRead.

        Raises:
            UnknownJob: There is no such job.
        """
        do = partial(self._read, self._jobs.job(command.job_id))
        return Task(kind=self.kind, subject=command.job_id, do=do, turn="replaces")

    def _read(self, job: Job, work: RunningTask) -> None:
        from engine.pipeline.overview import overviews

        is_over, is_busy = lambda: work.control.is_cancelled, lambda: self._jobs.is_running
        for overview in overviews(job.id, job.media, is_over, is_busy):
            work.emit(overview)
        work.control.check()


class ExaminationService:
    """Looks at frames of the sources of jobs, one after the other.

    Args:
        send: Takes the answer to the jobs.
    """

    kind = TaskKind.EXAMINATION
    commands = c.ExamineSource

    def __init__(self, send: Callable[[c.Command], None]) -> None:
        self._send = send

    def answer(self, command: c.ExamineSource) -> Task:
        """A task that sends SourceExamined."""
        return Task(kind=self.kind, subject=command.job_id, do=partial(self._examine, command))

    def _examine(self, command: c.ExamineSource, work: RunningTask) -> None:
        with being_read(command.media.path, "examination"):
            media = examined_source(command.media)
        self._send(c.SourceExamined(job_id=command.job_id, media=media))


class PresetService:
    """Keeps presets: those that suit the GPU, and the user's own. Works at once: small files.

    Args:
        pretend: GPUs in the place of this machine's own.
    """

    kind = TaskKind.PRESET
    commands = c.PresetCommand

    def __init__(self, pretend: Sequence[GpuSpec] = ()) -> None:
        self._pretend = fastest(pretend)

    def answer(self, command: c.PresetCommand) -> tuple[e.Event, ...]:
        """The presets after every change; with the list also what is wrong with their files.

        Raises:
            EngineError: A preset could not be kept, read or written.
        """
        match command:
            case c.SavePreset(title=title, settings=settings):
                presets.save(title, settings)
            case c.RemovePreset(name=name):
                presets.remove(name)
            case c.ImportPreset(path=path):
                presets.take(path)
            case c.ExportPreset(name=name, path=path):
                presets.export(preset_choice.named(name, self._pretend), path)
                return ()
        found = preset_choice.offered(self._pretend)
        listed = e.PresetsListed(presets=found.presets, card=found.gpu)
        failures = found.failures if isinstance(command, c.ListPresets) else ()
        failed = (e.TaskFailed(kind=self.kind, error=failure.info()) for failure in failures)
        return (listed, *failed)
