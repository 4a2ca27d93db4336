"""Events of the engine: frozen, picklable dataclasses without tensors."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from engine.core.errors import ErrorInfo
from engine.core.geometry import Box, Size
from engine.core.messages import Message
from engine.core.units import duration_text
from engine.protocol.delivery import AppControl, RuntimeState, UpdateState
from engine.protocol.excerpt import Excerpt, Scene
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.media import MediaInfo, Reading
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import Report
from engine.protocol.tasks import Phase, Result, TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings

ACTIVITIES = {  # name of each stage that reports progress, in English
    "weights": "checking the model",
    "decode": "decoding",
    "encode": "encoding",
    "upscale": "upscaling",
    "mux": "joining",
    "verify": "verifying",
}
_OF_FRAMES = ("decode", "encode", "upscale")
_WAIT_S = 0.2  # Windows lets Ctrl-C in between two waits only


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened."""

    at: float = field(default_factory=time.monotonic)  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something about one job."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A small picture as plain bytes: RGB, 8 bit, rows without padding."""

    size: Size
    rgb: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueued(JobEvent):
    """A source was read and waits; a small picture follows on ShowFrame."""

    media: MediaInfo
    picture: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRejected(JobEvent):
    """A source cannot be used; there is no such job."""

    source: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRemoved(JobEvent):
    """The job left the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChosen(JobEvent):
    """Plan of a job; sent again whenever the settings change."""

    plan: Plan
    media: MediaInfo | None = None  # the source, if settings or sampled frames show it differently


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailed(JobEvent):
    """These settings cannot be planned; the job keeps its last plan and cannot start."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShown(JobEvent):
    """The plan that a job would have with other settings."""

    settings: JobSettings
    plan: Plan | None  # None where they cannot be planned


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDowngraded(JobEvent):
    """The plan became smaller while running, and why."""

    plan: Plan
    why: str  # "out-of-memory", "pinning", "overflow", "spilled" or "gpu-lost"
    notice: Notice | None = None  # the change, and the largest user of the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(JobEvent):
    """The job runs; `done` frames come from an earlier run."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(JobEvent):
    """A stage begins: "prepare", "decode", "run", "mux" or "verify"."""

    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress(JobEvent):
    """Progress of a stage."""

    stage: str  # one of `ACTIVITIES`
    done: int  # units of this stage: frames, or bytes for "weights" and "mux"
    total: int  # 0 while unknown
    frames_per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown

    @property
    def words(self) -> list[str]:
        """Progress, speed and rest in English: "12/96 frames, 12 %", "3.1 fps", "27 s left"."""
        share = f"{min(100, 100 * self.done // self.total)} %" if self.total else ""
        if self.stage in _OF_FRAMES:
            count = f"{self.done}/{self.total}" if self.total else str(self.done)
            words = [f"{count} frames" + (f", {share}" if share else "")]
        else:
            words = [share or str(self.done)]
        if self.frames_per_second:
            words.append(f"{self.frames_per_second:.1f} fps")
        if self.seconds_left >= 1:
            words.append(f"{duration_text(self.seconds_left)} left")
        return words

    def __str__(self) -> str:
        """One line: "upscaling: 12/96 frames, 12 %, 3.1 fps, 27 s left"."""
        return f"{ACTIVITIES[self.stage]}: {', '.join(self.words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProgress(JobEvent):
    """Progress of one of several worker processes of a job."""

    worker: int  # number in the plan, from 1 on; other computers follow
    frame: int  # frame of the video that it has reached
    frames_per_second: float
    name: str = ""  # name of its GPU or its computer; "" for a process on the CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesTimed(JobEvent):
    """Seconds that the stages inside of "run" took so far, about once a second.

    Next to the stages of the plan there are "load" (models get ready, and give memory back),
    "wait-read" (for frames of the source) and "wait-write" (for room in the queue of finished
    frames, and for pieces to be checked). "read" and "write" go on next to the others, which take
    turns and are all of "run".
    """

    seconds: Mapping[str, float]
    waits_for: str = ""  # "read" or "write" where the GPU waits for it; "" where it is busy enough
    waiting: float = 0.0  # share of the last ten seconds in which the GPU waited for either


@dataclass(frozen=True, slots=True, kw_only=True)
class TileDone(JobEvent):
    """A tile of a frame is finished; `box` lies in the result of `canvas` size."""

    frame: int
    tile: int
    tiles: int
    box: Box
    canvas: Size
    picture: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewReady(JobEvent):
    """Source and result of one frame; `result` is None where it is not made yet.

    `source` is None where latents are not decoded yet, or the decoded ones have gone with the job,
    and where it was not asked for.
    """

    frame: int
    seconds: float  # time stamp of the frame in the source
    source: Picture | None
    result: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLost(JobEvent):
    """A finished result was deleted or replaced, or cannot be read: it cannot be looked at."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRead(JobEvent):
    """Overview of a video for its timeline; () for what it does not have, or not yet."""

    thumbnails: tuple[tuple[float, Picture], ...] = ()  # time in the source, s, and the frame there
    loudness: tuple[float, ...] = ()  # largest sample of each of n equally long parts, 0 to 1
    cuts: tuple[float, ...] = ()  # s, beginnings of shots after the first; only of short videos


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenesFound(JobEvent):
    """Scenes of the video that tell models apart, in its order; () where it has none."""

    scenes: tuple[Scene, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptReady(JobEvent):
    """A part of the video was tried: PreviewReady has its frames where the job has no result."""

    excerpt: Excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDone(JobEvent):
    """A piece is closed and survives a crash."""

    segment: int
    frames_done: int
    frames_total: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(JobEvent):
    """A notice while a job runs: something differs from the plan."""

    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPaused(JobEvent):
    """Nothing runs until the job is resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResumed(JobEvent):
    """The job goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished(JobEvent):
    """The result is there and was verified."""

    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(JobEvent):
    """The job ended with an error; finished segments stay."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(JobEvent):
    """The user stopped the job; finished segments stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry(Event):
    """Load of the computer, about once a second."""

    gpu: GpuReading | None  # the fastest GPU that jobs run on; None without an NVIDIA GPU
    other_gpus: tuple[GpuReading, ...] = ()  # in the order of their slots
    ram_total_mb: int
    ram_ours_mb: int
    ram_others_mb: int
    cpu_percent: float  # all cores, whole machine


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentRead(Event):
    """The header of a .latent file; its first picture follows with LatentShown."""

    path: Path
    model: str  # "wan21-vae" or "wan22-vae", recognised by its channels
    channels: int
    size: Size  # size of the decoded frames
    frames: int  # frames of the video
    frame_rate: Fraction  # rate that the model was made for, frames/s
    guess: Reading
    is_sure: bool  # False where the values would suit both readings


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentShown(Event):
    """The first picture of a .latent file, or the middle of it, in both readings."""

    path: Path
    raw: Picture
    normalised: Picture
    is_whole: bool  # False where it is only the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFilesListed(Event):
    """State of every model file; emitted on request, and whenever a task has changed one."""

    files: tuple[PublishedState, ...]
    free_mb: float  # on the disk of our own folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimesListed(Event):
    """State of every NVIDIA runtime; sent on request, and again whenever one has changed."""

    runtimes: tuple[RuntimeState, ...]
    used: Message  # which torch this process has, and why
    advice: Message  # the choice that suits this machine's GPU
    suited: str  # id of the runtime for the GPU and its driver; "" where there is none
    free_mb: float  # on the disk of our own folder
    card: str = ""  # name of the GPU that torch would take; "" where there is none
    driver: str = ""  # driver of the GPU
    driver_needed: str = ""  # the oldest that would do, where the one of the GPU is too old
    follows_choice: bool = True  # the next start of this program takes what is chosen
    smart_app_control: AppControl = ""  # "on": Windows may block the libraries of a runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateKnown(Event):
    """State of an update; emitted on request, and whenever a task may have changed it."""

    state: UpdateState


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetsListed(Event):
    """Presets that suit this machine, and the user's own; sent on request and when one changed."""

    presets: tuple[Preset, ...]
    card: str  # "RTX 5070 Ti, 16 GB"; "" without a GPU that can be used


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(Event):
    """Something about one task in the background, as `engine.protocol.tasks` describes it."""

    kind: TaskKind
    subject: str = ""  # the id of a file or runtime, the path of an import, by the kind
    phase: Phase = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress(TaskEvent):
    """Progress of a task, in MB, steps of a benchmark or frames; all zero while it waits."""

    done: float = 0.0
    total: float = 0.0  # 0 while unknown
    per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown
    step: Message | None = None  # present measurement of a benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone(TaskEvent):
    """The task ended well; what it changed was emitted before."""

    result: Result | None = None  # state of a model file, report of a benchmark
    notice: Notice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(TaskEvent):
    """The task was refused, or ended with an error; what was downloaded stays.

    Also a command of that kind that is answered at once. Of a latent: after LatentRead the file
    itself is good; "weights-missing" names the missing file of the catalogue in the param `file`.
    """

    error: ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStopped(TaskEvent):
    """The user stopped the task; what was downloaded stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """A device that jobs can run on."""

    value: str  # value of the setting `device`
    title: str  # "RTX 5070 Ti, 16 GB", with its number where several are alike; "" for the CPU
    # Setting -> value that cannot be chosen with this device -> why.
    unavailable: Mapping[str, Mapping[str, Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesListed(Event):
    """Devices that jobs can run on, and the choices there; sent once, after EngineReady."""

    devices: tuple[DeviceChoice, ...]  # GPUs in the order of their slots, then the CPU
    automatic: DeviceChoice  # the one of them that "auto" means
    unpublished: Mapping[str, tuple[str, ...]]  # model -> precisions that were not published


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReady(Event):
    """Heavy libraries are loaded; jobs start without delay from now on."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineClosed(Event):
    """The last event."""


class EventSink(Protocol):
    """Takes events; called from any thread, returns at once."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...


class Inbox(queue.SimpleQueue[Event]):
    """An EventSink that keeps everything for one thread that waits."""

    def emit(self, event: Event) -> None:
        """Take one event, from any thread."""
        self.put(event)

    def next(self) -> Event:
        """Wait for an event; Ctrl-C interrupts the wait."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=_WAIT_S)
