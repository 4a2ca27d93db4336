import pytest

from engine.bench.cases import kernels
from engine.bench.cases.kernels import attention_rows, kernel_error_rows, kernel_rows
from engine.bench.options import BenchOptions
from engine.bench.timing.clock import Timing
from engine.core.errors import NoUsableGpu
from tests.helpers.gpu import need_gpu_memory

FRAMES = ["moments", "normalise", "both", "positions"]
TOKENS = ["rms_modulate", "add_gated", "swiglu", "gather_qk"]
QUICK = BenchOptions(device="cpu", quick=True)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Work that takes half a second without running."""
    found: list[object] = []

    def measured(work: object, device: str, **_: int) -> Timing:
        found.append(work)
        return Timing(seconds=0.5, wall_s=1.0)

    monkeypatch.setattr(kernels, "measure", measured)
    return found


def test_each_step_has_its_share_of_a_copy(works: list[object]) -> None:
    rows = list(kernel_rows(QUICK))
    assert [row["step"] for row in rows] == ["copy", *FRAMES, "copy", *TOKENS]
    assert [row["of_copy"] for row in rows[:5]] == pytest.approx([1.0, 0.5, 1.0, 1.5, 1.0])
    assert [row["of_copy"] for row in rows[5:8]] == pytest.approx([1.0, 1.0, 1.5])
    assert rows[8]["of_copy"] == pytest.approx(1.5 * 6912 / 2560)  # swiglu
    assert rows[9]["of_copy"] == pytest.approx(3.0)
    assert rows[0]["gb_a_second"] == 2 * 5 * 128 * 64 * 64 * 4 / 0.5 / 1e9
    assert rows[5]["gb_a_second"] == 2 * 405 * 2560 * 4 / 0.5 / 1e9
    assert {row["form"] for row in rows} == {"torch"}
    assert len(works) == 10
    for work in works:
        work()


def test_errors_of_kernels_need_a_gpu() -> None:
    with pytest.raises(NoUsableGpu):
        next(kernel_error_rows(QUICK))


@pytest.mark.usefixtures("works")
def test_each_attention_backend_has_its_speed_and_its_error() -> None:
    rows = {row["backend"]: row for row in attention_rows(QUICK)}
    assert {"sdpa", "math"} <= set(rows)
    for row in rows.values():
        assert row["tflops"] == pytest.approx(4 * 2 * 463**2 * 128 / 0.5 / 1e12)
        assert row["error"] < 1e-5
        assert row["exact"] == "yes"


@pytest.mark.real_gpu("nothing has a bandwidth")
@pytest.mark.gpu
def test_kernels_reach_most_of_the_bandwidth_of_a_copy_on_a_gpu() -> None:
    need_gpu_memory(12 * 10**9)
    found = list(attention_rows(BenchOptions(device="cuda", quick=True)))
    assert {"sdpa", "efficient", "math"} <= {row["backend"] for row in found}
    rows = [row for row in kernel_rows(BenchOptions(device="cuda")) if row["form"] == "kernels"]
    assert len(rows) == 3 * (2 * len(FRAMES) + len(TOKENS))
    assert not [row for row in rows if row["of_copy"] < 0.7]
