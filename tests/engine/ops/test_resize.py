import numpy as np
import torch
from PIL import Image

from engine.core.geometry import Size
from engine.ops.resize import resize, thumbnail


def test_equals_pillow_bicubic():
    picture = torch.rand(1, 1, 48, 64)
    image = Image.fromarray(picture[0, 0].numpy(), mode="F")
    for size in (Size(40, 30), Size(64, 48), Size(150, 70), Size(33, 91)):
        ours = resize(picture, size)[0, 0].numpy()
        theirs = np.asarray(image.resize((size.width, size.height), Image.Resampling.BICUBIC))
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_its_own_size_is_returned_as_it_is_and_a_flat_colour_stays_flat():
    frames = torch.rand(1, 3, 5, 7)
    assert resize(frames, Size(7, 5)) is frames
    flat = torch.full((1, 3, 31, 17), 0.3)
    torch.testing.assert_close(resize(flat, Size(80, 9)), torch.full((1, 3, 9, 80), 0.3))


def test_a_thumbnail_keeps_the_shape_and_is_8_bit():
    small = thumbnail(torch.rand(4, 90, 160), 40)
    assert (small.shape, small.dtype) == ((22, 40, 3), torch.uint8)
