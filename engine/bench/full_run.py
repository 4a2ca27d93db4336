"""The benchmark of the window: speed test, and every optimisation on request, as one report."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.bench import run
from engine.bench.calibration import calibrate
from engine.bench.calibration.calibrate import Report
from engine.bench.report.claims import unmeasured
from engine.bench.report.machine import Row, machine_of, machine_row
from engine.bench.report.markdown import markdown
from engine.bench.report.switch_table import about, measured
from engine.core.errors import Cancelled
from engine.core.messages import Message
from engine.hardware import torch_memory
from engine.protocol.report import BenchReport
from engine.settings.optimisations import optimisations

_CASES = "optimisations"
_OTHER_ROWS = 25  # of those cases that are no switches: choices, all together, slices, tiles...


def examine(*, quick: bool, report: Report, stop: Callable[[], bool]) -> BenchReport:
    """Measure this machine, and save the costs that the speed test measured for plans.

    Args:
        quick: The speed test alone; else all optimisations too.
        report: Called with each step, and at the end with "" as its name.
        stop: Asked between steps.

    Raises:
        Cancelled: By `stop`; costs of a finished speed test are saved.
    """
    begin = time.monotonic()
    steps = _StepCount(report, 0 if quick else len(optimisations()) + _OTHER_ROWS)
    with torch_memory.selected():
        rates = calibrate.calibrate(steps.report_speed_test, stop)
    calibrate.keep(rates)
    rows: list[Row] = [machine_row()]
    rows += [{"case": "speed", **row} for row in calibrate.figure_rows(rates)]
    if not quick:
        rows += _switch_rows(steps, stop)
    steps.end()
    return BenchReport(
        machine=machine_of(rows),
        switches=measured(rows) if quick else (*measured(rows), *unmeasured()),
        figures=calibrate.figures(rates),
        markdown=markdown(rows),
        seconds=time.monotonic() - begin,
        notes=about(rows),
    )


def _switch_rows(steps: _StepCount, stop: Callable[[], bool]) -> list[Row]:
    found = []
    rows = run.measured([_CASES])
    next(rows)  # the machine
    try:
        for row in rows:
            found.append(row)
            steps.next(_title(row))
            if stop():
                raise Cancelled
    finally:
        rows.close()
    return found


def _title(row: Row) -> Message:
    """Name of what was measured."""
    return next((line.title for line in measured([row])), None) or about([row])[0]


class _StepCount:
    """Counts the steps of both halves; a total that was too small grows."""

    def __init__(self, report: Report, more: int) -> None:
        self._report, self._more = report, more
        self._done = self._total = 0

    def report_speed_test(self, done: int, total: int, step: Message | None) -> None:
        """Take over the count of the speed test."""
        self._done, self._total = done, total + self._more
        self._report(self._done, self._total, step)

    def next(self, step: Message) -> None:
        """One more row was measured."""
        self._done += 1
        self._total = max(self._total, self._done + 1)
        self._report(self._done, self._total, step)

    def end(self) -> None:
        """Everything was measured."""
        self._report(self._total, self._total, None)
