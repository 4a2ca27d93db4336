import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench import run
from engine.bench.cases import vae
from engine.bench.cases.vae import part_peaks, part_rows
from engine.bench.memory import peak_bytes
from engine.bench.run import BenchOptions, vae_models
from engine.bench.workload import vae_run
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.vae_use import Side
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import tiny_config

CONFIG = tiny_config((False, True))
OPTIONS = BenchOptions(
    config=CONFIG,
    size=Size(32, 16),
    quick=True,
    device="cpu",
    memory=False,
    calibrate=False,
)


@pytest.mark.parametrize("side", [*extended("encode"), "decode"])
def test_variants_are_measured_and_compared(side: Side) -> None:
    options = replace(OPTIONS, frames=(5, 1), without=("in_place",), only=("fused_norm",))
    rows = list(vae.vae_rows(options, side))
    titles = ["plain", "fast", "without in_place", "only fused_norm"]
    assert [row["form"] for row in rows[::2]] == titles
    assert [row["frames"] for row in rows] == [5, 1] * 4
    assert all(row["finite"] == "yes" and row["seconds"] > 0 for row in rows)
    assert all("of_plain" not in row for row in rows[:2])
    assert rows[3]["of_plain"] == pytest.approx(rows[3]["seconds"] / rows[1]["seconds"])
    rate = rows[2]["tflop"] / rows[2]["seconds"]
    assert rows[2]["tflop_per_s"] == pytest.approx(rate)
    assert rows[2]["tflop"] < rows[0]["tflop"] == rows[6]["tflop"]
    megapixels = 5 * 32 * 16 / 1e6
    assert rows[0]["ms_a_megapixel"] == pytest.approx(1000 * rows[0]["seconds"] / megapixels)


def test_the_reference_is_scaled_by_the_calibration() -> None:
    base = replace(vae_run(BenchOptions(device="cpu"), "decode"), frames=5)
    for changes, calibration, expected in (
        ({}, 0.69, 95.3),
        ({}, 1.38, 190.6),
        ({"frames": 1, "side": "encode"}, 0.69, 9.6),
        ({"model": "wan21-vae", "config": WAN21}, 1.38, 77.6),
        ({"model": "wan22-vae", "config": WAN22}, 0.69, 71.6),
        ({}, 0.0, None),
        ({"frames": 9}, 0.69, None),
        ({"size": Size(128, 256)}, 0.69, None),
        ({"dtype": "float16"}, 0.69, None),
        ({"device": "cuda"}, 0.69, None),
        ({"config": replace(VAE, layers_per_block=1)}, 0.69, None),
        ({"model": "wan21-vae", "config": WAN21, "frames": 1}, 0.69, None),
        ({"model": "wan-2x", "config": WAN2X}, 0.69, None),
    ):
        found = vae.reference_seconds(replace(base, **changes), calibration)
        assert found == pytest.approx(expected), changes


def test_shares_need_yardsticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "calibration", lambda quick: 1.38)
    monkeypatch.setattr(vae, "matrix_ceiling", lambda device, dtype, quick: 2e12)
    monkeypatch.setitem(vae.REFERENCE_SECONDS, ("seedvr2-vae", "decode", 1), 10.0)
    tiny = replace(vae_models()["seedvr2-vae"], config=CONFIG)
    monkeypatch.setitem(vae_models(), "seedvr2-vae", tiny)
    monkeypatch.setattr(vae, "_REFERENCE_SIZE", Size(32, 16))
    options = replace(OPTIONS, calibrate=True, frames=(1,), form="fast")
    yardsticks, row = vae.vae_rows(options, "decode")
    assert yardsticks["case"] == "yardsticks"
    assert yardsticks["calibration_cpu_s"] == 1.38
    assert row["ceiling_percent"] == pytest.approx(100 * row["tflop_per_s"] / 2)
    assert row["of_reference"] == pytest.approx(row["seconds"] / 20)

    def refuse(*args: object) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(vae, "_timed", refuse)
    rows = list(vae.vae_rows(replace(OPTIONS, frames=(1,)), "decode"))
    assert [str(row["note"]) for row in rows] == ["not enough memory"] * 2


GROUPS = {
    "vae dit": {"vae-encode", "vae-decode", "dit-3b", "dit-7b"},
    "optimisations": {f"optimisations-{name}" for name in ("vae", "dit", "around", "claims")},
}


