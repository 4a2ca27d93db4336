from dataclasses import replace
from pathlib import Path

import pytest

from engine.bench.cases.vae_eight_bit import speed_rows
from engine.bench.jobs import make_clip
from engine.bench.report import Row
from engine.bench.run import BenchOptions, run
from engine.core.geometry import Size
from engine.ops.linear.formats import working
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config, write_vae
from tests.helpers.wan import tiny_wan_config

CONFIG = tiny_config(latent_channels=16)
OPTIONS = BenchOptions(
    config=CONFIG,
    dit=replace(tiny_dit_config(), layers=2),
    size=Size(32, 32),
    quick=True,
    runs=1,
    device="cpu",
    threads=1,
)
EIGHT_BIT = ("int8, tensor", "int8, row", "fp8, tensor", "fp8, row")


def measured(options: BenchOptions) -> list[Row]:
    return [row for row in run(["vae-8bit"], options=options) if row["case"] == "vae-8bit"]


def losses(rows: list[Row], weights: str, side: str) -> dict[str, float]:
    """Relative errors by format."""
    asked = weights, side
    return {
        row["format"]: row["error"]
        for row in rows
        if (row.get("weights"), row.get("side")) == asked
    }


@pytest.mark.extended
def test_formats_lose_more_the_coarser_they_are() -> None:
    rows = measured(OPTIONS)
    for side in ("encode", "decode"):
        found = losses(rows, "random", side)
        assert 5 * found["float16"] < found["int8, row"] < found["fp8, row"] < 0.3
        assert found["int8, row"] < found["int8, tensor"] < 0.3
        larger = losses(rows, "random, outliers", side)
        assert larger["int8, tensor"] > found["int8, tensor"]
    decoded = losses(rows, "random", "decode")
    assert set(decoded) == {*EIGHT_BIT, "float16", "frames in 8 bits", "two seeds"}
    assert decoded["fp8, tensor"] < decoded["two seeds"]
    assert not any("of_float" in row for row in rows), "that is timed on a GPU alone"


@pytest.mark.parametrize("model", [*extended("wan22-vae"), "wan-2x"])
@pytest.mark.extended
def test_the_vaes_of_wan_are_measured_too(model: str) -> None:
    kind = {"wan22-vae": "2.2", "wan-2x": "2x"}[model]
    rows = measured(replace(OPTIONS, model=model, config=tiny_wan_config(kind), frames=(5,)))
    found = losses(rows, "random", "decode")
    assert set(found) == {*EIGHT_BIT, "float16", "frames in 8 bits"}
    assert 5 * found["float16"] < found["int8, row"] < found["fp8, row"] < 0.5
    assert bool(losses(rows, "random", "encode")) == (model != "wan-2x")


def test_a_clip_goes_through_the_weights_of_a_file(tmp_path: Path) -> None:
    make_clip(tmp_path / "clip.mp4", Size(72, 40), 5)
    write_vae(tmp_path / "own.safetensors", CONFIG)
    named = replace(OPTIONS, clip=tmp_path / "clip.mp4", vae=tmp_path / "own.safetensors")
    rows = measured(replace(named, config=None))
    assert {row["weights"] for row in rows if "db" in row} == {"own.safetensors"}
    assert len(losses(rows, "own.safetensors", "encode")) == 5
    assert {row["size"] for row in rows if "db" in row} == {"32x32"}


@pytest.mark.gpu
def test_a_gpu_times_what_it_multiplies_itself() -> None:
    timed = {row["format"]: row["of_float"] for row in speed_rows(OPTIONS)}
    assert set(timed) == {name for name in EIGHT_BIT if name.partition(",")[0] in working("cuda")}
    assert all(ratio > 0 for ratio in timed.values())
