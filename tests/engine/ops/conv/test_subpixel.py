import pytest
import torch

from engine.ops.conv.subpixel import PhaseBias, interleave

CHANNELS = 3


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
    for y in range(2 * height):
        for x in range(2 * width):
            (row, sy), (column, sx) = divmod(y, 2), divmod(x, 2)
            channel = (sy * 2 + sx) * CHANNELS
            wanted = phases[:, channel : channel + CHANNELS, row + sy, column + sx]
            assert torch.equal(out[:, :, y, x], wanted)


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


def test_it_writes_into_a_part_of_a_larger_buffer():
    phases = torch.randn(2, 4 * CHANNELS, 3, 4)
    ring = torch.zeros(5, CHANNELS, 4, 6).contiguous(memory_format=torch.channels_last)
    interleave(phases, bias(), ring[1::2])
    assert torch.equal(ring[1::2], interleaved(phases, bias()))
    assert ring[::2].eq(0).all()


def test_shapes_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="not twice"):
        interleave(torch.zeros(1, 12, 2, 2), bias(), torch.zeros(1, 3, 3, 2))
    with pytest.raises(ValueError, match="phases of"):
        interleave(torch.zeros(1, 12, 2, 2), bias(), torch.zeros(1, 3, 4, 2))


def test_without_corrections_the_phases_come_as_they_are():
    phases = torch.randn(2, 4 * CHANNELS, 3, 4)
    assert torch.equal(interleaved(phases, None), interleaved(phases, bias()))