@pytest.mark.parametrize("groups", ["vae dit", *extended("optimisations")])
@pytest.mark.extended
def test_it_runs_where_there_is_neither_av_nor_qt(groups: str) -> None:
    code = """
import sys
for name in ("av", "PySide6", "platformdirs"):
    sys.modules[name] = None  # an import of it fails
import json
from dataclasses import replace
from engine.bench import command
from engine.bench.run import BenchOptions, run
from engine.cli import main, parser
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.wan.vae.config import WAN21
dit = DitConfig(dim=16, heads=1, head_dim=16, rope_dim=16, layers=2, separate_layers=1,
                mlp_hidden=16, text_in_dim=8)
config = VaeConfig(block_out_channels=(8, 8, 8, 8), norm_groups=4, layers_per_block=1)
options = BenchOptions(config=config, size=Size(16, 16), frames=(1,), quick=True, device="cpu",
                       memory=False, calibrate=False, threads=1, runs=1, dit=dit)
rows = run(sys.argv[1:], options=options)
config = replace(WAN21, dim=4, dec_dim=8)
rows += run(["vae-decode"], options=replace(options, model="wan21-vae", config=config))[1:]
print(json.dumps([row["case"] for row in rows]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *groups.split()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    machine, *cases = json.loads(done.stdout)
    assert machine == "machine"
    assert set(cases) == GROUPS[groups] | {"vae-decode"}
    assert cases[-2:] == ["vae-decode"] * 2


@pytest.mark.gpu
def test_a_card_is_measured_by_its_own_clock_and_counters() -> None:
    options = replace(OPTIONS, device="cuda", calibrate=True, frames=(5,), dtype="float16")
    _, plain, fast = vae.vae_rows(options, "decode")
    assert {plain["clock"], fast["clock"]} == {"card"}
    assert all(row["peak_mib"] > 0 and row["reserved_mib"] > 0 for row in (plain, fast))
    assert fast["finite"] == "yes"


PART_OPTIONS = BenchOptions(config=CONFIG, size=Size(64, 64), quick=True, device="cpu", frames=(9,))


def peaks(options: BenchOptions, frames: int) -> tuple[int, dict[str, int]]:
    """Peak of a whole decoder, and those of its parts, which it has as before afterwards."""
    one = replace(vae_run(options, "decode"), form="fast", frames=frames)
    weights = one.weights()
    with torch.inference_mode():
        before, first, second = (one.built(weights) for _ in range(3))
        one.work_of(before)()  # convolutions and kernels are tried once
        whole = peak_bytes(one.work_of(first), options.device)
        vae: Any = second
        usual = list(vae.parts["decode"])
        found = part_peaks(vae, one.work_of(second), options.device)
    assert vae.parts["decode"] == usual
    assert next(iter(found)) == "decoder.conv_in"
    assert list(found)[-1] == "decoder.conv_out"
    return whole, found


def test_each_part_of_the_decoder_has_its_peak_and_the_largest_is_that_of_the_decoder() -> None:
    whole, found = peaks(PART_OPTIONS, 9)
    names = [name for name in found if "upsamplers" in name]
    assert names == [f"decoder.up_blocks.{level}.upsamplers.0" for level in range(len(names))]
    assert names
    assert any("mid_block.attentions" in name for name in found)
    assert 0.97 * whole <= max(found.values()) <= whole
    assert found["decoder.conv_in"] < found["decoder.conv_out"]


def test_they_are_rows_of_the_vaes_group() -> None:
    assert "vae-parts" in run.GROUPS["vae"]
    rows = run.run(["vae-parts"], options=PART_OPTIONS)[1:]
    assert {row["case"] for row in rows} == {"vae-parts"}
    assert all(row["peak_mib"] > 0 for row in rows)
    assert list(part_rows(replace(PART_OPTIONS, memory=False))) == []


@pytest.mark.parametrize("model", ["wan21-vae", "wan22-vae"])
def test_the_vaes_of_wan_have_parts_too(model: str) -> None:
    options = replace(PART_OPTIONS, config=vae_models()[model].config.narrower(16), model=model)
    with torch.inference_mode():
        rows = list(part_rows(options))
    assert rows[0]["layers"].startswith("conv2")
    assert len(rows) > 10


@pytest.mark.gpu
def test_on_a_gpu_the_largest_part_makes_the_peak_of_the_decoder() -> None:
    whole, found = peaks(replace(PART_OPTIONS, device="cuda", size=Size(32, 32)), 5)
    assert 0.9 * whole <= max(found.values()) <= whole
