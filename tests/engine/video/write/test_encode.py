from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.errors import DiskFull, EncoderMissing, OutputUnwritable
from engine.core.geometry import Size
from engine.protocol.media import ColourTags
from engine.protocol.plan import PicturePlan
from engine.settings.schema import JobSettings
from engine.video.colour.pixel_formats import planes_of
from engine.video.write.codecs import plan_picture
from engine.video.write.encode import SegmentWriter, opens
from engine.video.write.encoders import ENCODERS, Layout, encoder_options
from engine.video.write.frame_builder import frame_of
from tests.helpers.plans import a_media
from tests.helpers.program import ROOT
from tests.helpers.results import random_planes

TAGS = ColourTags(
    matrix="bt2020nc",
    range="tv",
    primaries="bt2020",
    transfer="smpte2084",
    chroma_location="topleft",
)
FILMS = ("h264", "hevc", "av1", "prores", "ffv1")
NUMBERS = {"color_primaries": 9, "color_trc": 16, "colorspace": 9, "color_range": 1}


def picture_of(codec: str = "h264", size: Size = Size(64, 48), **video: Any) -> PicturePlan:
    media = a_media(size=size, frame_rate=Fraction(30000, 1001), **video)
    container = "image" if codec in ("png", "tiff") else "mkv"
    settings = JobSettings(codec="auto" if container == "image" else codec, speed="fast")
    if codec == "tiff":
        media = replace(media, video=replace(media.video, codec="tiff"))
    return replace(plan_picture(media, settings, size, container), threads=2)


def write(path: Path, picture: PicturePlan, frames: int) -> int:
    with SegmentWriter(path, picture) as writer:
        for index in range(frames):
            writer.write(random_planes(picture, index), index)
    return path.stat().st_size


def read(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as file:
        return list(file.decode(video=0))


@pytest.mark.parametrize("codec", FILMS)
def test_a_segment_is_complete_starts_with_a_key_frame_and_counts_its_frames(
    tmp_path: Path, codec: str
) -> None:
    write(tmp_path / "s", picture_of(codec), 7)
    with av.open(str(tmp_path / "s")) as file:
        packets = [p for p in file.demux(video=0) if p.pts is not None]
        assert file.streams.video[0].time_base == Fraction(1, 1000)
    assert packets[0].is_keyframe
    assert sorted(p.pts for p in packets) == list(range(7))
    assert [f.pts for f in read(tmp_path / "s")] == list(range(7))
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


@pytest.mark.parametrize("codec", FILMS)
def test_all_segments_of_a_plan_have_the_same_header(tmp_path: Path, codec: str) -> None:
    picture = picture_of(codec)
    headers = set()
    for number, frames in enumerate((1, 9, 4)):
        write(tmp_path / str(number), picture, frames)
        with av.open(str(tmp_path / str(number))) as file:
            headers.add(bytes(file.streams.video[0].codec_context.extradata or b""))
    assert len(headers) == 1
    assert headers != {b""}


def test_few_frames_of_hevc_are_a_segment(tmp_path: Path) -> None:
    for frames in (1, 2, 3):  # x265 gave decoding times out of uninitialised memory
        write(tmp_path / "s", picture_of("hevc"), frames)
        assert len(read(tmp_path / "s")) == frames


@pytest.mark.parametrize("codec", FILMS)
def test_the_same_frames_give_the_same_file(tmp_path: Path, codec: str) -> None:
    picture = picture_of(codec)
    write(tmp_path / "a", picture, 6)
    write(tmp_path / "b", picture, 6)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("codec", FILMS)
def test_colour_tags_and_pixel_shape_are_in_the_segment(tmp_path: Path, codec: str) -> None:
    picture = picture_of(codec, bit_depth=10, tags=TAGS, sample_aspect=Fraction(4, 3))
    write(tmp_path / "s", picture, 2)
    with av.open(str(tmp_path / "s")) as file:
        stream = file.streams.video[0]
        if codec in ("h264", "hevc"):  # the others have no place for it: the result's file says it
            assert stream.sample_aspect_ratio == Fraction(4, 3)
        frame = next(file.decode(stream))
    assert {name: int(getattr(frame, name)) for name in NUMBERS} == NUMBERS


@pytest.mark.parametrize("layout", list(ENCODERS["ffv1"].formats))
def test_ffv1_gives_every_layout_back_exactly(tmp_path: Path, layout: Layout) -> None:
    chroma, depth, alpha = layout
    picture = replace(
        picture_of("ffv1", Size(65, 35), chroma=chroma, bit_depth=depth, has_alpha=alpha),
        pixel_format=ENCODERS["ffv1"].formats[layout],
        bit_depth=depth,
        chroma=chroma,
        has_alpha=alpha,
    )
    write(tmp_path / "s", picture, 2)
    for number, frame in enumerate(read(tmp_path / "s")):
        wanted = random_planes(picture, number)
        for plane, expected in zip(planes_of(frame, alpha=alpha), wanted, strict=True):
            np.testing.assert_array_equal(plane, expected)


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1", "prores_ks"])
def test_lossy_encoders_open_every_layout_of_their_table(tmp_path: Path, encoder: str) -> None:
    for (chroma, depth, alpha), name in ENCODERS[encoder].formats.items():
        picture = replace(
            picture_of(ENCODERS[encoder].codec),
            pixel_format=name,
            chroma=chroma,
            bit_depth=depth,
            has_alpha=alpha,
        )
        if encoder == "prores_ks":
            options = {"profile": "4444" if chroma == "444" else "hq"}
            picture = replace(picture, options=options)
        write(tmp_path / name, picture, 2)
        assert len(read(tmp_path / name)) == 2


def small_hevc(path: str, width: int, speed: str) -> None:
    """Some frames, 64 px high, as the program writes them."""
    picture = picture_of("hevc", Size(width, 64), bit_depth=10)
    kind, layout = ENCODERS["libx265"], ("420", 10, False)
    options = encoder_options(kind, crf=16, speed=speed, layout=layout, size=picture.size)
    write(Path(path), replace(picture, options=options), 12)


@pytest.mark.parametrize("width", [40, 48])
@pytest.mark.parametrize("speed", ["medium", "slow"])
def test_hevc_of_very_small_pictures_does_not_abort(tmp_path: Path, width: int, speed: str) -> None:
    """In a process of its own, because x265 would take this one with it."""
    work = "from tests.engine.video.write.test_encode import small_hevc; small_hevc"
    command = f"{work}({str(tmp_path / 's')!r}, {width}, {speed!r})"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "s")) == 12


