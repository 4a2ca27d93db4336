from dataclasses import replace
from typing import Any

import pytest

from engine.bench.cases import matmul_formats
from engine.bench.cases.matmul_formats import matmul_rows
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.core.geometry import Size
from engine.ops.linear.formats import PRODUCTS, STORED, working

SMALL: dict[str, Any] = {"dim": 64, "heads": 1, "head_dim": 64, "layers": 2, "text_in_dim": 32}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        small = {
            name: replace(config, **SMALL, separate_layers=2, mlp_hidden=96)
            for name, config in matmul_formats._MODELS.items()
        }
        patch.setattr(matmul_formats, "_MODELS", small)
        patch.setattr(matmul_formats, "_SIZE", Size(64, 64))
        patch.setattr(matmul_formats, "_FRAMES", 1)
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
    x, weight = matmul_formats._tokens(64, 128), matmul_formats._weight(96, 128)
    names = working("cpu")
    real = [matmul_formats._product(name, x, weight) for name in names]
    monkeypatch.setattr(matmul_formats, "working", lambda device: ())
    for name, product in zip(names, real, strict=True):
        assert matmul_formats._product(name, x, weight).allclose(product, rtol=1e-4, atol=1e-4)
