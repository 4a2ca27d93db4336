import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.conv import folds
from engine.ops.conv.subpixel import interleave


def weights(channels, time, *, dtype=torch.float64):
    """Expand weight and bias, weight, bias; the widths all differ so that none can be mixed up."""
    inputs, middle, outputs = channels
    expanded = (2 if time else 1) * 4 * middle
    shapes = ((expanded, inputs, 1, 1, 1), (expanded,), (outputs, middle, 3, 3, 3), (outputs,))
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


def causal(frames, weight, bias):
    """[C, T, H, W]: zeros around a frame, copies of the first frame before it."""
    past = frames[:, :1].expand(-1, 2, -1, -1)
    return F.conv3d(torch.cat([past, frames], 1), weight, bias, padding=(0, 1, 1))


def literal(source, parts, time):
    """The upsampler of the specification on a whole clip: [I, T, h, w] -> [O, T', 2h, 2w]."""
    expand_weight, expand_bias, weight, bias = parts
    expanded = F.conv3d(source, expand_weight, expand_bias)
    subframes = 2 if time else 1
    _, steps, height, width = source.shape
    middle = weight.shape[1]
    grid = expanded.reshape(2, 2, subframes, middle, steps, height, width)
    high = source.new_empty(middle, steps, subframes, height, 2, width, 2)
    for sy in range(2):
        for sx in range(2):
            for sub in range(subframes):
                high[:, :, sub, :, sy, :, sx] = grid[sy, sx, sub]
    high = high.reshape(middle, steps * subframes, 2 * height, 2 * width)
    if time:
        high = torch.cat([high[:, :1], high[:, 2:]], 1)
    return causal(high, weight, bias)


def folded(source, fold):
    """The same through the tables: a list of frames [O, 2h, 2w]."""
    frames = source.unbind(1)
    result = [finished(F.conv2d(frames[0], fold.first, padding=1), fold.first_bias)]
    for step in range(1, len(frames)):
        for sub, bias in enumerate(fold.second_bias if step == 1 else fold.bias):
            result.append(finished(phases_of(frames, step, sub, fold), bias))
    return result


def phases_of(frames, step, sub, fold):
    if step == 1:
        last = F.conv2d(frames[1], fold.taps[sub, -1], padding=1)
        return F.conv2d(frames[0], fold.second[sub], padding=1) + last
    seen = fold.taps.shape[1]
    newest = frames[step - seen + 1 : step + 1]
    kernels = fold.taps[sub]
    return sum(
        F.conv2d(frame, kernel, padding=1) for frame, kernel in zip(newest, kernels, strict=True)
    )


def finished(phases, bias):
    channels, height, width = phases.shape
    out = torch.full((1, channels // 4, 2 * height - 2, 2 * width - 2), torch.nan).to(phases)
    interleave((phases + bias.interior[:, None, None])[None], bias, out)
    return out[0]


@settings(max_examples=25, deadline=None)
@given(
    time=st.booleans(),
    steps=st.integers(1, 5),
    height=st.integers(1, 4),
    width=st.integers(1, 5),
    seed=st.integers(0, 2**31),
)
def test_an_upsampler_equals_its_three_steps(time, steps, height, width, seed):
    torch.manual_seed(seed)
    parts = weights((3, 4, 5), time)
    source = torch.randn(3, steps, height, width, dtype=torch.float64)
    wanted = literal(source, parts, time)
    ours = torch.stack(folded(source, folds.upsampler(*parts, time)), 1)
    assert ours.shape == wanted.shape
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12 * float(wanted.abs().max()))


def test_half_precision_weights_are_folded_in_float32_and_lie_channels_last():
    parts = weights((3, 4, 5), time=True, dtype=torch.float16)
    fold = folds.upsampler(*parts, time=True)
    exact = folds.upsampler(*(part.double() for part in parts), time=True)
    assert fold.taps.dtype == torch.float32
    torch.testing.assert_close(fold.taps.double(), exact.taps, rtol=0, atol=1e-5)
    assert fold.to("cpu", torch.float16).second_bias[1].rows.dtype == torch.float16
    for kernel in (fold.first, fold.second[1], fold.taps[1, 0]):
        assert kernel.is_contiguous(memory_format=torch.channels_last)


def test_parts_of_different_upsamplers_are_refused():
    parts = weights((3, 4, 5), time=True)
    with pytest.raises(ValueError, match="not one upsampler"):
        folds.upsampler(*parts, time=False)
    with pytest.raises(ValueError, match="three temporal taps"):
        folds.first_frame(torch.zeros(4, 4, 1, 3, 3))


def test_the_first_two_frames_of_a_clip_need_fewer_taps():
    weight = torch.randn(5, 4, 3, 3, 3, dtype=torch.float64)
    clip = torch.randn(4, 2, 5, 6, dtype=torch.float64)
    first, past = folds.first_frame(weight)
    present = F.conv2d(clip[:, 1], weight[:, :, 2], padding=1)
    second = F.conv2d(clip[:, 0], past, padding=1) + present
    ours = torch.stack([F.conv2d(clip[:, 0], first, padding=1), second], 1)
    torch.testing.assert_close(ours, causal(clip, weight, None), rtol=0, atol=1e-12 * 50)


def test_winograd_gives_two_frames_of_four():
    weight = torch.randn(5, 4, 3, 3, 3, dtype=torch.float64)
    clip = torch.randn(4, 4, 5, 6, dtype=torch.float64)
    past, near, middle, present = clip.transpose(0, 1)
    inputs = past - middle, near + middle, middle - near, near - present
    pairs = zip(inputs, folds.temporal_winograd(weight), strict=True)
    first, plus, minus, last = (F.conv2d(frame, kernel, padding=1) for frame, kernel in pairs)
    ours = torch.stack([first + plus + minus, plus - minus - last]).transpose(0, 1)
    wanted = F.conv3d(clip, weight, padding=(0, 1, 1))
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12 * 50)