def test_nvenc_formats_are_filled_as_swscale_does() -> None:
    planes = random_planes(picture_of("hevc", bit_depth=10), 1)
    plain = frame_of(planes, 64, 48, "yuv420p10le")
    ours, theirs = frame_of(planes, 64, 48, "p010le"), plain.reformat(format="p010le", threads=1)
    pairs = zip(planes_of(ours, alpha=False), planes_of(theirs, alpha=False), strict=True)
    for mine, other in pairs:
        np.testing.assert_array_equal(mine, other)


def test_no_card_is_no_error() -> None:
    for name in ("h264_nvenc", "hevc_nvenc", "av1_nvenc"):
        assert opens(name) in (True, False)


def test_planes_of_another_layout_are_a_mistake(tmp_path: Path) -> None:
    picture = picture_of()
    planes = random_planes(picture, 0)
    with SegmentWriter(tmp_path / "s", picture) as writer:
        with pytest.raises(ValueError, match="planes"):
            writer.write(planes[:1], 0)
        with pytest.raises(ValueError, match="shape"):
            writer.write([planes[0], planes[0], planes[0]], 0)
        with pytest.raises(ValueError, match="uint8"):
            writer.write([plane.astype(np.uint16) for plane in planes], 0)
        with pytest.raises(ValueError, match="comes after"):
            writer.write(planes, 1)
        writer.write(planes, 0)


def test_an_aborted_segment_leaves_nothing(tmp_path: Path) -> None:
    picture = picture_of()
    with pytest.raises(KeyError), SegmentWriter(tmp_path / "s", picture) as writer:
        writer.write(random_planes(picture, 0), 0)
        raise KeyError
    empty = SegmentWriter(tmp_path / "s", picture)
    with pytest.raises(ValueError, match="frame"):
        empty.close()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_under_work_is_a_part(tmp_path: Path) -> None:
    picture = picture_of("ffv1")
    (tmp_path / "s").write_bytes(b"older")
    writer = SegmentWriter(tmp_path / "s", picture)
    writer.write(random_planes(picture, 0), 0)
    assert (tmp_path / "s").read_bytes() == b"older"
    assert (tmp_path / "s.part").exists()
    assert writer.close() == (tmp_path / "s").stat().st_size > 1000


def test_settings_that_an_encoder_refuses_are_told(tmp_path: Path) -> None:
    picture = replace(picture_of(), size=Size(33, 33))
    with pytest.raises(EncoderMissing) as caught:
        SegmentWriter(tmp_path / "s", picture)
    assert "33x33" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputUnwritable):
        SegmentWriter(tmp_path / "none" / "s", picture_of())


def test_names_with_colons_and_other_letters_work(tmp_path: Path) -> None:
    write(tmp_path / "a:b ü 片.mkv", picture_of("ffv1"), 1)
    assert (tmp_path / "a:b ü 片.mkv").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("a small disk can be made only as root on Linux")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("codec", ["h264", "ffv1", "png"])
def test_a_full_disk_is_told_and_the_part_is_gone(small_disk: Path, codec: str) -> None:
    picture = picture_of(codec, Size(128, 128))
    if codec == "h264":
        picture = replace(picture, options={"preset": "ultrafast", "qp": "0"})
    with pytest.raises(DiskFull) as caught:
        write(small_disk / "s", picture, 30)
    assert caught.value.hint
    assert list(small_disk.iterdir()) == []
