"""Hands the spans of a video out to workers, and collects the segments that they make.

A worker that dies or fails loses its span, which another one makes; one that fails three times is
left out. A span that takes much too long is given to an idle worker, too, and the first result
counts. What no worker can make is left to the process of the job.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed import Future

from engine.core import atomic_file
from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import advised, writing
from engine.core.messages import Message, message
from engine.pipeline.context import JobContext, Throttle
from engine.pipeline.room import check_room
from engine.pipeline.segments import SegmentLog, Span, forget_made, made_path
from engine.pipeline.stages.progress import Progress
from engine.pipeline.stream import StreamAborted, Threads
from engine.protocol.events import SegmentDone, Warned, WorkerProgress
from engine.protocol.plan import Notice
from engine.video.read.frame_reader import FrameReader
from engine.workers.pool import RemoteWorkers, SpanFuture, WorkerPool
from engine.workers.reports import (
    InvalidReport,
    Made,
    Report,
    check,
    read,
    read_made,
    read_progress,
    read_segment,
)
from engine.workers.spans import OpenSpans, Survey
from engine.workers.team import Deadlines, Held, Team
from engine.workers.worker import JobOrder, SpanWorker

logger = logging.getLogger(__name__)
WorkerKind = Callable[[JobOrder], SpanWorker]
Received = Callable[["SpanFuture | Report | EngineError"], None]
# Other computers of a job: for its order, where to put their reports and errors that end the
# attempt, and two questions about a segment, in any thread: is it being made, is it finished?
Join = Callable[[JobOrder, Received, Callable[[int], bool], Callable[[int], bool]], RemoteWorkers]

_POLL_S = 0.1
# Spans for each worker that are known ahead (each has marks of the video before it), and those that
# Dask has, about: they are handed out some at a time, which costs less than one by one.
_AHEAD, _HANDED_OUT = 16, 3
_LATE_S = 0.5  # polling interval of late spans
_ENDING_S = 2.0  # time for workers to end cleanly


def hand_out(
    context: JobContext,
    segments: SegmentLog,
    join: Join | None = None,
    worker: WorkerKind = SpanWorker,
) -> None:
    """Make the missing segments with the workers of the plan; an `engine.pipeline.context.HandOut`.

    If no worker is left, it warns and ends: the process of the job makes the rest.

    Args:
        context: Context of the job.
        segments: Finished segments; new ones are added.
        join: Lets workers of other computers join; None for none.
        worker: Makes the plugin of each worker of this computer.

    Raises:
        EngineError: No worker can make them; finished segments stay.
        Cancelled: The user stopped.

    Memory: one frame in this process, and marks of some spans.
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
        _HandOut(context, segments, threads, survey, join).run(worker)
    for problem in reader.problems:
        _warn(
            context, Notice(code="source-damaged", severity="warning", params={"problem": problem})
        )


def _warn(context: JobContext, notice: Notice) -> None:
    context.events.emit(Warned(job_id=context.job_id, notice=notice))


