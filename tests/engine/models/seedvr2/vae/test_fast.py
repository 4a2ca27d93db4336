"""The fast VAE equals the plain one: every switch, every length, first and later slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae

EXACT = 1e-10  # of the range of the result, in float64

CHANGED = {
    "usual": VaeSwitches(),
    "all off": VaeSwitches.all_off(),
    "3d": VaeSwitches(convolution="3d"),
    "2d": VaeSwitches(convolution="2d"),
    "3d without fold": VaeSwitches(convolution="3d", first_frame_fold=False),
    "winograd in 3d": VaeSwitches(convolution="3d", temporal_winograd=True),
} | {
    f"{entry.name} turned over": VaeSwitches().changed(entry.name, not entry.default)
    for entry in VaeSwitches.optimisations()
}


def fast_twin(plain: SeedVr2Vae, switches: VaeSwitches | None = None, **place: Any) -> FastVae:
    return FastVae(plain.config, plain.state_dict(), switches=switches, **place)


def double(plain: SeedVr2Vae, switches: VaeSwitches | None = None) -> FastVae:
    return fast_twin(plain, switches, dtype=torch.float64)


def assert_equal(fast: Tensor, plain: Tensor) -> None:
    assert fast.shape == plain.shape
    assert ((fast - plain).abs().max() / plain.abs().max()).item() < EXACT


@pytest.fixture(scope="module")
def plain() -> SeedVr2Vae:
    return tiny_vae()


@pytest.fixture(scope="module")
def clips(plain: SeedVr2Vae) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Clips of one and more frames, with their moments and what their means decode to."""
    found = []
    for frames in (1, 5, 9):
        clip = random_frames(1, 3, frames, 24, 16)
        moments = plain.posterior(clip)
        found.append((clip, moments, plain.decode(moments.chunk(2, dim=1)[0])))
    return found


@pytest.mark.parametrize("switches", CHANGED.values(), ids=CHANGED.keys())
def test_every_switch_equals_the_plain_form(
    plain: SeedVr2Vae, clips: list[tuple[Tensor, Tensor, Tensor]], switches: VaeSwitches
) -> None:
    fast = double(plain, switches)
    for clip, moments, sample in clips:
        for size in (None, 4):
            fast.disable_slicing()
            if size is not None:
                fast.enable_slicing(size)
            assert_equal(fast.posterior(clip), moments)
            assert_equal(fast.decode(moments.chunk(2, dim=1)[0]), sample)


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
)
def test_other_sizes_and_configurations(
    steps: int,
    size: tuple[int, int],
    slice_steps: int,
    groups: int,
    time: tuple[bool, ...],
    layers: int,
) -> None:
    config = tiny_config(time, norm_groups=groups, layers_per_block=layers)
    plain = tiny_vae(config)
    fast = double(plain)
    fast.enable_slicing(slice_steps * config.temporal_factor)
    scale = config.spatial_factor
    clip = random_frames(1, 3, 1 + steps * config.temporal_factor, size[0] * scale, size[1] * scale)
    moments = plain.posterior(clip)
    assert_equal(fast.posterior(clip), moments)
    latent = moments.chunk(2, dim=1)[0]
    assert_equal(fast.decode(latent), plain.decode(latent))


def test_slices_by_hand_and_batches(plain: SeedVr2Vae) -> None:
    fast = double(plain)
    latent = random_frames(2, plain.config.latent_channels, 5, 3, 2)
    carry, parts = Carry(), []
    for start, end in ((0, 1), (1, 4), (4, 5)):
        part, carry = fast.decode_slice(latent[:, :, start:end], carry)
        parts.append(part)
    assert_equal(torch.cat(parts, dim=2), plain.decode(latent))


def test_a_carry_can_be_used_twice(plain: SeedVr2Vae) -> None:
    fast = double(plain)
    latent = random_frames(1, plain.config.latent_channels, 3, 2, 3)
    _, carry = fast.decode_slice(latent[:, :, :2], Carry())
    once, _ = fast.decode_slice(latent[:, :, 2:], carry)
    again, _ = fast.decode_slice(latent[:, :, 2:], carry)
    torch.testing.assert_close(once, again, rtol=0, atol=0)


def test_a_carry_of_another_size_is_refused(plain: SeedVr2Vae) -> None:
    fast = double(plain)
    _, carry = fast.decode_slice(random_frames(1, 4, 1, 2, 3), Carry())
    with pytest.raises(ValueError, match="another clip"):
        fast.decode_slice(random_frames(1, 4, 1, 3, 3), carry)


def test_low_and_high_make_the_whole(plain: SeedVr2Vae) -> None:
    fast = double(plain)
    latent = random_frames(1, 4, 3, 3, 4)
    features, _ = fast.decode_low(latent, Carry(last=True))
    before = features.clone()
    frames, _ = fast.decode_high(features, Carry(last=True))
    assert features.shape == (5, 12, 6, 8)
    assert_equal(frames.movedim(0, 1).unsqueeze(0), plain.decode(latent))
    torch.testing.assert_close(features, before, rtol=0, atol=0)


def test_extra_convolutions_at_the_latent() -> None:
    plain = tiny_vae(tiny_config(quant_conv=True, post_quant_conv=True))
    fast = double(plain)
    clip = random_frames(1, 3, 5, 16, 16)
    assert_equal(fast.posterior(clip), plain.posterior(clip))
    latent = random_frames(1, 4, 2, 2, 2)
    assert_equal(fast.decode(latent), plain.decode(latent))


def test_the_caller_keeps_what_it_gave(plain: SeedVr2Vae) -> None:
    fast = double(plain)
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


HALF_CONFIG = VaeConfig(
    block_out_channels=(16, 16, 32, 32), layers_per_block=1, norm_groups=4, latent_channels=4
)


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("frames", [1, 9])
def test_half_precision_is_as_near_to_the_truth_as_the_plain_form(
    dtype: torch.dtype, frames: int
) -> None:
    half = tiny_vae(HALF_CONFIG, dtype=dtype)
    truth = tiny_vae(HALF_CONFIG)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    clip = random_frames(1, 3, frames, 40, 32, dtype=dtype)
    latent = random_frames(1, 4, 1 + frames // 4, 5, 4, dtype=dtype)
    exact = truth.encode(clip.double()), truth.decode(latent.double())
    plain = rms(half.encode(clip) - exact[0]), rms(half.decode(latent) - exact[1])
    for form in ("auto", "2d", "3d"):
        switches = replace(VaeSwitches(), convolution=form)
        fast = fast_twin(half, switches, dtype=dtype)
        found = rms(fast.encode(clip) - exact[0]), rms(fast.decode(latent) - exact[1])
        assert found[0] <= 1.2 * plain[0], f"encode, {form}: {found} {plain}"
        assert found[1] <= 1.2 * plain[1], f"decode, {form}: {found} {plain}"
