from __future__ import annotations

import pytest

from engine.bench.cases import attention
from engine.bench.cases.attention import measure_attention
from engine.bench.timing.peak_rates import Clocked


def test_each_backend_has_its_speed_and_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def clocked(work: object, device: str, **_: int) -> Clocked:
        return Clocked(seconds=0.5, wall_s=1.0)

    monkeypatch.setattr(attention, "clocked", clocked)
    rows = {row["backend"]: row for row in measure_attention("cpu", quick=True)}
    assert {"sdpa", "math"} <= set(rows)
    for row in rows.values():
        assert row["tflops"] == pytest.approx(4 * 2 * 463**2 * 128 / 0.5 / 1e12)
        assert row["error"] < 1e-5
        assert row["exact"] == "yes"


@pytest.mark.gpu
def test_a_card_has_more_than_torchs_own_choice() -> None:
    rows = list(measure_attention("cuda", quick=True))
    assert {"sdpa", "efficient", "math"} <= {row["backend"] for row in rows}
