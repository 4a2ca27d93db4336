"""Formats that are chosen: WebM, numbered images, a constant bit rate; and what each is without."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Disposition

from engine.core.control import Control
from engine.core.errors import ContainerMismatch, SettingsError
from engine.core.geometry import Size
from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import Plan
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS, JobSettings
from engine.verification.verify import verify
from engine.video.planes import frame_of, has_clipped, planes_of
from engine.video.read.examination import examined
from engine.video.read.images import read_picture
from engine.video.read.probe import probe
from engine.video.write.codecs import (
    choose_container,
    estimated_bits_per_pixel,
    picture_notices,
    plan_picture,
)
from engine.video.write.containers import CONTAINERS, IMAGE_CODECS
from engine.video.write.converted_text import ShownTexts, events, plain_text
from engine.video.write.image_files import ImageSegment
from engine.video.write.mux import tried
from engine.video.write.segment_writer import SegmentWriter
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import copied, make_clip
from tests.helpers.plans import a_media
from tests.helpers.program import ffmpeg
from tests.helpers.results import make_identity, mux_all, plan_of, random_planes, segments_of

FAST = JobSettings(model="none", speed="fast")


def job(source: Path, output: Path, **changes: Any) -> tuple[MediaInfo, Plan]:
    """Run an identity job as far as its file."""
    media = examined(probe(source))
    plan = tried(media, plan_of(media, output, replace(FAST, **changes)), Control())
    mux_all(media, plan, segments_of(media, plan, source.parent), output)
    return media, plan


def faults(media: MediaInfo, output: Path, plan: Plan) -> dict[str, str]:
    report = verify(media, output, plan=plan)
    return {check.code: str(check.message) for check in report.problems}


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


SPOKEN = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Italic, Underline, Alignment
Style: Default,Arial,20,&H00FFFFFF,0,0,0,2

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.04,0:00:00.20,Default,,0,0,0,,{\\pos(10,20)\\i1}1 < 2{\\i0} & 3 > 2{a note}
Dialogue: 0,0:00:00.12,0:00:00.36,Default,,0,0,0,,two\\Nlines
Dialogue: 0,0:00:00.20,0:00:00.24,Default,,0,0,0,,{\\p1}m 0 0 l 9 9{\\p0}
"""


def with_texts(folder: Path, spoken: str = SPOKEN, *, is_default: bool = False) -> Path:
    """A video with subtitles of ASS and of SubRip."""
    (folder / "a.ass").write_text(spoken, "utf-8")
    source = make_clip(folder / "a.mkv", frames=12, subtitles=("subrip",), b_frames=0)
    output = folder / "b.mkv"
    with (
        av.open(str(source)) as old,
        av.open(folder / "a.ass") as texts,
        av.open(output, "w") as new,
    ):
        read = [*old.streams, *texts.streams]
        added = {stream: new.add_stream_from_template(stream, opaque=True) for stream in read}
        for stream, language in zip(added.values(), ("und", "eng", "deu"), strict=True):
            stream.metadata["language"] = language
            stream.disposition = Disposition.default if is_default and language == "eng" else 0
        for packet in (*texts.demux(), *old.demux()):
            if packet.dts is not None:
                packet.stream = added[packet.stream]
                new.mux(packet)
    return output


def texts_of(path: Path) -> list[tuple[float, bytes]]:
    with av.open(str(path)) as file:
        return [
            (float(packet.pts * packet.time_base), bytes(packet))
            for packet in file.demux(file.streams.subtitles[-1])
            if packet.size
        ]


def test_subtitles_of_text_become_webvtt_in_webm(tmp_path: Path) -> None:
    output, other = tmp_path / "out.webm", tmp_path / "other.webm"
    media, plan = job(with_texts(tmp_path), output)
    assert [(one.codec, one.converted, one.is_lossy) for one in plan.streams] == [
        ("subrip", "webvtt", False),
        ("ass", "webvtt", True),
    ]
    assert [stream.codec for stream in probe(output).streams] == ["webvtt", "webvtt"]
    assert [stream.language for stream in probe(output).streams] == ["eng", "deu"]
    assert texts_of(output) == [
        (0.04, b"<i>1 &lt; 2</i> &amp; 3 &gt; 2"),
        (0.12, b"two\nlines"),
    ]
    assert faults(media, output, plan) == {}
    found = [one for one in stream_notices(media, "webm") if one.code == "text-converted"]
    assert [(one.case, one.severity) for one in found] == [
        ("unplaced", "info"),
        ("styled", "warning"),
    ]
    assert verify(media, output).passed
    with_other_words(output, other, b"two\nlines", b"other words")
    assert "differ" in faults(media, other, plan)["stream-content"]


