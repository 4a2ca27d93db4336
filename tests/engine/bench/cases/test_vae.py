from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench.cases import vae
from engine.bench.cases.runs import vae_run
from engine.bench.cases.vae_models import VaeRun
from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.measured import Side
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from tests.helpers.seedvr2 import tiny_config

OPTIONS = BenchOptions(
    config=tiny_config(),
    size=Size(32, 16),
    quick=True,
    device="cpu",
    memory=False,
    calibrate=False,
)


@pytest.mark.parametrize("side", ["encode", "decode"])
def test_forms_are_measured_and_compared(side: Side) -> None:
    options = replace(OPTIONS, frames=(9, 1), without=("in_place",), only=("fused_norm",))
    rows = list(vae.vae_rows(options, side))
    assert [row["form"] for row in rows[::2]] == [
        "plain",
        "fast",
        "without in_place",
        "only fused_norm",
    ]
    assert [row["frames"] for row in rows] == [9, 1] * 4
    assert all(row["finite"] == "yes" and row["seconds"] > 0 for row in rows)
    assert all("of_plain" not in row for row in rows[:2])
    assert rows[3]["of_plain"] == pytest.approx(rows[3]["seconds"] / rows[1]["seconds"])
    rate = rows[2]["tflop"] / rows[2]["seconds"]
    assert rows[2]["tflop_per_s"] == pytest.approx(rate)
    assert rows[2]["tflop"] < rows[0]["tflop"] == rows[6]["tflop"]
    assert rows[0]["ms_a_megapixel"] == pytest.approx(
        1000 * rows[0]["seconds"] / (9 * 32 * 16 / 1e6)
    )


def known(**changes: Any) -> VaeRun:
    run = vae_run(BenchOptions(device="cpu"), "decode")
    return replace(run, **{"frames": 5, **changes})


def test_the_reference_is_scaled_by_the_calibration() -> None:
    assert vae.reference_seconds(known(), 0.69) == pytest.approx(95.3)
    assert vae.reference_seconds(known(), 1.38) == pytest.approx(190.6)
    assert vae.reference_seconds(known(frames=1, side="encode"), 0.69) == pytest.approx(9.6)
    assert vae.reference_seconds(known(model="wan21-vae", config=WAN21), 1.38) == pytest.approx(
        77.6
    )
    assert vae.reference_seconds(known(model="wan22-vae", config=WAN22), 0.69) == pytest.approx(
        71.6
    )


@pytest.mark.parametrize(
    "run",
    [
        known(frames=9),
        known(size=Size(128, 256)),
        known(dtype="float16"),
        known(device="cuda"),
        known(config=replace(VAE, layers_per_block=1)),
        known(model="wan21-vae", config=WAN21, frames=1),
        known(model="wan-2x", config=WAN2X),
    ],
)
def test_other_work_has_no_reference(run: VaeRun) -> None:
    assert vae.reference_seconds(run, 0.69) is None
    assert vae.reference_seconds(known(), 0.0) is None


def test_shares_need_yardsticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "calibration", lambda quick: 1.38)
    monkeypatch.setattr(vae, "matrix_ceiling", lambda device, dtype, quick: 2e12)
    monkeypatch.setitem(vae.REFERENCE_SECONDS, ("seedvr2-vae", "decode", 1), 10.0)
    tiny = replace(vae.models()["seedvr2-vae"], config=tiny_config())
    monkeypatch.setitem(vae.models(), "seedvr2-vae", tiny)
    monkeypatch.setattr(vae, "_REFERENCE_SIZE", Size(32, 16))
    options = replace(OPTIONS, calibrate=True, frames=(1,), form="fast")
    yardsticks, row = vae.vae_rows(options, "decode")
    assert yardsticks["case"] == "yardsticks"
    assert yardsticks["calibration_cpu_s"] == 1.38
    assert row["ceiling_percent"] == pytest.approx(100 * row["tflop_per_s"] / 2)
    assert row["of_reference"] == pytest.approx(row["seconds"] / 20)


def test_a_lack_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(vae, "_timed", refuse)
    rows = list(vae.vae_rows(replace(OPTIONS, frames=(1,)), "decode"))
    assert [str(row["note"]) for row in rows] == ["not enough memory"] * 2


def test_it_runs_where_there_is_neither_av_nor_qt() -> None:
    code = """
import sys
for name in ("av", "PySide6", "platformdirs"):
    sys.modules[name] = None  # an import of it fails
import json
from engine import api
from engine.bench.options import BenchOptions
from engine.cli import bench, main, parser
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.dit.config import DitConfig
dit = DitConfig(dim=16, heads=1, head_dim=16, rope_dim=16, layers=2, separate_layers=1,
                mlp_hidden=16, text_in_dim=8)
config = VaeConfig(block_out_channels=(8, 8, 8, 8), norm_groups=4, layers_per_block=1)
options = BenchOptions(config=config, size=Size(16, 16), frames=(1,), quick=True, device="cpu",
                       memory=False, calibrate=False, threads=1, dit=dit)
rows = api.bench(["vae", "dit", "optimisations"], options=options)
from dataclasses import replace
from engine.models.wan.vae.config import WAN21
config = replace(WAN21, dim=4, dec_dim=8)
rows += api.bench(["vae-decode"], options=replace(options, model="wan21-vae", config=config))[1:]
print(json.dumps([row["case"] for row in rows]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    assert cases[0] == "machine"
    models = {"vae-encode", "vae-decode", "dit-3b", "dit-7b"}
    assert set(cases[1:]) == models | {
        "optimisations-vae",
        "optimisations-dit",
        "optimisations-around",
    }
    assert cases[-2:] == ["vae-decode"] * 2


@pytest.mark.gpu
def test_a_card_is_measured_by_its_own_clock_and_counters() -> None:
    options = replace(OPTIONS, device="cuda", calibrate=True, frames=(5,), dtype="float16")
    _, plain, fast = vae.vae_rows(options, "decode")
    assert {plain["clock"], fast["clock"]} == {"card"}
    assert all(row["peak_mib"] > 0 and row["reserved_mib"] > 0 for row in (plain, fast))
    assert fast["finite"] == "yes"
