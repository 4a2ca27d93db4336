"""Sound of a film for playback: one track, stereo, at the rate of a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av
import numpy as np
from numpy.typing import NDArray

from engine.protocol.media import MediaInfo
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated
from engine.video.read.samples import ROUNDED_S, decoded_frames

_BEFORE = Fraction(1, 2)  # s that a seek goes further back, for decoders that need a run-up


@dataclass(frozen=True, slots=True)
class Sound:
    """Samples float32 [n, 2] in [-1, 1], and the time of the first, s from the film's beginning."""

    seconds: float
    samples: NDArray[np.float32]


def sound_from(media: MediaInfo, start: Fraction, rate: int) -> Iterator[Sound]:
    """The default track, or the first one, from a time on; nothing for a film without sound.

    Packets that cannot be decoded are left out, and so is their time.

    Args:
        media: Result of `probe`.
        start: First time included, s from the film's beginning.
        rate: Samples a second.

    Raises:
        InputError: The file is gone, or cannot be read.

    Memory: a packet of samples.
    """
    tracks = sorted(media.audio_streams, key=lambda track: not track.is_default)
    if not tracks:
        return
    path = media.path
    with open_input(path, must_be_whole=False) as container:
        stream = cast(av.AudioStream, stream_at(path, container, tracks[0].index))
        with translated(path):
            first = max(Fraction(0), start - _BEFORE) + media.start
            container.seek(int(first * av.time_base), backward=True)
        resampler = av.AudioResampler(format="flt", layout="stereo", rate=rate)
        following: Fraction | None = None
        for packet in readable_packets(path, container, [stream]):
            for frame in decoded_frames(stream, packet):
                if frame.pts is None or frame.time_base is None:
                    continue
                seconds = frame.pts * frame.time_base - media.start
                if following is not None and abs(seconds - following) < ROUNDED_S:
                    seconds = following
                frame.pts = None  # the resampler would fill gaps; those are the player's
                with translated(path):
                    parts = [_stereo(part) for part in resampler.resample(frame)]
                for samples in parts:
                    left_out = max(0, round((start - seconds) * rate))
                    if left_out < len(samples):
                        yield Sound(float(seconds) + left_out / rate, samples[left_out:])
                    seconds += Fraction(len(samples), rate)
                following = seconds


def _stereo(frame: av.AudioFrame) -> NDArray[np.float32]:
    return frame.to_ndarray().reshape(-1, 2).astype(np.float32, copy=False)
