from collections.abc import Iterator
from functools import partial
from itertools import product
from unittest.mock import Mock, patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.bench.memory import peak_bytes
from engine.ops.conv import temporal_conv
from engine.ops.conv.temporal_conv import TemporalConv
from tests.helpers.seedvr2 import random_frames
from tests.helpers.tensors import assert_same, relative_rms

LAYOUTS = (torch.channels_last, torch.contiguous_format)
HALF = (torch.bfloat16, torch.float16)


@pytest.fixture
def asked_again() -> Iterator[None]:
    """Whether the operator works is tested once a process; here again, before and after."""
    forget = temporal_conv._fault_in_place.cache_clear
    forget()
    yield
    forget()


def parameters(reach: int, kernel: int = 3) -> tuple[Tensor, Tensor]:
    """A weight [5, 4, reach, kernel, kernel] and a bias [5]."""
    weight = random_frames(5, 4, reach, kernel, kernel, seed=1)
    return weight.contiguous(memory_format=torch.channels_last_3d), random_frames(5, seed=2)


def clip(count: int, layout: torch.memory_format = torch.channels_last) -> Tensor:
    return random_frames(count, 4, 6, 5, seed=3).contiguous(memory_format=layout)


def literal(
    frames: Tensor, table: TemporalConv, bias: Tensor | None, space: tuple[int, int]
) -> Tensor:
    """The sum as it is written; space is stride and padding."""
    steps = []
    for j in range(table.steps(len(frames))):
        total: Tensor | float = 0.0
        for k in range(table.reach):
            frame = frames[table.stride * j + k].unsqueeze(0)
            total = total + F.conv2d(frame, table.weight[:, :, k], None, *space)
        steps.append(total if bias is None else total + bias[:, None, None])
    return torch.cat([torch.as_tensor(step) for step in steps])


@settings(max_examples=25, deadline=None)
@given(
    reach=st.integers(1, 3),
    more=st.integers(0, 4),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.integers(0, 1),
    form=st.sampled_from(["2d", "3d"]),
    layout=st.sampled_from(LAYOUTS),
    biased=st.booleans(),
    piece=st.sampled_from([1, 10**6]),
)
def test_each_form_is_the_literal_sum(reach, more, stride, padding, form, layout, biased, piece):
    weight, bias = parameters(reach)
    table = TemporalConv(
        weight, bias if biased else None, padding=padding, stride=stride, form=form
    )
    frames = clip(reach + more, layout)
    wanted = literal(frames, table, bias if biased else None, (stride[1], padding))
    stacked = partial(table._stacked, weight=table._stacked_weight(frames))
    with patch.object(temporal_conv, "_PIECE_BYTES", piece):
        assert_same(table.apply(frames), wanted)
        assert_same(table.apply(frames, torch.ones_like(wanted)), 1 + wanted)
        for into in (None, torch.zeros_like(wanted)):
            assert_same(table._in_pieces(frames, into, piece, stacked), wanted)


@pytest.mark.parametrize(("most", "largest"), [(10**6, 840), (500, 480), (359, 0)])
def test_a_call_in_three_dimensions_stays_below_offsets_of_64_bits(most, largest):
    """A frame has 120 values, 150 after the convolution; less than 3 frames are no call at all."""
    weight, bias = parameters(3)
    table = TemporalConv(weight, bias, padding=1, form="3d")
    frames = clip(7)
    wanted = literal(frames, table, bias, (1, 1))
    with (
        patch.object(temporal_conv, "_MOST_VALUES", most),
        patch.object(F, "conv3d", wraps=F.conv3d) as calls,
    ):
        assert_same(table.apply(frames), wanted)
        assert_same(table.apply(frames, torch.ones_like(wanted)), 1 + wanted)
    sizes = [call.args[0].numel() for call in calls.call_args_list]
    assert max(sizes, default=0) == largest


