"""Colours beneath transparent pixels: they continue what is visible around them."""

from __future__ import annotations

import pytest
import torch

from engine.pipeline.stages.restore import fill_hidden
from tests.helpers.memory import Allocations

RED, BLUE = (0.9, 0.1, 0.2), (0.1, 0.3, 0.8)


def plane(colour: tuple[float, ...], height: int = 50, width: int = 70) -> torch.Tensor:
    return torch.tensor(colour)[None, :, None, None].repeat(1, 1, height, width)


def test_what_is_visible_stays_and_one_colour_goes_on_to_the_corners() -> None:
    colours, alpha = torch.rand(1, 3, 50, 70), torch.zeros(1, 1, 50, 70)
    alpha[..., 20:30, 30:45] = 0.4
    colours[..., 20:30, 30:45] = plane(RED, 10, 15)
    before = colours.clone()
    fill_hidden(colours, alpha)
    visible = alpha.expand_as(colours) > 0
    assert torch.equal(colours[visible], before[visible])
    torch.testing.assert_close(colours, plane(RED), atol=1e-5, rtol=0)


def test_between_two_colours_there_are_those_between() -> None:
    colours, alpha = torch.rand(2, 3, 50, 70), torch.zeros(2, 1, 50, 70)
    for columns, colour in ((slice(0, 10), RED), (slice(60, 70), BLUE)):
        alpha[..., columns] = 1
        colours[..., columns] = plane(colour, 50, 10)
    fill_hidden(colours, alpha)
    left, right = plane(RED, 50, 1)[..., 0], plane(BLUE, 50, 1)[..., 0]
    assert float((colours[..., 10] - left).abs().max()) < 0.05
    assert float((colours[..., 59] - right).abs().max()) < 0.05
    steps = colours[:, 0].diff(dim=-1)
    assert -0.1 < float(steps.min()) <= float(steps.max()) < 1e-5, "no edge of its own"


def test_pixels_that_are_hardly_visible_count_little() -> None:
    colours, alpha = plane(BLUE), torch.zeros(1, 1, 50, 70)
    alpha[..., :10], alpha[..., 10] = 1, 1 / 255
    colours[..., :10] = plane(RED, 50, 10)
    fill_hidden(colours, alpha)
    assert float((colours[..., 20:] - plane(RED, 50, 50)).abs().max()) < 0.01


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 5), (64, 33)])
def test_frames_that_are_visible_or_hidden_as_a_whole(size: tuple[int, int]) -> None:
    colours = torch.rand(2, 3, *size)
    before = colours.clone()
    fill_hidden(colours, torch.ones(2, 1, *size))
    assert torch.equal(colours, before)
    fill_hidden(colours, torch.zeros(2, 1, *size))
    mean = before.mean((-2, -1), keepdim=True).expand_as(before)
    torch.testing.assert_close(colours, mean)


def test_it_takes_what_it_says() -> None:
    colours, alpha = torch.rand(2, 3, 200, 300), torch.rand(2, 1, 200, 300).round()
    with torch.inference_mode():
        fill_hidden(colours.clone(), alpha)  # what torch loads once
        with Allocations() as found:
            fill_hidden(colours, alpha)
    assert found.peak_bytes <= 33 * 200 * 300


@pytest.mark.gpu
def test_a_gpu_fills_the_same() -> None:
    """Not run on a GPU yet."""
    colours, alpha = torch.rand(2, 3, 57, 80), torch.rand(2, 1, 57, 80).round()
    on_gpu = colours.to("cuda")
    fill_hidden(on_gpu, alpha.to("cuda"))
    fill_hidden(colours, alpha)
    torch.testing.assert_close(on_gpu.cpu(), colours, atol=1e-5, rtol=0)
