"""Machine switches outside of the models, in force for the whole process while a job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.settings.optimisations import RunSwitches


@dataclass(slots=True)
class _Now:
    switches: RunSwitches


_now = _Now(RunSwitches())


def current() -> RunSwitches:
    """Those of the running job; the defaults where there is none."""
    return _now.switches


@contextmanager
def using(switches: RunSwitches) -> Iterator[None]:
    """Set these in all threads, and restore the previous ones afterwards."""
    before, _now.switches = _now.switches, switches
    try:
        yield
    finally:
        _now.switches = before
