"""Layout of pictures in the frames of the model: integers only, loads without torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size

MULTIPLE = 16  # both sides in px: the VAE reduces by 8, the transformer takes 2 x 2 latents
REFLECTED = 8  # px of mirrored picture beyond its right and bottom edge
LEAST_BLACK = 8  # px of black beyond those


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLayout:
    """A picture in the top left corner of a frame, then its mirror image, then black.

    Attributes:
        picture: Size of the picture.
        padded: Size of the frame, a multiple of MULTIPLE.
        reflected: Columns and rows that show the picture mirrored at its edge; the rest is black.
    """

    picture: Size
    padded: Size
    reflected: int


def layout_of(picture: Size) -> FrameLayout:
    """Mirrored picture, then black, on every picture.

    Black right next to the picture spoils its last 16 rows, a frame without any black comes out
    with another brightness; the mirror image keeps the black away from the picture. That pays at
    sizes that need no padding too (measured in public with the 7B model).
    """
    least = REFLECTED + LEAST_BLACK
    padded = Size(_rounded_up(picture.width + least), _rounded_up(picture.height + least))
    return FrameLayout(picture=picture, padded=padded, reflected=REFLECTED)


def reference_layout(picture: Size) -> FrameLayout:
    """Black right next to the picture, and only where its size needs it, as the reference."""
    padded = Size(_rounded_up(picture.width), _rounded_up(picture.height))
    return FrameLayout(picture=picture, padded=padded, reflected=0)


def _rounded_up(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE
