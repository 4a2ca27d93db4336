from __future__ import annotations

import pytest

from engine.bench.cases import kernels
from engine.bench.cases.kernels import measure_bandwidth
from engine.bench.timing.peak_rates import Clocked

FRAMES = ["moments", "normalise", "both", "positions"]
TOKENS = ["rms_modulate", "add_gated", "swiglu", "gather_qk"]


def test_each_step_has_its_share_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []

    def clocked(work: object, device: str, **_: int) -> Clocked:
        steps.append(work)
        return Clocked(seconds=0.5, wall_s=1.0)

    monkeypatch.setattr(kernels, "clocked", clocked)
    rows = list(measure_bandwidth("cpu", quick=True))
    assert [row["step"] for row in rows] == ["copy", *FRAMES, "copy", *TOKENS]
    assert [row["of_copy"] for row in rows[:5]] == pytest.approx([1.0, 0.5, 1.0, 1.5, 1.0])
    assert [row["of_copy"] for row in rows[5:8]] == pytest.approx([1.0, 1.0, 1.5])
    assert rows[8]["of_copy"] == pytest.approx(1.5 * 6912 / 2560)  # swiglu
    assert rows[9]["of_copy"] == pytest.approx(3.0)
    assert rows[0]["gb_a_second"] == 2 * 5 * 128 * 64 * 64 * 4 / 0.5 / 1e9
    assert rows[5]["gb_a_second"] == 2 * 405 * 2560 * 4 / 0.5 / 1e9
    assert {row["form"] for row in rows} == {"torch"}
    assert len(steps) == 10


def test_each_step_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_WINDOW", 4)
    rows = list(measure_bandwidth("cpu", quick=True))
    assert all(row["gb_a_second"] > 0 for row in rows)


@pytest.mark.gpu
def test_kernels_reach_most_of_the_bandwidth_of_a_copy() -> None:
    rows = [row for row in measure_bandwidth("cuda") if row["form"] == "kernels"]
    assert len(rows) == 3 * (2 * len(FRAMES) + len(TOKENS))
    slow = [row for row in rows if row["of_copy"] < 0.7]
    assert not slow
