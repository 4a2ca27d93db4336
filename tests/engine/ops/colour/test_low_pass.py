import pytest
import torch
import torch.nn.functional as F

from engine.ops.colour.correction import low_pass, smooth_


def by_convolution(pictures: torch.Tensor, distance: int) -> torch.Tensor:
    taps = torch.tensor([0.25, 0.5, 0.25], dtype=pictures.dtype)
    kernel = (taps[:, None] * taps).expand(pictures.shape[1], 1, 3, 3)
    padded = F.pad(pictures, [distance] * 4, mode="replicate")
    return F.conv2d(padded, kernel, groups=pictures.shape[1], dilation=distance)


@pytest.mark.parametrize("distance", [1, 2, 7, 12, 13, 40])
def test_a_stage_equals_the_convolution_with_its_kernel(distance):
    pictures = torch.rand(2, 3, 12, 17, dtype=torch.float64)
    found, scratch = pictures.clone(), torch.empty_like(pictures)
    smooth_(found, scratch, distance)
    torch.testing.assert_close(found, by_convolution(pictures, distance), rtol=0, atol=1e-12)


def test_pictures_are_left_as_they_were():
    pictures = torch.rand(1, 9, 9)
    before = pictures.clone()
    low_pass(pictures, [1, 2])
    assert torch.equal(pictures, before)


def test_stages_have_their_stated_width():
    point = torch.zeros(1, 301, 301, dtype=torch.float64)
    point[0, 150, 150] = 1
    offset = torch.arange(301, dtype=torch.float64) - 150
    for stages, sigma in ((3, 3.24), (5, 13.06), (6, 26.1)):
        spread = low_pass(point, [1 << stage for stage in range(stages)]).sum(1)[0]
        assert spread.sum() == pytest.approx(1)
        assert float((spread * offset**2).sum().sqrt()) == pytest.approx(sigma, rel=0.01)
