"""The worker processes of this machine: started, watched and ended by Dask distributed.

Its scheduler runs in a thread of this process. It speaks with the workers through TLS at the local
address alone, with a certificate that is made for the job and known to its processes only: whoever
could speak with the scheduler could run code here. Workers end when this process is gone.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker, LocalCluster, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.security import Security

from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import reported
from engine.core.messages import Message, message
from engine.farm.errors import PortTaken
from engine.pipeline.segments import Span
from engine.protocol.events import PreviewReady
from engine.workers.farm import Farm
from engine.workers.reports import Report, reports_in
from engine.workers.worker import TOPIC, WORD, SpanWorker, Word, make_span

logger = logging.getLogger(__name__)

SpanFuture = Future[PreviewReady | None]

PRELOADED = ["engine.workers.preload"]  # modules, before anything else of a worker
_SHORT_S = 0.2  # of a span, on average: some times as long as messages to another computer take
_FORGOTTEN = 8  # finished spans at a time; some have pictures
_CLOSING_S = 60.0  # most: a worker that starts ends once it has started


class Crew:
    """Worker processes that make spans; a context manager, which ends them all.

    Args:
        worker: What each of them does.
        folder: Of the job.
        count: Of workers; they come as they get ready, and each counts from 0.
        heard: Takes the future of each span that has ended, and before it what its worker has
            reported, in threads of Dask.
        farm: Lets other machines in.

    Memory: of this process some MB.
    """

    def __init__(
        self,
        worker: SpanWorker,
        folder: Path,
        count: int,
        heard: Callable[[SpanFuture | Report], None],
        farm: Farm | None = None,
    ) -> None:
        self._worker, self._folder, self._count, self._heard = worker, folder, count, heard
        self._farm = farm
        self._dead: set[str] = set()  # addresses of workers
        self._finished: list[SpanFuture] = []  # that Dask may forget

    def __enter__(self) -> Crew:
        """Start; does not wait for the workers.

        Raises:
            PortTaken: Other machines cannot be let in.
        """
        self._cluster = self._started()
        scheduler: Any = self._cluster.scheduler
        self._cluster.sync(scheduler.listen, "inproc://")  # the client is here: without TLS
        here = scheduler.listeners[-1].contact_address
        self._client = Client(here, loop=self._cluster.loop, set_as_default=False)
        if self._farm is not None:
            self._cluster.sync(self._farm.open, scheduler)
        self._ear = _Ear(scheduler, self._heard)
        scheduler.add_plugin(self._ear)
        self._cluster.scale(self._count)
        return self

    def _started(self) -> LocalCluster:
        security, inlets = Security.temporary(), {}
        if self._farm is not None:
            security, inlets = self._farm.door.security, self._farm.door.scheduler
        try:
            return LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=security,
                scheduler_kwargs={"dashboard": False, **inlets},
                plugins=(self._worker,),
                memory_limit=0,  # what they take is planned
                preload=PRELOADED,
                local_directory=str(self._folder / "workers"),
                silence_logs=logging.CRITICAL,  # it would write to the console
            )
        except RuntimeError as err:
            if self._farm is None or not _is_port_taken(err):
                raise
            self._farm.close()
            raise PortTaken(port=str(self._farm.door.port)) from err

    def __exit__(self, *error: object) -> None:
        for close in (self._client.close, self._cluster.close):
            try:
                close(timeout=_CLOSING_S)
            except TimeoutError as err:
                logger.warning("workers end with this program: %s", err)
        if self._farm is not None:
            self._farm.close()

    @property
    def address(self) -> str:
        """Where workers find the scheduler."""
        return str(self._cluster.scheduler_address)

    @property
    def security(self) -> Security:
        """What they need to speak with it."""
        return self._cluster.security

    @property
    def is_there(self) -> bool:
        """Whether any worker is ready, at work, or starts."""
        scheduler: Any = self._cluster.scheduler
        if scheduler.workers:
            return True
        children = multiprocessing.active_children()  # not only those that make spans
        return any("Dask Worker" in one.name for one in children)

    def hand_out(
        self, spans: Sequence[Span], *, first: bool = False, to: int | None = None
    ) -> list[SpanFuture]:
        """Give each span to the next worker that is free; many at once cost less than one by one.

        Args:
            spans: To be made, in order.
            first: Before all others that wait.
            to: Number of the worker that gets them while it is there; None for any.
        """
        self._set_saturation()
        scheduler: Any = self._cluster.scheduler
        there = [one.address for one in _at(scheduler) if int(one.name) == to]
        futures: list[SpanFuture] = self._client.map(
            make_span,
            spans,
            job_id=self._worker.job_id,
            pure=False,
            priority=int(first),
            workers=there or None,
            allow_other_workers=bool(there),
        )
        for future in futures:
            future.add_done_callback(self._heard)
        return futures

    def worker_of(self, future: SpanFuture) -> int | None:
        """Number of the worker that has a span; None where it waits for one, or has ended."""
        scheduler: Any = self._cluster.scheduler
        task = scheduler.tasks.get(future.key)
        worker = None if task is None else task.processing_on
        return None if worker is None else int(worker.name)

    def idle(self) -> list[int]:
        """Numbers of workers that are ready and have no span."""
        scheduler: Any = self._cluster.scheduler
        return [int(one.name) for one in _at(scheduler) if not one.processing]

    def _set_saturation(self) -> None:
        """A span goes to the worker that is free first, but a short one may be ready at a busy one.

        A worker would wait for the next short span. Where spans take long, the last ones would wait
        at a slow worker, and a fast one be idle.
        """
        scheduler: Any = self._cluster.scheduler
        spans = scheduler.task_prefixes.get(make_span.__name__)
        is_short = spans is not None and 0 <= spans.duration_average < _SHORT_S
        scheduler.WORKER_SATURATION = 2.0 if is_short else 1.0

    def outcome_of(self, future: SpanFuture) -> tuple[int | None, Message | None] | None:
        """Who had a span that has ended, and why it is lost.

        A worker that dies may have had several that it had not begun: it answers for the first one.
        None stands for the others, and where it is not known any more.

        Returns:
            None where its worker has gone with the result, so that Dask has another one make it.

        Raises:
            EngineError: What keeps any worker from it.
        """
        if not future.done():
            future.add_done_callback(self._heard)
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

    def _owner_of(self, future: SpanFuture) -> int | None:
        scheduler: Any = self._cluster.scheduler
        task = scheduler.tasks.get(future.key)
        if task is None:
            return None
        failed = [scheduler.workers.get(address) for address in tuple(task.erred_on or ())]
        found = [one for one in (*tuple(task.who_has or ()), *failed) if one is not None]
        return int(found[0].name) if found else None

    def tell(self, word: Word) -> None:
        """Pause, resume or cancel all workers at once, also those that come later."""
        cluster: Any = self._cluster
        self._ear.word = word
        if self._farm is not None:
            self._farm.is_paused = word == "pause"
        for address in tuple(cluster.scheduler.workers):
            message = {"op": WORD, "word": word}
            cluster.loop.add_callback(cluster.scheduler.worker_send, address, message)

    def leave_out(self, worker: int) -> None:
        """End a worker of this machine for good, also while others start."""
        cluster: Any = self._cluster
        process = next(one for one in cluster._created if one.name == worker)
        cluster.sync(process.close, timeout=_CLOSING_S)


def _at(scheduler: Any) -> tuple[Any, ...]:
    """Workers that are there, as Dask describes them."""
    return tuple(scheduler.workers.values())


def _is_port_taken(error: BaseException | None) -> bool:
    """Whether that is the cause, or the cause of the cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return True
        error = error.__cause__
    return False


class _Ear(SchedulerPlugin):
    """Hears the reports of workers; who has sent one is what Dask says.

    They come in the order in which they were sent, and before the span has ended.

    Attributes:
        word: The last one, for workers that come; None where there was none.
    """

    name = "upreel-reports"

    def __init__(self, scheduler: Scheduler, heard: Callable[[Report], None]) -> None:
        self._scheduler, self._heard = scheduler, heard
        self.word: Word | None = None

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        to: Any = scheduler
        to.stream_comms[worker].interval = 0.0  # else 5 ms: what follows a message at once waits
        if self.word is not None:
            to.worker_send(worker, {"op": WORD, "word": self.word})

    def log_event(self, topic: str, msg: Any) -> None:
        if topic != TOPIC or not isinstance(msg, dict):
            return
        worker: Any = self._scheduler.workers.get(msg.get("worker", ""))
        if worker is None:  # it has been sent away, or is none
            return
        for kind, data in reports_in(msg):
            self._heard({"number": int(worker.name), "kind": kind, "data": data})
