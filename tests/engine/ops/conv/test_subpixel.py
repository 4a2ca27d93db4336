import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.conv import subpixel
from engine.ops.conv.folds import PhaseBias
from engine.ops.conv.frame_conv import ConvOptions
from engine.ops.conv.subpixel import NearestFold, interleave
from tests.helpers.seedvr2 import random_frames
from tests.helpers.tensors import relative_rms

CHANNELS = 3


def options(dtype=torch.float64):
    return ConvOptions(dtype=dtype, form="2d")


def bias(**parts):
    zeros = {"interior": torch.zeros(4 * CHANNELS)}
    zeros |= {name: torch.zeros(2, 2, CHANNELS) for name in ("rows", "columns", "corners")}
    return PhaseBias(**(zeros | parts))


def interleaved(phases, corrections, *, fill=torch.nan):
    frames, _, height, width = phases.shape
    out = torch.full((frames, CHANNELS, 2 * height - 2, 2 * width - 2), fill)
    out = out.contiguous(memory_format=torch.channels_last)
    interleave(phases, corrections, out)
    return out


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 4), (3, 1), (4, 5)])
def test_each_pixel_comes_from_its_phase(height, width):
    phases = torch.randn(2, 4 * CHANNELS, height + 1, width + 1)
    out = interleaved(phases, bias())
    assert torch.equal(interleaved(phases, None), out)
    for y in range(2 * height):
        for x in range(2 * width):
            (row, sy), (column, sx) = divmod(y, 2), divmod(x, 2)
            channel = (sy * 2 + sx) * CHANNELS
            wanted = phases[:, channel : channel + CHANNELS, row + sy, column + sx]
            assert torch.equal(out[:, :, y, x], wanted)


def test_the_inner_bias_is_added_before_or_on_the_way():
    phases, inner = torch.randn(2, 4 * CHANNELS, 4, 3), torch.randn(4 * CHANNELS)
    out = torch.full((2, CHANNELS, 6, 4), torch.nan).to(memory_format=torch.channels_last)
    interleave(phases, bias(interior=inner), out, adds_interior=True)
    assert torch.equal(out, interleaved(phases + inner[:, None, None], bias(interior=inner)))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3)])
def test_corrections_reach_the_outermost_lines_only(height, width):
    values = {name: torch.randn(2, 2, CHANNELS) for name in ("rows", "columns", "corners")}
    out = interleaved(torch.zeros(1, 4 * CHANNELS, height + 1, width + 1), bias(**values))[0]
    for y in range(2 * height):
        for x in range(2 * width):
            wanted = torch.zeros(CHANNELS)
            ends = [side for side, line in enumerate((0, 2 * height - 1)) if y == line]
            sides = [side for side, line in enumerate((0, 2 * width - 1)) if x == line]
            for end in ends:
                wanted = wanted + values["rows"][end, x % 2]
            for side in sides:
                wanted = wanted + values["columns"][side, y % 2]
            if ends and sides:
                wanted = wanted + values["corners"][ends[0], sides[0]]
            torch.testing.assert_close(out[:, y, x], wanted)


def test_shapes_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="not twice"):
        interleave(torch.zeros(1, 12, 2, 2), bias(), torch.zeros(1, 3, 3, 2))
    with pytest.raises(ValueError, match="phases of"):
        interleave(torch.zeros(1, 12, 2, 2), bias(), torch.zeros(1, 3, 4, 2))


def parts(inputs=4, outputs=3):
    """Weight and bias of the convolution after nearest doubling."""
    return random_frames(outputs, inputs, 3, 3, seed=1), random_frames(outputs, seed=2)


def in_two_steps(frames, weight, bias):
    doubled = F.interpolate(frames, scale_factor=2, mode="nearest")
    return F.conv2d(doubled, weight, bias, padding=1)


def enlarged(frames, weight, bias, *, chunked=True):
    fold = NearestFold(weight, bias, options(frames.dtype))
    count, _, height, width = frames.shape
    out = frames.new_full((count, fold.channels, 2 * height, 2 * width), torch.nan)
    out = out.contiguous(memory_format=torch.channels_last)
    fold.write(frames, out, chunked=chunked)
    return out


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(0, 4),
    size=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    channels=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    layout=st.sampled_from([torch.channels_last, torch.contiguous_format]),
    chunked=st.booleans(),
)
def test_doubling_and_convolving_equal_their_two_steps(count, size, channels, layout, chunked):
    frames = random_frames(count, channels[0], *size).contiguous(memory_format=layout)
    weight, bias = parts(*channels)
    found = enlarged(frames, weight, bias, chunked=chunked)
    wanted = in_two_steps(frames, weight, bias) if count else found
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert found.shape == (count, channels[1], 2 * size[0], 2 * size[1])


def test_doubled_frames_go_into_every_second_frame_of_a_buffer():
    frames, (weight, bias) = random_frames(2, 4, 3, 2), parts()
    buffer = torch.zeros(5, 3, 6, 4, dtype=torch.float64).to(memory_format=torch.channels_last)
    NearestFold(weight, bias, options()).write(frames, buffer[1::2])
    torch.testing.assert_close(buffer[1::2], in_two_steps(frames, weight, bias))
    assert not buffer[::2].any()
    with pytest.raises(ValueError, match="not a 3x3 kernel"):
        NearestFold(random_frames(3, 4, 2, 2), bias, options())


def test_frames_are_doubled_in_chunks_that_fit(monkeypatch):
    frames, (weight, bias) = random_frames(5, 4, 3, 2), parts()
    monkeypatch.setattr(subpixel, "_PHASE_BYTES", 2 * 4 * 3 * (4 * 3) * 8)  # those of two frames
    sizes = []
    convolve = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda *given: sizes.append(len(given[0])) or convolve(*given))
    found = enlarged(frames, weight, bias)
    assert sizes == [2, 2, 1]
    monkeypatch.undo()
    torch.testing.assert_close(found, in_two_steps(frames, weight, bias))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_the_table_is_rounded_once_and_the_result_once(dtype):
    weight, bias = (value.to(dtype) for value in parts(8, 4))
    frames = random_frames(2, 8, 16, 12, dtype=dtype).contiguous(memory_format=torch.channels_last)
    exact = in_two_steps(frames.double(), weight.double(), bias.double())
    ours = relative_rms(enlarged(frames, weight.float(), bias.float()), exact)
    assert ours <= 1.6 * relative_rms(in_two_steps(frames, weight, bias), exact)
