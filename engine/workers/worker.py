"""A worker process: makes spans of one video, with models that it keeps between them.

It reports to the process of the job by messages of plain data, in order. The result of a task has
to be requested, which only previews are worth.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from distributed import Worker, WorkerPlugin, get_worker

from engine.core.control import Control
from engine.core.errors import ChoiceMissing, EngineError, GpuLost, NumericOverflow
from engine.core.file_access import reported
from engine.core.log import job_log
from engine.core.messages import Message, message
from engine.core.serialization import to_plain
from engine.hardware import devices
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.hardware.process import at_work
from engine.hardware.telemetry import peak_ram_bytes
from engine.ops.choices import Choices, following
from engine.pipeline.context import JobContext, MemoryReleased, Throttle
from engine.pipeline.gpu_guard import cared_for, loss_noticed, switched
from engine.pipeline.recovery import reason_of
from engine.pipeline.segments import SegmentRecord, Span, made_path
from engine.pipeline.spans import SpanMaker
from engine.protocol.events import Event, PreviewReady, StageProgress, Warned
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.workers import dask_internals
from engine.workers.reports import Made

dask_internals.adapt()  # a process of Dask loads this module before it reads a clock, and listens
logger = logging.getLogger(__name__)

PLUGIN, TOPIC, CONTROL = "spans", "upreel", "upreel_control"
ControlWord = Literal["pause", "resume", "cancel"]

ANSWER_S = 60.0  # most, of an answer of the process of the job

_PROGRESS_S = 0.25  # between reports of progress
_REPORTS_S = 0.05  # a report waits for others: each message costs some milliseconds of CPU
_FOUND_BY_JOB = ("source-damaged", "switch-too-late")  # warnings: its process finds them as well


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """A job as its workers get it."""

    job_id: str
    media: MediaInfo
    plan: Plan
    folder: Path  # folder of the job, for segments
    gpus: tuple[str, ...] = ()  # GPU of each worker, by value of the setting `device`; () for CPUs
    pictures: bool = False  # previews are shown
    accepts_damage: bool = False  # frames of the source that cannot be read are left out
    is_paused: bool = False  # at the start

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


def make_span(span: Span, job_id: str) -> PreviewReady | None:
    """Make a span: the task that is handed out. How it ended is reported before.

    A process of another computer may come too late for the job whose order it has, and find the
    next one at its address. It ends, and the one that takes its place asks for that order.
    """
    plugin = get_worker().plugins[PLUGIN]
    assert isinstance(plugin, SpanWorker)
    if plugin.job_id != job_id:
        os._exit(1)
    return plugin.make(span)


class SpanWorker(WorkerPlugin):
    """The part of a worker process that makes spans; it also comes into one that starts again.

    It works in the folder of the job.

    Attributes:
        is_making: Whether a span is being made now.
    """

    name = PLUGIN

    def __init__(self, order: JobOrder) -> None:
        self._order = order

    @property
    def job_id(self) -> str:
        """Id of the job that it works for."""
        return self._order.job_id

    def setup(self, worker: Worker) -> None:
        """Begin, in the main thread of the worker process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process of the job
        self._worker, self.control = worker, Control()
        self._choices = Choices(ask=self._agree)
        worker.stream_handlers[CONTROL] = self._obey
        dask_internals.send_at_once(worker)
        self._reports: deque[Mapping[str, object]] = deque()  # not yet sent
        self._is_sent_soon = False
        self._number = int(worker.name)
        self._around = ExitStack()
        self._maker: SpanMaker | None = None
        self.is_making = False
        self.is_progress_due = Throttle(_PROGRESS_S)
        if self._order.is_paused:
            self.control.pause()

    def _agree(self, key: str, proposed: str) -> str:
        """Choice of the job for a key, which the workers make together."""
        question = self.ask("choose", key=key, choice=proposed)
        return str(question.result(ANSWER_S))

    def ask(self, what: str, **about: Any) -> Future[Any]:
        """Call a method of the process of the job, in the thread of the connections."""
        answer: Callable[..., Any] = getattr(self._worker.scheduler, f"upreel_{what}")
        loop: Any = self._worker.loop  # its type does not say that it is one of asyncio
        question = answer(number=self._number, **about)
        return asyncio.run_coroutine_threadsafe(question, loop.asyncio_loop)

    def _obey(self, word: ControlWord) -> None:
        """Pause, resume or cancel the span, at once."""
        getattr(self.control, word)()

    def make(self, span: Span) -> PreviewReady | None:
        """Make a span, in the thread of the worker that computes, and report how it ended.

        Returns:
            A preview of the newest frames, if it is time for one.

        Raises:
            EngineError: No worker can make it: a full disk, a missing source.
            Cancelled: The job was cancelled.
        """
        self.is_making = True
        try:
            return self._make(span)
        finally:
            self.is_making = False

    def _make(self, span: Span) -> PreviewReady | None:
        folder, number, failure = self._order.folder, self._number, None
        log = _SpanLog(self, span, lambda one: made_path(folder, one, number))
        while True:
            if self._gpu_is_gone:
                failure = message("reason.worker.gpu-gone")
                break
            try:
                with loss_noticed():
                    self._ready(log).make(span.rest(log.records), log)
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
        preview = self.shown(log.preview)
        made = Made(
            first=span.first,
            failure=failure,
            has_preview=preview is not None,
            peak_bytes=peak_ram_bytes(),
            seconds=self._context.meter.seconds() if failure is None else {},
        )
        self.report("made", to_plain(made))
        return preview

    def delivered(self, path: Path, number: int) -> None:
        """Bring the file of a finished segment where it belongs; here it is there already."""

    def shown(self, preview: PreviewReady | None) -> PreviewReady | None:
        """Return the preview if it is sent with the task result."""
        return preview

    def ends_job(self, error: Exception) -> bool:
        """Whether any worker would fail like this."""
        is_own = reason_of(error) is not None or isinstance(error, ChoiceMissing)
        return isinstance(error, NumericOverflow) or (isinstance(error, EngineError) and not is_own)

    @property
    def _gpu_is_gone(self) -> bool:
        """Whether the GPU of this worker has disappeared."""
        gpus = self._order.gpus
        return bool(gpus) and devices.chosen(gpus[self._number], devices.gpus()) is None

    def report(self, kind: str, data: object) -> None:
        """Send plain data to the process of the job: soon, at the latest when the span ends."""
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
        """Send reports in the message with which a task ends; Dask calls this for any change."""
        if start == "executing":
            self._send()

    def _ready(self, log: _SpanLog) -> SpanMaker:
        """The loaded models; the first span loads them."""
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
                events=log,
                pictures=order.pictures,
                accepts_damage=order.accepts_damage,
                uses_last_room=True,  # the process of the job looks after it
            )
            self._around = ExitStack()
            self._around.enter_context(job_log(order.folder, f"worker-{number + 1}"))
            self._around.enter_context(at_work(on_processor=plan.work.device == "cpu"))
            self._around.enter_context(switched(self._context))
            self._around.enter_context(following(self._choices))
            self._around.enter_context(cared_for(self._context))
            self._maker = SpanMaker(self._context)
            self._around.callback(self._maker.close)
        self._context.events = log
        return self._maker

    def _let_go(self) -> None:
        """Unload the models."""
        self._maker = None
        self._around.close()
        free_memory()

    def _failure(self, error: Exception) -> Message:
        """Message for an error of this worker; errors that any worker would have are raised again.

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


class _SpanLog:
    """Events and finished segments of a span, of which the process of the job gets reports.

    Args:
        worker: Reports, and delivers segments.
        span: The span as it was handed out.
        path: File of a segment, finished or not.
    """

    def __init__(self, worker: SpanWorker, span: Span, path: Callable[[int], Path]) -> None:
        self._worker, self._finished, self.path = worker, span.done, path
        self.records: list[SegmentRecord] = []
        self.preview: PreviewReady | None = None

    def emit(self, event: Event) -> None:
        """Report an event, if the process of the job shows it."""
        match event:
            case StageProgress(stage="upscale") if self._worker.is_progress_due():
                begun = max(0, event.done - self._finished)
                self._worker.report("progress", [event.done, begun, event.frames_per_second])
            case Warned(notice=notice) if notice.code not in _FOUND_BY_JOB:
                self._worker.report("warned", to_plain(notice))
            case PreviewReady():
                self.preview = event

    def add(self, record: SegmentRecord) -> None:
        """Deliver a finished segment, and report it."""
        self._worker.delivered(self.path(record.number), record.number)
        self.records.append(record)
        self._finished = record.end.count
        self._worker.report("segment", to_plain(record))

    def complete(self) -> None:
        """Do nothing at the end of the source: the survey finds that, too."""
