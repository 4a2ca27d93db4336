"""Public interface: class Engine, and the few questions that need no thread. Loads without torch.

The window imports nothing else of the engine but `core`, `settings` and `protocol`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core import paths
from engine.core.errors import EngineError, EngineStopped, ErrorInfo, UpdateNotInBuild
from engine.core.paths import jobs_folder as default_jobs_folder
from engine.core.wings import wings
from engine.files.hashing import signers
from engine.hardware import devices
from engine.hardware.gpu_table import GpuSpec
from engine.jobs import made_results as made_results_record
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.engine_thread import EngineThread
from engine.jobs.job_store import JobStore
from engine.jobs.stored_run import continues, find_begun
from engine.pipeline.prepare import (
    Machine,
    exact_rate,
    examined_source,
    make_plan,
    probe_film,
    probe_source,
)
from engine.planner.target import source_stem, trimmed
from engine.protocol.commands import AddJob, AdoptJob, Command, Shutdown, new_job_id
from engine.protocol.events import EventSink
from engine.protocol.media import MediaInfo, Side
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import DoctorLine, EncodedLatents, Report
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.film_preparation import source_notices

if TYPE_CHECKING:
    from engine.jobs.playback import PlayedFrame
    from engine.pipeline.frames import Pictures
    from engine.video.read.sound import Sound

__all__ = [
    "Engine",
    "UnfinishedJob",
    "begun_jobs",
    "commands_for",
    "doctor",
    "encode_latents",
    "findings",
    "is_signed",
    "job_folders",
    "made_results",
    "plan",
    "played_frames",
    "played_sound",
    "pretended",
    "probe",
    "results_among",
    "source_stem",
    "start_update",
    "unfinished",
    "upscaled_frames",
    "verify",
    "write_diagnostics",
]


class Engine:
    """Runs jobs in threads of its own; emits all events to one sink.

    Events come from several threads: a sink only puts them into a queue.

    Args:
        sink: Gets the events.
        settings: Settings of the program.
        jobs_folder: For job folders; None for the one of this user.
        pretend: GPUs, here or in the environment: jobs are planned for them, and no job that needs
            one can start; `pretended` finds them by their names.
        numbers_results: A result whose name the user did not choose, and which is there already,
            gets a numbered name; else the job is refused.
        window_bytes: Main memory of the window in this process, which plans count.
    """

    def __init__(
        self,
        sink: EventSink,
        *,
        settings: EngineSettings | None = None,
        jobs_folder: Path | None = None,
        pretend: Sequence[GpuSpec] = (),
        numbers_results: bool = False,
        window_bytes: int = 0,
    ) -> None:
        machine = Machine(
            settings=settings or EngineSettings(),
            jobs_folder=jobs_folder or default_jobs_folder(),
            pretend=tuple(pretend) or devices.from_environment(),
            numbers_results=numbers_results,
            window_bytes=window_bytes,
        )
        self._thread = EngineThread(sink, machine)

    def start(self) -> None:
        """Begin to answer commands."""
        self._thread.start()

    def send(self, command: Command) -> None:
        """Hand over a command; returns at once.

        Raises:
            EngineStopped: The engine has ended.
        """
        if not self._thread.is_alive():
            raise EngineStopped()
        self._thread.send(command)

    def close(self, timeout_s: float = 20.0) -> bool:
        """Stop: a running job is left at its last segment. True when all threads ended in time."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.send(Shutdown())
            self._thread.join(timeout_s)
        return not self._thread.is_alive()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedJob:
    """A job of an earlier run."""

    job_id: str
    source: Path
    output: Path
    settings: JobSettings | None = None  # None where its record cannot be read
    chosen_output: Path | None = None  # by the user, a file or a folder; None: next to the source
    frames_done: int = 0
    frames_total: int = 0
    # Why it can only fail again; None where it can go on. Where its record cannot be read, `source`
    # and `output` are its folder.
    problem: ErrorInfo | None = None


def probe(source: Path) -> MediaInfo:
    """Media of a file, with the findings in a sample of its frames.

    Raises:
        InputError: It cannot be used.
    """
    return examined_source(probe_source(source, JobSettings()))


def findings(media: MediaInfo) -> tuple[Notice, ...]:
    """Findings in the frames of a video, and the settings that help."""
    return tuple(source_notices(media, JobSettings()))


