"""Variants of the published program: the rules; the golden check has their values."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.seedvr2.sampler import condition, sample, seeded_noise
from engine.models.video_vae.slicing import SlicedVae
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_dit, random_frames, random_inputs, tiny_vae
from tests.reference.frames import reference_overlap_weights
from tests.reference.sampler import sample_in_steps
from tests.reference.seedvr2_film import (
    Models,
    ReferenceOptions,
    batches,
    lengthened,
    upscale_as_reference,
)
from tests.reference.tiled_vae import tiled_decode, tiled_encode

SHAPE = (2, 6, 8, 16)


def test_steps_reach_the_picture_and_one_is_that_of_the_product() -> None:
    dit = random_dit()
    _, text = random_inputs(dit.config)
    noise, picture = (seeded_noise(SHAPE, seed).double() for seed in (1, 2))
    inputs = (noise, condition(picture), text)
    assert torch.equal(sample_in_steps(dit, *inputs), sample(dit, *inputs))
    result = sample_in_steps(lambda seen, text, timestep: noise - picture, *inputs, steps=5)
    torch.testing.assert_close(result, picture, rtol=0, atol=1e-12)


OPTIONS = st.builds(
    lambda batch, overlap, uniform: ReferenceOptions(
        short_side=16, batch=batch, overlap=min(overlap, batch - 1), uniform=uniform
    ),
    st.integers(1, 12),
    st.integers(0, 11),
    st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), OPTIONS)
def test_every_batch_brings_new_frames_and_is_as_long_as_the_model_takes(
    frames: int, options: ReferenceOptions
) -> None:
    spans = batches(frames, options)
    assert (spans[0][0], spans[-1][1]) == (0, frames)
    for (_, stop), (start, end) in pairwise(spans):
        assert stop - start == options.overlap
        assert stop < end
    indices = lengthened(frames, options)
    assert indices[:frames] == list(range(frames))
    assert set(indices) <= set(range(frames))
    assert len(indices) % 4 == 1
    least = max(frames, options.batch) if options.uniform else frames
    assert least <= len(indices) < least + 4


def takes_its_condition(seen: Tensor, text: Tensor, timestep: float) -> Tensor:
    """A transformer after which the latent is its condition."""
    channels = (seen.shape[-1] - 1) // 2
    return seen[..., :channels] - seen[..., channels:-1]


def test_shared_frames_are_mixed_and_others_are_not() -> None:
    models = Models(
        vae=tiny_vae(dtype=torch.float32), dit=takes_its_condition, text=torch.zeros(1, 1)
    )
    frames = random_frames(7, 3, 16, 24, dtype=torch.float32).mul(0.5).add(0.5)
    plain = ReferenceOptions(short_side=16, colour="none")
    options = replace(plain, overlap=3)
    stages: dict[str, Tensor] = {}
    result = upscale_as_reference(frames, models, options, trace=stages.__setitem__)
    first, second = (upscale_as_reference(part, models, plain) for part in (frames[:5], frames[2:]))
    torch.testing.assert_close(result[:2], first[:2], rtol=0, atol=1e-6)
    torch.testing.assert_close(result[5:], second[3:], rtol=0, atol=1e-6)
    assert reference_overlap_weights(3) == pytest.approx([1, 0.5, 0])
    middle = (stages["batch0.decoded"][3] + stages["batch1.decoded"][1]) / 2
    torch.testing.assert_close(stages["assembled"][3], middle[..., :16, :24], rtol=0, atol=1e-6)


class BlockVae(SlicedVae):
    """A latent position is the mean of its 4x4 pixels."""

    config = SimpleNamespace(spatial_factor=4, temporal_factor=1, slice_latents=1)

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        latent = frames.unfold(3, 4, 4).unfold(4, 4, 4).mean(dim=(5, 6))
        return torch.cat((latent, latent), dim=1), carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        return latent.repeat_interleave(4, dim=3).repeat_interleave(4, dim=4), carry


SIDE = st.tuples(st.integers(1, 7), st.integers(4, 24), st.integers(0, 30))
"""Length in latent positions, tile and overlap in pixels."""


@settings(max_examples=20, deadline=None)
@given(SIDE, SIDE)
def test_tiles_of_a_model_that_sees_one_position_equal_the_whole(
    rows: tuple[int, int, int], columns: tuple[int, int, int]
) -> None:
    vae = BlockVae()
    (height, width), tile, overlap = zip(rows, columns, strict=True)
    frames = torch.rand(1, 1, 1, 4 * height, 4 * width, dtype=torch.float64)
    torch.testing.assert_close(tiled_encode(vae, frames, tile, overlap), vae.encode(frames))
    whole = [min(given, side - 4) // 4 * 4 for given, side in zip(overlap, tile, strict=True)]
    latent = torch.rand(1, 1, 1, height, width, dtype=torch.float64)
    result = tiled_decode(vae, latent, tile, (whole[0], whole[1]))
    torch.testing.assert_close(result, vae.decode(latent))