def with_other_words(source: Path, target: Path, old: bytes, new_words: bytes) -> None:
    """Copy a result with other words in one of its texts."""
    with av.open(str(source)) as file, av.open(str(target), "w") as copy:
        added = {one: copy.add_stream_from_template(one, opaque=True) for one in file.streams}
        for packet in file.demux():
            if packet.dts is not None:
                stream = added[packet.stream]
                if old in bytes(packet) and packet.stream.type == "subtitle":
                    changed = av.Packet(bytes(packet).replace(old, new_words))
                    changed.pts, changed.dts = packet.pts, packet.dts
                    changed.duration = packet.duration
                    changed.time_base, packet = packet.time_base, changed
                packet.stream = stream
                copy.mux(packet)


def shown(path: Path) -> list[tuple[float, float, str]]:
    """Start, end and words of what the last subtitles show, as FFmpeg decodes them."""
    with av.open(str(path)) as file:
        track = file.streams.subtitles[-1]
        found = [(packet, *events(track, packet)) for packet in file.demux(track) if packet.size]
        return [
            (
                float(packet.pts * packet.time_base),
                float((packet.pts + packet.duration) * packet.time_base),
                plain_text(texts[0]),
            )
            for packet, *texts in found
            if texts
        ]


@pytest.mark.parametrize("container", ["mp4", "mov"])
def test_subtitles_of_text_become_timed_text_in_mp4_and_mov(tmp_path: Path, container: str) -> None:
    output, other = tmp_path / f"out.{container}", tmp_path / f"other.{container}"
    media, plan = job(with_texts(tmp_path), output)
    assert [(one.codec, one.converted, one.is_lossy) for one in plan.streams] == [
        ("subrip", "mov_text", False),
        ("ass", "mov_text", True),
    ]
    result = probe(output)
    assert [stream.codec for stream in result.streams] == ["mov_text", "mov_text"]
    assert [stream.language for stream in result.streams] == ["eng", "deu"]
    assert shown(output) == [
        (0.04, 0.12, "1 < 2 & 3 > 2"),
        (0.12, 0.2, "1 < 2 & 3 > 2 two lines"),
        (0.2, 0.36, "two lines"),
    ]
    assert len(texts_of(output)[1][1]) > len("..1 < 2 & 3 > 2"), "italic, after an empty text"
    assert faults(media, output, plan) == {}
    assert verify(media, output).passed
    found = [one for one in stream_notices(media, container) if one.code == "text-converted"]
    assert [(one.case, one.severity) for one in found] == [
        ("unplaced", "info"),
        ("timed", "warning"),
    ]
    with_other_words(output, other, b"two\nlines", b"two\nlives")
    assert "differ" in faults(media, other, plan)["stream-content"]


def test_timed_text_of_mp4_stays_timed_text_in_mov(tmp_path: Path) -> None:
    """QuickTime's older "text" has another description of its styles."""
    source, output = tmp_path / "a.mp4", tmp_path / "out.mov"
    job(make_clip(source, frames=12, subtitles=("mov_text",), b_frames=0), output)
    job(with_texts(tmp_path), tmp_path / "made.mov")
    for path in (output, tmp_path / "made.mov"):
        with av.open(str(path)) as file:
            assert {one.codec_context.codec_tag for one in file.streams.subtitles} == {"tx3g"}


@pytest.mark.parametrize("is_default", [False, True])
def test_subtitles_are_on_in_mp4_only_where_they_are_the_default(
    tmp_path: Path, is_default: bool
) -> None:
    """FFmpeg turns the first ones on where none are."""
    source = with_texts(tmp_path, is_default=is_default)
    for suffix in ("mp4", "mov"):
        job(source, tmp_path / f"out.{suffix}")
        found = probe(tmp_path / f"out.{suffix}").streams
        assert [stream.is_default for stream in found] == [is_default, False]


