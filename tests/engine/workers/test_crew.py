"""What becomes of spans whose worker has gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

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


@pytest.mark.parametrize(
    ("seconds", "saturation"),
    [(None, 1.0), (-1, 1.0), (0.01, 2.0), (1.0, 1.0)],
    ids=["none", "not known", "short", "long"],
)
def test_a_worker_has_the_next_span_ready_only_where_spans_are_short(
    seconds: float | None, saturation: float
) -> None:
    """A slow worker that had two long ones would have the others wait for it at the end."""
    known = {} if seconds is None else {"make_span": SimpleNamespace(duration_average=seconds)}
    scheduler = SimpleNamespace(task_prefixes=known, WORKER_SATURATION=0.0)
    crew: Any = Crew(cast(SpanWorker, None), Path(), 1, print)
    crew._worker = SimpleNamespace(job_id="a")
    crew._cluster = SimpleNamespace(scheduler=scheduler)
    crew._client = SimpleNamespace(map=lambda *_, **__: [])
    assert crew.hand_out([]) == []
    assert saturation == scheduler.WORKER_SATURATION
