"""Workers that make nothing, and farms that are made of a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.cases import workers as idle_workers
from engine.bench.cases.farm import COUNTS, FASTER, LINKS, simulated_rows
from engine.bench.cases.farm_simulation import SpanTimes, simulate
from engine.bench.cases.workers import empty_film
from engine.pipeline.segments import Span
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