def pretended(*names: str, memory: str = "") -> tuple[GpuSpec, ...]:
    """GPUs to plan for in the place of this machine's own; () where all texts are empty.

    Args:
        names: Names like "NVIDIA GeForce RTX 5070 Ti"; none with a memory means the computer's own.
        memory: Memory of each, like "16GiB"; "" for its real memory.

    Raises:
        SettingsError: There is no such GPU, or no such size.
    """
    return devices.pretended(*names, memory=memory)


def plan(
    source: Path,
    settings: JobSettings,
    output: Path | None = None,
    *,
    engine_settings: EngineSettings | None = None,
    pretend: Sequence[GpuSpec] = (),
) -> Plan:
    """The plan of a job, without running it; with `pretend` for GPUs that are not here.

    Raises:
        InputError: The source cannot be used.
        SettingsError, OutputError, HardwareError: These settings are impossible here.
    """
    machine = Machine(
        settings=engine_settings or EngineSettings(),
        jobs_folder=default_jobs_folder(),
        pretend=tuple(pretend) or devices.from_environment(),
    )
    media = examined_source(probe_source(source, settings))
    return make_plan(media, settings, output, machine)


def commands_for(
    sources: Iterable[Path],
    settings: JobSettings,
    output: Path | None = None,
    *,
    engine_settings: EngineSettings | None = None,
) -> list[AddJob | AdoptJob]:
    """Commands that upscale sources: each continues what an earlier run began of the same.

    Args:
        sources: Absolute paths of the sources; one that is named twice gets one command.
        settings: Settings of the jobs; an earlier one may differ in `overwrite`.
        output: File or folder of the results, as the earlier run got it.
        engine_settings: Settings of the program.
    """
    machine = Machine(
        settings=engine_settings or EngineSettings(), jobs_folder=default_jobs_folder()
    )
    stored = JobStore(machine.jobs_folder).readable()
    jobs: dict[str, AddJob | AdoptJob] = {}
    named: dict[Path, Path] = {}
    for path in sources:
        named.setdefault(Path(os.path.realpath(path.parent), path.name), path)
    for source in named.values():
        begun = find_begun(source, settings, output, machine, stored)
        job_id = begun or new_job_id()
        new = AddJob(job_id=job_id, source=source, settings=settings, output=output)
        again = AdoptJob(job_id=job_id, overwrite=settings.overwrite, otherwise=new)
        jobs[job_id] = again if begun else new
    return [*jobs.values()]


def upscaled_frames(
    frames: Iterable[Any],
    settings: JobSettings,
    rate: float | Fraction,
    sink: EventSink,
    *,
    engine_settings: EngineSettings | None = None,
) -> Pictures:
    """Frames of a program through a model, see `engine.pipeline.frames.upscaled`. Loads torch.

    Raises:
        UnsuitableTensor: The first one is no frame.
        EngineError: The plan cannot start.
    """
    from engine.pipeline.frames import GivenFrames, upscaled

    machine = Machine(
        settings=engine_settings or EngineSettings(), jobs_folder=default_jobs_folder()
    )
    return upscaled(GivenFrames(frames, exact_rate(float(rate))), settings, machine, sink)


def played_frames(
    job_id: str,
    media: MediaInfo,
    plan: Plan,
    side: Side,
    start_s: float,
    *,
    jobs_folder: Path | None = None,
) -> Iterator[PlayedFrame]:
    """Frames of a job's source or result from a time on, for playback; in the caller's thread.

    Raises:
        InputError: The video cannot be read (any more).
    """
    from engine.jobs.playback import played_frames as frames

    folder = JobStore(jobs_folder or default_jobs_folder()).folder(job_id)
    yield from frames(media, plan, side, start_s, folder)


def played_sound(media: MediaInfo, start_s: float, rate: int) -> Iterator[Sound]:
    """Sound of a source from a time on, stereo at a rate in Hz; in the caller's thread.

    Raises:
        InputError: The video cannot be read (any more).
    """
    from engine.jobs.playback import played_sound as sound

    yield from sound(media, start_s, rate)


