from dataclasses import replace
from typing import Any

import pytest

from engine.bench.cases import operators
from engine.bench.cases.operators import attention_rows, kernel_rows, matmul_rows
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import Timing
from engine.core.geometry import Size
from engine.ops.linear.formats import PRODUCTS, STORED, working
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

    monkeypatch.setattr(operators, "measure", measured)
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


SMALL: dict[str, Any] = {"dim": 64, "heads": 1, "head_dim": 64, "layers": 2, "text_in_dim": 32}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        small = {
            name: replace(config, **SMALL, separate_layers=2, mlp_hidden=96)
            for name, config in operators._MODELS.items()
        }
        patch.setattr(operators, "_MODELS", small)
        patch.setattr(operators, "_SIZE", Size(64, 64))
        patch.setattr(operators, "_FRAMES", 1)
        return list(matmul_rows(BenchOptions(quick=True, runs=1, threads=1, device="cpu")))


def error(rows: list[Row], name: str, work: str) -> float:
    return next(row["result_error"] for row in rows if (row["format"], row["work"]) == (name, work))


@pytest.mark.extended
def test_every_format_has_its_errors(rows: list[Row]) -> None:
    limits = {"bfloat16": 0.01, "F8_E4M3": 0.1, "F8_E5M2": 0.2}
    for name, limit in (limits | {"fp8": 0.15, "int8": 0.05, "nvfp4": 0.4}).items():
        for work in ("linear 64", "linear 512", "linear 512, outliers", "3B kind", "7B kind"):
            assert 1e-4 < error(rows, name, work) < limit
    for work in ("linear 64", "linear 512", "3B kind", "7B kind"):
        errors = [error(rows, name, work) for name in ("bfloat16", "int8", "fp8", "nvfp4")]
        assert errors == sorted(errors), "finer formats lose less"
    worse = {
        name: error(rows, name, "linear 512, outliers") / error(rows, name, "linear 512")
        for name in ("int8", "fp8")
    }
    assert worse["int8"] > 2 > 1.2 > worse["fp8"], "outliers hurt integers more than floats"


@pytest.mark.extended
def test_only_formats_that_run_here_are_timed(rows: list[Row]) -> None:
    assert {row["format"] for row in rows if "of_float" in row} == set(working("cpu"))
    imitated = {row["format"] for row in rows if row["here"] != "yes"}
    assert imitated == set(PRODUCTS) - set(working("cpu"))
    found = {row["format"]: row["million_a_second"] for row in rows if "million_a_second" in row}
    assert set(found) == STORED, "stored formats have the speed of widening"
    assert all(speed > 0 for speed in found.values())


def test_an_imitated_product_has_the_error_of_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = operators._tokens(64, 128), operators._weight(96, 128)
    names = working("cpu")
    real = [operators._product(name, x, weight) for name in names]
    monkeypatch.setattr(operators, "working", lambda device: ())
    for name, product in zip(names, real, strict=True):
        assert operators._product(name, x, weight).allclose(product, rtol=1e-4, atol=1e-4)
