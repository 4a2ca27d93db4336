from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from engine.core.errors import ContainerMismatch, EncoderMissing, SettingsError
from engine.core.geometry import Size
from engine.protocol.media import ChapterInfo, ColourTags, MediaInfo, StreamInfo
from engine.settings.schema import CODECS, JobSettings
from engine.video.colour_tags import colour_options
from engine.video.planes import layout_of
from engine.video.write import codecs
from engine.video.write.codecs import (
    allowed_size,
    choose_container,
    encoder_works,
    estimated_bits_per_pixel,
    picture_notices,
    plan_picture,
)
from engine.video.write.containers import CONTAINERS, plan_streams
from engine.video.write.encoders import ENCODERS, ON_PROCESSOR
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import copied, make_clip
from tests.helpers.plans import a_media

MP4 = "mov,mp4,m4a,3gp,3g2,mj2"


def media(name: str = "film.mkv", streams: tuple[StreamInfo, ...] = (), **video: Any) -> MediaInfo:
    container = "matroska,webm" if name.endswith(".mkv") else MP4
    container = container if Path(name).suffix in (".mkv", ".mp4", ".mov") else "avi"
    return replace(a_media(**video), path=Path(name), container=container, streams=streams)


def sound(codec: str, index: int = 1) -> StreamInfo:
    return StreamInfo(index=index, kind="audio", codec=codec, sample_rate=48000)


def subtitle(codec: str, index: int = 2) -> StreamInfo:
    return StreamInfo(index=index, kind="subtitle", codec=codec)


def plan(about: MediaInfo, container: str = "mkv", size: Size | None = None, **settings: Any):
    return plan_picture(about, JobSettings(**settings), size or about.video.size, container)


def test_the_pixel_format_follows_the_codec_and_the_source() -> None:
    for wanted, video, codec, pixel_format in (
        ("auto", {}, "h264", "yuv420p"),
        ("auto", {"chroma": "444"}, "h264", "yuv420p"),
        ("auto", {"bit_depth": 10}, "hevc", "yuv420p10le"),
        ("auto", {"bit_depth": 12}, "hevc", "yuv420p10le"),
        ("auto", {"hdr": "pq"}, "hevc", "yuv420p10le"),
        ("ffv1", {}, "ffv1", "yuv420p"),
        ("ffv1", {"bit_depth": 10, "chroma": "422"}, "ffv1", "yuv422p10le"),
        ("ffv1", {"bit_depth": 12, "chroma": "444"}, "ffv1", "yuv444p12le"),
        ("ffv1", {"bit_depth": 16, "chroma": "rgb"}, "ffv1", "gbrp16le"),
        ("ffv1", {"chroma": "rgb"}, "ffv1", "bgr0"),
        ("ffv1", {"chroma": "rgb", "has_alpha": True}, "ffv1", "bgra"),
        ("ffv1", {"bit_depth": 16, "chroma": "gray"}, "ffv1", "gray16le"),
        ("ffv1", {"bit_depth": 10, "chroma": "444", "has_alpha": True}, "ffv1", "yuva444p10le"),
        ("ffv1", {"bit_depth": 12, "chroma": "420", "has_alpha": True}, "ffv1", "yuva420p16le"),
        ("ffv1", {"chroma": "411"}, "ffv1", "yuv411p"),
        ("prores", {}, "prores", "yuv422p10le"),
        ("prores", {"has_alpha": True}, "prores", "yuva444p10le"),
    ):
        picture = plan(media(**video), codec=wanted)
        assert (picture.codec, picture.pixel_format) == (codec, pixel_format), (wanted, video)
        assert wanted != "auto" or picture.options["crf"] == "16"
    assert picture.options["profile"] == "4444"


