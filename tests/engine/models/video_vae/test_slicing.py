"""Clips in slices: which slices, and what they share, on a model that can be understood."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.models.video_vae.slicing import SlicedVae, clamp_logvar, slices
from engine.ops.conv.causal_conv import Carry


class CountingVae(SlicedVae):
    """Keeps every fourth frame and gives it back four times; writes down its slices."""

    config = SimpleNamespace(spatial_factor=1, temporal_factor=4, slice_latents=1)

    def __init__(self) -> None:
        self.seen: list[tuple[int, bool, bool]] = []

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        carry = carry.begin()
        self.seen.append((frames.shape[2], carry.first, carry.last))
        kept = frames[:, :, 0 if carry.first else 3 :: 4]
        return clamp_logvar(torch.cat((kept, 40 * kept), dim=1)), carry.done()

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        carry = carry.begin()
        self.seen.append((latent.shape[2], carry.first, carry.last))
        frames = latent.repeat_interleave(4, dim=2)
        return frames[:, :, 3 if carry.first else 0 :], carry.done()


def clip(frames: int) -> Tensor:
    return torch.linspace(-1, 1, frames, dtype=torch.float64).view(1, 1, frames, 1, 1)


@given(st.integers(0, 60), st.one_of(st.none(), st.integers(1, 20)))
def test_slices_follow_each_other(length: int, size: int | None) -> None:
    spans = list(slices(length, size))
    assert [step for start, end in spans for step in range(start, end)] == list(range(length))
    sizes = [end - start for start, end in spans]
    if size is not None and spans:
        assert sizes[0] == min(length, size + 1)
        assert set(sizes[1:-1]) <= {size}
        assert all(0 < count <= size for count in sizes[1:])


def test_a_clip_is_cut_only_when_it_is_longer_than_the_first_slice() -> None:
    for frames, size, wanted in (
        (1, 4, [1]),
        (5, 4, [5]),
        (9, 4, [5, 4]),
        (21, 8, [9, 8, 4]),
        (9, None, [9]),
    ):
        vae = CountingVae()
        if size is not None:
            vae.enable_slicing(size)
        assert torch.equal(vae.posterior(clip(frames)), CountingVae().posterior(clip(frames)))
        last = len(wanted) - 1
        assert vae.seen == [(count, i == 0, i == last) for i, count in enumerate(wanted)]


def test_slices_in_the_midst_of_a_clip_are_all_alike() -> None:
    for length, size, spans in (
        (5, 2, [(0, 2), (2, 4), (4, 5)]),
        (2, 2, [(0, 2)]),
        (3, None, [(0, 3)]),
        (0, 4, []),
    ):
        assert list(slices(length, size, lead=0)) == spans


def test_a_decoder_takes_its_slices_in_latent_steps() -> None:
    vae = CountingVae()
    vae.enable_slicing(8)
    result = vae.decode(clip(7))
    assert result.untyped_storage().nbytes() == result.nbytes, "written into one result"
    assert [steps for steps, _, _ in vae.seen] == [3, 2, 2]
    vae.disable_slicing()
    assert torch.equal(vae.decode(clip(7)), result)
    assert vae.seen[-1] == (7, True, True)
    vae.enable_slicing()  # of the usual size
    vae.decode(clip(3))
    assert [steps for steps, _, _ in vae.seen[-2:]] == [2, 1]


def test_other_lengths_are_refused() -> None:
    for frames in (0, -4, 3, 6):
        with pytest.raises(ValueError, match="slices"):
            CountingVae().enable_slicing(frames)
    for frames in (0, 2, 4, 8):
        with pytest.raises(ValueError, match="frames"):
            CountingVae().posterior(clip(frames))


def test_a_sample_adds_noise_of_its_generator_once() -> None:
    frames, vae = clip(9), CountingVae()
    mean = vae.encode(frames)
    assert torch.equal(mean, frames[:, :, ::4]), "without a generator it is the mean"
    sample = vae.encode(frames, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn((1, 1, 3, 1, 1), generator=generator, dtype=torch.float64)
    deviation = torch.exp(0.5 * (40 * mean).clamp(-30, 20))
    torch.testing.assert_close(sample, mean + deviation * noise, rtol=0, atol=1e-12)
    vae.enable_slicing(4)
    again = vae.encode(frames, torch.Generator().manual_seed(3))
    assert torch.equal(again, sample), "noise must not depend on the slices"


def test_the_log_variance_is_clamped() -> None:
    posterior = torch.tensor([[-50.0, 50.0, -50.0, 50.0]]).view(1, 4, 1, 1, 1)
    assert clamp_logvar(posterior).flatten().tolist() == [-50, 50, -30, 20]
