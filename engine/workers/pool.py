"""The pool of worker processes of this computer: started, supervised and ended by Dask distributed.

Its scheduler runs in a thread of this process. Workers connect to it with TLS at the local address,
with a certificate that is made for the job and known to its processes only: whoever could speak
with the scheduler could run code here. Workers end when this process is gone.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from distributed import Client, Future, KilledWorker, LocalCluster, Scheduler
from distributed.comm.core import Comm
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.security import Security

from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import reported
from engine.core.messages import Message, message
from engine.ops.choices import Choices
from engine.pipeline.segments import Span
from engine.protocol.events import PreviewReady
from engine.workers import dask_internals
from engine.workers.reports import Report, check, read, reports_in
from engine.workers.worker import CONTROL, TOPIC, ControlWord, SpanWorker, make_span

logger = logging.getLogger(__name__)

SpanFuture = Future[PreviewReady | None]

PRELOADED: list[str] = []  # modules that a worker loads first
_SHORT_S = 0.2  # of a span, on average: some times as long as messages to another computer take
_FORGOTTEN = 8  # finished spans at a time; some have images
_LONGEST_CHOICE, _MOST_CHOICES = 500, 5000  # characters of a key; keys of a job
# Others wait as long in all for the workers of this computer to choose first.
_PATIENCE_S, _POLL_S = 45.0, 0.1
# At most, to end workers, and before that to start one that has just begun to: it ends cleanly.
_CLOSING_S, _STARTING_S = 60.0, 30.0
_PREVIEW_S = 5.0  # at most, for a preview


class RemoteWorkers(Protocol):
    """Workers of other computers in the pool of a job.

    A wing of the engine has them. Their numbers follow those of the workers of this computer.
    """

    is_paused: bool  # state of the job, for computers that join later

    @property
    def security(self) -> Security:
        """Certificates of the scheduler and of the workers."""
        ...

    @property
    def listening(self) -> dict[str, Any]:
        """Arguments of the scheduler: addresses and ports at which it listens."""
        ...

    def refusal(self, error: RuntimeError) -> EngineError | None:
        """Error for the user if the scheduler cannot listen; None if that is not the reason."""
        ...

    def check_sender(self, comm: Comm, number: int) -> None:
        """Refuse a question that does not come from the worker with a number.

        Raises:
            InvalidReport: It comes from another computer.
        """

    async def open(self, scheduler: Scheduler) -> None:
        """Let other computers join: in the thread of the scheduler, before it answers."""

    def close(self) -> None:
        """The job, or the attempt to start the scheduler, has ended."""

    def name_of(self, number: int) -> str:
        """Name of the computer of a worker."""
        ...

    def works(self, number: int, frames_per_second: float) -> None:
        """A worker has reported its speed."""

    def made(self, number: int) -> None:
        """A worker has finished a span."""

    def leave_out(self, number: int, why: Message) -> None:
        """Exclude a worker for the rest of the job."""

    def dismiss(self, number: int) -> None:
        """Close the connection of a worker, which can join again."""

    def learn(self, paces: dict[int, tuple[float, float]]) -> None:
        """Keep the speed of computers for later plans.

        Args:
            paces: Frames and seconds of each worker, also of those of this computer.
        """


class WorkerPool:
    """Worker processes that make spans; a context manager, which ends them all.

    Args:
        worker: Plugin of each worker.
        folder: Folder of the job.
        count: Number of workers of this computer; they come as they get ready, numbered from 0.
        received: Takes the future of each span that has ended, and before it what its worker has
            reported, in threads of Dask.
        remote: Workers of other computers.
        choices: Choices of the job, which all workers follow.

    Memory: some MB in this process.
    """

    def __init__(
        self,
        worker: SpanWorker,
        folder: Path,
        count: int,
        received: Callable[[SpanFuture | Report], None],
        remote: RemoteWorkers | None = None,
        choices: Choices | None = None,
    ) -> None:
        self._choices = choices or Choices()
        self._patience_s = _PATIENCE_S if count else 0.0
        self._worker, self._folder, self._count = worker, folder, count
        self._received, self._remote = received, remote
        self._dead: set[str] = set()  # addresses of workers
        self._finished: list[SpanFuture] = []  # to be forgotten by Dask

    def __enter__(self) -> WorkerPool:
        """Start; does not wait for the workers.

        Raises:
            EngineError: Other computers cannot be let in.
        """
        self._receiver = _Receiver(self._received, self._open)
        self._cluster = self._started()
        scheduler: Any = self._cluster.scheduler
        self._scheduler: Scheduler = scheduler
        self._cluster.sync(self._scheduler.listen, "inproc://")  # for the client: without TLS
        here = self._scheduler.listeners[-1].contact_address
        self._client = Client(here, loop=self._cluster.loop, set_as_default=False)
        self._cluster.scale(self._count)
        return self

    async def _open(self, scheduler: Scheduler) -> None:
        """Prepare the scheduler's answers, before it gives any."""
        scheduler.handlers["upreel_choose"] = self._choose
        if self._remote is not None:
            await self._remote.open(scheduler)

    def _started(self) -> LocalCluster:
        security, listening = Security.temporary(), {}
        if self._remote is not None:
            security, listening = self._remote.security, self._remote.listening
        try:
            return LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=security,
                scheduler_kwargs={"dashboard": False, "plugins": (self._receiver,), **listening},
                plugins=(self._worker,),
                memory_limit=0,  # the plan limits it
                preload=PRELOADED,
                local_directory=str(self._folder / "workers"),
                silence_logs=logging.CRITICAL,  # it would write to the console
            )
        except RuntimeError as err:
            if self._remote is None or (why := self._remote.refusal(err)) is None:
                raise
            self._remote.close()
            raise why from err

    def __exit__(self, *error: object) -> None:
        self._end(dask_internals.end_starting, _STARTING_S)
        for close in (self._client.close, self._cluster.close):
            _in_time(partial(close, timeout=_CLOSING_S))
        if self._remote is not None:
            self._remote.close()

    @property
    def address(self) -> str:
        """Address of the scheduler for workers."""
        return str(self._cluster.scheduler_address)

    @property
    def security(self) -> Security:
        """Certificates that workers need to speak with it."""
        return self._cluster.security

    @property
    def connected(self) -> Container[int]:
        """Numbers of the workers that are ready or at work."""
        return dask_internals.numbers(self._scheduler)

    @property
    def has_workers(self) -> bool:
        """Whether any worker is ready, at work, or starts."""
        if self.connected:
            return True
        children = multiprocessing.active_children()  # not only those that make spans
        return any("Dask Worker" in one.name for one in children)

    def hand_out(
        self, spans: Sequence[Span], *, first: bool = False, to: int | None = None
    ) -> list[SpanFuture]:
        """Give each span to the next worker that is free; many at once cost less than one by one.

        A span goes to the worker that is free first. Only if spans are short may the next one be
        ready at a worker that is busy, which else would wait for it. If they take long, the last
        ones would wait at a slow worker while a fast one is idle.

        Args:
            spans: Spans to make, in order.
            first: Before all others that wait.
            to: Number of the worker that gets them if it is connected; None for any.
        """
        seconds = dask_internals.average_seconds(self._scheduler, make_span.__name__)
        dask_internals.set_tasks_ahead(self._scheduler, one_more=0 <= seconds < _SHORT_S)
        address = dask_internals.numbers(self._scheduler).get(-1 if to is None else to)
        futures: list[SpanFuture] = self._client.map(
            make_span,
            spans,
            job_id=self._worker.job_id,
            pure=False,
            priority=int(first),
            workers=None if address is None else [address],
            allow_other_workers=address is not None,
        )
        for future in futures:
            future.add_done_callback(self._received)
        return futures

    def worker_of(self, future: SpanFuture) -> int | None:
        """Number of the worker that has a span; None where it waits for one, or has ended."""
        return dask_internals.worker_with(self._scheduler, future.key)

    def idle(self) -> list[int]:
        """Numbers of workers that are ready and have no span."""
        return list(dask_internals.numbers(self._scheduler, idle=True))

    def outcome_of(self, future: SpanFuture) -> tuple[int | None, Message | None] | None:
        """Number of the worker that had a span which has ended, and why the span is lost.

        A worker that dies may have had several that it had not begun: it answers for the first one.
        None stands for the others, and where it is not known any more.

        Returns:
            None if its worker has gone with the result, so that Dask has another one make it.

        Raises:
            EngineError: No worker can make it.
        """
        if not future.done():
            future.add_done_callback(self._received)
            return None
        if future.status == "finished":  # to ask for a result takes four messages
            self._finished.append(future)
            if len(self._finished) > _FORGOTTEN:  # together: it takes three messages
                self._finished.clear()
            return self._owner_of(future), None
        try:
            future.result()
        except KilledWorker as err:
            dead, why = err.last_worker, message("reason.worker.ended")
            if dead.address in self._dead:
                return None, why
            self._dead.add(dead.address)
            return int(str(dead.name)), why
        except EngineError:
            raise
        except Cancelled:  # its process ends
            return self._owner_of(future), message("reason.worker.ended")
        except Exception as err:  # Dask raises here whatever the task raised in its worker
            if future.status != "error":  # it is Dask's own
                raise
            return self._owner_of(future), reported(err, "a span", logger).as_message
        return self._owner_of(future), None

    def preview_of(self, future: SpanFuture) -> PreviewReady | None:
        """Preview with which a span has ended; None if it does not arrive in time.

        Its worker may have gone with it: then Dask would have another worker make the span first.
        """
        try:
            return future.result(timeout=_PREVIEW_S)
        except Exception as err:  # noqa: BLE001 - Dask passes on any class; without a preview the job goes on
            logger.info("no preview: %s", err)
            return None

    async def _choose(self, comm: Comm, number: int, key: str, choice: str) -> str:
        """Choice of the job for a key, for a worker, in the thread of the scheduler.

        Others wait for the workers of this computer, which should be able to go on alone.

        Raises:
            InvalidReport: No worker of the job asks like this.
        """
        number, key, choice = read(int, number), read(str, key), read(str, choice)
        if self._remote is not None:
            self._remote.check_sender(comm, number)
        check(max(len(key), len(choice)) <= _LONGEST_CHOICE, "a choice that is too long")
        check(len(self._choices.known) < _MOST_CHOICES, "too many choices")
        is_own = number < self._count
        while not is_own and choice and not self._choices.agree(key) and self._patience_s > 0:
            await asyncio.sleep(_POLL_S)
            self._patience_s -= _POLL_S
        return self._choices.agree(key, choice)

    def _owner_of(self, future: SpanFuture) -> int | None:
        return dask_internals.worker_that_had(self._scheduler, future.key)

    def send(self, word: ControlWord) -> None:
        """Pause, resume or cancel all workers at once, also those that come later."""
        self._receiver.word = word
        if self._remote is not None:
            self._remote.is_paused = word == "pause"
        command = {"op": CONTROL, "word": word}
        for address in dask_internals.numbers(self._scheduler).values():
            self._scheduler.loop.add_callback(self._scheduler.worker_send, address, command)

    def leave_out(self, worker: int) -> None:
        """End a worker of this computer for good, also while it or others start."""
        self._end(dask_internals.end_worker, worker)

    def _end(self, end: Callable[..., Coroutine[Any, Any, None]], argument: float) -> None:
        """Run one of `dask_internals` that ends workers in the thread of the cluster."""
        ends = partial(self._cluster.sync, end, self._cluster, argument)
        _in_time(partial(ends, callback_timeout=_CLOSING_S))