def start_update() -> Path:
    """Start the setup of a newer version that was downloaded; the program has to end then.

    Returns:
        The setup.

    Raises:
        UpdateNotInBuild: This build has no updates.
        UpdateNotInstallable: No setup can update this copy, or it does not start.
        UpdateMissing, UpdateDamaged: It was not downloaded, or was changed.
    """
    for wing in wings():
        started = wing.start_update()
        if started is not None:
            return started
    raise UpdateNotInBuild()


def is_signed(content: bytes, signatures: str, keys: Sequence[str]) -> bool:
    """Whether a known key has signed these bytes; see `engine.files.hashing.signers`."""
    return bool(signers(content, signatures, keys))


def verify(
    source: Path, output: Path, video_stream: int = -1, start: str = "", stop: str = ""
) -> Report:
    """Compare a result with its source.

    Args:
        source: The source.
        output: The result.
        video_stream: Index of the video track that the result was made of; -1 for the automatic
            choice.
        start: Time that the result starts at, as for a job: "12.5"; "" for the first frame.
        stop: Time that it ends before; "" for the end.

    Raises:
        InputError: One of them cannot be read at all.
        SettingsError: The source has no such part.
    """
    from engine.verification.verify import verify as verify_files

    media = probe_film(source, video_stream)
    part = trimmed(JobSettings(start=start, stop=stop), media.video)
    return verify_files(media, paths.openable(output), part=part)


def encode_latents(
    source: Path,
    output: Path,
    model: str,
    settings: JobSettings,
    *,
    engine_settings: EngineSettings | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedLatents:
    """Write a video as a file of latents; `report` gets frames done and of all, 0 while unknown.

    Raises:
        InputError, OutputError, WeightsError, CapacityError: Why it cannot be written.
    """
    from engine.pipeline.latents_encode import encode_latents as encode

    return encode(
        source, output, model, settings, engine_settings or EngineSettings(), report=report
    )


def doctor() -> tuple[DoctorLine, ...]:
    """Is everything here that should be? Takes a few seconds."""
    from engine.diagnostics import examine

    return examine()


def write_diagnostics(path: Path, lines: Sequence[DoctorLine], *, with_names: bool) -> None:
    """Write an archive for a report of a fault, by default without names of files.

    Raises:
        OutputError: It cannot be written.
    """
    from engine.jobs.diagnostics_archive import write

    write(path, lines, with_names=with_names)


def job_folders() -> tuple[Path, ...]:
    """Folders with job folders: that of new jobs, and others that may hold some; no videos."""
    return JobStore(default_jobs_folder()).roots


def made_results() -> frozenset[str]:
    """The `core.file_access.content_mark` of each result that Upreel has made for this user."""
    return made_results_record.marks()


def results_among(candidates: Iterable[Path]) -> frozenset[Path]:
    """Files and folders of images that Upreel has made for this user."""
    return made_results_record.among(candidates)


def begun_jobs(
    sources: Sequence[Path], jobs_folder: Path | None = None
) -> tuple[UnfinishedJob, ...]:
    """Unfinished jobs of sources that can go on and have finished frames, whatever their settings.

    Args:
        sources: Files, or folders of numbered images.
        jobs_folder: Folder with the folders of jobs; None for the one of this user.
    """
    stored = JobStore(jobs_folder or default_jobs_folder()).readable()
    ids = {job.id for job in stored if any(continues(job, source) for source in sources)}
    found = unfinished(jobs_folder) if ids else ()
    return tuple(
        job for job in found if job.job_id in ids and job.frames_done and job.problem is None
    )


def unfinished(jobs_folder: Path | None = None) -> tuple[UnfinishedJob, ...]:
    """Jobs of earlier runs, also those whose record cannot be read; none of a running program."""
    store = JobStore(jobs_folder or default_jobs_folder())
    found = []
    for job_id in store.ids():
        try:
            if store.is_held(job_id):
                continue
            stored = store.load(job_id)
        except EngineError as err:
            folder, problem = store.folder(job_id), err.info()
            found.append(
                UnfinishedJob(job_id=job_id, source=folder, output=folder, problem=problem)
            )
            continue
        done = Checkpoint(store.folder(job_id)).frames
        found.append(
            UnfinishedJob(
                job_id=job_id,
                source=stored.media.given,
                output=stored.plan.output,
                settings=stored.settings,
                chosen_output=stored.output,
                frames_done=done,
                frames_total=max(done, stored.plan.frames),
                problem=store.failure(job_id),
            )
        )
    return tuple(found)
