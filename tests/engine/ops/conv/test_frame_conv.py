from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.conv import frame_conv
from engine.ops.conv.causal_conv import CausalConv3d, ConvShape, Past
from engine.ops.conv.frame_conv import ConvOptions, FrameConv, Method
from engine.ops.conv.temporal_conv import WinogradConv
from engine.ops.conv.trial import ConvolutionChoice, LayerKind
from tests.helpers.seedvr2 import random_frames, randomise
from tests.helpers.tensors import assert_same, relative_rms

LAYOUTS = (torch.channels_last, torch.contiguous_format)
FORMS = ("2d", "3d")
PASTS: tuple[Past, ...] = ("copies", "zeros", "none")


def both(
    reach: int = 3, shape: ConvShape | None = None, **options: Any
) -> tuple[CausalConv3d, FrameConv]:
    """A causal convolution of 4 to 5 channels, and that over frames."""
    shape = shape or ConvShape()
    stride = (shape.time_stride, shape.space_stride, shape.space_stride)
    sides = (0, shape.padding, shape.padding)
    causal = CausalConv3d(4, 5, (reach, 3, 3), stride=stride, padding=sides)
    randomise(causal, 1)
    causal = causal.double().requires_grad_(False)
    chosen = ConvOptions(**{"dtype": torch.float64, "form": "2d", **options})
    assert causal.bias is not None
    return causal, FrameConv(causal.weight, causal.bias, shape, chosen)


def after(causal: Any, frames: Tensor, shape: ConvShape) -> Tensor:
    """The convolution of a whole clip after its past, in one call."""
    clip = frames.movedim(0, 1).unsqueeze(0)
    copied = clip[:, :, :1].expand(-1, -1, causal.weight.shape[2] - 1, -1, -1)
    before = {"copies": copied, "zeros": torch.zeros_like(copied), "none": copied[:, :, :0]}
    stride = (shape.time_stride, shape.space_stride, shape.space_stride)
    sides = (0, shape.padding, shape.padding)
    joined = torch.cat([before[shape.past], clip], 2)
    found = F.conv3d(joined, causal.weight, causal.bias, stride, sides)
    return found[0].movedim(0, 1)


def clip(count: int, layout: torch.memory_format = torch.channels_last) -> Tensor:
    return random_frames(count, 4, 6, 5, seed=3).contiguous(memory_format=layout)


shapes = st.builds(
    ConvShape,
    padding=st.integers(0, 1),
    time_stride=st.integers(1, 2),
    space_stride=st.integers(1, 2),
)
options = st.fixed_dictionaries({"form": st.sampled_from(FORMS), "winograd": st.booleans()})


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 6),
    shape=st.builds(replace, shapes, past=st.sampled_from(PASTS)),
    reach=st.sampled_from([1, 3]),
    layout=st.sampled_from(LAYOUTS),
    options=options,
)
def test_frames_equal_the_convolution_of_the_whole_clip(count, shape, reach, layout, options):
    causal, conv = both(reach, shape, **options)
    frames = clip(count if shape.past != "none" else count + 2, layout)
    wanted = after(causal, frames, shape)
    assert_same(conv.run_first(frames), wanted)
    before = conv.past(frames).expand(conv.lead, -1, -1, -1)
    window = torch.cat([before, frames]).contiguous(memory_format=layout)
    assert_same(conv.run(window), wanted)


def test_the_tail_of_a_clip_is_the_past_of_what_follows():
    cases = [
        *product(("copies", "zeros"), (1, 2, 3), (1,)),
        *product(PASTS, (1, 3), (2,)),
        ("none", 2, 1),
    ]
    for past, first, stride in cases:
        shape = ConvShape(past=past, time_stride=stride)
        causal, conv = both(3, shape)
        frames = clip(7)
        later = torch.cat([conv.tail(frames[:first]), frames[first:]])
        found = torch.cat([conv.run_first(frames[:first]), conv.run(later)])
        assert_same(found, after(causal, frames, shape))


def test_nothing_before_a_clip_of_one_frame_gives_nothing():
    for form in FORMS:
        _, conv = both(3, ConvShape(time_stride=2, past="none"), form=form)
        assert conv.run_first(clip(1)).shape == (0, 5, 6, 5)
        assert conv.tail(clip(1)).shape[0] == conv.history == 1


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 5), past=st.sampled_from(["copies", "zeros"]), options=options)
def test_sums_go_into_a_part_of_a_larger_tensor(count, past, options):
    shape = ConvShape(past=past)
    causal, conv = both(3, shape, **options)
    frames = clip(count)
    wanted = after(causal, frames, shape)
    window = torch.cat([conv.past(frames).expand(2, -1, -1, -1), frames])
    for run, given_frames in ((conv.run_first, frames), (conv.run, window)):
        whole = torch.ones(count + 2, 5, 6, 5, dtype=torch.float64)
        whole = whole.contiguous(memory_format=torch.channels_last)
        found = run(given_frames, whole[1:-1])
        assert found.data_ptr() == whole[1:-1].data_ptr()
        assert_same(whole[1:-1], 1 + wanted)
        assert bool((whole[0] == 1).all() and (whole[-1] == 1).all())


