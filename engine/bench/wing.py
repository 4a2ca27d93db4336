"""The benchmark as a wing of the engine. Loads without torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from engine.core.errors import JobError
from engine.core.wings import Wing
from engine.jobs.task_runner import Outcome, RunningTask, Task
from engine.protocol.commands import RunBenchmark
from engine.protocol.tasks import TaskKind


class BenchmarkService:
    """Measures this computer while no job runs.

    Args:
        is_busy: Whether a job or an excerpt runs.
    """

    kind = TaskKind.BENCHMARK
    commands = RunBenchmark

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy

    def answer(self, command: RunBenchmark) -> Task:
        """Return a task; one that runs already goes on.

        Raises:
            JobError: A job runs.
        """
        if self._is_busy():
            raise JobError("benchmark-waits")
        if command.archive is not None:
            path = command.archive
            return Task(kind=self.kind, subject=str(path), do=partial(self._archive, path))
        return Task(kind=self.kind, do=partial(self._measure, command.quick))

    @staticmethod
    def _archive(path: Path, work: RunningTask) -> None:
        from engine.bench import first_contact  # torch
        from engine.bench.run import BenchOptions

        first_contact.measure(path, BenchOptions(), report=work.step, control=work.control)

    @staticmethod
    def _measure(quick: bool, work: RunningTask) -> Outcome:
        from engine.bench.calibration import examine  # torch

        def stop() -> bool:
            return work.control.is_cancelled

        return Outcome(result=examine(quick=quick, report=work.step, stop=stop))


class BenchWing(Wing):
    """Commands `bench` and `measure`, and the benchmark of the window."""

    def add_commands(self, add: Callable[..., Any]) -> None:
        """Add `bench` and `measure`."""
        from engine.bench import command

        command.register(add)
        command.register_measure(add)

    def services(self, host: Any) -> tuple[Any, ...]:
        """Answer RunBenchmark."""
        return (BenchmarkService(host.is_busy),)


WING = BenchWing()
