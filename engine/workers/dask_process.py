"""What Dask does otherwise in a process of this program: imported before it starts anything.

Its settings: for good, for it reads some of them only when a worker starts, in a thread of its own.
Its workers get those of this process.

Its clock on Windows: Dask adds what the fine clock counts to what the coarse one says, and reads
both until the coarse one says the same time often enough. Where that one is fine as well, as under
Wine, it reads them without an end. Here one reading has to do; it is not less exact.

Its messages: Dask measures each one, to write those of many MiB in another thread. Nothing here
sends as much at a time, and to measure takes longer than to write.

Its connections inside one process: Dask names them by the address of this computer, and finds that
by a connection to one of the internet. The local address does as well.

Its processes: in them Dask would be loaded before this program, and read files that a user has for
other programs (`engine.runtimes.environment`). The class of these processes is one of this program.
"""

from __future__ import annotations

import time
from copy import deepcopy
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

import dask
from distributed import comm, metrics, process

SETTINGS: dict[str, Any] = {
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.worker.profile.enabled": False,  # takes the interpreter's lock from the work
    "distributed.worker.http.routes": [],  # pages
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.allowed-failures": 0,  # what is left of a span is handed out again
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # results are small
    "distributed.scheduler.worker-ttl": None,  # a process that is here is watched by its nanny
    # TRAP: else workers give each tensor back to Linux, and Lite takes twice as long for new pages.
    # They would stay in the environment of this process as well.
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.tick.interval": "1s",  # each wakes the processor; usually 20 ms
    "distributed.admin.system-monitor.interval": "1h",  # nothing shows it
    "distributed.admin.tick.limit": "1h",  # it would complain of the work
    "distributed.comm.timeouts.connect": "60s",
    "distributed.comm.tls.min-version": 1.3,
}


class OwnProcess(SpawnProcess):
    """A process that loads this module first: its class is what it unpickles first."""


class _Context(SpawnContext):
    Process = OwnProcess


def adapt() -> None:
    """From now on."""
    processes: Any = process
    processes.get_mp_context = _Context
    dask.config.set(deepcopy(SETTINGS))  # Dask may add to the lists
    clocks: Any = metrics._WindowsTime
    clocks.resync = _resync
    messages: Any = comm
    messages.utils.OFFLOAD_THRESHOLD = False
    messages.inproc.global_manager._ip = "127.0.0.1"


def _resync(clock: metrics._WindowsTime) -> None:
    clock.delta = clock.base_timer() - time.perf_counter()
