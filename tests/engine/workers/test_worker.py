"""When a worker sends what it reports: together, and before its span ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.workers.worker import TOPIC, JobOrder, SpanWorker

A, B = {"kind": "segment", "data": 1}, {"kind": "made", "data": 2}


class FakeWorker:
    """The parts of a worker of Dask that reports go through."""

    name = "0"

    def __init__(self) -> None:
        self.stream_handlers: dict[str, Any] = {}
        self.batched_stream = SimpleNamespace(interval=0.002)
        self.sent: list[tuple[str, Any]] = []
        self.soon: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.loop = SimpleNamespace(
            add_callback=self.soon.append, call_later=lambda _, send: self.later.append(send)
        )

    def log_event(self, topic: str, about: Any) -> None:
        self.sent.append((topic, about))


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def spans(worker: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> SpanWorker:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    made = SpanWorker(cast(JobOrder, SimpleNamespace(is_paused=False)))
    made.setup(cast(Any, worker))
    return made


def test_reports_go_with_the_end_of_the_span(worker: FakeWorker, spans: SpanWorker) -> None:
    for report in (A, B):
        spans.report(report["kind"], report["data"])
    spans.transition("another", "memory", "released")
    assert not worker.sent
    spans.transition("it", "executing", "memory")
    assert worker.sent == [(TOPIC, {"reports": [A, B]})]
    for call in (*worker.soon, *worker.later):
        call()
    assert len(worker.sent) == 1  # nothing is sent twice, or empty


def test_a_report_is_sent_soon_while_the_span_goes_on(
    worker: FakeWorker, spans: SpanWorker
) -> None:
    spans.report(A["kind"], A["data"])
    spans.report(B["kind"], B["data"])
    assert len(worker.soon) == 1  # one of them wakes the other thread
    worker.soon.pop()()
    worker.later.pop()()
    assert worker.sent == [(TOPIC, {"reports": [A, B]})]
    spans.report(A["kind"], A["data"])
    assert len(worker.soon) == 1
