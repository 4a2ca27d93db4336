"""Formats that are chosen: WebM, numbered images, a constant bit rate; and what each is without."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import ContainerMismatch, SettingsError
from engine.core.geometry import Size
from engine.protocol.media import StreamInfo
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS, JobSettings
from engine.video.planes import frame_of, has_clipped, planes_of
from engine.video.read.images import read_picture
from engine.video.read.probe import probe
from engine.video.write.codecs import (
    choose_container,
    estimated_bits_per_pixel,
    picture_notices,
    plan_picture,
)
from engine.video.write.containers import CONTAINERS, IMAGE_CODECS
from engine.video.write.image_files import ImageSegment
from engine.video.write.segment_writer import SegmentWriter
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import copied, make_clip
from tests.helpers.plans import a_media
from tests.helpers.results import FAST, faults, job, random_planes


def a_film(path: Path) -> Path:
    """A video with more than WebM holds: pictures as subtitles besides sound that it does hold."""
    return make_clip(
        path,
        frames=12,
        audio_tracks=2,
        audio_codec="libopus",
        subtitles=("hdmv_pgs_subtitle",),
        chapters=2,
        metadata={"title": "A"},
        sar=Fraction(16, 15),
    )


def test_webm_keeps_what_it_holds_names_the_rest_and_a_loss_is_seen(tmp_path: Path) -> None:
    output, other = tmp_path / "out.webm", tmp_path / "other.webm"
    media, plan = job(a_film(tmp_path / "a.mkv"), output)
    assert (plan.container, plan.format, plan.picture.codec) == ("webm", "webm", "vp9")
    assert faults(media, output, plan) == {}
    result = probe(output)
    assert result.video.sample_aspect == Fraction(16, 15)
    assert [stream.codec for stream in result.streams] == ["opus", "opus"]
    codes = [notice.code for notice in stream_notices(media, "webm")]
    assert codes == ["stream-left-out", "container-changed"]
    copied(output, other, format="webm", kind="video")  # without sound
    assert "streams" in faults(media, other, plan)
    assert "sound" not in str(faults(media, output, plan))


def test_webm_keeps_transparency_and_its_source_stays_webm(tmp_path: Path) -> None:
    path = tmp_path / "a.webm"
    picture = plan_picture(
        a_media(has_alpha=True), replace(FAST, container="webm"), Size(64, 48), "webm"
    )
    assert (picture.codec, picture.pixel_format) == ("vp9", "yuva420p")
    ten = replace(a_media(has_alpha=True, bit_depth=10, chroma="444"), kind="video")
    reduced = plan_picture(ten, replace(FAST, container="webm"), Size(64, 48), "webm")
    assert reduced.pixel_format == "yuva420p"
    lost = [notice.code for notice in picture_notices(ten, reduced)]
    assert lost == ["bits-reduced", "chroma-reduced"]
    with SegmentWriter(tmp_path / "s", replace(picture, threads=1)) as writer:
        for number in range(3):
            writer.write(random_planes(picture, number))
    (tmp_path / "s").rename(path)
    output = tmp_path / "b.webm"
    media, plan = job(path, output)
    assert media.video.has_alpha
    assert plan.picture.has_alpha
    assert probe(output).video.has_alpha
    assert choose_container(media, FAST, None) == "webm"
    copied(make_clip(tmp_path / "c.webm", frames=3, codec="libvpx-vp9"), tmp_path / "d.webm")
    assert "size" in faults(media, tmp_path / "d.webm", plan)


def test_more_bits_and_hdr_are_av1_in_webm() -> None:
    for video, codec in (({}, "vp9"), ({"bit_depth": 10}, "av1"), ({"hdr": "pq"}, "av1")):
        picture = plan_picture(a_media(**video), FAST, Size(64, 48), "webm")
        assert picture.codec == codec


def test_a_format_of_images_means_a_folder_and_single_images_stay_single() -> None:
    film, still = a_media(), replace(a_media(), kind="image", path=Path("a.jpg"))
    for kind, suffix in IMAGE_FORMATS.items():
        settings = JobSettings(container=kind)
        assert choose_container(film, settings, None) == "sequence"
        assert choose_container(film, settings, Path("My.Film_x2")) == "sequence", "a folder"
        assert choose_container(film, settings, Path(f"b_%04d{suffix}")) == "sequence"
        assert choose_container(still, settings, None) == "image"
        assert choose_container(still, settings, Path(f"b{suffix}")) == "image"
        assert plan_picture(film, settings, Size(64, 48), "sequence").codec == kind
        with pytest.raises(ContainerMismatch, match=r"extension"):
            choose_container(film, settings, Path("b_%04d.mp4"))
    with pytest.raises(ContainerMismatch, match=r"PNG"):
        choose_container(film, JobSettings(container="png"), Path("b_%04d.dpx"))
    assert set(IMAGE_FORMATS) == IMAGE_CODECS
    assert {name: one.suffixes[0] for name, one in CONTAINERS.items()} == VIDEO_FORMATS


def test_images_of_a_video_name_what_they_are_without() -> None:
    film = a_media(hdr="pq")
    assert [notice.code for notice in stream_notices(film, "sequence")] == ["times-left-out"]
    for kind, codes in (("png", ["hdr-kept"]), ("dpx", ["hdr-unstated"])):
        picture = plan_picture(film, JobSettings(container=kind), Size(64, 48), "sequence")
        assert [notice.code for notice in picture_notices(film, picture)] == codes
    with pytest.raises(ContainerMismatch, match="EXR"):
        plan_picture(film, JobSettings(container="exr"), Size(64, 48), "sequence")
    photograph = replace(a_media(chroma="rgb", has_exif=True, profile="RGB"), kind="image")
    picture = plan_picture(photograph, JobSettings(container="exr"), Size(64, 48), "image")
    found = {notice.code for notice in picture_notices(photograph, picture)}
    assert found == {"profile-left-out", "exif-left-out", "light-is-linear"}


@pytest.mark.parametrize("kind", ["exr", "dpx"])
def test_images_keep_every_code_value(tmp_path: Path, kind: str) -> None:
    for bits, pixels in ((10, "half"), (16, "float")):
        media = a_media(chroma="rgb", bit_depth=bits, codec="ffv1")
        picture = plan_picture(media, JobSettings(container=kind), Size(64, 48), "sequence")
        path = tmp_path / f"{bits}.{kind}"
        planes = random_planes(picture, 1)
        segment = ImageSegment(tmp_path / "s", picture)
        path.write_bytes(segment._encoded(frame_of(planes, picture.size, picture.pixel_format)))
        segment.finish()
        frame = read_picture(path)
        for before, after in zip(planes, planes_of(frame, alpha=False), strict=True):
            step = 2 ** (picture.bit_depth - bits)
            assert np.abs(before // step - np.int32(after) // step).max() <= (bits == 10)
        assert kind != "exr" or picture.options["format"] == pixels
        assert kind != "exr" or not has_clipped(frame)


def test_exr_holds_linear_light(tmp_path: Path) -> None:
    grey = np.full((48, 64), round(0.5 * 65535), np.uint16)
    frame = frame_of([grey, grey, grey, grey], Size(64, 48), "gbrapf32le")
    values = [np.frombuffer(plane, np.float32)[0] for plane in frame.planes]
    assert values == pytest.approx([0.21404, 0.21404, 0.21404, 0.5], abs=1e-4), "not alpha"
    frame.color_trc = 8
    assert all((plane == grey).all() for plane in planes_of(frame, alpha=True))
    frame.planes[0].update(np.full(frame.planes[0].buffer_size // 4, 1.5, np.float32).tobytes())
    assert has_clipped(frame)


RATES = [
    "h264",
    *(pytest.param(codec, marks=pytest.mark.extended) for codec in ("hevc", "av1", "vp9")),
]


@pytest.mark.parametrize("codec", RATES)
def test_a_constant_bit_rate_is_kept_and_repeatable(tmp_path: Path, codec: str) -> None:
    settings = replace(FAST, codec=codec, bit_rate=1.0, encoder="cpu")
    picture = plan_picture(a_media(frame_rate=Fraction(25)), settings, Size(96, 64), "mkv")
    picture = replace(picture, threads=2)
    files = []
    for name in ("a", "b"):
        with SegmentWriter(tmp_path / name, picture) as writer:
            for number in range(75):
                writer.write(random_planes(picture, number))
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    assert len(files[0]) * 8 / 3 == pytest.approx(1_000_000, rel=0.15)


def test_what_has_no_bit_rate_and_sound_that_has_no_place_are_refused() -> None:
    for settings in ({"codec": "ffv1"}, {"container": "png"}):
        container = "mkv" if "codec" in settings else "sequence"
        with pytest.raises(SettingsError, match="constant bit rate"):
            plan_picture(a_media(), JobSettings(bit_rate=5.0, **settings), Size(64, 48), container)
    about = {"codec": "wmav2", "sample_format": "fltp", "channels": 2, "sample_rate": 48_000}
    film = replace(a_media(), streams=(StreamInfo(index=1, kind="audio", **about),))
    for container, codec in (("webm", "aac"), ("mov", "opus")):
        settings = JobSettings(container=container, sound=codec)
        with pytest.raises(ContainerMismatch, match=codec):
            choose_container(film, settings, None)
        assert choose_container(a_media(), settings, None) == container, "nothing to convert"


def test_the_size_of_the_file_follows_the_bit_rate() -> None:
    media = a_media(frame_rate=Fraction(25))
    picture = plan_picture(media, JobSettings(bit_rate=8.0), Size(640, 360), "mkv")
    assert estimated_bits_per_pixel(picture) * 640 * 360 * 25 == pytest.approx(8e6)
