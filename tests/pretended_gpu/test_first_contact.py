"""Parts of `measure` from the first one to the page, with very small models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.bench import calibration, timing, workload
from engine.bench.cases import (
    convolutions,
    device,
    operators,
    seedvr2,
    transformer,
    vae,
    video,
)
from engine.bench.cases.convolutions import LAYERS
from engine.bench.first_contact import PARTS, ContactPart, contact_rows, rows_here
from engine.bench.run import BenchOptions
from engine.core.geometry import Size
from engine.hardware import budget, devices, nvml, out_of_memory
from engine.hardware.devices import Gpu
from engine.ops.attention import attention
from engine.ops.conv import frame_conv
from engine.ops.conv.trial import ConvolutionChoice
from engine.planner.rates import Rates
from engine.settings.optimisations import DitSwitches
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config
from tests.pretended_gpu.machine import NAME, pretended_gpu

pytestmark = pytest.mark.pretended_gpu

WIDE = {"dim": 256, "heads": 2, "head_dim": 128, "mlp_hidden": 512, "text_in_dim": 64}
DIT = tiny_dit_config("7b", **WIDE, layers=1, separate_layers=1, in_channels=9, out_channels=4)
OPTIONS = BenchOptions(
    config=tiny_config(), dit=DIT, size=Size(32, 16), quick=True, threads=1, runs=1
)
FORMATS = "", "Q4_K"
MIB = 2**20
MEMORY = 256 * MIB
GPU = Gpu(name=NAME, total_bytes=MEMORY, free_bytes=MEMORY, driver="580.1", capability=(8, 9))
CLIP = Size(16, 16), 1
ALWAYS_3D = ConvolutionChoice(form="3d", reason="it is not tried out")


@pytest.fixture(autouse=True)
def small_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything that the options do not make small."""
    sizes: dict[Any, dict[str, Any]] = {
        calibration: {"calibrate": lambda: Rates(costs={"read": 0.5})},
        timing: {"_MOST_CALLS": 1},
        device: {
            "probe_convolution": lambda *_: ALWAYS_3D,
            "_ROOT": tmp_path,
            "_BLOCK_BYTES": 8 * MIB,
            "_BEYOND_BYTES": 32 * MIB,
            "_SETTLE_S": 0.0,
        },
        attention: {
            "working": lambda *_: ("math",),
            "measure": lambda _, candidates: dict.fromkeys(
                map(attrgetter("name"), candidates), 1.0
            ),
        },
        operators: {"_LENGTHS": (16,), "_LAYERS": ((64, 72),), "_LAYER_TOKENS": 4 * 1030},
        convolutions: {
            "LAYERS": {"128 to 3": LAYERS["last, 128 to 3"]},
            "_VALUES": {"cuda": 2**13},
            "_ROUNDS": 10,
        },
        transformer: {
            "_LAUNCHES": 3,
            "_COPIED_BYTES": MIB,
            "_COMMON": FORMATS,
            "STORED": frozenset(),
        },
        seedvr2: {"matrix_ceiling": lambda *_, **__: 1e12},
        frame_conv: {"choose_convolution": lambda *_: ALWAYS_3D},
        vae: {"matrix_ceiling": lambda *_, **__: 1e12},
        video: {"SOURCE": Size(32, 24), "QUICK_FRAMES": 5, "_SEEDVR2_CLIPS": {"cuda": CLIP}},
        workload: {"VAE": tiny_config(), "DIT_3B": DIT},
        budget: {"torch_has_cuda": lambda: True, "_VRAM_RESERVE_BYTES": 0},
        devices: {"gpus": lambda: (GPU,)},
        out_of_memory: {"gc": SimpleNamespace(collect=lambda: 0)},  # it takes 0.1 s each time
        nvml: {"handles": lambda: [None], "query": lambda *_: None},
    }
    some = DitSwitches.optimisations()[:1]
    monkeypatch.setattr(DitSwitches, "optimisations", classmethod(lambda cls: some))
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def rows_of(part: ContactPart, options: BenchOptions, limit_s: float) -> Iterator[dict[str, Any]]:
    """Rows of a part in this process, where the pretended GPU is."""
    return rows_here(part, options)


