"""The golden files are unchanged, and the engine's results equal them."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest

from engine.models.load import FORMS
from tests.golden import (
    cases_dit,
    cases_swift_pipeline,
    cases_swift_vae,
    cases_vae,
    cases_wan,
)
from tests.golden.check import main
from tests.helpers.extended import extended

HERE = Path(__file__).parent
FAMILIES = sorted(path.parent for path in HERE.glob("*/manifest.toml"))


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda folder: folder.name)
def test_every_file_is_pinned_by_its_hash(folder: Path) -> None:
    pinned = tomllib.loads((folder / "manifest.toml").read_text("utf-8"))["files"]
    assert {path.name for path in folder.iterdir()} == {*pinned, "manifest.toml"}
    for name, about in pinned.items():
        content = (folder / name).read_bytes()
        assert len(content) == about["bytes"], name
        assert hashlib.sha256(content).hexdigest() == about["sha256"], name


def test_the_limits_are_those_that_were_written_down() -> None:
    seedvr2, wan, swiftvr = (
        tomllib.loads((HERE / family / "manifest.toml").read_text("utf-8"))["tolerance"]
        for family in ("seedvr2", "wan", "swiftvr")
    )
    assert seedvr2["vae_max_abs"] == cases_vae.LIMIT
    assert seedvr2["dit_max_abs"] == cases_dit.LIMIT
    assert seedvr2["latent_max_abs"] == cases_dit.LATENT_LIMIT
    assert wan["plain_max_abs"] == cases_wan.LIMITS["plain"]
    assert wan["fast_max_abs"] == cases_wan.LIMITS["fast"]
    for form in FORMS:
        assert swiftvr[f"{form}_max_abs"] == cases_swift_vae.LIMITS[form]
        assert swiftvr[f"file_{form}_max_abs"] == cases_swift_pipeline.LIMITS[form]
    for stated, halves in ((wan, cases_wan.HALVES), (swiftvr, cases_swift_vae.HALVES)):
        for dtype, limit in halves.items():
            decibels = stated[f"{str(dtype).removeprefix('torch.')}_psnr_db"]
            assert limit == pytest.approx(10 ** (-decibels / 20))
    decibels = swiftvr["file_bfloat16_psnr_db"]
    assert pytest.approx(10 ** (-decibels / 20)) == cases_swift_pipeline.HALF


def test_the_families_stay_small() -> None:
    sizes = {"seedvr2": 15_000_000, "wan": 5_000_000, "swiftvr": 2_500_000}
    for name, most in sizes.items():
        assert sum(path.stat().st_size for path in (HERE / name).iterdir()) <= most


@pytest.mark.parametrize("family", ["seedvr2", *extended("wan", "swiftvr")])
def test_the_checker_passes(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(HERE / family)])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0, [line for line in lines if line.startswith("FAIL")]
    assert lines[-1].endswith(" passed, 0 failed")
