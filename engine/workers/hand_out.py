"""Hands the spans of a film out to workers, and collects the segments that they make.

A worker that dies or fails loses its span, which another one makes; one that fails three times is
left out. What no worker can make is left to the process of the job.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distributed import Future

from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import advised
from engine.core.serialization import from_plain
from engine.pipeline.context import JobContext
from engine.pipeline.room import check_room
from engine.pipeline.segments import SegmentLog, SegmentRecord, Span
from engine.pipeline.stages.progress import Progress
from engine.pipeline.stream import StreamAborted, Threads
from engine.protocol.events import SegmentDone, Warned, WorkerProgress
from engine.protocol.plan import Notice
from engine.video.read.frame_reader import FrameReader
from engine.workers.crew import Crew, Message, SpanFuture, died_with
from engine.workers.door import Door
from engine.workers.farm import Farm
from engine.workers.fit import requirements_of
from engine.workers.paces import Paces
from engine.workers.survey import Survey
from engine.workers.worker import JobOrder, Made, SpanWorker

logger = logging.getLogger(__name__)
WorkerKind = Callable[[JobOrder], SpanWorker]

_MOST_FAILURES = 3
_POLL_S = 0.1
# Spans for each worker that are known ahead (memory of what is known of the film before them), and
# that Dask has, about: they are handed out some at a time, which costs less than one by one.
_AHEAD, _HANDED_OUT = 16, 3
_GONE_S = 10.0  # without any worker, after which none is waited for any more
# A computer that slept so long finds everybody gone: until this time after, that is no failure.
_ASLEEP_S, _WAKING_S = 20.0, 90.0
_ENDING_S = 2.0  # that workers have to end cleanly


def hand_out(
    context: JobContext,
    segments: SegmentLog,
    door: Door | None = None,
    worker: WorkerKind = SpanWorker,
) -> None:
    """Have the segments that lack made by the workers of the plan; as `pipeline.context.HandOut`.

    Where no worker is left it says so, and ends: the process of the job makes the rest.

    Args:
        context: Of the job.
        segments: Finished ones; new ones are added.
        door: Where other machines come in that help; None for none.
        worker: What each worker of this machine does.

    Raises:
        EngineError: What keeps any worker from making them; finished segments stay.
        Cancelled: The user stopped.

    Memory: of this process one frame, and what is known before some spans.
    """
    plan = context.plan
    with (
        FrameReader(
            context.media,
            start=plan.start,
            stop=plan.stop,
            must_be_whole=not context.accepts_damage,
        ) as reader,
        Threads() as threads,
    ):
        survey = Survey(context, segments, reader)
        _HandOut(context, segments, threads, door).run(survey, worker)
    for problem in reader.problems:
        _warn(
            context, Notice(code="source-damaged", severity="warning", params={"problem": problem})
        )


def _warn(context: JobContext, notice: Notice) -> None:
    context.events.emit(Warned(job_id=context.job_id, notice=notice))


@dataclass(slots=True)
class _Worker:
    """What is known of one that is not left out."""

    failures: int = 0
    open_frames: int = 0  # made, but in no finished segment yet
    last: Made | None = None
    has_left: bool = False  # its owner wanted it back


class _HandOut:
    """Workers at what lacks of a film; used by the thread of the job, but for the survey."""

    def __init__(
        self, context: JobContext, segments: SegmentLog, threads: Threads, door: Door | None
    ) -> None:
        count = len(context.plan.workers)
        self._context, self._segments, self._threads = context, segments, threads
        self._inbox: queue.SimpleQueue[SpanFuture | Message | Span | EngineError | None]
        self._inbox = queue.SimpleQueue()
        self._order = JobOrder.of(context, segments.path(0).parent)
        self._farm = None
        if door is not None:
            self._farm = Farm(
                self._order, requirements_of(context.plan), door, count, self._inbox.put
            )
        self._room = threading.Semaphore(_AHEAD * count)
        self._waiting: list[Span] = []
        self._open: dict[SpanFuture, Span] = {}
        self._ends: dict[int, tuple[int, Made]] = {}  # by first segment: worker, how it ended
        self._is_surveyed = False
        self._workers = {number: _Worker() for number in range(count)}
        self._paces = Paces(context.control.work_seconds)
        self._known: dict[int, SegmentRecord] = {}
        self._finished = self._largest = 0  # frames in finished segments, bytes of the largest
        for record in (*segments.records, *segments.ahead):
            self._count(record)
        self._shown = self._finished
        self._progress = Progress(context, self._shown)
        self._told_pause = context.control.is_paused
        self._warned: list[Notice] = []
        self._seen = time.monotonic()  # when a worker was there
        self._stepped, self._awake = time.time(), -_WAKING_S  # awake since then
        self._may_come = door is not None  # workers that are not known yet

    def run(self, survey: Survey, worker: WorkerKind) -> None:
        """Until all is made, or no worker is left."""
        folder, count = self._segments.path(0).parent, len(self._workers)
        with Crew(worker(self._order), folder, count, self._inbox.put, self._farm) as crew:
            self._threads.start("survey", lambda: self._survey(survey))
            try:
                while (self._workers or self._may_come) and self._lacks:
                    self._step(crew)
            except BaseException:
                self._stop(crew)
                raise
            finally:
                self._account()
        if not self._lacks:
            self._segments.complete()
            return
        self._context.hand_out = None
        _warn(self._context, Notice(code="workers-gone", severity="warning"))
        self._threads.aborted.set()  # ends the survey

    @property
    def _lacks(self) -> bool:
        """Whether anything is to be made."""
        return bool(self._open or self._waiting) or not self._is_surveyed

    def _survey(self, survey: Survey) -> None:
        """In a thread of its own: read ahead, as far as there is room."""
        for span in survey.spans():
            while not self._room.acquire(timeout=_POLL_S):
                self._context.control.check_cancelled()
                if self._threads.aborted.is_set():
                    raise StreamAborted
            self._inbox.put(span)
        self._inbox.put(None)

    def _step(self, crew: Crew) -> None:
        """Pass on what the user wants, and deal with the next thing that has come."""
        control, now = self._context.control, time.monotonic()
        if time.time() - self._stepped > _ASLEEP_S:
            self._awake = now
        self._stepped = time.time()
        if control.is_cancelled:
            raise Cancelled
        if self._threads.aborted.is_set():
            raise StreamAborted  # the survey's error counts
        control.resumes_within(0)  # a pause counts from here on
        if control.is_paused != self._told_pause:
            self._told_pause = control.is_paused
            crew.tell("pause" if self._told_pause else "resume")
        if crew.is_there:
            self._seen = now
        elif now - self._seen > _GONE_S:
            self._workers.clear()
            self._may_come = False
        self._take(crew)
        if self._waiting and len(self._open) < _HANDED_OUT * len(self._workers):
            check_room(self._context, self._segments.path(0).parent, self._largest)
            self._hand_out(crew, self._waiting)
            self._waiting = []

    def _hand_out(self, crew: Crew, spans: list[Span], *, first: bool = False) -> None:
        self._open.update(zip(crew.hand_out(spans, first=first), spans, strict=True))

    def _take(self, crew: Crew) -> None:
        try:
            found = self._inbox.get(timeout=_POLL_S)
        except queue.Empty:
            return
        match found:
            case None:
                self._is_surveyed = True
            case Span():
                self._waiting.append(found)
            case Future():
                self._ended(crew, found)
            case EngineError():
                raise found
            case _:
                self._heard(found)

    def _ended(self, crew: Crew, future: SpanFuture) -> None:
        """A span is made, or lost by its worker; then what is left of it is handed out again."""
        span, dead = self._open.pop(future), died_with(future)
        self._room.release()
        if dead is None:
            number, made = self._ends.pop(span.first)
            failure = made.failure
            if made.has_preview and (preview := future.result()) is not None:
                self._context.events.emit(preview)
        else:
            number, failure = dead, "its process has ended"
            self._paces.rests(number)
        if number in self._workers:
            self._workers[number].open_frames = 0
        if failure:
            self._lost(crew, number, failure)
            rest = self._rest(span)
            if rest.stop is None or rest.done < rest.stop:
                self._hand_out(crew, [rest], first=True)
                self._room.acquire(blocking=False)

    def _rest(self, span: Span) -> Span:
        """What is left of a span, whose worker may have finished some segments."""
        made: list[SegmentRecord] = []
        while (record := self._known.get(span.first + len(made))) is not None:
            if span.stop is not None and record.begins >= span.stop:
                break
            made.append(record)
        return span.rest(made)

    def _lost(self, crew: Crew, number: int, failure: str) -> None:
        logger.warning("worker %d lost its span: %s", number + 1, failure)
        worker = self._workers.get(number)
        has_slept = time.monotonic() - self._awake < _WAKING_S
        if worker is None or worker.has_left or has_slept:
            return
        worker.failures += 1
        if worker.failures == _MOST_FAILURES:
            del self._workers[number]
            if self._farm is not None and number >= len(self._context.plan.workers):
                self._farm.leave_out(number, failure)
            else:
                crew.leave_out(number)
            self._warn_once(self._left_out(number, failure))

    def _left_out(self, number: int, failure: str) -> Notice:
        name, case = self._name_of(number), "process"
        if name:
            case = "gpu" if number < len(self._context.plan.workers) else "machine"
        params = {"worker": name or str(number + 1), "count": str(_MOST_FAILURES), "why": failure}
        return Notice(code="worker-left-out", case=case, severity="warning", params=params)

    def _name_of(self, number: int) -> str:
        """Of the GPU or the machine that a worker has to itself; "" for a process."""
        if number < len(self._context.plan.workers):
            return self._context.plan.workers[number].card
        return "" if self._farm is None else self._farm.name_of(number)

    def _heard(self, message: Message) -> None:
        """Take a message of a worker."""
        number, data = message["number"], message["data"]
        match message["kind"]:
            case "segment":
                record = from_plain(SegmentRecord, data)
                self._paces.made(number, record.frames)
                self._keep(record)
                if number in self._workers:
                    self._workers[number].open_frames = 0
            case "made":
                self._ends[data["first"]] = number, from_plain(Made, data)
                if data["failure"] or len(self._open) <= len(self._workers):
                    self._paces.rests(number)  # perhaps nothing waits for it
                if number in self._workers:
                    self._workers[number].last = self._ends[data["first"]][1]
                if self._farm is not None and not data["failure"]:
                    self._farm.made(number)
            case "preview":
                self._context.events.emit(data)
            case "progress":
                self._shows(number, *data)
            case "warned":
                self._warn_once(from_plain(Notice, data))
            case "joined":
                self._joined(number)
            case "left" if number in self._workers:
                self._workers[number].has_left = True
            case "refused":
                name, why = data
                params = {"name": name, "why": why}
                self._warn_once(Notice(code="machine-refused", severity="warning", params=params))

    def _joined(self, number: int) -> None:
        """A machine takes part from now on, perhaps again."""
        self._paces.rests(number)
        if number in self._workers:
            self._workers[number].has_left = False
            return
        self._workers[number] = _Worker()
        for _ in range(_AHEAD):
            self._room.release()

    def _warn_once(self, notice: Notice) -> None:
        """Pass on what one worker has found; the others find it, too."""
        if notice not in self._warned:
            self._warned.append(notice)
            _warn(self._context, notice)

    def _shows(self, number: int, frame: int, begun: int, frames_per_second: float) -> None:
        """A worker is at a frame, with some since the last finished segment."""
        if number not in self._workers:
            return
        self._workers[number].open_frames = begun
        self._paces.works(number, begun)
        if self._farm is not None:
            self._farm.works(number, frames_per_second)
        self._context.events.emit(
            WorkerProgress(
                job_id=self._context.job_id,
                worker=number + 1,
                frame=frame,
                frames_per_second=frames_per_second,
                name=self._name_of(number),
            )
        )
        self._advance()

    def _keep(self, record: SegmentRecord) -> None:
        """Keep a segment, once."""
        if record.number in self._known:
            return
        self._segments.add(record)
        self._count(record)
        finished = self._finished
        self._context.events.emit(
            SegmentDone(
                job_id=self._context.job_id,
                segment=record.number,
                frames_done=finished,
                frames_total=max(finished, self._context.plan.frames),
                bytes=record.bytes,
            )
        )
        self._advance()

    def _count(self, record: SegmentRecord) -> None:
        self._known[record.number] = record
        self._finished += record.frames
        self._largest = max(self._largest, record.bytes)

    def _advance(self) -> None:
        """Show how far all are together."""
        now = self._finished + sum(worker.open_frames for worker in self._workers.values())
        if now > self._shown:
            self._progress.add(now - self._shown)
            self._shown = now

    def _stop(self, crew: Crew) -> None:
        """End what is under way; segments that are finished meanwhile are kept."""
        crew.tell("cancel")
        end = time.monotonic() + _ENDING_S
        while self._open and (left := end - time.monotonic()) > 0:
            try:
                found = self._inbox.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(found, Future):
                self._open.pop(found, None)
            elif isinstance(found, Mapping):
                self._heard(found)

    def _account(self) -> None:
        """Add what the workers took to what the job took; keep how fast machines were."""
        for worker in self._workers.values():
            if worker.last is not None:
                self._context.workers_peak_bytes += worker.last.peak_bytes
                for stage, seconds in worker.last.seconds.items():
                    self._context.meter.add(stage, seconds)
        if (farm := self._farm) is not None:
            advised(lambda: self._paces.learn(self._context.plan, farm.fingerprint_of), None)
