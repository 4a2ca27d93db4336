import itertools
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.errors import DiskFull, EncoderMissing, OutputUnwritable
from engine.core.geometry import Size
from engine.protocol.media import ColourTags, VideoInfo
from engine.protocol.plan import PicturePlan
from engine.settings.schema import CODECS, JobSettings
from engine.video.planes import planes_of
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from engine.video.write.codecs import plan_picture
from engine.video.write.encoders import (
    ENCODERS,
    ON_PROCESSOR,
    EncoderSpec,
    Rate,
    encoder_options,
    opens,
    with_threads,
)
from engine.video.write.segment_writer import LosslessWriter, SegmentWriter
from tests.helpers.plans import a_media
from tests.helpers.program import ROOT, film_stream
from tests.helpers.results import needs_ffprobe, random_planes

HDR = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}
TAGS = ColourTags(**HDR, chroma_location="topleft")
CODE_POINTS = {"color_primaries": 9, "color_trc": 16, "colorspace": 9, "color_range": 1}


def picture_of(codec: str = "h264", size: Size = Size(64, 48), **video: Any) -> PicturePlan:
    media = a_media(size=size, frame_rate=Fraction(30000, 1001), **video)
    container = "image" if codec == "png" else "mkv"
    settings = JobSettings(codec="auto" if container == "image" else codec, speed="fast")
    return replace(plan_picture(media, settings, size, container), threads=2)


def write(path: Path, picture: PicturePlan, frames: int) -> Path:
    with SegmentWriter(path, picture) as writer:
        for index in range(frames):
            writer.write(random_planes(picture, index))
    return path


def read(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as file:
        return list(file.decode(video=0))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_segment_is_complete_repeatable_and_tagged(tmp_path: Path, codec: str) -> None:
    picture = picture_of(codec, bit_depth=10, tags=TAGS, sample_aspect=Fraction(4, 3))
    path = write(tmp_path / "s", picture, 7)
    assert list(tmp_path.iterdir()) == [path]
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        packets = [p for p in file.demux(stream) if p.pts is not None]
        header = bytes(stream.codec_context.extradata or b"")
        assert stream.time_base == Fraction(1, 1000)
        if codec in ("h264", "hevc"):  # for the others the result's file has it
            assert stream.sample_aspect_ratio == Fraction(4, 3)
    assert packets[0].is_keyframe
    assert sorted(p.pts for p in packets) == list(range(7))
    frames = read(path)
    assert [f.pts for f in frames] == list(range(7))
    assert {name: int(getattr(frames[0], name)) for name in CODE_POINTS} == CODE_POINTS
    assert write(tmp_path / "again", picture, 7).read_bytes() == path.read_bytes()
    with av.open(str(write(tmp_path / "short", picture, 1))) as file:
        assert bytes(file.streams.video[0].codec_context.extradata or b"") == header
    assert header or codec not in ("h264", "hevc", "av1", "prores", "ffv1")  # VP9 has none


@pytest.mark.skipif(sys.platform != "linux", reason="libsvtav1 changes scheduling on Linux")
def test_an_encoder_leaves_no_thread_in_real_time_scheduling(tmp_path: Path) -> None:
    assert opens("libsvtav1")
    assert write(tmp_path / "s", picture_of("av1"), 7)
    threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}


@pytest.mark.parametrize("spec", [one for one in ENCODERS.values() if one.has_rate])
def test_a_speed_is_known_by_its_options(spec: EncoderSpec) -> None:
    layout = next(iter(spec.formats))
    for name, speed in spec.speeds.items():
        of = {"speed": name, "layout": layout, "size": Size(640, 360)}
        assert spec.speed_of(encoder_options(spec, rate=Rate(), **of)) is speed
    assert spec.speed_of({"preset": "of another version"}) is spec.speeds["auto"]
    constant = encoder_options(spec, rate=Rate(constant=10**6), **of)
    kept = 0 if spec.codec == "av1" else speed.frames  # AV1 does not look ahead then
    assert spec.speed_of(constant).frames == kept


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (4, 4), (16, 4)])
def test_av1_works_on_four_levels_at_most(threads: int, most: int) -> None:
    """Six take twice the memory."""
    options = with_threads({"preset": "8"}, "libsvtav1", threads)
    assert options["svtav1-params"] == f"lp={most}"


