"""The fast VAE equals the plain one: every switch, every length, first and later slices."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.fast_build import GroupNorm, TileContext
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.context import NormInput
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae

EXACT = 1e-10  # of the range of the result, in float64


CHANGED = [
    VaeSwitches(),
    VaeSwitches.all_off(),
    VaeSwitches(convolution="3d"),
    VaeSwitches(convolution="2d"),
    VaeSwitches(convolution="3d", first_frame_fold=False),
    VaeSwitches(convolution="3d", temporal_winograd=True),
    *(
        VaeSwitches().changed(e.name, not e.default)
        for e in VaeSwitches.optimisations()
        if e.name != "compile"  # takes a minute: video_vae/test_compiled.py
    ),
]


def double(plain: SeedVr2Vae, switches: VaeSwitches | None = None) -> FastVae:
    return FastVae(plain.config, plain.state_dict(), dtype=torch.float64, switches=switches)


def assert_equal(fast: Tensor, plain: Tensor) -> None:
    assert fast.shape == plain.shape
    assert ((fast - plain).abs().max() / plain.abs().max()).item() < EXACT


@pytest.fixture(scope="module")
def plain() -> SeedVr2Vae:
    return tiny_vae()


@pytest.fixture(scope="module")
def fast(plain: SeedVr2Vae) -> FastVae:
    return double(plain)


def test_every_switch_equals_the_plain_variant(plain: SeedVr2Vae) -> None:
    cases = []
    for frames, slice_frames in ((1, None), (5, None), (9, 4)):  # a first, one within, a last
        clip = random_frames(1, 3, frames, 24, 16)
        posterior = plain.posterior(clip)
        mean = posterior.chunk(2, dim=1)[0]
        cases.append((slice_frames, clip, posterior, mean, plain.decode(mean)))
    for switches in CHANGED:
        fast = double(plain, switches)
        for size, clip, posterior, mean, sample in cases:
            fast.disable_slicing() if size is None else fast.enable_slicing(size)
            assert_equal(fast.posterior(clip), posterior)
            assert_equal(fast.decode(mean), sample)


@settings(max_examples=12, deadline=None)
@given(
    steps=st.sampled_from([0, 1, 2, 5]),  # 1, 5, 9, 21 frames where time is a fourth
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    slice_steps=st.integers(1, 3),
    groups=st.sampled_from([2, 4]),
    time=st.sampled_from(
        [(False, True, True), (True, False), (False,), (True, True), (False, False, True)]
    ),
    layers=st.integers(1, 2),
    quant=st.booleans(),
)
def test_other_sizes_and_configurations(
    steps: int,
    size: tuple[int, int],
    slice_steps: int,
    groups: int,
    time: tuple[bool, ...],
    layers: int,
    quant: bool,
) -> None:
    sizes = {"norm_groups": groups, "layers_per_block": layers}
    config = tiny_config(time, **sizes, quant_conv=quant, post_quant_conv=quant)
    plain = tiny_vae(config)
    fast = double(plain)
    fast.enable_slicing(slice_steps * config.temporal_factor)
    scale = config.spatial_factor
    clip = random_frames(1, 3, 1 + steps * config.temporal_factor, size[0] * scale, size[1] * scale)
    posterior = plain.posterior(clip)
    assert_equal(fast.posterior(clip), posterior)
    latent = posterior.chunk(2, dim=1)[0]
    assert_equal(fast.decode(latent), plain.decode(latent))


EARLY, LATE = (True, True, False), (False, True, True)


@pytest.mark.parametrize(
    ("time", "fold"), [(EARLY, True), (LATE, False), *extended((EARLY, False), (LATE, True))]
)
def test_a_clip_may_be_cut_anywhere_even_after_its_first_step(
    time: tuple[bool, ...], fold: bool
) -> None:
    plain = tiny_vae(tiny_config(time[::-1]))
    fast = double(plain, VaeSwitches().changed("upsampler_fold", fold))
    latent = random_frames(2, plain.config.latent_channels, 5, 3, 2)
    wanted = plain.decode(latent)
    for cuts in ([1, 4], [1, 1, 3], [2, 3], [1, 3, 1]):
        carry, parts = Carry(), []
        for part in latent.split(cuts, dim=2):
            once, after = fast.decode_slice(part, carry)
            again, carry = fast.decode_slice(part, carry)  # a carry can be used twice
            assert torch.equal(once, again)
            assert after.bytes_held == carry.bytes_held
            parts.append(again)
        assert_equal(torch.cat(parts, dim=2), wanted)


def test_a_carry_of_another_size_or_batch_is_refused(fast: FastVae) -> None:
    latent = random_frames(2, 4, 1, 3, 3)
    for first, second in ((latent[..., 1:], latent), (latent[:1], latent), (latent, latent[:1])):
        _, carry = fast.decode_slice(first, Carry())
        with pytest.raises(ValueError, match=r"belongs to|another clip"):
            fast.decode_slice(second, carry)


def test_low_and_high_make_the_whole(plain: SeedVr2Vae, fast: FastVae) -> None:
    latent = random_frames(1, 4, 3, 3, 4)
    features, _ = fast.decode_low(latent, Carry(last=True))
    before = features.clone()
    frames, _ = fast.decode_high(features, Carry(last=True))
    assert features.shape == (5, 12, 6, 8)
    assert_equal(frames.movedim(0, 1).unsqueeze(0), plain.decode(latent))
    torch.testing.assert_close(features, before, rtol=0, atol=0)


def test_the_caller_keeps_what_it_gave(fast: FastVae) -> None:
    clip, latent = random_frames(1, 3, 5, 16, 16), random_frames(1, 4, 2, 2, 2)
    copies = clip.clone(), latent.clone()
    fast.encode(clip)
    fast.decode(latent)
    torch.testing.assert_close((clip, latent), copies, rtol=0, atol=0)


def test_buffers_stay_what_they_are_after_the_first_slices(plain: SeedVr2Vae) -> None:
    fast = double(plain)
    fast.enable_slicing(4)
    fast.decode(random_frames(1, 4, 4, 3, 3))
    held = fast.workspace.bytes_held
    fast.decode(random_frames(1, 4, 9, 3, 3))
    assert fast.workspace.bytes_held == held > 0
    fast.release()
    assert fast.workspace.bytes_held == 0


def test_the_beginning_of_a_single_clip_is_not_measured_by_cudnn(plain: SeedVr2Vae) -> None:
    fast, measures = double(plain), list[bool]()
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
    norm = GroupNorm("norm", (torch.ones(8), torch.zeros(8)), 4, 1e-6)
    workspace = Workspace(torch.device("cpu"), torch.float32, planned=True, channels_last=True)
    for layout in (torch.channels_last, torch.contiguous_format):
        frames = 30 + random_frames(2, 8, 24, 32, dtype=torch.float32)
        frames = frames.contiguous(memory_format=layout)
        exact = F.group_norm(frames.double().contiguous(), 4, eps=1e-6)
        for fused in (True, False):
            switches = VaeSwitches().changed("fused_norm", fused)
            flow = TileContext(carry=Carry(), workspace=workspace, switches=switches)
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
