"""Deinterlaced films: near to what was filmed, every frame accounted for, the same after a seek."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.protocol.media import Deinterlacing, FrameMark, MediaInfo, subsampling
from engine.video.film_preparation import deinterlaced
from engine.video.planes import layout_of
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip
from tests.helpers.fields import (
    HEIGHT,
    NTSC,
    WIDTH,
    interlaced,
    nearest,
    picture,
    psnr,
    telecined,
    write,
    write_planes,
)
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg

FRAMES = 26
RENDERINGS = ("frames", "fields", "film")


def media_of(film: Path, rendering: str, order: str = "tt") -> MediaInfo:
    return deinterlaced(probe(film), Deinterlacing(rendering=rendering, field_order=order))


def frames_of(media: MediaInfo, **part: Fraction) -> tuple[list[PlanarFrame], FrameReader]:
    with FrameReader(media, **part) as reader:
        return list(reader), reader


def codes(frames: list[PlanarFrame]) -> list[tuple[int, int, int]]:
    return [(frame.pts, frame.duration, frame.crc) for frame in frames]


@NEEDS_FFMPEG
@pytest.mark.parametrize("order", ["tt", "bb"])
@pytest.mark.parametrize("rendering", ["frames", "fields"])
def test_it_is_as_near_to_the_progressive_film_as_ffmpegs_own(tmp_path, rendering, order):
    film = write(tmp_path / "film.mkv", interlaced(FRAMES, order))
    ours, _ = frames_of(media_of(film, rendering, order))
    mode = {"frames": "send_frame", "fields": "send_field"}[rendering]
    parity = {"tt": "tff", "bb": "bff"}[order]
    raw = ffmpeg(
        *("-i", film, "-vf", f"bwdif=mode={mode}:parity={parity}:deint=all", "-fps_mode"),
        *("passthrough", "-f", "rawvideo", "-pix_fmt", "gray", "-"),
    )
    theirs = np.frombuffer(raw, np.uint8).reshape(-1, HEIGHT, WIDTH)
    step = 1 if rendering == "frames" else 2
    assert len(ours) == len(theirs) == step * FRAMES
    originals = [picture(n / step) for n in range(step * FRAMES)]
    inner = range(2, step * FRAMES - 2)  # at its ends it has one neighbour only
    for number in inner:
        near = psnr(ours[number].planes[0], originals[number])
        assert near > psnr(theirs[number], originals[number]) - 0.3
        assert near > 30, "the field order is right"


def test_the_times_are_those_of_frames_and_fields(tmp_path):
    film = write(tmp_path / "film.mp4", interlaced(6, "tt"), codec="libx264")
    base, first = probe(film).video.time_base, probe(film).video.start_pts
    for rendering, count, step in (("frames", 6, Fraction(1, 25)), ("fields", 12, Fraction(1, 50))):
        media = media_of(film, rendering)
        frames, reader = frames_of(media)
        times = [frame.pts * media.video.time_base for frame in frames]
        assert times == [first * base + n * step for n in range(count)]
        assert (media.video.frame_count, media.video.frame_rate) == (count, 1 / step)
        assert (reader.taken, reader.left_out) == (6, 0)


@pytest.mark.parametrize(("name", "codec"), [("film.mkv", "ffv1"), ("film.mp4", "libx264")])
def test_every_frame_of_a_telecined_film_is_there_once(tmp_path, name, codec):
    film = write(tmp_path / name, telecined(40), NTSC, codec)
    media = media_of(film, "film")
    frames, reader = frames_of(media)
    assert nearest(frames, [picture(n) for n in range(40)]) == list(range(40))
    assert (reader.taken, reader.left_out, media.video.frame_count) == (50, 10, 40)
    assert media.video.frame_rate == Fraction(24000, 1001)
    times = [frame.pts * media.video.time_base for frame in frames]
    slack = Fraction(1, 500) if name.endswith("mkv") else 0  # MKV rounds to milliseconds
    for number, time in enumerate(times):
        assert abs(time - times[0] - number * Fraction(1001, 24000)) <= slack


def deep_picture(number: int, pixel_format: str) -> list[np.ndarray]:
    """Planes of an original picture, moving, with noise in the bits below the first eight."""
    layout, noise = layout_of(pixel_format), np.random.default_rng(number)
    across, down = subsampling(layout.chroma)
    luma = picture(number)
    planes = [luma, *([luma[::down, ::across]] * 2 if layout.chroma != "gray" else [])]
    low = layout.bit_depth - 8
    kind = np.uint16 if low else np.uint8
    return [
        (plane.astype(kind) << low) + noise.integers(0, 1 << low, plane.shape).astype(kind)
        for plane in planes
    ]


@pytest.mark.parametrize(
    "pixel_format", ["yuv420p", "yuv420p10le", "yuv422p10le", "yuv444p12le", "gray10le"]
)
def test_telecine_keeps_every_value_of_every_picture(tmp_path: Path, pixel_format: str) -> None:
    originals = [deep_picture(number, pixel_format) for number in range(24)]
    shown = [n for n in range(24) for _ in range(3 if n % 2 else 2)]
    woven = []
    for first, second in zip(shown[::2], shown[1::2], strict=True):
        woven.append([plane.copy() for plane in originals[first]])
        for plane, other in zip(woven[-1], originals[second], strict=True):
            plane[1::2] = other[1::2]
    film = write_planes(tmp_path / "film.mkv", woven, pixel_format, NTSC)
    frames, reader = frames_of(media_of(film, "film"))
    assert (len(frames), reader.left_out) == (24, 6)
    for frame, original in zip(frames, originals, strict=True):
        for found, plane in zip(frame.planes, original, strict=True):
            np.testing.assert_array_equal(found, plane)


def test_a_film_without_repeats_keeps_every_frame(tmp_path):
    film = write(tmp_path / "film.mkv", [picture(n) for n in range(20)], NTSC)
    frames, reader = frames_of(media_of(film, "film"))
    assert nearest(frames, [picture(n) for n in range(20)]) == list(range(20))
    assert (reader.taken, reader.left_out) == (20, 0)


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize(("name", "codec"), [("film.mkv", "ffv1"), ("film.mp4", "libx264")])
def test_what_follows_a_finished_frame_is_the_same_as_without_a_break(
    tmp_path, rendering, name, codec
):
    pictures = telecined(48) if rendering == "film" else interlaced(50, "tt")
    media = media_of(write(tmp_path / name, pictures, NTSC, codec), rendering)
    whole, _ = frames_of(media)
    with FrameReader(media) as reader:
        for count in (1, 2, len(whole) // 2, len(whole) // 2 + 1, len(whole) - 1):
            last = whole[count - 1]
            rest = list(reader.iter_after(FrameMark(count=count, pts=last.pts, crc=last.crc)))
            assert codes(rest) == codes(whole[count:]), f"after {count} frames"
            assert not reader.problems


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_a_part_of_a_film_is_that_part_of_the_whole(tmp_path, rendering):
    pictures = telecined(40) if rendering == "film" else interlaced(50, "tt")
    media = media_of(write(tmp_path / "film.mkv", pictures, NTSC), rendering)
    whole, _ = frames_of(media)
    start, stop = Fraction(3, 10), Fraction(13, 10)
    part, reader = frames_of(media, start=start, stop=stop)
    base = media.video.time_base
    expected = [frame for frame in whole if start <= frame.pts * base < stop]
    assert codes(part) == codes(expected)
    made = (reader.taken - reader.left_out) * (2 if rendering == "fields" else 1)
    assert abs(made - len(part)) <= 2


def test_formats_that_ffmpeg_deinterlaces_keep_their_values(tmp_path):
    for pixel_format in ("yuv422p10le", "yuv420p", "yuv444p", "gray", "bgr0"):
        film = make_clip(
            tmp_path / f"{pixel_format}.mkv", frames=3, codec="ffv1", pixel_format=pixel_format
        )
        plain, _ = frames_of(probe(film))
        frames, _ = frames_of(media_of(film, "frames"))
        shapes = [[plane.shape for plane in frame.planes] for frame in frames]
        assert shapes == [[plane.shape for plane in frame.planes] for frame in plain]
        still = [
            np.abs(a.planes[0].astype(int) - b.planes[0])
            for a, b in zip(frames, plain, strict=True)
        ]
        assert max(float(np.median(each)) for each in still) <= 1, "where nothing moves"