def test_ffv1_takes_odd_sizes_of_every_chroma(tmp_path: Path) -> None:
    for chroma, size in itertools.product(("420", "422", "444"), (Size(87, 64), Size(71, 79))):
        path = write(tmp_path / "s", picture_of("ffv1", size, chroma=chroma), 1)
        assert [(f.width, f.height) for f in read(path)] == [(size.width, size.height)]


def test_few_frames_of_hevc_are_a_segment(tmp_path: Path) -> None:
    for frames in (1, 2, 3):  # x265 gave decoding times from uninitialised memory
        assert len(read(write(tmp_path / "s", picture_of("hevc"), frames))) == frames


def test_every_encoder_writes_every_layout_of_its_table(tmp_path: Path) -> None:
    for encoder in (ON_PROCESSOR[codec] for codec in CODECS[1:]):
        for (chroma, depth, alpha), pixel_format in encoder.formats.items():
            size = Size(65, 35) if encoder.name == "ffv1" else Size(64, 48)
            layout = {"chroma": chroma, "bit_depth": depth, "has_alpha": alpha}
            picture = replace(picture_of(encoder.codec, size), pixel_format=pixel_format, **layout)
            if encoder.name == "prores_ks":
                options = {"profile": "4444" if chroma == "444" else "hq"}
                picture = replace(picture, options=options)
            frames = read(write(tmp_path / "s", picture, 2))
            assert len(frames) == 2, pixel_format
            if encoder.is_lossy:
                continue
            for number, frame in enumerate(frames):
                planes = planes_of(frame, alpha=alpha)
                for plane, expected in zip(planes, random_planes(picture, number), strict=True):
                    np.testing.assert_array_equal(plane, expected, pixel_format)


@needs_ffprobe
@pytest.mark.extended
def test_older_decoders_read_every_layout_of_ffv1(tmp_path: Path) -> None:
    for (chroma, depth, alpha), pixel_format in ENCODERS["ffv1"].formats.items():
        layout = {"chroma": chroma, "bit_depth": depth, "has_alpha": alpha}
        picture = replace(picture_of("ffv1"), pixel_format=pixel_format, **layout)
        found = film_stream(write(tmp_path / "s.mkv", picture, 2))
        assert found.get("nb_read_frames") == "2", pixel_format
    video = a_media(has_alpha=True, chroma="444", bit_depth=12, codec="prores")  # ProRes 4444
    picture = plan_picture(video, JobSettings(codec="ffv1"), Size(64, 48), "mkv")
    assert picture.pixel_format == "yuva444p16le"


def small_hevc(folder: str) -> None:
    """Some frames, 64 px high, as the program writes them."""
    how = {"rate": Rate(), "layout": ("420", 10, False)}
    for width, speed in itertools.product((40, 48), ("medium", "slow")):
        size = Size(width, 64)
        options = encoder_options(ENCODERS["libx265"], speed=speed, size=size, **how)
        picture = picture_of("hevc", size, bit_depth=10)
        write(Path(folder, f"{width}-{speed}"), replace(picture, options=options), 12)


