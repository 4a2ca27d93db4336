"""What a worker process does: spans of one film, with models that it keeps between them.

What is found and made goes to the process of the job as messages of plain data, in order; results
of tasks have to be asked for, which only pictures are worth.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from distributed import Worker, WorkerPlugin, get_worker

from engine.core.control import Control
from engine.core.errors import EngineError, GpuLost, NumericOverflow
from engine.core.file_access import reported
from engine.core.log import job_log
from engine.core.messages import Message, message
from engine.core.serialization import to_plain
from engine.hardware import devices
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.hardware.process import at_work
from engine.hardware.telemetry import peak_ram_bytes
from engine.pipeline.context import JobContext, MemoryReleased, Throttle
from engine.pipeline.gpu_guard import cared_for, loss_noticed, switched
from engine.pipeline.recovery import reason_of
from engine.pipeline.segments import SegmentRecord, Span, made_path
from engine.pipeline.spans import SpanMaker
from engine.protocol.events import Event, PreviewReady, StageProgress, Warned
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.workers import dask_internals

dask_internals.adapt()  # a process of Dask loads this module before it reads a clock, and listens
logger = logging.getLogger(__name__)

PLUGIN, TOPIC, CONTROL = "spans", "upreel", "upreel_control"
ControlWord = Literal["pause", "resume", "cancel"]

_PROGRESS_S = 0.25  # between reports
_REPORTS_S = 0.05  # that one waits for others: each message costs some milliseconds of CPU
_FOUND_BY_JOB = ("source-damaged", "switch-too-late")  # warnings: its process finds them as well


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """What workers have to know of a job.

    Attributes:
        folder: Of the job, where segments go.
        gpus: By the number of a worker, its GPU as the setting `device` names it; () where
            processors compute.
        pictures: Whether pictures are shown.
        accepts_damage: Frames of the source that cannot be read are left out.
        is_paused: At the start.
    """

    job_id: str
    media: MediaInfo
    plan: Plan
    folder: Path
    gpus: tuple[str, ...] = ()
    pictures: bool = False
    accepts_damage: bool = False
    is_paused: bool = False

    @classmethod
    def of(cls, context: JobContext, folder: Path) -> JobOrder:
        """The order of a running job."""
        return cls(
            job_id=context.job_id,
            media=context.media,
            plan=context.plan,
            folder=folder,
            gpus=tuple(worker.gpu for worker in context.plan.workers if worker.gpu),
            pictures=context.pictures,
            accepts_damage=context.accepts_damage,
            is_paused=context.control.is_paused,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How a span ended; its finished segments are known by then.

    Attributes:
        first: Number of its first segment.
        failure: Why segments lack; None where all are there.
        has_preview: The result of the task is a picture of the newest frames.
        peak_bytes: Most main memory of the worker so far.
        seconds: Of the stages of the model, since the worker began.
    """

    first: int
    failure: Message | None = None
    has_preview: bool = False
    peak_bytes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)


def make_span(span: Span, job_id: str) -> PreviewReady | None:
    """The task that is handed out; how it ended is sent before.

    A process of another machine may come too late for the job whose order it has, and find the
    next one at its address. It ends, and the one that takes its place asks for that order.
    """
    plugin = get_worker().plugins[PLUGIN]
    assert isinstance(plugin, SpanWorker)
    if plugin.job_id != job_id:
        os._exit(1)
    return plugin.make(span)


