"""How coarsely a stream was compressed: the mean quantiser that its encoder used.

This tells damage better than the bit rate, which depends on motion and detail as much.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from av.sidedata.encparams import VideoEncParams

from engine.video.read.opening import open_input, translated

_SCALE = "h264"  # other decoders of FFmpeg export nothing, or numbers on another scale


def mean_quantiser(path: Path, *, index: int = -1, frames: int = 24) -> float | None:
    """Mean H.264 quantiser (0 to 51, 6 more halve the precision) of the first frames.

    Args:
        path: The source.
        index: Of the film's stream; -1 for the first one.
        frames: How many are decoded.

    Returns:
        The mean over all blocks; None for other codecs or when the decoder does not tell.

    Raises:
        InputError: The file cannot be read; see `opening.translated`.
    """
    with open_input(path) as container:
        wanted = (s for s in container.streams.video if index in (-1, s.index))
        stream = next(wanted, None)
        if stream is None or stream.codec_context.name != _SCALE:
            return None
        stream.codec_context.options = {"export_side_data": "venc_params"}
        with translated(path):
            means = [
                float(np.mean(side.qp_map()))
                for frame in islice(container.decode(stream), frames)
                for side in frame.side_data
                if isinstance(side, VideoEncParams)
            ]
    return float(np.mean(means)) if means else None
