"""The worker processes of this machine: started, watched and ended by Dask distributed.

Its scheduler runs in a thread of this process. It speaks with the workers through TLS at the local
address alone, with a certificate that is made for the job and known to its processes only: whoever
could speak with the scheduler could run code here. Workers end when this process is gone.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.security import Security

from engine.pipeline.segments import Span
from engine.protocol.events import PreviewReady
from engine.workers.worker import TOPIC, SpanWorker, Word, make_span, obey

logger = logging.getLogger(__name__)

SpanFuture = Future[PreviewReady | None]
Message = Mapping[
    str, Any
]  # of a worker: "number", "kind" and "data"; Dask adds "worker", an address

_NO_PAGES: list[str] = []
_DASK = {
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.worker.profile.enabled": False,  # takes the interpreter's lock from the work
    "distributed.worker.http.routes": _NO_PAGES,
    "distributed.scheduler.http.routes": _NO_PAGES,
    "distributed.scheduler.allowed-failures": 0,  # what is left of a span is handed out again
    "distributed.scheduler.worker-saturation": 1.0,  # a span goes to the worker that is free first
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # results are small
    "distributed.scheduler.worker-ttl": None,  # one that computes without a pause is not dead
    "distributed.nanny.pre-spawn-environ": {},  # they would stay in the environment of this process
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.tick.interval": "1s",  # each wakes the processor; usually 20 ms
    "distributed.admin.system-monitor.interval": "1h",  # nothing shows it
    "distributed.admin.tick.limit": "1h",  # it would complain of the work
    "distributed.comm.timeouts.connect": "60s",
}
_CLOSING_S = 60.0  # most: a worker that starts ends once it has started


class Crew:
    """Worker processes that make spans; a context manager, which ends them all.

    Args:
        worker: What each of them does.
        folder: Of the job.
        count: Of workers; they come as they get ready, and each counts from 0.
        heard: Takes the future of each span that has ended, and the messages of workers, in threads
            of Dask.

    Memory: of this process some MB.
    """

    def __init__(
        self,
        worker: SpanWorker,
        folder: Path,
        count: int,
        heard: Callable[[SpanFuture | Message], None],
    ) -> None:
        self._worker, self._folder, self._count, self._heard = worker, folder, count, heard

    def __enter__(self) -> Crew:
        """Start; does not wait for the workers."""
        with dask.config.set(_DASK):
            self._cluster = LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=Security.temporary(),
                memory_limit=0,  # what they take is planned
                preload=["engine.workers.preload"],
                local_directory=str(self._folder / "workers"),
                silence_logs=logging.CRITICAL,  # it would write to the console
            )
            self._client = Client(
                self._cluster, security=self._cluster.security, set_as_default=False
            )
            self._client.register_plugin(self._worker)
            self._client.subscribe_topic(TOPIC, lambda event: self._heard(event[1]))
            self._cluster.scale(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        for close in (self._client.close, self._cluster.close):
            try:
                close(timeout=_CLOSING_S)
            except TimeoutError as err:
                logger.warning("workers end with this program: %s", err)

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
        return bool(scheduler.workers) or bool(multiprocessing.active_children())

    def hand_out(self, spans: Sequence[Span], *, first: bool = False) -> list[SpanFuture]:
        """Give each span to the next worker that is free; many at once cost less than one by one.

        Args:
            spans: To be made, in order.
            first: Before all others that wait.
        """
        futures: list[SpanFuture] = self._client.map(
            make_span, spans, pure=False, priority=int(first)
        )
        for future in futures:
            future.add_done_callback(self._heard)
        return futures

    def tell(self, word: Word) -> None:
        """Pause, resume or cancel all workers at once."""
        self._client.run(obey, word)

    def leave_out(self, worker: int) -> None:
        """End a worker for good."""
        self._cluster.sync(self._cluster.workers[worker].close, timeout=_CLOSING_S)


def died_with(future: SpanFuture) -> int | None:
    """The number of the worker that died with a span that has ended; None: the span is made.

    Raises:
        EngineError: What keeps any worker from it.
        Cancelled: The job was cancelled.
    """
    if future.status == "finished":  # to ask for a result takes four messages
        return None
    try:
        future.result()
    except KilledWorker as err:
        return int(str(err.last_worker.name))
    return None
