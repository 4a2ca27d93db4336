"""Render the sample clip `upreel_sample.mp4`: a drawn scene that moves, with music.

Everything in it is computed here, from a fixed seed; there is no photograph, font or recording:

    python resources/samples/make_sample.py

Needs numpy and PyAV; about a minute on two processor cores. The same versions of both give the same
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from sample_music import RATE as SOUND_RATE
from sample_music import music
from sample_near import NearLayer
from sample_paint import SCALE, Array, Canvas, fractal_noise
from sample_scene import (
    FRAMES,
    HEIGHT,
    HORIZON,
    PAN_MIDDLE,
    WIDTH,
    compose,
    paint_mill,
    paint_mountains,
    paint_sky,
)

OUTPUT = Path(__file__).resolve().parent / "upreel_sample.mp4"
FRAME_RATE = Fraction(24)
SEED = 2026
CRF = "22"  # so that the blocks of a compressed film are there to be cleaned, and small
KR, KB = 0.2126, 0.0722  # BT.709

Plane = NDArray[np.uint8]


def scene_frames() -> Iterator[Array]:
    """Render the frames one by one, [180 * SCALE, 320 * SCALE, 3] each."""
    rng = np.random.default_rng(SEED)
    sky, mountains = paint_sky(rng), paint_mountains(rng)
    ripples = fractal_noise(rng, (HEIGHT - HORIZON + 16) * SCALE, (WIDTH + 16) * SCALE, 0.9, 5.0)
    near = NearLayer(rng)
    for frame in range(FRAMES):
        middle = Canvas(WIDTH, HEIGHT)
        paint_mill(middle, frame, 82 - frame * PAN_MIDDLE / SCALE)
        yield compose(frame, (sky, mountains, ripples), middle, near.at(frame))


def average(picture: Array, rows: int, columns: int) -> Array:
    """Average blocks of rows x columns points of [h, w]."""
    height, width = picture.shape
    return picture.reshape(height // rows, rows, width // columns, columns).mean((1, 3))


def to_planes(scene: Array) -> tuple[Plane, Plane, Plane]:
    """Turn R'G'B' points into 4:2:0 planes, BT.709, limited range, chroma sited left."""
    red, green, blue = (scene[..., i] for i in range(3))
    luma = KR * red + (1 - KR - KB) * green + KB * blue
    planes = [16 + 219 * average(luma, SCALE, SCALE)]
    for part, scale in ((blue, 2 * (1 - KB)), (red, 2 * (1 - KR))):
        chroma = np.roll((part - luma) / scale, SCALE // 2, 1)  # moves the average onto the site
        chroma[:, : SCALE // 2] = chroma[:, SCALE // 2 : SCALE // 2 + 1]
        planes.append(128 + 224 * average(chroma, 2 * SCALE, 2 * SCALE))
    luma8, blue8, red8 = (np.clip(np.rint(plane), 1, 254).astype(np.uint8) for plane in planes)
    return luma8, blue8, red8


def video_frame(planes: tuple[Plane, Plane, Plane], number: int) -> av.VideoFrame:
    """Pack planes into a tagged frame with its time stamp."""
    packed = np.concatenate([plane.reshape(-1, WIDTH) for plane in planes])
    frame = av.VideoFrame.from_ndarray(packed, format="yuv420p")
    frame.pts, frame.time_base = number, 1 / FRAME_RATE
    frame.colorspace, frame.color_range = 1, 1
    frame.color_primaries, frame.color_trc = 1, 1
    return frame


def add_video(container: av.container.OutputContainer) -> av.VideoStream:
    """Open the H.264 stream: one thread, and x264's exact arithmetic, so that the file repeats.

    Without `cpu-independent` x264's macroblock tree gives another file at every run.
    """
    private = "threads=1:chromaloc=0:cpu-independent=1"
    options = {"crf": CRF, "preset": "slow", "threads": "1", "x264-params": private}
    stream = container.add_stream("libx264", rate=FRAME_RATE, options=options)
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    stream.time_base = 1 / FRAME_RATE
    context = stream.codec_context
    context.colorspace, context.color_range = 1, 1
    context.color_primaries, context.color_trc = 1, 1
    return stream


def write_sound(container: av.container.OutputContainer, stream: av.AudioStream) -> None:
    """Encode the music, 1024 samples a packet."""
    sound = music()
    for start in range(0, sound.shape[1], 1024):
        block = np.ascontiguousarray(sound[:, start : start + 1024])
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def main() -> None:
    """Render and write the clip."""
    options = {"movflags": "+faststart", "fflags": "+bitexact"}
    with av.open(str(OUTPUT), "w", options=options) as container:
        container.metadata["title"] = "Upreel sample clip"
        container.metadata["copyright"] = "The Upreel developers, Apache-2.0"
        video = add_video(container)
        audio = container.add_stream("aac", rate=SOUND_RATE, layout="stereo")
        audio.bit_rate = 96_000
        for number, scene in enumerate(scene_frames()):
            container.mux(video.encode(video_frame(to_planes(scene), number)))
        container.mux(video.encode(None))
        write_sound(container, audio)
    print(f"{OUTPUT.name}: {OUTPUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
