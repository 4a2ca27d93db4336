import colorsys

import pytest
import torch

from engine.ops.colour.spaces import (
    LUMA,
    hsv_to_rgb,
    lab_to_rgb,
    rgb_to_hsv,
    rgb_to_lab,
    weighted,
)

CORNERS = torch.cartesian_prod(*[torch.tensor([0.0, 0.02, 0.5, 1.0])] * 3).T.reshape(1, 3, 8, 8)


@pytest.fixture
def pictures() -> torch.Tensor:
    return torch.cat([CORNERS, torch.rand(3, 3, 8, 8)])


def test_hsv_is_that_of_the_standard_library(pictures):
    found = rgb_to_hsv(pictures).permute(0, 2, 3, 1).reshape(-1, 3)
    colours = pictures.permute(0, 2, 3, 1).reshape(-1, 3).tolist()
    wanted = torch.tensor([colorsys.rgb_to_hsv(*colour) for colour in colours])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_lab_of_known_colours():
    colours = {
        (1, 1, 1): (100, 0, 0),
        (0, 0, 0): (0, 0, 0),
        (1, 0, 0): (53.241, 80.092, 67.203),
        (0, 1, 0): (87.735, -86.183, 83.179),
        (0, 0, 1): (32.297, 79.188, -107.860),
    }
    rgb = torch.tensor(list(colours), dtype=torch.float64).T.reshape(1, 3, 1, -1)
    wanted = torch.tensor(list(colours.values()), dtype=torch.float64).T.reshape(1, 3, 1, -1)
    torch.testing.assert_close(rgb_to_lab(rgb), wanted, rtol=0, atol=0.02)


def test_there_and_back_is_the_same(pictures):
    for there, back in ((rgb_to_lab, lab_to_rgb), (rgb_to_hsv, hsv_to_rgb)):
        torch.testing.assert_close(back(there(pictures)), pictures, rtol=0, atol=2e-5)


def test_luma_of_grey_is_grey():
    assert sum(LUMA) == pytest.approx(1)
    grey = torch.full((1, 3, 2, 2), 0.3)
    torch.testing.assert_close(weighted(grey, LUMA), grey[:, 0])
