"""Predicted operations and bytes of the VAEs against those that their streams take.

They go through in the memory that the budget keeps for them and the gaps between their tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.models.seedvr2 import requirements
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.shot import Shot
from engine.models.seedvr2.upscaler import shot_options
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.slicing import slices
from engine.models.wan.requirements import decode_needs, encode_needs
from engine.models.wan.vae.config import WAN2X
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.models.wan.vae_memory import Pass
from engine.ops.attention import attention
from engine.ops.attention.attention import Problem
from engine.ops.attention.backends import Backend
from engine.ops.transfer.parking import Parking
from engine.settings.optimisations import VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.extended import rest_extended
from tests.helpers.memory import seedvr2_plan
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

FRAMES = {"whole, on the GPU": 29}  # until the most is held; where there are tiles 21 will do
SIZE = Size(640, 368)
TILES = {
    "encode_tile": Size(368, 368),
    "encode_span": 4,
    "decode_tile": Size(400, 368),
    "decode_span": 4,
}
ALL_IN = {**TILES, "decode_tile": Size(384, 368), "decodes_whole_tiles": True}
PLANS: dict[str, dict[str, Any]] = {
    "whole, on the GPU": {"encode_span": 3, "parks": False},
    "tiles that begin early": {**TILES, "warm_up": 2},
    "all in tiles": {**ALL_IN, "warm_up": 2},
}


def plan_of(convolution: Any, **changes: Any) -> SeedVr2Plan:
    switches = VaeSwitches(convolution=convolution)
    about = {"padded": SIZE, "device": "cuda", "vae_dtype": "float16", "clip": 5}
    plan = seedvr2_plan(size=SIZE, switches=Switches(vae=switches), **changes)
    return replace(plan, **about)


@contextmanager
def streamed(plan: SeedVr2Plan, frames: int, limit: int) -> Iterator[PretendedGpu]:
    """A GPU that a film has gone through, with the published VAE and a transformer of nothing.

    Args:
        plan: Of the film.
        frames: Of the film.
        limit: Bytes of the GPU.
    """
    with torch.device("meta"):
        weights = SeedVr2Vae(VaeConfig()).state_dict()
    with pretended_gpu(has_values=False, total_bytes=limit) as gpu, torch.inference_mode():
        switches = plan.switches.vae
        vae = FastVae(VaeConfig(), weights, device="cuda", dtype=torch.float16, switches=switches)
        options = replace(shot_options(plan), parking=Parking())

        def restore(latents: torch.Tensor, first: int) -> torch.Tensor:
            vae.release()
            return latents

        gpu.allocator.forget_peak()
        shot = Shot(vae, restore, options, lambda tile: None)
        for start, end in slices(frames, 4):
            piece = torch.empty(end - start, 3, plan.size.height, plan.size.width, device="cuda")
            for _part in shot.push(piece, last=end == frames):
                pass
        yield gpu


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    files = "engine.models.seedvr2.requirements.files.configs"
    monkeypatch.setattr(files, lambda plan: (DIT_3B, VaeConfig()))


@pytest.fixture(autouse=True)
def _without_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of attention are not measured: those operations are not the work's."""

    def measure(_: Problem, backends: Sequence[Backend]) -> dict[str, float]:
        return {one.name: 1.0 for one in backends}

    monkeypatch.setattr(attention, "measure", measure)


def check_stream(form: Any, name: str, *, operations_rel: float, most: float) -> PretendedGpu:
    """Run a plan in the memory that is predicted, and compare memory and operations."""
    plan, frames = plan_of(form, **PLANS[name]), FRAMES.get(name, 21)
    needs = requirements.needs(plan)
    vae = requirements._vae_weights(VaeConfig(), plan)
    predicted = vae + max(needs.working["encode"], needs.working["decode"])
    limit = Budget(ram_bytes=0, threads=1, vram_bytes=predicted).vram_limit_bytes
    with streamed(plan, frames, limit) as gpu:
        took, ran = gpu.allocator.most_requested, gpu.record.operations
    assert operations(plan, frames) == pytest.approx(ran, rel=operations_rel)
    assert 1 <= predicted / took <= most
    assert gpu.allocator.most_apart == took
    return gpu


