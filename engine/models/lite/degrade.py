"""Turn pictures into pairs of a small, possibly damaged source and its target."""

from __future__ import annotations

import numpy as np
from PIL import Image

Pictures = np.ndarray


def make_pairs(
    pictures: Pictures, *, scale: int, form: str, seed: int
) -> tuple[Pictures, Pictures]:
    """Sources and targets of one form.

    Args:
        pictures: uint8 [n, h, w, 3].
        scale: Reduction, 2 or 4.
        form: "faithful" or "restore".
        seed: Of the damage.

    Returns:
        Sources uint8 [n, h/scale, w/scale, 3] and their targets.
    """
    return np.stack([reduced(picture, scale) for picture in pictures]), pictures


def reduced(picture: np.ndarray, scale: int) -> np.ndarray:
    """Pillow's bicubic reduction of uint8 [h, w, 3]."""
    size = (picture.shape[1] // scale, picture.shape[0] // scale)
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC))
