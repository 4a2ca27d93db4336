"""How pictures and clips lie in what the model takes: integers only, loads without torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size

MULTIPLE = 16  # both sides in px: the VAE reduces by 8, the transformer takes 2 x 2 latents
REFLECTED = 8  # px of mirrored picture behind its right and bottom edge
LEAST_BLACK = 8  # px of black behind those
STEP = 4  # a clip has 1 + n * STEP frames


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

    Black right behind the picture spoils its last 16 rows, a frame without any black comes out
    with another brightness; the mirror image keeps the black away from the picture. That pays at
    sizes that need no padding too (measured in public with the 7B model).
    """
    least = REFLECTED + LEAST_BLACK
    padded = Size(_rounded_up(picture.width + least), _rounded_up(picture.height + least))
    return FrameLayout(picture=picture, padded=padded, reflected=REFLECTED)


def reference_layout(picture: Size) -> FrameLayout:
    """Black right behind the picture, and only where its size needs it, as the reference."""
    padded = Size(_rounded_up(picture.width), _rounded_up(picture.height))
    return FrameLayout(picture=picture, padded=padded, reflected=0)


def reference_sizes(source: Size, short_side: int, longest: int = 0) -> tuple[Size, ...]:
    """The sizes that the reference resizes to, one after the other.

    Args:
        source: Size of the source.
        short_side: Wanted shorter side, px; the longer one follows, rounded down.
        longest: Most px of a side; what is larger is resized once more. 0: no such limit.
    """
    first = _with_short_side(source, short_side)
    if not 0 < longest < max(first.width, first.height):
        return (first,)
    factor = longest / max(first.width, first.height)
    return first, Size(round(first.width * factor), round(first.height * factor))


def reference_result(resized: Size) -> Size:
    """The size of the reference's result: both sides rounded down to even numbers."""
    return Size(resized.width // 2 * 2, resized.height // 2 * 2)


def clip_length(frames: int) -> int:
    """The shortest length of a clip, 1 + n * STEP, that takes so many frames."""
    return frames + -(frames - 1) % STEP


def _rounded_up(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE


def _with_short_side(source: Size, short_side: int) -> Size:
    if source.width <= source.height:
        return Size(short_side, int(short_side * source.height / source.width))
    return Size(int(short_side * source.width / source.height), short_side)
