"""How a picture is turned before it is seen, from the display matrix of FFmpeg."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def turn_of(frame: Any, metadata: Mapping[str, str]) -> tuple[int, bool]:
    """Clockwise degrees (0, 90, 180, 270), then whether left and right are exchanged.

    Args:
        frame: First decoded av.VideoFrame; carries the matrix as side data.
        metadata: Of the stream; an old "rotate" counts where there is no matrix.
    """
    try:
        side_data = list(frame.side_data)
    except ValueError:  # WORKAROUND for PyAV 18.1: kinds that it does not know (EXIF, 31)
        return -frame.rotation % 360, False
    for data in side_data:
        if data.type.name == "DISPLAYMATRIX":
            return turn_of_matrix(np.frombuffer(data, dtype=np.int32, count=9).tolist())
    try:
        return round(float(metadata.get("rotate", "0")) / 90) * 90 % 360, False
    except ValueError:
        return 0, False


def turn_of_matrix(matrix: list[int]) -> tuple[int, bool]:
    """The same from the nine numbers of a matrix; other angles go to the nearest right one.

    A point (x, y), y down, is seen at (a x + c y, b x + d y) with a, b in the first row and c, d
    in the second. A mirror acts after the rotation, on the picture as seen.
    """
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    is_mirrored = a * d - b * c < 0
    degrees = math.degrees(math.atan2(b, d if is_mirrored else a))
    return round(degrees / 90) * 90 % 360, is_mirrored
