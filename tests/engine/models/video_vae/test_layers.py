"""A stream that is handed on, frames that are kept, and windows of convolutions on both.

Any past, cut into slices anywhere, equals the whole clip.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.video_vae.causal_layers import CausalConv
from engine.models.video_vae.slice_context import NormInput, SliceContext, keep_last
from engine.ops.conv.causal_conv import Carry, ConvShape, Past
from engine.ops.conv.frame_conv import ConvOptions, FrameConv
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.engine.ops.conv.test_frame_conv import after
from tests.helpers.seedvr2 import random_frames
from tests.helpers.tensors import assert_same

WEIGHT = random_frames(5, 4, 3, 3, 3, seed=1)
BIAS = random_frames(5, seed=2)
SWITCHES = ("ring_buffers", "first_frame_fold", "image_mode", "planned_buffers")


def conv_of(shape: ConvShape, *, pad: int = 0, late: bool = False) -> CausalConv:
    options = ConvOptions(dtype=torch.float64, form="2d")
    return CausalConv("conv", FrameConv(WEIGHT, BIAS, shape, options), pad=pad, late=late)


def context(carry: Carry | None = None, chosen: VaeSwitches | None = None) -> SliceContext:
    workspace = Workspace(torch.device("cpu"), torch.float64, planned=True, channels_last=True)
    return SliceContext(
        carry=carry or Carry(), workspace=workspace, switches=chosen or VaeSwitches()
    )


def test_a_stream_is_taken_once_and_seen_where_it_has_a_name() -> None:
    going, seen = context(), []
    going.put(random_frames(1, 2, 3, 3), "unseen")
    going.trace = lambda name, frames: seen.append((name, tuple(frames.shape)))
    going.put(going.take())
    going.put(going.take(), "part")
    assert seen == [("part", (1, 2, 3, 3))]
    going.take()
    with pytest.raises(ValueError, match="not put back"):
        going.take()


def test_what_is_kept_is_a_copy_unless_no_slice_follows() -> None:
    for layout in (torch.channels_last, torch.contiguous_format):
        frames = random_frames(4, 2, 3, 4).contiguous(memory_format=layout)
        going = context()
        going.keep("conv", frames[-2:])
        kept = going.kept("conv", (2, 2, 3, 4))
        assert kept.untyped_storage().nbytes() == kept.nbytes
        assert kept.is_contiguous(memory_format=layout)
        frames.zero_()
        assert bool(kept.any())
    last = context(carry=Carry(last=True))
    last.keep("conv", frames[-2:])
    assert not last.keeps("conv")


def test_clips_of_a_batch_keep_frames_apart_and_frames_of_another_are_refused() -> None:
    carry = Carry()
    first, second = context(carry), context(carry)
    second.batch = 1
    first.keep("conv", random_frames(2, 2, 3, 3))
    assert first.keeps("conv")
    assert not second.keeps("conv")
    for name, shape in (("conv", (2, 2, 3, 4)), ("other", (2, 2, 3, 3))):
        with pytest.raises(ValueError, match="belongs to another clip"):
            first.kept(name, shape)


def clip(count: int) -> Tensor:
    frames = random_frames(count, 4, 6, 5, seed=3)
    return frames.contiguous(memory_format=torch.channels_last)


def whole(frames: Tensor, shape: ConvShape, pad: int = 0) -> Tensor:
    """The convolution of a whole clip in one call."""
    return after(SimpleNamespace(weight=WEIGHT, bias=BIAS), F.pad(frames, (0, pad, 0, pad)), shape)


def in_slices(conv: CausalConv, parts: list[Tensor], chosen: VaeSwitches | None = None) -> Tensor:
    """The parts of a clip one after another; an empty one stands for a slice without frames."""
    carry, results = Carry(), []
    for part in parts:
        going = context(carry.begin(), chosen)
        if len(part):
            results.append(conv.of(part, going).frames)
        carry = going.carry.done()
    return torch.cat(results)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    past=st.sampled_from(["copies", "zeros"]),
    pad=st.integers(0, 1),
    changed=st.sets(st.sampled_from(SWITCHES)),
)
def test_slices_equal_the_whole_clip(
    lengths: list[int], past: Past, pad: int, changed: set[str]
) -> None:
    shape = ConvShape(past=past, padding=1 - pad, space_stride=1 + pad)
    frames, chosen = clip(sum(lengths)), VaeSwitches()
    chosen = replace(chosen, **{name: not getattr(chosen, name) for name in changed})
    found = in_slices(conv_of(shape, pad=pad), list(frames.split(lengths)), chosen)
    assert_same(found, whole(frames, shape, pad))


@pytest.mark.parametrize("past", ["copies", "zeros", "none"])
def test_slices_of_a_convolution_that_halves_time(past: Past) -> None:
    shape = ConvShape(past=past, time_stride=2)
    for lengths in ([1, 2, 2], [3, 4], [5], [1, 4], [1]):
        for ring in (True, False):
            frames, chosen = clip(sum(lengths)), VaeSwitches(ring_buffers=ring)
            found = in_slices(conv_of(shape), list(frames.split(lengths)), chosen)
            wanted = whole(frames, shape) if len(frames) > 1 or past != "none" else found[:0]
            assert_same(found, wanted)


@pytest.mark.parametrize("lengths", [[0, 1, 1, 3], [0, 2, 2], [1, 1, 2], [3, 1], [0, 1]])
def test_a_late_clip_begins_where_its_frames_do(lengths: list[int]) -> None:
    shape, frames = ConvShape(past="zeros"), clip(sum(lengths))
    for ring in (True, False):
        for fold in (True, False):
            chosen = VaeSwitches(ring_buffers=ring, first_frame_fold=fold, image_mode=fold)
            found = in_slices(conv_of(shape, late=True), list(frames.split(lengths)), chosen)
            assert_same(found, whole(frames, shape))


def test_what_is_kept_of_a_slice() -> None:
    frames, going = clip(2), context(Carry())
    conv_of(ConvShape(past="zeros")).of(frames, going)
    assert going.workspace.bytes_held == 0, "frames without a past are convolved where they are"
    kept = going.kept("conv", (2, 4, 6, 5))
    assert torch.equal(kept, frames)
    assert kept.data_ptr() != frames.data_ptr()
    last = context(Carry(last=True))
    conv_of(ConvShape(past="zeros")).of(clip(3), last)
    assert not last.keeps("conv")
    with pytest.raises(ValueError, match="another clip"):  # a clip that is not late needs it
        conv_of(ConvShape(past="zeros")).of(clip(1), context(Carry().begin().done()))


class Doubled:
    """Stands in for a norm."""

    def write(self, given: NormInput, out: Tensor, context: object, *, kept: Tensor | None) -> None:
        keep_last(out.copy_(2 * given.frames), kept)


def test_the_carry_holds_what_the_convolution_sees_not_what_the_norm_does() -> None:
    shape, frames = ConvShape(past="zeros"), clip(6)
    conv, carry, found = conv_of(shape), Carry(), []
    for part in frames.split([1, 3, 1, 1]):
        going = context(carry.begin())
        found.append(conv.over(conv.normed(Doubled(), NormInput(part), going)).frames)
        carry = going.carry.done()
    assert_same(torch.cat(found), whole(2 * frames, shape))


def test_a_window_adds_to_what_it_is_given() -> None:
    shape, frames = ConvShape(past="zeros"), clip(3)
    conv, into = conv_of(shape), torch.ones(3, 5, 6, 5, dtype=torch.float64)
    window = conv.window(frames, context(Carry()), lambda out, _: out.copy_(frames))
    assert conv.over(window, into).frames is into
    assert_same(into, 1 + whole(frames, shape))