def test_auto_keeps_alpha_where_the_container_can_and_what_is_lost_has_a_notice() -> None:
    about = media("film.mov", has_alpha=True, codec="qtrle", chroma="rgb")
    assert plan(about, "mov").codec == "prores"
    assert plan(media(has_alpha=True), "mkv").codec == "ffv1"
    picture = plan(media("film.mp4", has_alpha=True), "mp4")
    assert picture.codec == "h264"
    assert [n.code for n in picture_notices(media(has_alpha=True), picture)] == ["alpha-left-out"]
    about = media(bit_depth=12)
    assert [n.code for n in picture_notices(about, plan(about))] == ["bits-reduced"]
    assert [*picture_notices(about, plan(about, codec="hevc", bit_depth=12))] == []
    assert plan(media("cat.gif", has_alpha=True, codec="gif", chroma="rgb"), "mkv").codec == "h264"


def test_chroma_that_is_lost_has_a_notice() -> None:
    about = media(chroma="444")
    (lost,) = picture_notices(about, plan(about))
    assert lost.code == "chroma-reduced"
    assert "4:2:0 instead of 4:4:4" in lost.message
    assert not [*picture_notices(about, plan(about, chroma="444"))]
    assert not [*picture_notices(media(chroma="422"), plan(media(chroma="422"), codec="ffv1"))]
    size = about.video.size
    assert not [*picture_notices(about, replace(plan(about), size=size.scaled(2)))], "as many"
    assert not [*picture_notices(media(chroma="gray"), plan(media(chroma="gray")))]


def test_odd_sizes_become_even_only_with_subsampled_chroma() -> None:
    odd, even = Size(641, 359), Size(642, 360)
    sizes = {"420": even, "422": Size(642, 359), "444": odd}
    assert {chroma: allowed_size(odd, chroma) for chroma in sizes} == sizes
    assert allowed_size(Size(1, 1), "420") == Size(2, 2)
    assert allowed_size(odd, "420", "ffv1") == odd
    assert (plan(media(), size=odd).size, plan(media(), size=odd, codec="ffv1").size) == (even, odd)


def test_what_a_codec_does_not_have_is_refused_with_the_choices() -> None:
    for settings, hint in (
        ({"codec": "av1", "chroma": "444"}, "Choose one of: 420."),
        ({"codec": "h264", "bit_depth": 12}, "Choose one of: 8, 10."),
        ({"codec": "prores", "bit_depth": 8}, "Choose one of: 10."),
        ({"codec": "prores", "chroma": "420"}, "Choose one of: 422, 444."),
    ):
        with pytest.raises(SettingsError) as caught:
            plan(media(), **settings)
        assert caught.value.hint == hint


def test_source_tags_are_kept_and_untagged_ones_get_a_matrix() -> None:
    tags = ColourTags(matrix="bt2020nc", primaries="bt2020", transfer="smpte2084")
    assert plan(media(tags=tags)).tags == replace(tags, range="tv")
    assert plan(media()).tags.matrix == "smpte170m"
    assert plan(media(), size=Size(2560, 1440)).tags.matrix == "smpte170m"  # of the source
    assert plan(media(size=Size(1280, 720))).tags.matrix == "bt709"
    assert plan(media(pixel_format="yuvj420p")).tags.range == "pc"
    assert plan(media(pixel_format="yuvj420p"), codec="prores").tags.range == "tv"
    rgb = plan(media(chroma="rgb", tags=ColourTags(matrix="rgb", range="pc")))
    assert (rgb.tags.matrix, rgb.tags.range) == ("bt709", "tv")
    kept = plan(media(chroma="rgb"), codec="ffv1").tags
    assert (kept.matrix, kept.range) == ("rgb", "pc")


def test_every_tag_has_a_name_that_the_encoders_know() -> None:
    tags = ColourTags(matrix="gbr", transfer="bt470bg", primaries="ebu3213", range="pc")
    assert colour_options(tags) == {
        "colorspace": "rgb",
        "color_trc": "gamma28",
        "color_primaries": "jedec-p22",
        "color_range": "pc",
    }