def test_hevc_of_very_small_pictures_does_not_abort(tmp_path: Path) -> None:
    """In a process of its own, because x265 would take this one with it."""
    work = "from tests.engine.video.write.test_segment_writer import small_hevc; small_hevc"
    command = [sys.executable, "-c", f"{work}({str(tmp_path)!r})"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [len(read(path)) for path in tmp_path.iterdir()] == [12] * 4


def test_planes_of_another_layout_are_refused(tmp_path: Path) -> None:
    picture = picture_of()
    planes = random_planes(picture, 0)
    with SegmentWriter(tmp_path / "s", picture) as writer:
        with pytest.raises(ValueError, match="planes"):
            writer.write(planes[:1])
        with pytest.raises(ValueError, match="shape"):
            writer.write([planes[0], planes[0], planes[0]])
        with pytest.raises(ValueError, match="uint8"):
            writer.write([plane.astype(np.uint16) for plane in planes])
        writer.write(planes)


def test_an_unfinished_segment_is_a_part_and_an_aborted_one_leaves_nothing(tmp_path: Path) -> None:
    picture = picture_of("ffv1")
    with pytest.raises(KeyError), SegmentWriter(tmp_path / "s", picture) as writer:
        writer.write(random_planes(picture, 0))
        raise KeyError
    empty = SegmentWriter(tmp_path / "s", picture)
    with pytest.raises(ValueError, match="frame"):
        empty.close()
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "a:b ü 片.mkv"
    path.write_bytes(b"older")
    writer = SegmentWriter(path, picture)
    writer.write(random_planes(picture, 0))
    assert path.read_bytes() == b"older"
    assert path.with_name(path.name + ".part").exists()
    assert writer.close() == path.stat().st_size > 1000


def test_settings_that_an_encoder_refuses_and_a_missing_folder_are_errors(tmp_path: Path) -> None:
    picture = replace(picture_of(), size=Size(33, 33))
    with pytest.raises(EncoderMissing) as caught:
        SegmentWriter(tmp_path / "s", picture)
    assert "33x33" in caught.value.message
    with pytest.raises(OutputUnwritable):
        SegmentWriter(tmp_path / "none" / "s", picture_of())
    with pytest.raises(OutputUnwritable):
        LosslessWriter(tmp_path / "none" / "film.avi", FILM)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_the_part_is_gone(small_disk: Path) -> None:
    lossless = {"preset": "ultrafast", "qp": "0"}
    pictures = [picture_of(codec, Size(128, 128)) for codec in ("h264", "ffv1", "png")]
    for picture in (replace(pictures[0], options=lossless), *pictures[1:]):
        with pytest.raises(DiskFull) as caught:
            write(small_disk / "s", picture, 30)
        assert caught.value.hint
        assert list(small_disk.iterdir()) == []


FILM = VideoInfo(
    index=0,
    codec="latent",
    size=Size(37, 21),
    pixel_format="gbrp16le",
    chroma="rgb",
    bit_depth=16,
    frame_rate=Fraction(24000, 1001),
)


def noise(count: int) -> list[list[np.ndarray]]:
    frames = np.random.default_rng(count).integers(0, 65536, (count, 3, 21, 37), dtype=np.uint16)
    return [list(frame) for frame in frames]


def test_every_value_and_every_time_of_a_lossless_film_come_back(tmp_path: Path) -> None:
    path = tmp_path / "Fílm %d.avi"
    frames = noise(5)
    for rate in (Fraction(16), Fraction(24000, 1001), Fraction(1, 2)):
        with LosslessWriter(path, replace(FILM, frame_rate=rate)) as writer:
            for planes in frames:
                writer.write(planes)
        media = probe(path)
        assert (media.video.frame_rate, media.video.time_base) == (rate, 1 / rate)
        assert (media.video.frame_count, media.video.frame_count_is_exact) == (5, True)
        with FrameReader(media, start=2 / rate) as reader:
            found = list(reader)
        assert [frame.pts for frame in found] == [2, 3, 4]
        for frame, planes in zip(found, frames[2:], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(frame.planes, planes, strict=True))


def test_an_unfinished_lossless_film_leaves_nothing_a_finished_one_repeats(tmp_path: Path) -> None:
    for name in ("a.avi", "b.avi"):
        with LosslessWriter(tmp_path / name, FILM) as writer:
            writer.write(noise(1)[0])
    assert (tmp_path / "a.avi").read_bytes() == (tmp_path / "b.avi").read_bytes()
    path = tmp_path / "film.avi"
    with pytest.raises(KeyboardInterrupt), LosslessWriter(path, FILM) as writer:
        writer.write(noise(1)[0])
        assert not path.exists()
        raise KeyboardInterrupt
    assert not list(tmp_path.glob("film*"))
