"""Workers that make nothing, and farms that are simulated from a record."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.bench.cases import workers as idle_workers
from engine.bench.cases.farm import (
    COUNTS,
    FASTER,
    LINKS,
    Connection,
    SpanTimes,
    simulate,
    simulated_rows,
)
from engine.bench.cases.workers import empty_film
from engine.pipeline.segments import Span
from engine.planner.sharing import in_turn
from engine.workers.worker import JobOrder

TIMES = {
    "span_s": 1.0,
    "survey_s": 0.002,
    "source_bytes": 5e3,
    "result_bytes": 5e4,
    "join_s": 0.01,
    "host_s": 0.003,
    "start_s": 3.0,
}


def test_there_is_a_row_for_every_farm() -> None:
    rows = list(simulated_rows(TIMES))
    assert len(rows) == len(LINKS) * len(FASTER) * len(COUNTS)
    assert all(0 < row["efficiency"] <= 1.001 for row in rows)
    assert {row["limit"] for row in rows} >= {"workers", "link", "join"}


def order_in(folder: Path) -> JobOrder:
    media, plan = empty_film(folder, 4)
    return JobOrder(job_id="bench", media=media, plan=plan, folder=folder)


@pytest.mark.extended
def test_idle_workers_of_another_process_get_all_spans(tmp_path: Path) -> None:
    assert idle_workers.served(order_in(tmp_path), 2, spans=40).cpu_s > 0
    assert len(list(tmp_path.glob("segment_*"))) >= 40


class Failing(idle_workers.Idle):
    """Fails at each span."""

    def make(self, span: Span) -> None:
        raise LookupError("no such span")


@pytest.mark.extended
def test_a_span_that_fails_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_workers, "Idle", Failing)
    with pytest.raises(LookupError, match="no such span"):
        idle_workers.served(order_in(tmp_path), 1, spans=1)


@pytest.mark.slow
def test_idle_workers_are_as_fast_as_simulated(tmp_path: Path) -> None:
    found = idle_workers.served(order_in(tmp_path), 4, spans=40, seconds=0.4)
    expected = simulate(SpanTimes(spans=40, span_s=(0.4,)), 4 * (1.0,)).seconds
    assert expected <= found.wall_s < 1.3 * expected


def test_one_worker_makes_one_span_after_the_other() -> None:
    times = SpanTimes(spans=100, span_s=(2.0,), survey_s=0.25, host_s=0.01, join_s=5.0, start_s=3.0)
    found = simulate(times, (1.0,))
    assert found.seconds == pytest.approx(3.0 + 100 * 2.01 + 5.0)
    assert found.limit == "workers"


@pytest.mark.parametrize("workers", [2, 7, 64])
def test_without_limits_only_the_last_spans_wait(workers: int) -> None:
    found = simulate(SpanTimes(spans=100, span_s=(2.0,)), workers * (1.0,))
    assert found.seconds == pytest.approx(2.0 * math.ceil(100 / workers))
    assert found.efficiency(simulate(SpanTimes(spans=100, span_s=(2.0,)), (1.0,))) == pytest.approx(
        100 / workers / math.ceil(100 / workers)
    )


def test_a_slow_link_makes_more_workers_useless() -> None:
    times = SpanTimes(spans=200, span_s=(1.0,), source_bytes=1e6, result_bytes=5e6)
    link = Connection(mbit_s=100, latency_s=0.02)  # 0.4 s for each result
    found = [simulate(times, workers * (1.0,), link) for workers in (1, 8, 64)]
    alone = 0.02 * 4 + 0.08 + 1.0 + 0.4
    assert found[0].seconds == pytest.approx(200 * alone)
    assert found[1].limit == found[2].limit == "link"
    assert 200 * 0.4 <= found[2].seconds <= found[1].seconds <= 200 * 0.4 + 2 * alone


def test_joining_is_not_shared() -> None:
    times = SpanTimes(spans=64, span_s=(1.0,), join_s=10.0)
    found = simulate(times, 64 * (1.0,))
    assert found.seconds == pytest.approx(11.0)
    assert found.limit == "join"


def test_no_span_is_made_before_it_is_known() -> None:
    times = SpanTimes(spans=100, span_s=(1.0,), survey_s=0.5)
    found = simulate(times, 16 * (1.0,))
    assert found.seconds == pytest.approx(100 * 0.5 + 1.0)
    assert found.limit == "survey"


def test_the_host_hands_out_one_at_a_time() -> None:
    found = simulate(SpanTimes(spans=1000, span_s=(0.1,), host_s=0.01), 64 * (1.0,))
    assert found.seconds == pytest.approx(1000 * 0.01 + 0.1)
    assert found.limit == "host"


def test_unequal_spans_go_to_who_is_free() -> None:
    found = simulate(SpanTimes(spans=4, span_s=(4.0, 1.0, 1.0, 1.0)), (1.0, 1.0))
    assert found.seconds == pytest.approx(4.0)


def test_a_fast_worker_makes_more() -> None:
    found = simulate(SpanTimes(spans=90, span_s=(1.0,)), (1.0, 2.0))
    assert list(map(len, found.made)) == [30, 60]
    assert sorted(one for made in found.made for one in made) == list(range(90))
    assert found.seconds == pytest.approx(30.0)


def test_a_process_of_the_host_needs_no_link() -> None:
    times = SpanTimes(spans=100, span_s=(1.0,), source_bytes=1e9, result_bytes=1e9)
    link = Connection(mbit_s=100)
    assert simulate(times, (1.0,), link, near=1).seconds == pytest.approx(100.0)
    both = simulate(times, (1.0, 1.0), link, near=1)
    assert len(both.made[1]) == 1  # of 80 s for each direction
    assert both.busy["link"] == pytest.approx(80 / both.seconds)


def test_plans_hand_spans_out_as_the_simulation_does_without_a_link() -> None:
    spans, speeds = tuple(1.0 + number % 7 for number in range(200)), (1.0, 2.5, 0.7, 2.5)
    found = simulate(SpanTimes(spans=200, span_s=spans), speeds)
    planned = tuple(in_turn(spans, speeds))
    assert max(end for _, end in planned) == pytest.approx(found.seconds)
    for worker, made in enumerate(found.made):
        assert [span for span, (one, _) in enumerate(planned) if one == worker] == list(made)
