"""The clock of Dask on Windows.

Dask adds what the fine clock of Windows counts to what the coarse one says, and reads both until
the coarse one says the same time often enough. Where that one is fine as well, as under Wine, it
reads them without an end. Here one reading has to do; it is not less exact.
"""

from __future__ import annotations

import time
from typing import Any

from distributed import metrics


def limit() -> None:
    """Let the clocks of this process be read once, from now on."""
    clocks: Any = metrics._WindowsTime
    clocks.resync = _resync


def _resync(clock: metrics._WindowsTime) -> None:
    clock.delta = clock.base_timer() - time.perf_counter()