def test_winograd_makes_pairs_and_an_odd_last_one(monkeypatch):
    causal, conv = both(winograd=True)
    plain = Mock(side_effect=conv._all.apply)
    monkeypatch.setattr(conv._all, "apply", plain)
    for count in range(1, 8):
        frames = clip(2 + count)
        assert_same(conv.run(frames), after(causal, frames, ConvShape())[2:])
    assert [len(given.args[0]) for given in plain.call_args_list] == 4 * [3]  # of odd counts


def test_a_trial_tells_the_form_of_each_layer_on_a_gpu(monkeypatch):
    def choose(device, dtype, layer, kernel):
        assert kernel is None
        assert (device, dtype) == (torch.device("cpu"), torch.float64)
        return ConvolutionChoice(form=forms[layer], reason="", winograd=True)

    forms = {
        LayerKind((5, 4, 3, 3, 3)): "3d",
        LayerKind((5, 4, 3, 3, 3), padding=0, stride=(2, 1)): "2d",
    }
    monkeypatch.setattr(frame_conv, "choose_convolution", choose)
    strided = ConvShape(padding=0, time_stride=2)
    for winograd in (False, True):
        options = ConvOptions(dtype=torch.float64, form="auto", winograd=winograd)
        conv = both(3, ConvShape(), form="auto", winograd=winograd)[1]
        assert conv._all._form == "3d"
        assert isinstance(conv._run, WinogradConv) == winograd
        assert both(3, strided, form="auto", winograd=winograd)[1]._all._form == "2d"
        single = 5, 4, 1, 3, 3  # nothing to choose
        assert options.method(single, torch.device("cpu"), ConvShape()) == Method("2d")


@pytest.fixture
def convolved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of frames that were convolved in two dimensions."""
    shapes: list[tuple[int, ...]] = []
    convolve = F.conv2d
    monkeypatch.setattr(
        F, "conv2d", lambda x, *more, **names: shapes.append(x.shape) or convolve(x, *more, **names)
    )
    return shapes


def test_an_image_is_one_convolution_in_two_dimensions(convolved):
    strided = ConvShape(time_stride=2, space_stride=2)
    for shape in (ConvShape(), strided, ConvShape(past="zeros")):
        causal, conv = both(3, shape)
        convolved.clear()
        assert_same(conv.run_first(clip(1)), after(causal, clip(1), shape))
        assert convolved == [(1, 4, 6, 5)]


def test_zeros_cost_no_products_and_no_memory(convolved):
    _, conv = both(3, ConvShape(past="zeros"))
    conv.run_first(clip(5))
    assert sum(shape[0] for shape in convolved) == 5 + 4 + 3
    assert conv.past(clip(5)).untyped_storage().nbytes() == 8


def test_a_convolution_over_time_alone():
    weight, bias = random_frames(6, 4, 3, 1, 1, seed=1), random_frames(6, seed=2)
    frames = clip(5)
    for past, count in (("zeros", 2), ("none", 0)):
        options = ConvOptions(dtype=torch.float64, form="2d")
        conv = FrameConv(weight, bias, ConvShape(padding=0, past=past), options)
        joined = torch.cat([frames.new_zeros(count, *frames.shape[1:]), frames])
        wanted = F.conv3d(joined.movedim(0, 1).unsqueeze(0), weight, bias)[0].movedim(0, 1)
        assert_same(conv.run_first(frames), wanted)


def test_history_is_what_a_stride_leaves_over():
    lengths = {
        (reach, stride): both(reach, ConvShape(time_stride=stride))[1].history
        for reach, stride in product((1, 3), (1, 2))
    }
    assert lengths == {(1, 1): 0, (1, 2): 0, (3, 1): 2, (3, 2): 1}


def test_without_the_fold_first_frames_are_refused_but_of_one_tap():
    _, conv = both(fold=False)
    assert not conv.folds
    with pytest.raises(ValueError, match="without the first-frame fold"):
        conv.run_first(clip(1))
    causal, conv = both(1, fold=False)
    assert conv.folds
    assert_same(conv.run_first(clip(3)), after(causal, clip(3), ConvShape()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_a_fold_in_half_precision_adds_the_rounding_of_its_table_and_no_more(dtype, form):
    """Result and table are rounded alike: two errors of one size, about sqrt(2) of one together.

    Zeros change no table.
    """
    half = both()[0].to(dtype)
    exact = CausalConv3d(4, 5, 3).double().requires_grad_(False)
    exact.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    options = ConvOptions(dtype=dtype, form=form)
    for count, (past, most) in product((1, 2, 5), (("copies", 1.6), ("zeros", 1.02))):
        frames = random_frames(count, 4, 24, 20, dtype=dtype)
        frames = frames.contiguous(memory_format=torch.channels_last)
        shape = ConvShape(past=past)
        conv = FrameConv(half.weight.float(), half.bias.float(), shape, options)
        wanted = after(exact, frames.double(), shape)
        error = relative_rms(conv.run_first(frames), wanted)
        assert error <= most * relative_rms(after(half, frames, shape), wanted), (count, past)
