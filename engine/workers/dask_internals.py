"""Names of Dask that are private or not documented: all that this program uses is in this module.

Each was seen in distributed 2026.8.0; whoever raises the limit in pyproject.toml looks here.

| changed or used | why |
|---|---|
| `process.get_mp_context` | else Dask is loaded before this program, with a user's files for it |
| `metrics._WindowsTime.resync` | endless if the coarse clock is as fine as the other (Wine) |
| `comm.utils.OFFLOAD_THRESHOLD` | measuring each message takes longer than writing it |
| `comm.inproc.global_manager._ip` | found by a connection to an address of the internet |
| `comm.registry.backends`, `TLSBackend._listener_class` | to listen within limits |
| `TLSListener._prepare_stream` | admits any number, and waits for ever |
| `TLSListener.tcp_server`, `Security.get_listen_args`, `Scheduler._comms` | trust that changes |
| `TLS.stream` | certificate of the other end |
| `Scheduler.tasks`, `.workers`, `.task_prefixes`, `.WORKER_SATURATION` | the state of the pool |
| `Scheduler.stream_comms`, `Worker.batched_stream` | messages wait 2 to 5 ms for others |
| `LocalCluster._created`, `Nanny.process`, `WorkerProcess.process` | workers that start |

Workers import this module before anything else of the program.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import dask
from distributed import LocalCluster, Scheduler, Status, Worker, comm, metrics, process
from distributed.comm.addressing import parse_host_port
from distributed.comm.registry import backends
from distributed.comm.tcp import TLS, TLSBackend, TLSListener
from distributed.security import Security

from engine.hardware.process import OwnProcess, OwnProcesses, load_for_good
from engine.workers.pending_connections import FIRST_BYTE_S, PendingConnections, plain_address

logger = logging.getLogger(__name__)

SETTINGS: dict[str, Any] = {
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.worker.profile.enabled": False,  # takes the interpreter's lock from the work
    "distributed.worker.http.routes": [],  # pages
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.allowed-failures": 0,  # what is left of a span is handed out again
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # results are small
    "distributed.scheduler.worker-ttl": None,  # its nanny watches a process of this computer
    # TRAP: after 15 s Dask gives up a process that starts again, and nothing takes its place. How
    # long a start may take is for `engine.workers.team` to judge.
    "distributed.deploy.lost-worker-timeout": "1000d",
    # TRAP: else workers give each tensor back to Linux, and Lite takes twice as long for new pages.
    # They would stay in the environment of this process as well.
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.tick.interval": "1s",  # each wakes the CPU; usually 20 ms
    "distributed.admin.system-monitor.interval": "1h",  # nothing shows it
    "distributed.admin.tick.limit": "1h",  # it would complain of the work
    "distributed.comm.timeouts.connect": "60s",
    "distributed.comm.tls.min-version": 1.3,
}


# --- processes

_POLL_S = 0.05


class WorkerProcess(OwnProcess):
    """A process that loads this module first: it unpickles a function of it before all else."""

    def __reduce__(self) -> tuple[Callable[[], WorkerProcess], tuple[()], dict[str, Any]]:
        return _loaded, (), self.__dict__


def _loaded() -> WorkerProcess:
    """Load the libraries; returns a process to which pickle adds its attributes."""
    load_for_good("engine.workers.worker")
    return WorkerProcess.__new__(WorkerProcess)


class _Context(OwnProcesses):
    Process = WorkerProcess


def adapt() -> None:
    """Change the defaults of Dask in this process for good, before it reads or starts anything."""
    processes: Any = process
    processes.get_mp_context = _Context
    dask.config.set(deepcopy(SETTINGS))  # Dask may add to the lists
    clocks: Any = metrics._WindowsTime
    clocks.resync = _resync
    messages: Any = comm
    messages.utils.OFFLOAD_THRESHOLD = False
    messages.inproc.global_manager._ip = "127.0.0.1"
    limit_connections()


def _resync(clock: metrics._WindowsTime) -> None:
    """Read both clocks once, which is not less exact."""
    clock.delta = clock.base_timer() - time.perf_counter()


async def end_worker(cluster: LocalCluster, worker: int) -> None:
    """End a worker for good, also while it starts."""
    await end_starting(cluster, 0.0, worker)
    for nanny in _nannies(cluster, worker):
        await nanny.close()


async def end_starting(cluster: LocalCluster, seconds: float, worker: int | None = None) -> None:
    """Kill processes that start, for good, before they are closed: Dask would wait for ever.

    Args:
        cluster: Cluster of the job.
        seconds: Time to get ready before.
        worker: Number of the only worker to end; None for all.
    """
    end = time.monotonic() + seconds
    for nanny in _nannies(cluster, worker):
        while _starts(nanny) and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
        if _starts(nanny):
            nanny.close_gracefully()  # else it starts another process
            await nanny.process.process.kill()


def _nannies(cluster: LocalCluster, worker: int | None) -> list[Any]:
    """Objects of Dask that start the processes of workers, again if they die."""
    created: Any = cluster
    return [one for one in created._created if worker in (None, one.name)]


def _starts(nanny: Any) -> bool:
    """Whether the process of a worker exists, and is not ready."""
    found = nanny.process
    return found is not None and found.status is Status.starting and found.process is not None


# --- messages


def send_at_once(worker: Worker) -> None:
    """Let a worker send its messages without waiting for more of them."""
    sending: Any = worker
    sending.batched_stream.interval = 0.0


def send_at_once_to(scheduler: Scheduler, address: str) -> None:
    """Let the scheduler send messages to a worker without waiting for more of them."""
    sending: Any = scheduler
    sending.stream_comms[address].interval = 0.0


# --- state of the scheduler


def numbers(scheduler: Scheduler, *, idle: bool = False) -> dict[int, str]:
    """Numbers and addresses of the workers that are connected.

    Args:
        scheduler: It is asked from any thread.
        idle: Only workers without a task.
    """
    state: Any = scheduler
    found = tuple(state.workers.values())
    return {int(one.name): one.address for one in found if not (idle and one.processing)}


def worker_at(scheduler: Scheduler, address: str) -> int | None:
    """Number of the worker with an address; None if it is not connected."""
    state: Any = scheduler
    found = state.workers.get(address)
    return None if found is None else int(found.name)


def worker_with(scheduler: Scheduler, key: object) -> int | None:
    """Number of the worker that has a task now; None if it waits for one, or has ended."""
    state: Any = scheduler
    task = state.tasks.get(key)
    worker = None if task is None else task.processing_on
    return None if worker is None else int(worker.name)


def worker_that_had(scheduler: Scheduler, key: object) -> int | None:
    """Number of the worker at which a task has ended; None if it is not connected any more."""
    state: Any = scheduler
    task = state.tasks.get(key)
    if task is None:
        return None
    failed = [state.workers.get(address) for address in tuple(task.erred_on or ())]
    found = [one for one in (*tuple(task.who_has or ()), *failed) if one is not None]
    return int(found[0].name) if found else None


def average_seconds(scheduler: Scheduler, function: str) -> float:
    """Average seconds of the tasks of a function; negative if none has ended."""
    state: Any = scheduler
    found = state.task_prefixes.get(function)
    return -1.0 if found is None else float(found.duration_average)


def set_tasks_ahead(scheduler: Scheduler, *, one_more: bool) -> None:
    """Let each worker have its next task while it computes, or only one task."""
    state: Any = scheduler
    state.WORKER_SATURATION = 2.0 if one_more else 1.0


# --- limits and trust of ports
#
# Dask admits any number of connections and waits for each handshake for ever, even for one that has
# closed: a stranger could use up the files and the memory of this process.

_LONGEST_S = 10.0  # of a handshake: some round trips
# At once: far fewer than Windows waits for in one call, and more than the devices of a computer
# begin in one round trip; an honest computer whose connection is closed tries again.
_MOST, _MOST_OF_ONE = 128, 64


class _BoundedListener(TLSListener):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        listener: Any = super()
        listener.__init__(*args, **kwargs)
        self._pending = PendingConnections[Any](_MOST, _MOST_OF_ONE, _is_silent)  # streams

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        """The stream after the handshake; None, closed, if that fails."""
        listener: Any = super()
        handshake = asyncio.ensure_future(listener._prepare_stream(stream, address))
        stream.set_close_callback(handshake.cancel)  # nothing else tells Dask of that
        gone = self._pending.admit(stream, plain_address(parse_host_port(address)[0]))
        if gone is not None:
            gone.close()
        late = asyncio.get_running_loop().call_later(FIRST_BYTE_S, _close_silent, stream)
        try:
            await asyncio.wait((handshake,), timeout=_LONGEST_S)
            if handshake.done() and not handshake.cancelled() and not stream.closed():
                return handshake.result()
            logger.info("%s has not shown a certificate, or has gone", address)
            stream.close()
            return None
        finally:
            late.cancel()
            handshake.cancel()
            stream.set_close_callback(None)  # the next one to have it sets its own
            self._pending.leave(stream)


class _BoundedTls(TLSBackend):
    _listener_class = _BoundedListener


def limit_connections() -> None:
    """Let this process listen within limits from now on."""
    backends["tls"] = _BoundedTls()


def _is_silent(stream: Any) -> bool:
    """Whether neither the first message of the handshake nor the end has come."""
    return stream.socket is not None and stream.socket.shared_ciphers() is None


def _close_silent(stream: Any) -> None:
    if _is_silent(stream):
        stream.close()


def renew_trust(scheduler: Scheduler, security: Security) -> None:
    """Trust the certificates that the files of `security` have now, in later handshakes."""
    about: Any = security
    context = about.get_listen_args("scheduler")["ssl_context"]
    listeners: list[Any] = scheduler.listeners
    for listener in listeners:
        if isinstance(listener, TLSListener):  # not the one inside this process
            server: Any = listener.tcp_server
            server.ssl_options = context


def close_connections(scheduler: Scheduler, ends: Callable[[TLS], bool]) -> None:
    """Close those connections to a scheduler for which `ends` is true."""
    for one in tuple(scheduler._comms):
        if isinstance(one, TLS) and not one.closed() and ends(one):
            one.abort()


def certificate_of(connection: Any) -> bytes:
    """Certificate (DER) that the other end of a connection of TLS has proved to have."""
    found: bytes = connection.stream.socket.getpeercert(binary_form=True)
    return found
