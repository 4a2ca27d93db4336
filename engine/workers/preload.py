"""Run by a worker process before anything loads torch: it takes the build that the program has."""

from __future__ import annotations

from engine.runtimes import start


def dask_setup(worker: object) -> None:
    """Called by Dask, by its name."""
    del worker
    start.activate()