# formats-7b differs in sizes alone; shots run with and without each optimisation elsewhere.
PARTS_HERE = [part for part in PARTS if part.case not in ("formats-7b", "optimisations")]
JOBS = [part for part in PARTS_HERE if part.case in ("seedvr2-job", "pipeline")]
STAGES = [
    replace(part, case="vae-decode") if part.case == "vae" else part
    for part in PARTS_HERE
    if part not in JOBS
]


def contact(folder: Path, parts: list[ContactPart]) -> tuple[dict[str, str], dict[str, Any]]:
    """States and rows of some parts; the page is there and nothing is wrong with copies."""
    with pretended_gpu(total_bytes=MEMORY) as gpu:
        rows = list(contact_rows(OPTIONS, folder, rows_of, parts))
    assert not gpu.record.problems
    assert (folder / "measured.md").is_file()
    data = json.loads((folder / "measured.json").read_text("utf-8"))
    states = {row["part"]: str(row["state"]) for row in rows}
    return states, {part: answer["rows"] for part, answer in data["answers"].items()}


@pytest.mark.extended
def test_every_stage_is_measured(tmp_path: Path) -> None:
    states, rows = contact(tmp_path, STAGES)
    assert states.pop("gpu-tests") == "unanswered: The tests are not installed"
    assert set(states.values()) == {"answered"}
    assert {row["works"] for row in rows["kernel-errors"]} == {"yes"}
    assert [row["refused"] for row in rows["memory-pressure"]] == ["yes", "yes"]
    vae_row = rows["vae-decode"][-1]
    assert 0 < vae_row["peak_mib"] < vae_row["planned_mib"]
    formats = rows["formats-3b"]
    assert [row["weights"] for row in formats] == ["bfloat16", *FORMATS[1:]]
    for row in formats:
        assert row["finite"] == "yes"
        assert row["weights_mib"] == pytest.approx(row["planned_weights_mib"], rel=0.02)
    resident, pinned, pageable = rows["streaming"]
    assert resident["seconds"] > 0
    assert 0 <= pinned["overlap"] <= 1
    assert pinned["pinned_mib"] > 0 == pageable["pinned_mib"]
    assert all(row["allocated_gib"] > 0 for row in rows["seedvr2"])
    ways = [row["way"] for row in rows["layer-products"]]
    assert ways == ["torch, float16", "kernel, float16, promoted every 128", "torch, bfloat16"]
    assert all(0 < row["error"] < 0.01 for row in rows["layer-products"])
    *launches, forward = rows["launches"]
    assert [row["launch"] for row in launches] == ["torch", "our kernels"]
    assert all(0 < row["host_us"] <= row["with_gpu_us"] for row in launches)
    assert forward["host_ms"] > 0
    sums = [row["sums"] for row in rows["convolutions"] if row["layer"] == "128 to 3"]
    assert sums == ["torch", "float32", "promoted every 128", "half precision"]


def test_whole_jobs_are_measured(tmp_path: Path) -> None:
    states, rows = contact(tmp_path, JOBS)
    assert set(states.values()) == {"answered"}
    (job,) = rows["seedvr2-job"]
    assert (job["size"], job["dtype"]) == ("32x32", "bfloat16")
    assert job["planned_s"] > 0
    assert job["failed_checks"] == "likeness"
    assert [row["verified"] for row in rows["pipeline"]] == [True, True]


def test_ten_seconds_of_video_are_predicted_at_each_size_and_measured_at_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = Size(32, 24)
    monkeypatch.setattr(video, "_TEN_SECONDS", (Size(48, 32), small))
    monkeypatch.setattr(video, "FRAMES", 5)
    monkeypatch.setattr(video, "_MOST_JOB_S", 0.0)  # nothing is quick enough: the smallest one
    with pretended_gpu(total_bytes=MEMORY):
        *planned, job = video.seedvr2_job_rows(replace(OPTIONS, quick=False))
    assert [row["size"] for row in planned] == ["96x64", "64x48"]
    assert all(row["planned_s"] > 0 for row in planned)
    assert "wall_s" not in planned[0]
    assert (job["size"], job["frames"]) == ("64x48", 5)
    assert job["wall_s"] > 0
    assert job["planned_s"] == pytest.approx(planned[1]["planned_s"], rel=0.2)
