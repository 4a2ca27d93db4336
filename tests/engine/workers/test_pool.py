"""What becomes of spans whose worker has gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dask
import pytest
from distributed import Worker, WorkerPlugin

from engine.ops.choices import Choices
from engine.workers import pool as pool_module
from engine.workers.dask_internals import SETTINGS
from engine.workers.pool import WorkerPool
from engine.workers.reports import InvalidReport
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
    pool = WorkerPool(cast(SpanWorker, None), Path(), 1, heard.append)
    assert pool.outcome_of(cast(Any, future)) is None
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
    scheduler = SimpleNamespace(task_prefixes=known, WORKER_SATURATION=0.0, workers={})
    pool: Any = WorkerPool(cast(SpanWorker, None), Path(), 1, print)
    pool._worker = SimpleNamespace(job_id="a")
    pool._scheduler = scheduler
    pool._client = SimpleNamespace(map=lambda *_, **__: [])
    assert pool.hand_out([]) == []
    assert saturation == scheduler.WORKER_SATURATION


def choosing(count: int, choices: Choices, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pool with workers of this computer; others wait for them no longer than half a second."""
    monkeypatch.setattr(pool_module, "_PATIENCE_S", 0.5)
    return WorkerPool(cast(SpanWorker, None), Path(), count, print, None, choices)


def test_workers_of_this_computer_choose_first_and_others_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = Choices()
    pool = choosing(1, choices, monkeypatch)

    async def talk() -> None:
        assert await pool._choose(None, 1, "a", "") == ""  # a question: it does not wait
        other = asyncio.create_task(pool._choose(None, 1, "a", "flash2"))
        await asyncio.sleep(0.05)
        assert await pool._choose(None, 0, "a", "sdpa") == "sdpa"
        assert await other == "sdpa"
        assert await pool._choose(None, 1, "a", "") == "sdpa"
        for key in ("b", "c"):  # which no worker of this computer meets
            assert await pool._choose(None, 1, key, "flash2") == "flash2"
        assert await pool._choose(None, 0, "b", "sdpa") == "flash2"

    asyncio.run(talk())
    assert pool._patience_s <= 0
    assert choices.known == {"a": "sdpa", "b": "flash2", "c": "flash2"}


@pytest.mark.parametrize(
    "about",
    [("1", "a", "b"), (1, ["a"], "b"), (1, "a", None), (1, "a" * 501, ""), (1, "a", "b" * 501)],
)
def test_a_choice_that_makes_no_sense_is_not_kept(
    about: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = Choices()
    with pytest.raises(InvalidReport):
        asyncio.run(choosing(0, choices, monkeypatch)._choose(None, *about))
    assert not choices.known


class _NoSpans(WorkerPlugin):
    """As SpanWorker, a class of a module that loads `engine.workers.worker`."""


def _of_a_worker(dask_worker: Worker) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    listeners = [type(one).__name__ for one in dask_worker.listeners]
    return {name: dask.config.get(name) for name in SETTINGS}, dict(os.environ), listeners


@pytest.mark.extended
def test_workers_have_the_settings_of_dask_and_no_variables_of_its_own(tmp_path: Path) -> None:
    """It starts them in a thread of its own, later; its variables halve the speed of Lite."""
    with WorkerPool(cast(SpanWorker, _NoSpans()), tmp_path, 1, lambda found: None) as pool:
        pool._client.wait_for_workers(1)
        ((settings, variables, listeners),) = pool._client.run(_of_a_worker).values()
    assert settings == SETTINGS
    assert listeners == ["_BoundedListener"]
    assert "MALLOC_TRIM_THRESHOLD_" not in variables | os.environ