def _in_time(ends: Callable[[], object]) -> None:
    """End something of Dask; what takes too long is left to the end of this program."""
    try:
        ends()
    except TimeoutError as err:
        logger.warning("workers end with this program: %s", err)


class _Receiver(SchedulerPlugin):
    """Receives the reports of workers; the sender is known from Dask.

    They come in the order in which they were sent, and before the span has ended.

    Args:
        received: Takes each report.
        opens: Called before the scheduler answers anybody. Later would be too late: a worker of
            another computer that waits at this port, for the job before, registers at once.

    Attributes:
        word: The last one, for workers that come; None where there was none.
    """

    name = "upreel-reports"

    def __init__(
        self,
        received: Callable[[Report], None],
        opens: Callable[[Scheduler], Coroutine[Any, Any, None]],
    ) -> None:
        self._received, self._opens = received, opens
        self.word: ControlWord | None = None

    async def start(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        await self._opens(scheduler)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        dask_internals.send_at_once_to(scheduler, worker)
        if self.word is not None:
            scheduler.worker_send(worker, {"op": CONTROL, "word": self.word})

    def log_event(self, topic: str, msg: Any) -> None:
        if topic != TOPIC or not isinstance(msg, dict):
            return
        number = dask_internals.worker_at(self._scheduler, msg.get("worker", ""))
        if number is None:  # it has been sent away, or is none
            return
        for kind, data in reports_in(msg):
            self._received(Report(number, kind, data))