def test_container_is_the_sources_where_it_takes_everything_else_mkv() -> None:
    for about, settings, output, container in (
        (media("a.mp4", (sound("aac"),)), {}, None, "mp4"),
        (media("a.mov", (sound("pcm_s16le"),)), {}, None, "mov"),
        (media("a.mkv"), {}, None, "mkv"),
        (media("a.avi"), {}, None, "mkv"),
        (media("a.mp4", (sound("truehd"),)), {}, None, "mkv"),
        (media("a.mp4", (subtitle("mov_text"),)), {}, None, "mp4"),
        (media("a.mp4"), {"codec": "ffv1"}, None, "mkv"),
        (media("a.mp4"), {"codec": "prores"}, None, "mkv"),
        (media("a.mp4", (sound("amr_nb"),)), {}, None, "mov"),
        (media("a.avi", (sound("amr_nb"),)), {}, None, "mov"),
        (media("a.avi", (sound("wmav2"),)), {}, None, "mkv"),
        (media("a.mp4"), {"container": "mov"}, None, "mov"),
        (media("a.mp4"), {}, Path("b.mkv"), "mkv"),
        (media("a.mp4"), {}, Path("b.M4V"), "mp4"),
    ):
        assert choose_container(about, JobSettings(**settings), output) == container


def test_pictures_stay_pictures_unless_a_film_is_asked_for() -> None:
    still = replace(media("a.png"), kind="image")
    sequence = replace(media("a_01.png"), kind="sequence", pattern="a_%02d.png")
    assert choose_container(still, JobSettings(), None) == "image"
    assert choose_container(sequence, JobSettings(), None) == "sequence"
    assert choose_container(sequence, JobSettings(), Path("folder")) == "sequence"
    assert choose_container(sequence, JobSettings(), Path("b.mkv")) == "mkv"
    assert choose_container(media(), JobSettings(), Path("b_%04d.png")) == "sequence"
    assert plan(replace(still, video=replace(still.video, chroma="rgb")), "image").codec == "png"
    tiff = media(codec="tiff", bit_depth=16, chroma="rgb", has_alpha=True)
    assert plan(tiff, "image").pixel_format == "rgba64le"


def test_contradictions_of_name_container_and_codec_are_refused() -> None:
    sequence = replace(media("a_01.png"), kind="sequence", pattern="a_%02d.png")
    for about, settings, output, case in (
        (media(), {"container": "mkv"}, "b.mp4", "name-of-another"),
        (media(), {}, "b.avi", "unknown-suffix"),
        (media(), {}, "b", "no-suffix"),
        (media(), {}, "b.png", "one-picture-of-film"),
        (sequence, {}, "b.png", "one-picture-of-sequence"),
        (media(), {"codec": "prores"}, "b.mp4", "codec-in-container"),
        (media(), {"codec": "prores"}, "b_%d.png", "codec-in-picture"),
        (media(), {"codec": "ffv1", "container": "mov"}, "", "codec-in-container"),
    ):
        with pytest.raises(ContainerMismatch) as caught:
            choose_container(about, JobSettings(**settings), Path(output) if output else None)
        assert caught.value.case == case
        assert caught.value.hint


def test_what_is_left_out_has_a_notice_that_proposes_mkv() -> None:
    font = StreamInfo(index=4, kind="attachment", codec="ttf")
    about = media("a.mkv", (sound("aac"), subtitle("hdmv_pgs_subtitle"), font))
    assert all(p.copied for p in plan_streams(about, "mkv"))
    assert [p.copied for p in plan_streams(about, "mp4")] == [True, False, False]
    notices = [*stream_notices(about, "mp4")]
    assert [n.code for n in notices] == ["stream-left-out", "stream-left-out", "container-changed"]
    assert [n.message for n in notices] == [
        "Stream 2 (subtitle, hdmv_pgs_subtitle) is left out: MP4 does not support "
        "hdmv_pgs_subtitle.",
        "Stream 4 (attachment, ttf) is left out: MP4 does not support attachments.",
        "The format of the result is MP4; the source has MKV.",
    ]
    assert all("MKV" in n.hint for n in notices[:2])
    mov_text = media("a.mp4", (subtitle("mov_text"),))
    found = [*stream_notices(mov_text, "mkv")]
    assert [n.code for n in found] == ["text-converted", "container-changed"]
    assert "MP4" in found[0].hint
    nowhere = stream_notices(media("a.avi", (sound("wmav2"),)), "mkv")
    assert [(n.code, n.hint) for n in nowhere] == [("stream-left-out", "")]