@pytest.mark.programs("ffmpeg")
def test_timed_text_is_read_by_another_ffmpeg(tmp_path: Path) -> None:
    output, texts = tmp_path / "out.mp4", tmp_path / "out.srt"
    job(with_texts(tmp_path), output)
    ffmpeg("-i", output, "-map", "0:s:1", texts)
    words = re.sub("</?[a-z][^>]*>", "", texts.read_text("utf-8"))
    assert "00:00:00,120 --> 00:00:00,200\n1 < 2 & 3 > 2\ntwo\nlines\n" in words


def test_texts_lie_in_the_file_where_they_are_shown(tmp_path: Path) -> None:
    """A text that waits for the next one must not hold its packet back."""
    source = make_clip(tmp_path / "a.mkv", frames=100, audio_tracks=1, subtitles=("subrip",))
    output = tmp_path / "out.mp4"
    job(source, output)
    with av.open(str(output)) as file:
        packets = sorted(
            (one.pos, float(one.pts * one.time_base), one.stream.type)
            for one in file.demux()
            if one.size > 2
        )
    late = [
        max(time for _, time, _ in packets[: number + 1]) - time
        for number, (_, time, kind) in enumerate(packets)
        if kind == "subtitle"
    ]
    assert len(late) == 3
    assert max(late) < 1, late


def test_texts_that_begin_together_or_have_no_end_are_shown_together() -> None:
    texts = ShownTexts(Fraction(1, 1000))
    found = []
    for start, duration, text in ((0, 500, "a"), (0, 300, "b"), (301, 0, "c"), (9000, 10, "d")):
        found += [*texts.before(start)]
        texts.add(start, duration, [text])
    found += [*texts.before(inf)]
    assert found == [
        (0, 300, ["a", "b"]),
        (301, 199, ["a", "c"]),
        (500, 3801, ["c"]),
        (9000, 10, ["d"]),
    ]


def test_a_text_that_is_too_long_for_its_format_is_counted(tmp_path: Path) -> None:
    source = with_texts(tmp_path, SPOKEN.replace("two\\Nlines", "word " * 14_000))
    media, plan = job(source, tmp_path / "out.mp4")
    assert [one.dropped for one in plan.streams] == [0, 2]
    assert faults(media, plan.output, plan) == {}


def test_subtitles_of_mp4_become_subrip_in_mkv(tmp_path: Path) -> None:
    source, output = tmp_path / "a.mp4", tmp_path / "out.mkv"
    media, plan = job(make_clip(source, frames=12, subtitles=("mov_text",), b_frames=0), output)
    assert [one.converted for one in plan.streams] == ["subrip"]
    assert texts_of(output) == [(0.0, b"Line 1"), (0.1, b"Line 2"), (0.2, b"Line 3")]
    assert faults(media, output, plan) == {}
    (found,) = (one for one in stream_notices(media, "mkv") if one.code == "text-converted")
    assert found.hint == "Choose the format MP4 to copy it unchanged."


def test_a_part_in_mp4_has_the_texts_that_are_shown_in_it(tmp_path: Path) -> None:
    output, source = tmp_path / "part.mp4", with_texts(tmp_path)
    plan = make_identity(source, output, FAST, start=Fraction(4, 25), stop=Fraction(8, 25))
    assert shown(output) == [
        (0.0, 0.04, "1 < 2 & 3 > 2 two lines"),
        (0.04, 0.16, "two lines"),
    ]
    assert faults(probe(source), output, plan) == {}


def test_a_part_of_a_video_has_its_own_texts(tmp_path: Path) -> None:
    output = tmp_path / "part.webm"
    source = with_texts(tmp_path)
    plan = make_identity(source, output, FAST, start=Fraction(4, 25))
    assert texts_of(output) == [
        (0.0, b"<i>1 &lt; 2</i> &amp; 3 &gt; 2"),
        (0.0, b"two\nlines"),
    ]
    assert faults(probe(source), output, plan) == {}


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
