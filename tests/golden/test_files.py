"""The golden files are unchanged, and the engine's results equal them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

import pytest
import torch

from engine.models.load import check_keys, shapes_of
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from tests.golden import cases_dit, cases_vae, cases_wan
from tests.golden.check import main

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
    about = tomllib.loads((HERE / "seedvr2" / "manifest.toml").read_text("utf-8"))["tolerance"]
    assert about["vae_max_abs"] == cases_vae.LIMIT
    assert about["dit_max_abs"] == cases_dit.LIMIT
    assert about["latent_max_abs"] == cases_dit.LATENT_LIMIT


def test_the_limits_of_wan_are_those_that_were_written_down() -> None:
    about = tomllib.loads((HERE / "wan" / "manifest.toml").read_text("utf-8"))["tolerance"]
    stated = (about["plain_max_abs"], about["fast_max_abs"])
    assert stated == (cases_wan.LIMITS["plain"], cases_wan.LIMITS["fast"])
    for dtype, decibels in (
        (torch.float16, "float16_psnr_db"),
        (torch.bfloat16, "bfloat16_psnr_db"),
    ):
        assert cases_wan.HALVES[dtype] == pytest.approx(10 ** (-about[decibels] / 20))


@pytest.mark.parametrize(("name", "most"), [("seedvr2", 15_000_000), ("wan", 5_000_000)])
def test_a_family_stays_small(name: str, most: int) -> None:
    assert sum(path.stat().st_size for path in (HERE / name).iterdir()) <= most


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda folder: folder.name)
def test_the_checker_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0, [line for line in lines if line.startswith("FAIL")]
    assert lines[-1].endswith(" passed, 0 failed")


def test_the_full_size_vae_has_the_published_names_and_shapes() -> None:
    path = HERE / "seedvr2" / "manifest_vae.json"
    wanted = {n: tuple(shape) for n, shape in json.loads(path.read_text())["state_dict"].items()}
    with torch.device("meta"):
        vae = SeedVr2Vae()
    check_keys(wanted, shapes_of(vae), path)
    assert sum(parameter.numel() for parameter in vae.parameters()) == 250_648_227