@pytest.mark.parametrize("form", ["2d", "3d"])
def test_only_a_piece_of_large_frames_takes_more_memory(form):
    weight, bias = (value.half() for value in parameters(3))
    table = TemporalConv(weight, bias, padding=1, form=form)
    frames = torch.zeros(6, weight.shape[1], 64, 64).half()
    into = torch.zeros(4, weight.shape[0], 64, 64).half()

    whole = peak_bytes(lambda: table.apply(frames, into), "cpu")
    with patch.object(temporal_conv, "_PIECE_BYTES", 1):
        assert peak_bytes(lambda: table.apply(frames, into), "cpu") < whole / 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_only_a_part_of_a_larger_tensor_is_added_to(dtype):
    weight, bias = (value.to(dtype) for value in parameters(3))
    table = TemporalConv(weight, bias, padding=1)
    place = slice(2, 5), slice(1, 6), slice(3, 9), slice(1, 6)
    for frames_in, into_in in product(LAYOUTS, LAYOUTS):
        frames = clip(5, frames_in).to(dtype)
        whole = torch.ones(6, 7, 9, 8, dtype=dtype).contiguous(memory_format=into_in)
        expected, outside = torch.ones_like(whole), torch.ones_like(whole, dtype=torch.bool)
        expected[place] += literal(frames, table, bias, (1, 1))
        outside[place] = False
        assert table.apply(frames, whole[place]).data_ptr() == whole[place].data_ptr()
        accuracy = 1e-12 if dtype.itemsize == 8 else 2e-5
        torch.testing.assert_close(whole, expected, rtol=0, atol=accuracy)
        assert bool((whole[outside] == 1).all())


def f32_into() -> tuple[Tensor, Tensor]:
    """What float32 taps add to ones, and what they should."""
    weight, bias = (value.float() for value in parameters(3))
    table = TemporalConv(weight, bias, padding=1)
    frames = clip(5).float()
    into = torch.ones(3, 5, 6, 5).contiguous(memory_format=torch.channels_last)
    exact = TemporalConv(weight.double(), bias.double(), padding=1)
    return table.apply(frames, into), 1 + literal(frames.double(), exact, bias.double(), (1, 1))


@pytest.mark.usefixtures("asked_again")
def test_the_operator_of_onednn_and_the_ordinary_method_agree(monkeypatch):
    inside, exact = f32_into()
    monkeypatch.setattr(temporal_conv, "adds_in_place", lambda device, dtype: False)
    ordinary, _ = f32_into()
    for found in (inside, ordinary):
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("asked_again")
def test_a_foreign_operator_means_the_ordinary_method(monkeypatch):
    def replacing(into: Tensor, part: Tensor, weight: Tensor, *rest: object) -> Tensor:
        return into.copy_(F.conv2d(part, weight, padding=1))  # and does not add

    foreign = (
        Mock(side_effect=AttributeError("no such operator")),
        Mock(return_value=Mock(side_effect=TypeError("9 arguments are too many"))),
        Mock(return_value=Mock(side_effect=RuntimeError("could not create a primitive"))),
        Mock(return_value=lambda into, *rest: into),
        Mock(return_value=replacing),
    )
    for operator in foreign:
        temporal_conv._fault_in_place.cache_clear()
        monkeypatch.setattr(temporal_conv, "_in_place_operator", operator)
        assert not temporal_conv.adds_in_place("cpu", torch.float32)
    found, exact = f32_into()
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_rounds_once(dtype):
    weight, bias = (value.to(dtype) for value in parameters(3))
    frames = random_frames(6, 4, 24, 20, dtype=dtype)
    frames = frames.contiguous(memory_format=torch.channels_last)
    exact = TemporalConv(weight.double(), bias.double(), padding=1)
    wanted = literal(frames.double(), exact, bias.double(), (1, 1))
    moved = frames.movedim(0, 1).unsqueeze(0)
    one_call = F.conv3d(moved, weight, bias, padding=(0, 1, 1))[0].movedim(0, 1)
    for form in ("2d", "3d"):
        found = TemporalConv(weight, bias, padding=1, form=form).apply(frames)
        assert found.dtype == dtype
        assert relative_rms(found, wanted) <= 1.02 * relative_rms(one_call, wanted)
