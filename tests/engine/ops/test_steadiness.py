"""Where a film stands still, and what neighbours exchange there."""

import pytest
import torch
from torch import Tensor

from engine.ops.steadiness import REACH, exchange, stillness

HEIGHT, WIDTH = 90, 150  # no multiple of a cell


def texture(seed: int = 0, height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """A picture with large and small detail, [3, h, w]."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, height // 8, width // 8, generator=random)
    picture = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0]
    return (picture + 0.1 * torch.rand(3, height, width, generator=random)).clamp(0, 1)


def with_noise(picture: Tensor, levels: float, seed: int) -> Tensor:
    """The same with noise of a standard deviation, as 8-bit values."""
    random = torch.Generator().manual_seed(seed)
    noise = levels * torch.randn(picture.shape, generator=random)
    return (255 * picture + noise).round().clamp(0, 255) / 255


@pytest.mark.parametrize("levels", [0.0, 1.0, 2.0, 4.0, 6.0])
def test_what_differs_by_its_noise_alone_stands_still(levels: float) -> None:
    picture = texture()
    still = stillness(with_noise(picture, levels, 1), with_noise(picture, levels, 2))
    assert still.shape == picture.shape[1:]
    assert float(still.mean()) > 0.98


@pytest.mark.parametrize("levels", [0.0, 2.0, 5.0])
def test_nothing_stands_still_across_a_cut_in_a_pan_or_in_strong_noise(levels: float) -> None:
    wide = texture(0, HEIGHT, WIDTH + 2)
    pan = wide[:, :, :-2], wide[:, :, 2:]
    for first, second in ((texture(0), texture(1)), pan):
        still = stillness(with_noise(first, levels, 1), with_noise(second, levels, 2))
        assert float(still.max()) == 0
    grey = torch.full((3, HEIGHT, WIDTH), 0.5)
    assert float(stillness(with_noise(grey, 20, 1), with_noise(grey, 20, 2)).max()) == 0


@pytest.mark.parametrize("levels", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("step", [1, 3, 12])
def test_what_moves_stays_as_it_is_bit_for_bit(levels: float, step: int) -> None:
    background = 0.5 * texture()
    frames = []
    for number in range(2):
        picture = background.clone()
        x = 60 + step * number
        picture[:, 30:50, x : x + 20] = texture(5, 20, 20)
        frames.append(picture)
    moves = (frames[0] != frames[1]).any(0)
    first, second = (with_noise(frame, levels, n) for n, frame in enumerate(frames))
    still = stillness(first, second)
    around = torch.nn.functional.max_pool2d(moves[None].float(), 2 * REACH - 7, 1, REACH - 4)[0]
    assert float(still[around > 0].max()) == 0, "motion and what is next to it"
    assert float(still[:, :30].min()) > 0.9, "the rest of the picture"
    large = [texture(seed, 2 * HEIGHT, 2 * WIDTH) for seed in (7, 8)]
    share = exchange(*large, still)
    places = moves.repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert torch.equal((large[0] + share)[:, places], large[0][:, places])
    assert torch.equal((large[1] - share)[:, places], large[1][:, places])
    assert not torch.equal(large[0] + share, large[0])


def test_black_bars_do_not_hide_the_noise() -> None:
    frames = [with_noise(texture(0, 128, WIDTH), 4, seed) for seed in (1, 2)]
    for frame in frames:
        frame[:, :32] = frame[:, -32:] = 0
    assert float(stillness(*frames)[48:-48].mean()) > 0.98


def test_small_frames_have_an_answer() -> None:
    for height, width in ((1, 1), (3, 40), (17, 5)):
        frame = torch.rand(3, height, width)
        assert torch.equal(stillness(frame, frame), torch.ones(height, width))
