"""Other computers of the job that runs now, for whoever shows them. Loads fast."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.protocol.machines import MachineInfo

_lock = threading.Lock()
_present: tuple[MachineInfo, ...] = ()
_listeners: list[Callable[[], None]] = []


def present() -> tuple[MachineInfo, ...]:
    """Computers that have joined the present job, also those that have left; () without a job."""
    return _present


def on_change(listener: Callable[[], None]) -> Callable[[], None]:
    """Call something whenever `present` changes, in any thread; it must not wait.

    Returns:
        Ends it.
    """
    with _lock:
        _listeners.append(listener)

    def end() -> None:
        with _lock:
            _listeners.remove(listener)

    return end


def show(machines: tuple[MachineInfo, ...]) -> None:
    """Set what `present` returns."""
    global _present
    with _lock:
        if machines == _present:
            return
        _present = machines
        listeners = tuple(_listeners)
    for listener in listeners:
        listener()
