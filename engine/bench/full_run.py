"""The benchmark of the window: the speed test, and every optimisation on request, as one report."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.bench import run
from engine.bench.calibration import calibrate
from engine.bench.report.machine import Row, machine_row
from engine.bench.report.markdown import machine_of, markdown
from engine.bench.report.switch_table import about, measured
from engine.core.errors import Cancelled
from engine.core.messages import Message
from engine.protocol.report import BenchReport
from engine.settings.optimisations import optimisations

Tell = Callable[[int, int, Message | str], None]  # steps done, of how many, what is done now
Stop = Callable[[], bool]

_TABLE = "optimisations"
_BESIDES = 16  # rows of the table that are no switches: choices, all together, slices, tiles...


def examine(*, quick: bool, tell: Tell, stop: Stop) -> BenchReport:
    """Measure this machine, and let plans use what its speed test found.

    Args:
        quick: The speed test alone; else all optimisations too.
        tell: Told before each step, and at the end.
        stop: Asked between steps.

    Raises:
        Cancelled: `stop` says so; what the speed test had found by then is kept.
    """
    begin = time.monotonic()
    more = 0 if quick else len(optimisations()) + _BESIDES
    steps = _Steps(tell, more)
    rates = calibrate.calibrate(steps.of_speed_test, stop)
    calibrate.keep(rates)
    figures = calibrate.figures(rates)
    rows: list[Row] = [machine_row()]
    rows += [{"case": "speed", "what": name, "figure": text} for name, text in figures]
    if not quick:
        rows += _table(steps, stop)
    steps.end()
    return BenchReport(
        machine=machine_of(rows),
        switches=measured(rows),
        figures=figures,
        markdown=markdown(rows),
        seconds=time.monotonic() - begin,
        notes=about(rows),
    )


def _table(steps: _Steps, stop: Stop) -> list[Row]:
    found = []
    rows = run.measured([_TABLE])
    next(rows)  # what it is measured on
    try:
        for row in rows:
            found.append(row)
            steps.next(_title(row))
            if stop():
                raise Cancelled
    finally:
        rows.close()
    return found


def _title(row: Row) -> Message | str:
    """What was measured."""
    return next((line.title for line in measured([row])), "".join(about([row])))


class _Steps:
    """Counts the steps of both halves; a total that was too small grows."""

    def __init__(self, tell: Tell, more: int) -> None:
        self._tell, self._more = tell, more
        self._done = self._total = 0

    def of_speed_test(self, done: int, total: int, doing: str) -> None:
        """The speed test is so far."""
        self._done, self._total = done, total + self._more
        self._tell(self._done, self._total, doing)

    def next(self, doing: Message | str) -> None:
        """One more line of the table is there."""
        self._done += 1
        self._total = max(self._total, self._done + 1)
        self._tell(self._done, self._total, doing)

    def end(self) -> None:
        """Everything was measured."""
        self._tell(self._total, self._total, "")