def test_chapters_and_time_code_are_written_again_without_a_notice() -> None:
    chapters = (ChapterInfo(start=Fraction(0), end=Fraction(1)),)
    track = StreamInfo(index=3, kind="data", codec="text")
    code = StreamInfo(index=4, kind="data", codec="tmcd")
    about = replace(media("a.mp4", (track, code)), chapters=chapters)
    assert not any(p.copied for p in plan_streams(about, "mp4"))
    assert [*stream_notices(about, "mp4")] == []
    assert [n.params["index"] for n in stream_notices(replace(about, chapters=()), "mp4")] == ["3"]


def test_what_a_camera_measures_is_kept_where_the_container_takes_it() -> None:
    chapters = (ChapterInfo(start=Fraction(0), end=Fraction(1)),)
    measured = StreamInfo(index=3, kind="data", codec="bin_data")
    about = replace(media("a.mp4", (measured,)), chapters=chapters)
    for container in ("mp4", "mov"):
        assert [p.copied for p in plan_streams(about, container)] == [True]
    left_out, _ = stream_notices(about, "mkv")
    assert left_out.message == (
        "Stream 3 (data track, bin_data) is left out: this kind of data cannot be written into MKV."
    )
    assert "MOV" in left_out.hint or "MP4" in left_out.hint


def test_the_gpu_is_used_when_it_works_and_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "encoder_works", lambda name: True)
    assert plan(media()).encoder == "h264_nvenc"
    assert plan(media(bit_depth=10)).pixel_format == "p010le"
    assert plan(media(), encoder="cpu").encoder == "libx264"
    assert plan(media(), size=Size(64, 64)).encoder == "libx264"  # too small for a GPU
    assert plan(media(), size=Size(8192, 4320)).encoder == "libx264"
    assert plan(media(), codec="hevc", chroma="422").encoder == "libx265"


def test_a_missing_encoder_or_an_impossible_size_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def case_of(**wanted: Any) -> str:
        with pytest.raises(EncoderMissing) as caught:
            plan(media(), **wanted)
        assert caught.value.hint
        return caught.value.case

    assert all(encoder_works(ON_PROCESSOR[codec].name) for codec in CODECS[1:])
    assert case_of(codec="hevc", size=Size(8, 8)) == "size"
    monkeypatch.setattr(codecs, "encoder_works", lambda name: not name.endswith("nvenc"))
    case_of(encoder="nvenc")
    assert plan(media()).encoder == "libx264"
    monkeypatch.setattr(codecs, "encoder_works", lambda name: False)
    assert case_of(codec="av1") == "none-at-all"


def test_predicted_size_falls_with_crf_and_rises_with_chroma() -> None:
    good, poor = plan(media(), crf=12), plan(media(), crf=28)
    assert estimated_bits_per_pixel(good) > 4 * estimated_bits_per_pixel(poor)
    sub = estimated_bits_per_pixel(plan(media(), codec="ffv1"))
    assert estimated_bits_per_pixel(plan(media(chroma="444"), codec="ffv1")) > sub


def test_every_encoder_format_has_the_layout_that_ffmpeg_says() -> None:
    for encoder in ENCODERS.values():
        for (chroma, depth, alpha), name in encoder.formats.items():
            layout = layout_of(name)
            assert (layout.chroma, layout.bit_depth, layout.has_alpha) == (chroma, depth, alpha)


CODERS = ("aac", "ac3", "mp2", "alac", "flac", "libopus", "pcm_s16le")


def test_the_table_of_sound_codecs_is_that_of_the_muxers(tmp_path: Path) -> None:
    for coder in CODERS:
        codec = coder.removeprefix("lib")
        source = make_clip(tmp_path / "a.mkv", frames=3, audio_tracks=1, audio_codec=coder)
        for name, container in CONTAINERS.items():
            written = is_written(source, tmp_path / "copy", container.muxer)
            assert (codec in container.audio) is written, f"{codec} in {name}"


def is_written(source: Path, target: Path, muxer: str) -> bool:
    try:
        copied(source, target, kind="audio", format=muxer)
    except (av.FFmpegError, ValueError):
        return False
    return True
