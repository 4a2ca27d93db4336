from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench import run
from engine.bench.cases import matmul_formats
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.ops.linear.formats import PRODUCTS, working
from engine.ops.linear.quantize import STORED

SMALL: dict[str, Any] = {"dim": 64, "heads": 1, "head_dim": 64, "layers": 2, "text_in_dim": 32}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        small = {
            name: replace(config, **SMALL, separate_layers=2, mlp_hidden=96)
            for name, config in matmul_formats._MODELS.items()
        }
        patch.setattr(matmul_formats, "_MODELS", small)
        patch.setattr(matmul_formats, "_LATENT", (1, 8, 8))
        found = run.run(["products"], options=BenchOptions(quick=True, runs=1, threads=1))
    return [row for row in found if row["case"] == "products"]


def error(rows: list[Row], form: str, work: str, name: str = "result_error") -> float:
    return next(row[name] for row in rows if (row["format"], row["work"]) == (form, work))


def test_every_format_has_its_errors(rows: list[Row]) -> None:
    limits = {
        "bfloat16": 0.01, "F8_E4M3": 0.1, "F8_E5M2": 0.2, "fp8": 0.15, "int8": 0.05, "nvfp4": 0.4,
    }  # fmt: skip
    for form, limit in limits.items():
        for work in ("linear 64", "linear 512", "linear 512, outliers", "3B kind", "7B kind"):
            assert 1e-4 < error(rows, form, work) < limit


def test_finer_formats_lose_less(rows: list[Row]) -> None:
    order = ["bfloat16", "int8", "fp8", "nvfp4"]
    for work in ("linear 64", "linear 512", "3B kind", "7B kind"):
        errors = [error(rows, form, work) for form in order]
        assert errors == sorted(errors)


def test_outliers_hurt_whole_numbers_more_than_floats(rows: list[Row]) -> None:
    worse = {
        form: error(rows, form, "linear 512, outliers") / error(rows, form, "linear 512")
        for form in ("int8", "fp8")
    }
    assert worse["int8"] > 2 > 1.2 > worse["fp8"]


def test_stored_formats_have_the_speed_of_widening(rows: list[Row]) -> None:
    found = {row["format"]: row["million_a_second"] for row in rows if "million_a_second" in row}
    assert set(found) == STORED
    assert all(speed > 0 for speed in found.values())


def test_only_what_runs_here_is_timed(rows: list[Row]) -> None:
    assert {row["format"] for row in rows if "of_float" in row} == set(working("cpu"))
    imitated = {row["format"] for row in rows if row["here"] != "yes"}
    assert imitated == set(PRODUCTS) - set(working("cpu"))


@pytest.mark.parametrize("form", working("cpu"))
def test_an_imitated_product_is_as_wrong_as_the_real_one(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    x, weight = matmul_formats._tokens(64, 128, False), matmul_formats._weight(96, 128)
    real = matmul_formats._product(form, x, weight)
    monkeypatch.setattr(matmul_formats, "working", lambda device: ())
    imitated = matmul_formats._product(form, x, weight)
    torch.testing.assert_close(real, imitated, rtol=1e-4, atol=1e-4)
