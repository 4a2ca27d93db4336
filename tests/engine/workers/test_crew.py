"""What becomes of spans whose worker has gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from engine.workers.crew import Crew
from engine.workers.worker import SpanWorker


class LostResult:
    """A future of Dask whose worker has gone with the result: another one makes it again."""

    status = "lost"

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def done(self) -> bool:
        return False

    def result(self) -> None:
        raise AssertionError("it would wait until the span is made again")

    def add_done_callback(self, waits: Callable[[Any], None]) -> None:
        self.waiting.append(waits)


def test_a_span_whose_result_is_lost_is_waited_for_without_holding_the_job() -> None:
    heard: list[Any] = []
    future = LostResult()
    crew = Crew(cast(SpanWorker, None), Path(), 1, heard.append)
    assert crew.outcome_of(cast(Any, future)) is None
    assert future.waiting == [heard.append]