class _HandOut:
    """Missing segments in the making; used by the thread of the job, but for the survey."""

    def __init__(
        self,
        context: JobContext,
        segments: SegmentLog,
        threads: Threads,
        survey: Survey,
        join: Join | None,
    ) -> None:
        count = len(context.plan.workers)
        self._context, self._segments, self._threads = context, segments, threads
        self._survey = survey
        self._spans = OpenSpans(
            (*segments.records, *segments.ahead), survey, context.plan.segment_frames
        )
        self._inbox: queue.SimpleQueue[SpanFuture | Report | Span | EngineError | None]
        self._inbox = queue.SimpleQueue()
        self._order = JobOrder.of(context, segments.path(0).parent)
        self._remote = None
        if join is not None:
            finished = self._spans.finished
            about = self._spans.is_open, lambda segment: segment in finished
            self._remote = join(self._order, self._inbox.put, *about)
        now = context.control.work_seconds
        self._team = Team(context.plan, self._remote, now)
        self._deadlines = Deadlines(context.plan, self._team, now)
        self._room = threading.Semaphore(_AHEAD * count)
        self._waiting: list[Span] = []
        self._ends: dict[tuple[int, int], Made] = {}  # by worker and first segment
        self._is_surveyed = False
        self._is_due = Throttle(_LATE_S)
        self._outrun: list[SpanFuture] = []  # kept: Dask would take their workers for idle
        self._is_stuck = False
        self._shown = self._spans.frames
        self._progress = Progress(context, self._shown)
        self._passed_on_pause = context.control.is_paused
        self._warned: list[Notice] = []

    def run(self, worker: WorkerKind) -> None:
        """Work until all segments are made, or no worker is left."""
        folder, team = self._order.folder, self._team
        forget_made(folder)  # by workers that were killed with their job
        choices = self._segments.choices
        with WorkerPool(
            worker(self._order), folder, len(team.workers), self._inbox.put, self._remote, choices
        ) as pool:
            self._threads.start("survey", self._read_ahead)
            try:
                while (
                    (team.workers or team.may_grow) and self._is_unfinished and not self._is_stuck
                ):
                    self._step(pool)
                if self._outrun or self._is_stuck:
                    pool.send("cancel")
            except BaseException:
                self._stop(pool)
                raise
            finally:
                self._account()
        forget_made(folder)
        if not self._is_unfinished:
            self._context.check_source()
            self._segments.complete()
            return
        self._context.hand_out = None
        _warn(self._context, Notice(code="workers-gone", severity="warning"))
        self._threads.aborted.set()  # ends the survey

    @property
    def _is_unfinished(self) -> bool:
        """Whether any segment is missing."""
        return bool(self._spans or self._waiting) or not self._is_surveyed

    def _read_ahead(self) -> None:
        """Find spans as far as there is room for them, in a thread of its own."""
        for span in self._survey.spans():
            while not self._room.acquire(timeout=_POLL_S):
                self._context.control.check_cancelled()
                if self._threads.aborted.is_set():
                    raise StreamAborted
            self._inbox.put(span)
        self._inbox.put(None)

    def _step(self, pool: WorkerPool) -> None:
        """Pass on a pause or a cancellation, and deal with what has arrived next."""
        control = self._context.control
        if control.is_cancelled:
            raise Cancelled
        if self._threads.aborted.is_set():
            raise StreamAborted  # the survey's error counts
        control.resumes_within(0)  # a pause counts from here on
        if control.is_paused != self._passed_on_pause:
            self._passed_on_pause = control.is_paused
            pool.send("pause" if self._passed_on_pause else "resume")
            for number in self._team.workers:
                self._team.loads(number)  # a worker lets its models go in a pause
        absent = self._team.look(pool.connected, has_workers=pool.has_workers)
        for number, notice in absent.items():
            pool.leave_out(number)
            self._warn_once(notice)
        self._take(pool)
        if self._is_due():
            self._look_for_late(pool)
        if self._waiting and len(self._spans) < _HANDED_OUT * len(self._team.workers):
            check_room(self._context, self._order.folder, self._spans.largest)
            self._hand_out(pool, self._waiting)
            self._waiting = []

    def _look_for_late(self, pool: WorkerPool) -> None:
        """Give late spans to idle workers, too; the first result counts."""
        ended = self._spans.outrun()
        self._outrun += ended
        for _ in ended:
            self._room.release()
        rests = {one: self._spans.rest_of(one) for one in self._spans}
        at = {one: pool.worker_of(one) for one in rests}
        held = {
            one: Held(number, self._spans.frames_of(rests[one]))
            for one, number in at.items()
            if number is not None
        }
        late, idle = self._deadlines.late(held), pool.idle()
        for one, seconds in late.items():
            number = held[one].worker
            if (notice := self._team.late(number, seconds)) is not None:
                self._warn_once(notice)
            if idle and not self._spans.is_elsewhere(rests[one], late):
                other = idle.pop()
                logger.warning("worker %d is late; worker %d helps", number + 1, other + 1)
                (future,) = pool.hand_out([rests[one]], first=True, to=other)
                self._spans.share(one, future)
                self._room.acquire(blocking=False)
        may_load = not held or any(self._team.may_load(one.worker) for one in held.values())
        is_silent = self._deadlines.is_silent(may_load=may_load)
        is_waited_for = len(late) < len(held) or bool(held and idle)
        self._is_stuck = bool(self._spans) and is_silent and not is_waited_for

    def _hand_out(self, pool: WorkerPool, spans: list[Span], *, first: bool = False) -> None:
        self._spans.begin(pool.hand_out(spans, first=first), spans)
        self._deadlines.begun()

    def _take(self, pool: WorkerPool) -> None:
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
                self._ended(pool, found)
            case EngineError():
                raise found
            case _:
                try:
                    self._receive(found)
                except InvalidReport as err:
                    self._distrust(pool, found.number, err)

    def _ended(self, pool: WorkerPool, future: SpanFuture) -> None:
        """Deal with the end of a span; what is left of a lost one is handed out again."""
        if future not in self._spans or (outcome := pool.outcome_of(future)) is None:
            return  # another worker was faster, or it is made again
        span, (number, why) = self._spans.end(future), outcome
        assert span is not None
        self._room.release()
        made = None
        if number is not None:
            made = self._ends.pop((number, span.first), None)
            self._team.starts_over(number)
        rest = self._spans.rest(span)
        if why is None and made is not None:
            why = made.failure
            if made.has_preview and (preview := pool.preview_of(future)) is not None:
                self._context.events.emit(preview)
        if why is None and not self._spans.is_made(rest):
            why = message("reason.worker.incomplete")
        if why is not None:
            self._lost(pool, number, why)
        if not self._spans.is_made(rest) and not self._spans.is_elsewhere(rest, ()):
            self._hand_out(pool, [rest], first=True)
            self._room.acquire(blocking=False)

    def _lost(self, pool: WorkerPool, number: int | None, why: Message) -> None:
        if number is None:
            logger.warning("a span was lost: %s", why)
            return
        logger.warning("worker %d lost its span: %s", number + 1, why)
        notice = self._team.failed(number, why)
        if notice is None:
            return
        if self._remote is None or self._team.is_own(number):
            pool.leave_out(number)
        else:
            self._remote.leave_out(number, why)
        self._warn_once(notice)

    def _distrust(self, pool: WorkerPool, number: int, error: InvalidReport) -> None:
        """Send a worker away that has reported what makes no sense.

        Raises:
            InvalidReport: It is a worker of this computer, so the mistake is in the program.
        """
        if self._remote is None or self._team.is_own(number):
            raise error
        logger.warning("worker %d is removed: %s", number + 1, error)
        self._lost(pool, number, message("reason.worker.nonsense"))
        self._team.left(number)  # one failure is enough
        self._remote.dismiss(number)

    def _receive(self, report: Report) -> None:
        """Deal with a report.

        Raises:
            InvalidReport: It makes no sense.
        """
        number, data = report.number, report.data
        self._deadlines.begun()
        match report.kind:
            case "segment":
                self._team.starts_over(number)
                self._keep(number, data)
            case "made":
                self._made(number, read_made(data))
            case "preview":
                self._context.events.emit(data)
            case "progress":
                most = max(self._survey.frames, self._context.plan.frames)
                self._shows(number, *read_progress(data, frames=most))
            case "warned":
                self._warn_once(read(Notice, data))
            case "joined":
                if self._team.joined(number):
                    for _ in range(_AHEAD):
                        self._room.release()
            case "left":
                self._team.left(number)
            case "refused":
                name, why = data
                params = {"name": name, "why": why}
                self._warn_once(Notice(code="machine-refused", severity="warning", params=params))
            case _:
                raise InvalidReport("a report of an unknown kind")

    def _made(self, number: int, made: Made) -> None:
        """Take how a worker has ended its span; this arrives before the span ends."""
        if not self._spans.has(made.first):
            return  # another one has made it meanwhile
        check(self._team.is_own(number) or not made.has_preview, "a preview that is not available")
        self._ends[number, made.first] = made
        if made.failure is not None or len(self._spans) <= len(self._team.workers):
            self._team.rests(number)  # perhaps nothing waits for it
        if number in self._team.workers:
            self._team.workers[number].last = made
        if self._remote is not None and made.failure is None:
            self._remote.made(number)

    def _warn_once(self, notice: Notice) -> None:
        """Pass a warning on; the other workers find the same."""
        if notice not in self._warned:
            self._warned.append(notice)
            _warn(self._context, notice)

    def _shows(self, number: int, frame: int, begun: int, frames_per_second: float) -> None:
        """Show the frame at which a worker is, with some since its last finished segment."""
        if number not in self._team.workers:
            return
        self._team.works(number, begun)
        if self._remote is not None:
            self._remote.works(number, frames_per_second)
        self._context.events.emit(
            WorkerProgress(
                job_id=self._context.job_id,
                worker=number + 1,
                frame=frame,
                frames_per_second=frames_per_second,
                name=self._team.name_of(number),
            )
        )
        self._advance()

    def _keep(self, number: int, data: Any) -> None:
        """Keep a segment that a worker has made."""
        record = read_segment(
            data,
            self._spans.rests(),
            self._spans.finished,
            frames=self._survey.frames,
            segment_frames=self._context.plan.segment_frames,
            folder=self._order.folder,
            worker=number,
        )
        if record is None:
            return  # another one has made it meanwhile
        self._context.check_source(record)
        path = self._segments.path(record.number)
        with writing(path):
            atomic_file.replace(made_path(self._order.folder, record.number, number), path)
        self._team.made(number, record.frames)
        self._segments.add(record)
        self._spans.add(record)
        self._context.events.emit(
            SegmentDone(
                job_id=self._context.job_id,
                segment=record.number,
                frames_done=self._spans.frames,
                frames_total=max(self._spans.frames, self._context.plan.frames),
                bytes=record.bytes,
            )
        )
        self._advance()

    def _advance(self) -> None:
        """Show the progress of all workers together."""
        most = max(self._survey.frames, self._context.plan.frames)
        now = min(self._spans.frames + self._team.open_frames, most)  # some may be made twice
        if now > self._shown:
            self._progress.add(now - self._shown)
            self._shown = now

    def _stop(self, pool: WorkerPool) -> None:
        """Cancel unfinished spans; segments that are finished meanwhile are kept."""
        pool.send("cancel")
        end = time.monotonic() + _ENDING_S
        while self._spans and (left := end - time.monotonic()) > 0:
            try:
                found = self._inbox.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(found, Future):
                self._spans.end(found)
            elif isinstance(found, Report):
                with suppress(InvalidReport, EngineError):  # why it ends is known
                    self._receive(found)

    def _account(self) -> None:
        """Add memory and time of the workers to those of the job; keep the speed of computers."""
        for worker in self._team.workers.values():
            if worker.last is not None:
                self._context.workers_peak_bytes += worker.last.peak_bytes
                for stage, seconds in worker.last.seconds.items():
                    self._context.meter.add(stage, seconds)
        if (remote := self._remote) is not None:
            advised(lambda: remote.learn(self._team.measured), None)
