"""What Dask does otherwise in a process of this program.

Its clock on Windows: Dask adds what the fine clock counts to what the coarse one says, and reads
both until the coarse one says the same time often enough. Where that one is fine as well, as under
Wine, it reads them without an end. Here one reading has to do; it is not less exact.

Its messages: Dask measures each one, to write those of many MiB in another thread. Nothing here
sends as much at a time, and to measure takes longer than to write.

Its connections inside one process: Dask names them by the address of this computer, and finds that
by a connection to one of the internet. The local address does as well.
"""

from __future__ import annotations

import time
from typing import Any

from distributed import comm, metrics


def adapt() -> None:
    """From now on."""
    clocks: Any = metrics._WindowsTime
    clocks.resync = _resync
    messages: Any = comm
    messages.utils.OFFLOAD_THRESHOLD = False
    messages.inproc.global_manager._ip = "127.0.0.1"


def _resync(clock: metrics._WindowsTime) -> None:
    clock.delta = clock.base_timer() - time.perf_counter()
