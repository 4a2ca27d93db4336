from __future__ import annotations

import pytest

from engine.bench import kernels_case
from engine.bench.ceilings import Clocked
from engine.bench.kernels_case import measure_bandwidth


def test_each_step_has_its_share_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []

    def clocked(work: object, device: str, **_: int) -> Clocked:
        steps.append(work)
        return Clocked(seconds=0.5, wall_s=1.0)

    monkeypatch.setattr(kernels_case, "clocked", clocked)
    rows = list(measure_bandwidth("cpu", quick=True))
    assert [row["step"] for row in rows] == ["copy", "moments", "normalise", "both"]
    assert [row["of_copy"] for row in rows] == pytest.approx([1.0, 0.5, 1.0, 1.5])
    assert rows[0]["gb_a_second"] == 2 * 5 * 128 * 64 * 64 * 4 / 0.5 / 1e9
    assert {row["form"] for row in rows} == {"torch"}
    assert len(steps) == 4


@pytest.mark.gpu
def test_kernels_reach_most_of_the_bandwidth_of_a_copy() -> None:
    rows = [row for row in measure_bandwidth("cuda") if row["form"] == "kernels"]
    assert len(rows) == 3 * 2 * 3
    slow = [row for row in rows if row["of_copy"] < 0.7]
    assert not slow
