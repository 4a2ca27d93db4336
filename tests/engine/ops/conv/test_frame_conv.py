"""Convolutions over frames with folds equal the convolution that they are made from.

Before a clip stand copies of its first frame (the causal convolution of SeedVR2), or zeros, or
nothing: the last two are written out here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.conv.causal_conv import CausalConv3d
from engine.ops.conv.frame_conv import (
    ConvOptions,
    ConvShape,
    FrameConv,
    Past,
)
from engine.ops.conv.temporal_conv import Form
from tests.helpers.seedvr2 import random_frames, randomise

LAYOUTS = (torch.channels_last, torch.contiguous_format)
FORMS = ("2d", "3d")
PASTS: tuple[Past, ...] = ("copies", "zeros", "none")


def both(
    reach: int = 3, shape: ConvShape | None = None, **options: Any
) -> tuple[CausalConv3d, FrameConv]:
    """A causal convolution of 4 to 5 channels and its twin on frames."""
    shape = shape or ConvShape()
    stride = (shape.time_stride, shape.space_stride, shape.space_stride)
    sides = (0, shape.padding, shape.padding)
    causal = CausalConv3d(4, 5, (reach, 3, 3), stride=stride, padding=sides)
    randomise(causal, 1)
    causal = causal.double().requires_grad_(False)
    chosen = ConvOptions(**{"dtype": torch.float64, "form": "2d", **options})
    assert causal.bias is not None
    return causal, FrameConv(causal.weight, causal.bias, shape, chosen)


def after(past: Past, causal: CausalConv3d, frames: Tensor, shape: ConvShape) -> Tensor:
    """The convolution of a whole clip with such a past before it, in one call."""
    clip = frames.movedim(0, 1).unsqueeze(0)
    copied = clip[:, :, :1].expand(-1, -1, 2, -1, -1)
    before = {"copies": copied, "zeros": torch.zeros_like(copied), "none": copied[:, :, :0]}
    stride = (shape.time_stride, shape.space_stride, shape.space_stride)
    sides = (0, shape.padding, shape.padding)
    joined = torch.cat([before[past], clip], 2)
    found = torch.nn.functional.conv3d(joined, causal.weight, causal.bias, stride, sides)
    return found[0].movedim(0, 1)


def clip(count: int, layout: torch.memory_format = torch.channels_last) -> Tensor:
    return random_frames(count, 4, 6, 5, seed=3).contiguous(memory_format=layout)


def of(causal: CausalConv3d, frames: Tensor) -> Tensor:
    """The causal convolution of a whole clip, as frames."""
    return torch.as_tensor(causal(frames.movedim(0, 1).unsqueeze(0))[0]).movedim(0, 1)


def assert_same(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


shapes = st.builds(
    ConvShape,
    padding=st.integers(0, 1),
    time_stride=st.integers(1, 2),
    space_stride=st.integers(1, 2),
)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 6),
    shape=shapes,
    form=st.sampled_from(FORMS),
    layout=st.sampled_from(LAYOUTS),
    winograd=st.booleans(),
    reach=st.sampled_from([1, 3]),
)
def test_first_frames_equal_the_causal_convolution(
    count: int,
    shape: ConvShape,
    form: Form,
    layout: torch.memory_format,
    winograd: bool,
    reach: int,
) -> None:
    causal, conv = both(reach, shape, form=form, winograd=winograd)
    frames = clip(count, layout)
    wanted = of(causal, frames)
    assert_same(conv.run_first(frames), wanted)
    copies = frames[:1].expand(conv.lead, -1, -1, -1)
    window = torch.cat([copies, frames]).contiguous(memory_format=layout)
    assert_same(conv.run(window), wanted)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 6),
    shape=shapes,
    past=st.sampled_from(PASTS),
    form=st.sampled_from(FORMS),
    layout=st.sampled_from(LAYOUTS),
    winograd=st.booleans(),
)
def test_a_clip_may_have_any_past(
    count: int,
    shape: ConvShape,
    past: Past,
    form: Form,
    layout: torch.memory_format,
    winograd: bool,
) -> None:
    shape = replace(shape, past=past)
    causal, conv = both(3, shape, form=form, winograd=winograd)
    frames = clip(count if past != "none" else count + 2, layout)
    wanted = after(past, causal, frames, shape)
    assert_same(conv.run_first(frames), wanted)
    before = conv.past(frames).expand(conv.lead, -1, -1, -1)
    window = torch.cat([before, frames]).contiguous(memory_format=layout)
    assert_same(conv.run(window), wanted)


@pytest.mark.parametrize(
    ("past", "first", "stride"),
    [
        *product(("copies", "zeros"), (1, 2, 3), (1,)),
        *product(PASTS, (1, 3), (2,)),
        ("none", 2, 1),
    ],
)
def test_the_tail_of_a_clip_is_the_past_of_what_follows(
    past: Past, first: int, stride: int
) -> None:
    shape = ConvShape(past=past, time_stride=stride)
    causal, conv = both(3, shape)
    frames = clip(7)
    later = torch.cat([conv.tail(frames[:first]), frames[first:]])
    found = torch.cat([conv.run_first(frames[:first]), conv.run(later)])
    assert_same(found, after(past, causal, frames, shape))


@pytest.mark.parametrize("form", FORMS)
def test_nothing_before_a_clip_of_one_frame_gives_nothing(form: Form) -> None:
    _, conv = both(3, ConvShape(time_stride=2, past="none"), form=form)
    assert conv.run_first(clip(1)).shape == (0, 5, 6, 5)
    assert conv.tail(clip(1)).shape[0] == conv.history == 1


@settings(max_examples=25, deadline=None)
@given(
    first=st.integers(0, 2),
    later=st.integers(1, 5),
    shape=shapes,
    form=st.sampled_from(FORMS),
    winograd=st.booleans(),
)
def test_later_frames_go_on_where_the_first_ended(
    first: int, later: int, shape: ConvShape, form: Form, winograd: bool
) -> None:
    causal, conv = both(3, shape, form=form, winograd=winograd)
    start = 1 + first * shape.time_stride
    frames = clip(start + later * shape.time_stride)
    known = torch.cat([frames[:1].expand(2, -1, -1, -1), frames[:start]])
    window = torch.cat([known[len(known) - conv.history :], frames[start:]])
    window = window.contiguous(memory_format=torch.channels_last)
    assert_same(conv.run(window), of(causal, frames)[1 + first :])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("winograd", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("past", ["copies", "zeros"])
def test_sums_go_into_a_part_of_a_larger_tensor(
    form: Form, winograd: bool, count: int, past: Past
) -> None:
    shape = ConvShape(past=past)
    causal, conv = both(3, shape, form=form, winograd=winograd)
    frames = clip(count)
    wanted = after(past, causal, frames, shape)
    window = torch.cat([conv.past(frames).expand(2, -1, -1, -1), frames])
    for run, given_frames in ((conv.run_first, frames), (conv.run, window)):
        whole = torch.ones(count + 2, 5, 6, 5, dtype=torch.float64)
        whole = whole.contiguous(memory_format=torch.channels_last)
        found = run(given_frames, whole[1:-1])
        assert found.data_ptr() == whole[1:-1].data_ptr()
        assert_same(whole[1:-1], 1 + wanted)
        assert bool((whole[0] == 1).all() and (whole[-1] == 1).all())


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_winograd_makes_pairs_and_an_odd_last_one(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    causal, conv = both(winograd=True)
    ran = []
    pairs = FrameConv._run_winograd
    monkeypatch.setattr(
        FrameConv, "_run_winograd", lambda self, *given: ran.append(1) or pairs(self, *given)
    )
    frames = clip(2 + count)
    assert_same(conv.run(frames), of(causal, frames)[2:])
    assert ran == [1]


@pytest.mark.parametrize(
    "shape",
    [ConvShape(), ConvShape(time_stride=2, space_stride=2), ConvShape(past="zeros")],
    ids=["copies", "strides", "zeros"],
)
def test_an_image_is_one_convolution_in_two_dimensions(
    monkeypatch: pytest.MonkeyPatch, shape: ConvShape
) -> None:
    causal, conv = both(3, shape)
    wanted = after(shape.past, causal, clip(1), shape)
    shapes_seen = []
    convolve = torch.nn.functional.conv2d
    monkeypatch.setattr(
        torch.nn.functional,
        "conv2d",
        lambda *given, **more: shapes_seen.append(given[0].shape) or convolve(*given, **more),
    )
    assert_same(conv.run_first(clip(1)), wanted)
    assert shapes_seen == [(1, 4, 6, 5)]


def test_zeros_cost_no_products_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    _, conv = both(3, ConvShape(past="zeros"))
    products = []
    convolve = torch.nn.functional.conv2d
    monkeypatch.setattr(
        torch.nn.functional,
        "conv2d",
        lambda *given, **more: products.append(len(given[0])) or convolve(*given, **more),
    )
    conv.run_first(clip(5))
    assert sum(products) == 5 + 4 + 3
    assert conv.past(clip(5)).untyped_storage().nbytes() == 8


@pytest.mark.parametrize("past", ["zeros", "none"])
def test_a_convolution_over_time_alone(past: Past) -> None:
    weight, bias = random_frames(6, 4, 3, 1, 1, seed=1), random_frames(6, seed=2)
    options = ConvOptions(dtype=torch.float64, form="2d")
    conv = FrameConv(weight, bias, ConvShape(padding=0, past=past), options)
    frames = clip(5)
    zeros = frames.new_zeros(2 if past == "zeros" else 0, *frames.shape[1:])
    joined = torch.cat([zeros, frames]).movedim(0, 1).unsqueeze(0)
    wanted = torch.nn.functional.conv3d(joined, weight, bias)[0].movedim(0, 1)
    assert_same(conv.run_first(frames), wanted)


def test_history_is_what_a_stride_leaves_over() -> None:
    lengths = {
        (reach, stride): both(reach, ConvShape(time_stride=stride))[1].history
        for reach, stride in product((1, 3), (1, 2))
    }
    assert lengths == {(1, 1): 0, (1, 2): 0, (3, 1): 2, (3, 2): 1}


def test_without_the_fold_first_frames_are_refused() -> None:
    _, conv = both(fold=False)
    assert not conv.folds
    with pytest.raises(ValueError, match="without the first-frame fold"):
        conv.run_first(clip(1))


def test_one_tap_needs_no_fold() -> None:
    causal, conv = both(1, fold=False)
    assert conv.folds
    assert_same(conv.run_first(clip(3)), of(causal, clip(3)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("past", ["copies", "zeros"])
def test_a_fold_in_half_precision_adds_the_rounding_of_its_table_and_no_more(
    dtype: torch.dtype, form: Form, count: int, past: Past
) -> None:
    """Result and table are rounded alike: two errors of one size, about sqrt(2) of one together.

    Zeros change no table.
    """
    causal, _ = both()
    half = CausalConv3d(4, 5, 3, padding=(0, 1, 1))
    half.load_state_dict(causal.state_dict())
    half = half.to(dtype).requires_grad_(False)
    truth = CausalConv3d(4, 5, 3, padding=(0, 1, 1)).double().requires_grad_(False)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    frames = random_frames(count, 4, 24, 20, dtype=dtype)
    frames = frames.contiguous(memory_format=torch.channels_last)
    options, shape = ConvOptions(dtype=dtype, form=form), ConvShape(past=past)
    assert half.bias is not None
    conv = FrameConv(half.weight.float(), half.bias.float(), shape, options)
    exact = after(past, truth, frames.double(), shape)
    errors = [
        (found.double() - exact).square().mean().sqrt().item()
        for found in (conv.run_first(frames), after(past, half, frames, shape))
    ]
    assert errors[0] <= (1.6 if past == "copies" else 1.02) * errors[1], errors