@pytest.mark.parametrize("name", rest_extended(PLANS, "whole, on the GPU"))
def test_the_streams_take_what_is_predicted(name: str) -> None:
    check_stream("2d", name, operations_rel=0.01, most=1.01)


@pytest.mark.parametrize("name", rest_extended(PLANS, "whole, on the GPU"))
def test_with_our_kernel_the_streams_take_no_more_than_is_predicted(name: str) -> None:
    """And hardly more operations: of a clip's second frame all taps are computed."""
    gpu = check_stream("kernel", name, operations_rel=0.05, most=1.5)
    assert gpu.record.launches["kernel convolve"]


@pytest.mark.parametrize("size", [SIZE, Size(272, 496)])
@pytest.mark.parametrize("frames", [1, 2, 5, 9])
def test_short_shots_take_the_operations_that_are_planned(frames: int, size: Size) -> None:
    """One frame was planned with a tenth of them, two with a quarter."""
    plan = plan_of("2d", **PLANS["whole, on the GPU"])
    plan = replace(plan, size=size, padded=size, film=frames)
    with streamed(plan, frames, 64 * 2**30) as gpu:
        ran = gpu.record.operations
    assert operations(plan, frames) == pytest.approx(ran, rel=0.01)


def operations(plan: SeedVr2Plan, frames: int) -> float:
    encode, decode = requirements.vae_work(plan, frames)
    return (encode + decode).operations


TWO = [
    *rest_extended([("tiles that begin early", way) for way in ("encode", "decode")]),
    pytest.param("all in tiles", "decode", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "way"), TWO)
def test_two_tiles_at_once_take_what_is_predicted(name: str, way: str) -> None:
    one = plan_of("2d", **PLANS[name])
    plan = replace(one, **{f"{way}_at_once": 2})
    needs = requirements.needs(plan)
    vae = requirements._vae_weights(VaeConfig(), plan)
    assert needs.working[way] > 1.5 * requirements.needs(one).working[way]
    predicted = vae + max(needs.working["encode"], needs.working["decode"])
    limit = Budget(ram_bytes=0, threads=1, vram_bytes=predicted).vram_limit_bytes
    with streamed(plan, 21, limit) as gpu:
        took = gpu.allocator.most_apart
    assert not gpu.record.problems
    assert 1 <= predicted / took <= 1.01


WAN_TILES = {"encode": Size(368, 368), "decode": Size(736, 736)}
WAN_NEEDS = {"encode": encode_needs, "decode": decode_needs}


@pytest.mark.parametrize("way", ["encode", pytest.param("decode", marks=pytest.mark.slow)])
def test_two_tiles_of_wan_at_once_take_what_is_predicted(way: str) -> None:
    tile, switches = WAN_TILES[way], VaeSwitches(convolution="2d")
    asked = Pass(
        config=WAN2X, frame=SIZE, device="cuda", dtype="float16", tile=tile, switches=switches
    )
    one, two = (WAN_NEEDS[way](replace(asked, at_once=at_once)).device for at_once in (1, 2))
    assert two > 1.5 * one
    with torch.device("meta"):
        weights = WanVae(WAN2X).state_dict()
    with pretended_gpu(has_values=False) as gpu, torch.inference_mode():
        vae = FastWanVae(WAN2X, weights, device="cuda", dtype=torch.float16, switches=switches)
        gpu.allocator.forget_peak()
        streaming = Streaming(tile=tile, at_once=2)
        if way == "encode":
            encode = WanEncodeStream(vae, SIZE, streaming)
            for a, b in slices(37, 4):
                frames = torch.empty(b - a, 3, SIZE.height, SIZE.width, device="cuda")
                encode.push(frames.half(), last=b == 37)
        else:
            decode = WanDecodeStream(vae, SIZE, streaming)
            for a, b in slices(10, 4):
                latents = torch.empty(1, 16, b - a, SIZE.height // 8, SIZE.width // 8)
                for _frame in decode.push(latents.half().to("cuda"), last=b == 10):
                    pass
        took = gpu.allocator.most_apart
    assert not gpu.record.problems
    assert 1 <= two / took <= 1.02