class SpanWorker(WorkerPlugin):
    """The part of a worker process that makes spans; it also comes into one that starts again.

    It works in the folder of the job; `engine.workers.lent` has the one for another machine.

    Attributes:
        is_making: A span is being made now.
    """

    name = PLUGIN

    def __init__(self, order: JobOrder) -> None:
        self._order = order

    @property
    def job_id(self) -> str:
        """Of the job that it works for."""
        return self._order.job_id

    def setup(self, worker: Worker) -> None:
        """Begin, in the main thread of the worker process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process of the job
        self._worker, self.control = worker, Control()
        worker.stream_handlers[CONTROL] = self._obey
        dask_internals.send_at_once(worker)
        self._reports: deque[Mapping[str, object]] = deque()  # not yet sent
        self._is_sent_soon = False
        self._number = int(worker.name)
        self._around = ExitStack()
        self._maker: SpanMaker | None = None
        self.is_making = False
        self._due = Throttle(_PROGRESS_S)
        if self._order.is_paused:
            self.control.pause()

    def _obey(self, word: ControlWord) -> None:
        """Pause, resume or cancel what is done; carried out next to it, at once."""
        getattr(self.control, word)()

    def make(self, span: Span) -> PreviewReady | None:
        """Make a span, in the thread of the worker that computes, and tell how it ended.

        Returns:
            A picture of the newest frames, where it is time for one.

        Raises:
            EngineError: What keeps any worker from it: a full disk, a source that has gone.
            Cancelled: The job was cancelled.
        """
        self.is_making = True
        try:
            return self._make(span)
        finally:
            self.is_making = False

    def _make(self, span: Span) -> PreviewReady | None:
        reports, failure = _Reports(self.tell, span.done, self._due), None
        folder, number = self._order.folder, self._number
        log = SpanSegments(lambda one: made_path(folder, one, number), reports.keep, self.delivered)
        while True:
            if self._gpu_is_gone:
                failure = message("reason.worker.gpu-gone")
                break
            try:
                with loss_noticed():
                    self._ready(reports).make(span.rest(log.records), log)
            except MemoryReleased as err:
                forget_frames(err)
            except Exception as err:  # noqa: BLE001 - raised again, or reported with the span
                failure = self._failure(err)
            else:
                break
            self._let_go()
            if failure is not None:
                break
            self.control.check()  # until the job is resumed
        preview = self.shown(reports.preview)
        self.tell("made", to_plain(self._made(span, failure, has_preview=preview is not None)))
        return preview

    def delivered(self, path: Path, number: int) -> None:
        """A segment is finished; it is where it belongs."""

    def shown(self, preview: PreviewReady | None) -> PreviewReady | None:
        """What of a picture is the result of the task."""
        return preview

    def ends_job(self, error: Exception) -> bool:
        """Whether any worker would fail like this."""
        is_memory = reason_of(error) is not None
        return isinstance(error, NumericOverflow) or (
            isinstance(error, EngineError) and not is_memory
        )

    @property
    def _gpu_is_gone(self) -> bool:
        """Whether this process would compute on the GPU of another one."""
        gpus = self._order.gpus
        return bool(gpus) and devices.chosen(gpus[self._number], devices.gpus()) is None

    def tell(self, kind: str, data: object) -> None:
        """Report plain data to the process of the job: soon, at the latest as the span ends."""
        self._reports.append({"kind": kind, "data": data})
        if not self._is_sent_soon:
            self._is_sent_soon = True
            self._worker.loop.add_callback(self._send_soon)

    def _send_soon(self) -> None:
        self._worker.loop.call_later(_REPORTS_S, self._send)

    def _send(self) -> None:
        self._is_sent_soon = False  # first: a report that comes meanwhile is sent now or soon
        reports = [self._reports.popleft() for _ in range(len(self._reports))]
        if reports:
            self._worker.log_event(TOPIC, {"reports": reports})

    def transition(self, key: object, start: str, finish: str, **about: object) -> None:
        """Called by Dask where a task changes; as it ends, reports go in the same message."""
        if start == "executing":
            self._send()

    def _ready(self, reports: _Reports) -> SpanMaker:
        """The models, loaded with the first span."""
        if self._maker is None:
            order, number = self._order, self._number
            plan = order.plan
            if order.gpus:
                plan = replace(plan, gpu=order.gpus[number], workers=())
            self._context = JobContext(
                job_id=order.job_id,
                media=order.media,
                plan=plan,
                control=self.control,
                events=reports,
                pictures=order.pictures,
                accepts_damage=order.accepts_damage,
                uses_last_room=True,  # the process of the job looks after it
            )
            self._around = ExitStack()
            self._around.enter_context(job_log(order.folder, f"worker-{number + 1}"))
            self._around.enter_context(at_work(on_processor=plan.work.device == "cpu"))
            self._around.enter_context(switched(self._context))
            self._around.enter_context(cared_for(self._context))
            self._maker = SpanMaker(self._context)
            self._around.callback(self._maker.close)
        self._context.events = reports
        return self._maker

    def _let_go(self) -> None:
        """Give back the models."""
        self._maker = None
        self._around.close()
        free_memory()

    def _failure(self, error: Exception) -> Message:
        """What is wrong with this worker; errors that any worker has are raised again.

        After the loss of its GPU a process is of no use: another one takes its place.
        """
        if isinstance(error, GpuLost):
            logger.error("%s", error)
            os._exit(1)
        if self.ends_job(error):
            raise error
        why = reported(error, "a span", logger).as_message
        forget_frames(error)
        return why

    def _made(self, span: Span, failure: Message | None, *, has_preview: bool) -> Made:
        return Made(
            first=span.first,
            failure=failure,
            has_preview=has_preview,
            peak_bytes=peak_ram_bytes(),
            seconds=self._context.meter.seconds() if failure is None else {},
        )


class _Reports:
    """Takes the events of a span; passes on what the process of the job shows."""

    def __init__(self, tell: Callable[[str, object], None], finished: int, due: Throttle) -> None:
        self._tell, self._finished = tell, finished
        self._due = due  # whether to tell of progress
        self.preview: PreviewReady | None = None

    def emit(self, event: Event) -> None:
        """Take one event."""
        match event:
            case StageProgress(stage="upscale") if self._due():
                begun = max(0, event.done - self._finished)
                self._tell("progress", [event.done, begun, event.frames_per_second])
            case Warned(notice=notice) if notice.code not in _FOUND_BY_JOB:
                self._tell("warned", to_plain(notice))
            case PreviewReady():
                self.preview = event

    def keep(self, record: SegmentRecord) -> None:
        """Tell that a segment is finished."""
        self._finished = record.end.count
        self._tell("segment", to_plain(record))


class SpanSegments:
    """A SpanLog whose segments the process of the job keeps.

    Args:
        path: File of a segment, finished or not.
        keep: Tells that one is finished.
        deliver: Before that, brings its file where it belongs.
    """

    def __init__(
        self,
        path: Callable[[int], Path],
        keep: Callable[[SegmentRecord], None],
        deliver: Callable[[Path, int], None],
    ) -> None:
        self.path, self._keep, self._deliver = path, keep, deliver
        self.records: list[SegmentRecord] = []

    def add(self, record: SegmentRecord) -> None:
        """Deliver a finished segment, and tell."""
        self._deliver(self.path(record.number), record.number)
        self.records.append(record)
        self._keep(record)

    def complete(self) -> None:
        """The source has ended: the survey finds that, too."""
