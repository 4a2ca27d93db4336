"""FakeEngine: keeps commands and emits the events that a test asks for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from engine.core.errors import EngineStopped, ErrorInfo
from engine.core.geometry import Box, FrameSpan, Size
from engine.core.messages import message
from engine.models.lite.plan import LitePlan
from engine.protocol import commands, events
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.media import ColourTags, MediaInfo, StreamInfo
from engine.protocol.plan import Notice, PassPlan, Plan, StagePlan
from engine.protocol.report import Check, Report
from engine.settings.schema import JobSettings
from tests.helpers.fake_states import as_latent
from tests.helpers.fake_tasks import FakeTasks
from tests.helpers.plans import GIB, a_media, a_plan


def make_media(path: Path, *, size: Size = Size(480, 270), frames: int = 240) -> MediaInfo:
    """A film of 24 frames a second with one sound track."""
    media = a_media(
        size=size,
        frame_rate=Fraction(24),
        time_base=Fraction(1, 12288),
        frame_count=frames,
        duration=Fraction(frames, 24),
        bit_rate=0,
        tags=ColourTags(matrix="bt709", range="tv", primaries="bt709", transfer="bt709"),
    )
    sound = StreamInfo(index=1, kind="audio", codec="aac", channels=2, sample_rate=48000)
    container = "mov,mp4,m4a,3gp,3g2,mj2"
    return replace(media, path=path, container=container, bytes=4_200_000, streams=(sound,))


def result_size(source: Size, settings: JobSettings) -> Size:
    """What the planner would choose, roughly: exact size, height or factor."""
    if settings.target is not None:
        return settings.target
    if settings.height:
        width = round(source.width * settings.height / source.height / 2) * 2
        return Size(width, settings.height)
    return source.scaled(settings.scale)


def make_plan(
    media: MediaInfo,
    settings: JobSettings | None = None,
    *,
    output: Path | None = None,
    notices: tuple[Notice, ...] = (),
    needed: int = round(1.2 * GIB),
    budget: int = round(5.4 * GIB),
) -> Plan:
    """A plan with plausible figures."""
    settings = settings or JobSettings()
    size = result_size(media.video.size, settings)
    frames = media.video.frame_count
    seconds = frames * size.pixels / 6e6
    container = settings.container if settings.container != "auto" else "mp4"
    treatment = "restore" if settings.treatment == "auto" else settings.treatment
    treatment = treatment if settings.model in ("auto", "lite") else ""
    tag = f"{settings.height}p" if settings.height else f"x{settings.scale}"
    target = output or media.path.with_name(f"{media.path.stem}_{tag}.{container}")
    work = LitePlan(
        model="lite" if settings.model == "auto" else settings.model,
        treatment=treatment,
        factor=2,
        frame=media.video.size,
        tile=Size(256, 256),
        overlap=settings.overlap,
        clip_frames=4,
        threads=2,
    )
    codec = "h264" if settings.codec == "auto" else settings.codec
    return a_plan(
        source=media.path,
        output=target,
        container=container,
        source_size=media.video.size,
        span=FrameSpan(0, frames),
        work=work,
        picture=replace(a_plan().picture, size=size, codec=codec, frame_rate=Fraction(24)),
        streams=(PassPlan(index=1, kind="audio", codec="aac", copied=True),),
        segment_frames=120,
        stages=(
            StagePlan(stage="read", peak_bytes=needed // 5, seconds=seconds * 0.1),
            StagePlan(stage="upscale", peak_bytes=needed, seconds=seconds),
            StagePlan(stage="write", peak_bytes=needed // 2, seconds=seconds * 0.6),
        ),
        peak_bytes=needed,
        budget_bytes=budget,
        seconds=seconds,
        seconds_low=seconds / 1.12,
        seconds_high=seconds * 1.12,
        output_bytes=frames * size.pixels // 60,
        free_disk_bytes=212 * 10**9,
        notices=notices,
    )


CHECKS = (
    message("check.readable.whole"),
    message("check.frame-count.equal", before=240, after=240),
    message("check.frame-order.kept"),
    message("check.time-stamps.equal"),
    message("check.size.kept", result="960x540", source="480x270"),
    message("check.tags.kept"),
    message("check.streams.all", found=1, expected=1),
    message("check.stream-content.equal", packets=470, streams=1),
    message("check.sound-timing.kept", ms="0.0"),
    message("check.chapters.kept", count=0),
    message("check.metadata.kept", count=0),
    message("check.statements.kept", count=0),
    message("check.likeness.alike", mean="0.987", worst="0.961"),
    message("check.black.none"),
)


def make_report(plan: Plan, *, failed: tuple[str, ...] = ()) -> Report:
    """A report on every check, with some of them failed."""
    checks = tuple(
        Check(code=code, passed=code not in failed, message=found)
        for found in CHECKS
        for code in [found.code.split(".")[1]]
    )
    return Report(
        source=plan.source,
        output=plan.output,
        checks=checks,
        frames_in=plan.frames,
        frames_out=plan.frames,
        likeness_mean=0.987,
        likeness_min=0.961,
        seconds=plan.seconds,
        peak_bytes=plan.peak_bytes,
    )


def grey(size: Size = Size(96, 54), level: int = 128) -> events.Picture:
    """A flat picture."""
    return events.Picture(size=size, rgb=bytes([level]) * (3 * size.pixels))


class FakeEngine:
    """The interface of engine.api.Engine without threads: events are emitted inside `send`.

    `commands` is what was asked; `reject` names files that cannot be read. A running job stands
    still until `advance`, `finish` or `fail` is called.
    """

    def __init__(self, sink: events.EventSink) -> None:
        self.sink = sink
        self.commands: list[commands.Command] = []
        self.reject: dict[str, ErrorInfo] = {}
        self.media: dict[str, MediaInfo] = {}  # by file name, else make_media
        self.pictures: dict[str, events.Picture] = {}  # by file name, else grey
        self.notices: tuple[Notice, ...] = ()
        self.left_over: tuple[object, ...] = ()  # what `unfinished` gives
        self.plans: dict[str, Plan] = {}
        self.places: list[str] = []  # all jobs, in their order
        self.queue: list[str] = []  # those that wait, and the one that runs
        self.running: str | None = None
        self.queue_runs = self.skips_refused = False
        self.tasks = FakeTasks(sink)
        self.is_started = self.is_closed = False

    # The interface of Engine

    def start(self) -> None:
        """Nothing needs to be started."""
        self.is_started = True

    def close(self, timeout_s: float = 20.0) -> None:
        """Emit the last event."""
        self.is_closed = True
        self.sink.emit(events.EngineClosed())

    def unfinished(self) -> tuple[object, ...]:
        """Jobs of an earlier run."""
        return self.left_over

    def send(self, command: commands.Command) -> None:
        """Keep the command and answer as the engine would, at once."""
        if self.is_closed:
            raise EngineStopped()
        self.commands.append(command)
        match command:
            case commands.Prepare():
                self.sink.emit(events.EngineReady(seconds=0.4))
            case commands.AddJob():
                self._add(command)
            case commands.ChangeJob():
                self._change(command)
            case commands.RemoveJob(job_id=job_id):
                self._forget(job_id)
                self._displace(job_id)
                self.sink.emit(events.JobRemoved(job_id=job_id))
            case commands.RestoreJob(job_id=job_id, position=position):
                self.queue.append(job_id)
                self._place(job_id, position)
            case commands.MoveJob(job_id=job_id, position=position):
                self._place(job_id, position)
            case commands.AdoptJob(job_id=job_id, position=position):
                self._place(job_id, position if position is not None else len(self.places))
            case commands.RetryJob(job_id=job_id):
                self.queue.append(job_id)
                media = self.media[self.plans[job_id].source.name]
                self.sink.emit(events.JobQueued(job_id=job_id, media=media))
            case commands.StartQueue(skips_refused=skips_refused):
                self.queue_runs, self.skips_refused = True, skips_refused
                self._start_next()
            case commands.StopQueue():
                self.queue_runs = False
            case commands.PauseJob(job_id=job_id):
                self.sink.emit(events.JobPaused(job_id=job_id))
            case commands.ResumeJob(job_id=job_id):
                self.sink.emit(events.JobResumed(job_id=job_id))
            case commands.CancelJob(job_id=job_id):
                self._forget(job_id)
                self.sink.emit(events.JobCancelled(job_id=job_id))
            case _:
                self.tasks.answer(command)

    # What a test makes happen

    def asked(self, kind: type[commands.Command]) -> list[commands.Command]:
        """Every command of one class so far."""
        return [command for command in self.commands if isinstance(command, kind)]

    def advance(self, done: int, *, fps: float = 11.6) -> None:
        """The running job has finished `done` frames, all of them in closed segments."""
        job_id = self._running()
        total = self.plans[job_id].frames
        self.sink.emit(events.StageStarted(job_id=job_id, stage="run"))
        segment = {"segment": 0, "bytes": 0, "frames_done": done, "frames_total": total}
        self.sink.emit(events.SegmentDone(job_id=job_id, **segment))
        self.sink.emit(
            events.StageProgress(
                job_id=job_id,
                stage="write",
                done=done,
                total=total,
                frames_per_second=fps,
                seconds_left=(total - done) / fps,
            )
        )

    def tile(self, frame: int, tile: int, picture: events.Picture | None = None) -> None:
        """A tile of the running job, one of four, is finished."""
        job_id = self._running()
        size = self.plans[job_id].picture.size
        half = Size(size.width // 2, size.height // 2)
        box = Box((tile % 2) * half.width, (tile // 2) * half.height, half.width, half.height)
        self.sink.emit(
            events.TileDone(
                job_id=job_id,
                frame=frame,
                tile=tile,
                tiles=4,
                box=box,
                canvas=size,
                picture=picture or grey(),
            )
        )

    def finish(self, *, failed: tuple[str, ...] = ()) -> None:
        """The running job ends well; the next one starts."""
        job_id = self._running()
        self._forget(job_id)
        report = make_report(self.plans[job_id], failed=failed)
        self.sink.emit(events.JobFinished(job_id=job_id, report=report))
        self._start_next()

    def fail(self, error: ErrorInfo) -> None:
        """The running job ends badly; the next one starts."""
        job_id = self._running()
        self._forget(job_id)
        self.sink.emit(events.JobFailed(job_id=job_id, error=error))
        self._start_next()

    def emit_telemetry(self, gpu: GpuReading | None = None, *others: GpuReading) -> None:
        """One reading of the machine."""
        self.sink.emit(
            events.Telemetry(
                gpu=gpu,
                other_gpus=others,
                ram_total_mb=16384,
                ram_ours_mb=1240,
                ram_others_mb=5120,
                cpu_percent=94.0,
            )
        )

    def _running(self) -> str:
        assert self.running is not None, "no job runs"
        return self.running

    def _add(self, command: commands.AddJob) -> None:
        name = command.source.name
        if name in self.reject:
            self.sink.emit(
                events.JobRejected(
                    job_id=command.job_id, source=str(command.source), error=self.reject[name]
                )
            )
            return
        is_latent = command.source.suffix == ".latent"
        made = make_media(command.source)
        media = self.media.setdefault(name, as_latent(made) if is_latent else made)
        picture = None if is_latent else self.pictures.get(name, grey())
        self.queue.append(command.job_id)
        self.places.append(command.job_id)
        self.sink.emit(events.JobQueued(job_id=command.job_id, media=media, picture=picture))
        self._plan(command.job_id, media, command.settings, command.output)

    def _change(self, command: commands.ChangeJob) -> None:
        media = self.media[self.plans[command.job_id].source.name]
        self._plan(command.job_id, media, command.settings, command.output)

    def _plan(
        self, job_id: str, media: MediaInfo, settings: JobSettings, output: Path | None
    ) -> None:
        plan = make_plan(media, settings, output=output, notices=self.notices)
        self.plans[job_id] = plan
        self.sink.emit(events.PlanChosen(job_id=job_id, plan=plan))

    def _place(self, job_id: str, position: int) -> None:
        self._displace(job_id)
        self.places.insert(position, job_id)

    def _displace(self, job_id: str) -> None:
        if job_id in self.places:
            self.places.remove(job_id)

    def _forget(self, job_id: str) -> None:
        if job_id in self.queue:
            self.queue.remove(job_id)
        if self.running == job_id:
            self.running = None

    def _start_next(self) -> None:
        if self.running is not None or not self.queue or not self.queue_runs:
            return
        waiting = [job_id for job_id in self.places if job_id in self.queue]
        able = [job_id for job_id in waiting if self.plans[job_id].fits or not self.skips_refused]
        if not able:
            return
        self.running = able[0]
        total = self.plans[self.running].frames
        self.sink.emit(events.JobStarted(job_id=self.running, total=total))
