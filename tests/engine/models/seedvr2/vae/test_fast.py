"""The fast VAE in the program around it: precision, errors, who owns what."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.fast_layers import GroupNorm
from engine.models.video_vae.layers import NormInput, SliceContext
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_vae


@pytest.fixture
def fast() -> FastVae:
    plain = tiny_vae()
    return FastVae(plain.config, plain.state_dict(), dtype=torch.float64)


def test_features_between_halves_have_half_the_frames_width_and_height(fast: FastVae) -> None:
    features, _ = fast.decode_low(random_frames(1, 4, 3, 3, 4), Carry(last=True))
    assert features.shape == (5, 12, 6, 8)


def test_the_beginning_of_a_single_clip_is_not_measured_by_cudnn(fast: FastVae) -> None:
    measures = list[bool]()
    fast.enable_slicing(4)
    fast.trace = lambda *_: measures.append(torch.backends.cudnn.benchmark)
    for expected in ([False, True], [True]):
        fast.decode(random_frames(1, 4, 4, 3, 3))
        assert [measured for measured, _ in groupby(measures)] == expected
        measures.clear()


def test_the_program_around_us_keeps_its_precision_and_we_ours(fast: FastVae) -> None:
    outside = torch.get_float32_matmul_precision()
    backends: Any = torch.backends

    def precisions() -> tuple[str, str]:
        return backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision

    inside = []
    fast.trace = lambda *given: inside.append(precisions())
    try:
        for around in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(around)
            before = precisions()
            fast.decode(random_frames(1, 4, 1, 2, 2))
            assert precisions() == before
            assert torch.get_float32_matmul_precision() == around
    finally:
        fast.trace = None
        torch.set_float32_matmul_precision(outside)
    assert set(inside) == {("ieee", "ieee")}


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    norm = GroupNorm((torch.ones(8), torch.zeros(8)), 4, 1e-6)
    workspace = Workspace(torch.device("cpu"), torch.float32, planned=True, channels_last=True)
    for layout in (torch.channels_last, torch.contiguous_format):
        frames = 30 + random_frames(2, 8, 24, 32, dtype=torch.float32)
        frames = frames.contiguous(memory_format=layout)
        exact = F.group_norm(frames.double().contiguous(), 4, eps=1e-6)
        for fused in (True, False):
            switches = VaeSwitches().changed("fused_norm", fused)
            flow = SliceContext(carry=Carry(), workspace=workspace, switches=switches)
            found = torch.empty_like(frames)
            norm.write(NormInput(frames), found, flow, silu=False)
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=5e-5)


def test_an_error_within_a_slice_leaves_nothing_broken(fast: FastVae) -> None:
    latent = random_frames(1, 4, 3, 2, 3)
    carry = fast.decode_slice(latent[:, :, :1], Carry())[1]
    wanted, _ = fast.decode_slice(latent[:, :, 1:], carry)

    def refuse(name: str, frames: Tensor) -> None:
        if name == "decoder.up_blocks.1.resnets.0":
            raise torch.OutOfMemoryError(f"no {frames.nbytes} bytes")

    given = carry.handed_over()
    other = fast.decode_slice(latent[:, :, :1], Carry())[1]
    fast.trace = refuse
    try:
        for unlucky in (given, other):
            with pytest.raises(torch.OutOfMemoryError):
                fast.decode_slice(latent[:, :, 1:], unlucky)
    finally:
        fast.trace = None
    with pytest.raises(ValueError, match="did not end"):
        fast.decode_slice(latent[:, :, 1:], given)
    assert torch.equal(fast.decode_slice(latent[:, :, 1:], other)[0], wanted)


@pytest.mark.parametrize("around", [False, True])
def test_results_belong_to_the_caller(fast: FastVae, around: bool) -> None:
    with torch.inference_mode(around):
        frames = fast.decode(random_frames(1, 4, 2, 2, 2))
        mean = fast.encode(frames)
    assert not mean.requires_grad
    frames.clamp_(-1, 1)
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    if not around:  # what `encode` makes of the posterior belongs to torch's mode around it
        (mean * factor).sum().backward()
        torch.testing.assert_close(factor.grad, mean.sum())
    (frames * factor).sum().backward()
