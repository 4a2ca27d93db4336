"""What a video states beside its frames: read, named before the start, written, missed."""

import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest
from PIL import Image

from engine.protocol.media import MediaInfo, Statement
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read import statements
from engine.video.read.examination import examined
from engine.video.read.hdr10_plus import UNWRITABLE, hdr10_plus_message
from engine.video.read.probe import probe
from engine.video.read.statements import side_data_of, stated_by
from engine.video.write.statements import StatedResult, statement_notices
from tests.helpers.clips import make_clip
from tests.helpers.jobs import plan_of, run
from tests.helpers.plans import a_media
from tests.helpers.results import make_identity
from tests.helpers.stated import (
    AFD,
    caption,
    captioned,
    dynamic,
    with_dynamic,
    with_facts,
    with_message,
)

EQUI = "0,0,0,0,0,0,0,0,0"


def stated(path: Path) -> dict[str, str]:
    return {one.kind: one.value for one in probe(path).statements}


def notices(media: MediaInfo, **place: Any) -> list[tuple[str, str]]:
    result = StatedResult(**{"container": "mkv", "codec": "h264", "frame_rate": None, **place})
    return [(one.code, one.case) for one in statement_notices(media, result)]


def stating(kind: str, value: str = "") -> MediaInfo:
    return replace(a_media(), statements=(Statement(kind=kind, value=value),))


def frame_with(kind: str, data: bytes) -> SimpleNamespace:
    class Data(bytearray):
        type = SimpleNamespace(name=kind)

    return SimpleNamespace(side_data=[Data(data)])


def dolby(colour_space: int) -> bytes:
    colours = bytes(185) + bytes([colour_space])
    return struct.pack("<3Q", 0, 0, 24) + colours


FRAMES = {
    ("A53_CC", b"abc"): {"captions": ""},
    ("STEREO3D", struct.pack("<9i", 1, 1, 0, *[0] * 6)): {"stereo3d": "1i"},
    ("STEREO3D", struct.pack("<9i", 8, 0, 2, *[0] * 6)): {"stereo3d": "8v2"},
    ("STEREO3D", bytes(36)): {},
    ("SPHERICAL", struct.pack("<9i", *range(9))): {"spherical": "0,1,2,3,4,5,6,7,8"},
    ("S12M_TIMECODE", struct.pack("<4I", 1, 0x12345610, 0, 0)): {"time-code": "10:56:34:12"},
    ("GOP_TIMECODE", struct.pack("<q", 1 << 24 | 10 << 19 | 4 << 6 | 2)): {
        "time-code": "10:00:04;02"
    },
    ("GOP_TIMECODE", struct.pack("<q", 1 << 12)): {},
    ("DOVI_METADATA", dolby(2)): {"dolby-vision": "ipt"},
    ("DOVI_METADATA", dolby(0)): {"dolby-vision": ""},
    ("DYNAMIC_HDR_PLUS", b"x"): {"hdr10-plus": UNWRITABLE},
    ("AFD", b"\x09"): {"afd": ""},
    ("SEI_UNREGISTERED", b"x264"): {},
    ("CONTENT_LIGHT_LEVEL", bytes(8)): {},
    ("SOMETHING_NEW", b"x"): {"something-new": ""},
}


@pytest.mark.parametrize(("kind", "data"), FRAMES)
def test_every_kind_of_side_data_is_a_statement_or_known_to_be_none(kind: str, data: bytes) -> None:
    assert stated_by(frame_with(kind, data), "hevc") == FRAMES[kind, data]


def test_a_kind_without_a_name_does_not_hide_the_others(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Maker"
    profile = b"\0" * 128
    Image.new("RGB", (32, 16)).save(tmp_path / "a.jpg", exif=exif, icc_profile=profile)
    with av.open(str(tmp_path / "a.jpg")) as file:
        frame = next(file.decode(video=0))
    assert side_data_of(frame, "mjpeg")["side-data-31"] == b""
    assert "icc-profile" in side_data_of(frame, "mjpeg")


DESCRIBED = """Input #0, mov,mp4, from '':
  Metadata:
    comment         : a
                    :     Side data:
  Stream group #0:0[0x1]: Tile Grid: hevc, yuv420p, 1024x768 (default)
  Stream #0:0[0x1](und): Audio: aac
    Side data:
      Audio Service Type: main
  Stream #0:1[0x2](und): Video: hevc (Main 10)
    Metadata:
      handler_name    : VideoHandler
    Side data:
      DOVI configuration record: version: 1.0, profile: 8, level: 6, compatibility id: 1
      CPB properties: bitrate max/min/avg: 0/0/0
      Frame Cropping: 16/16/8/8
      SMPTE ST 12-1:2014 timecode: 00:00:01:02
      unknown side data type 99 (16 bytes)
  Stream #0:2: Video: png
"""


def test_side_data_of_streams_is_read_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "described", lambda container: DESCRIBED)
    container: Any = SimpleNamespace(metadata={}, streams=[])
    found = {one.kind: one.value for one in statements.stream_statements(container, 1)}
    assert found == {
        "dolby-vision": "8.1",
        "stream-group": "tile grid",
        "time-code": "",
        "unknown-side-data-type-99-16-bytes": "",
    }


NAMED = [
    (stating("dolby-vision", "5.0"), {}, "dolby-vision-colours"),
    (stating("dolby-vision", "10.0"), {}, "dolby-vision-colours"),
    (stating("dolby-vision", "ipt"), {}, "dolby-vision-colours"),
    (stating("dolby-vision", "8.1"), {}, "dynamic-hdr"),
    (stating("dolby-vision", "7.6"), {}, "dynamic-hdr"),
    (stating("hdr10-plus"), {}, "hdr10-plus"),
    (stating("hdr10-plus", UNWRITABLE), {"codec": "hevc"}, "dynamic-hdr"),
    (stating("captions"), {"codec": "ffv1"}, "captions"),
    (stating("captions"), {"container": "image"}, "pictures"),
    (stating("stereo3d", "4"), {}, "stereo3d"),
    (stating("stereo3d", "8v2"), {}, "stereo3d"),
    (stating("stereo3d", "1i"), {"container": "mp4"}, "stereo3d"),
    (stating("spherical", "3,0,0,0,0,0,0,0,0"), {}, ""),
    (stating("spherical", EQUI), {"is_rotated": True}, ""),
    (stating("time-code", "01:00:00;00"), {"frame_rate": 24, "container": "mov"}, ""),
    (stating("time-code", "01:00:00:00"), {"is_from_start": False}, "time-code-of-part"),
    (stating("something-new"), {}, ""),
]
KEPT = [
    (stating("captions"), {"codec": "av1"}),
    (stating("hdr10-plus"), {"codec": "hevc"}),
    (stating("stereo3d", "1i"), {}),
    (stating("spherical", EQUI), {"container": "mov", "is_rotated": True}),
    (stating("time-code", "01:00:00;00"), {"frame_rate": 30}),
]


def test_what_the_result_will_not_state_is_named_before_the_start() -> None:
    for media, place, case in NAMED:
        ((code, found),) = notices(media, **place)
        assert (found or code) == (case or "statement-left-out"), media.statements
    for media, place in KEPT:
        assert not notices(media, **place), media.statements


@pytest.mark.parametrize("codec", ["libx264", "libx265", "libsvtav1"])
def test_captions_are_those_of_the_source(codec: str, tmp_path: Path) -> None:
    source = captioned(tmp_path / "a.mkv", frames=20)
    names: dict[str, Any] = {"libx264": "h264", "libx265": "hevc", "libsvtav1": "av1"}
    name = names[codec]
    result = tmp_path / "result.mp4"
    plan = make_identity(source, result, JobSettings(model="none", codec=name))
    with av.open(str(result)) as file:
        found = [side_data_of(frame, name)["a53-cc"] for frame in file.decode(video=0)]
    assert found == [caption(number) for number in range(20)]
    report = verify(source, result, plan=plan)
    assert report.passed, report.problems


def test_long_captions_are_cut_into_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = b"".join(caption(number) for number in range(70))
    monkeypatch.setattr("tests.helpers.stated.caption", lambda number: long)
    source = captioned(tmp_path / "a.mkv", frames=3)
    with av.open(str(source)) as file:
        found = [side_data_of(frame, "h264")["a53-cc"] for frame in file.decode(video=0)]
    assert found == 3 * [long]


@pytest.mark.parametrize(("name", "is_rich"), [("hevc", True), ("hevc", False), ("av1", True)])
def test_each_frame_keeps_its_metadata_of_hdr10_plus(
    name: str, is_rich: bool, tmp_path: Path
) -> None:
    source, result = with_dynamic(tmp_path / "a.mkv", is_rich=is_rich), tmp_path / "b.mkv"
    assert stated(source) == {"hdr10-plus": ""}
    plan = make_identity(source, result, JobSettings(model="none", codec=name))
    assert not notices(probe(source), codec=name)
    with av.open(str(result)) as file:
        frames = [side_data_of(frame, name) for frame in file.decode(video=0)]
    found = [hdr10_plus_message(one["dynamic-hdr-plus"]) for one in frames]
    assert found == [dynamic(number, is_rich=is_rich) for number in range(12)]
    report = verify(source, result, plan=plan)
    assert report.passed, report.problems


def test_lost_or_changed_metadata_of_hdr10_plus_is_missed(tmp_path: Path) -> None:
    source = with_dynamic(tmp_path / "a.mkv")
    bare, other = tmp_path / "plain.mkv", with_dynamic(tmp_path / "b.mkv", is_rich=False)
    for result, words in ((bare, "HDR10+: lost"), (other, "not as in the source")):
        problems = {one.code: str(one.message) for one in verify(source, result).problems}
        assert words in problems["statements"], problems


def test_metadata_of_several_windows_are_named(tmp_path: Path) -> None:
    source = with_dynamic(tmp_path / "a.mkv", windows=2)
    assert stated(source) == {"hdr10-plus": UNWRITABLE}
    result = tmp_path / "b.mkv"
    plan = make_identity(source, result, JobSettings(model="none"))
    assert notices(probe(source), codec="hevc") == [("statement-left-out", "dynamic-hdr")]
    assert verify(source, result, plan=plan).passed
    with av.open(str(with_dynamic(tmp_path / "c.mkv", frames=1))) as file:
        whole = side_data_of(next(file.decode(video=0)), "hevc")["dynamic-hdr-plus"]
    assert hdr10_plus_message(whole) == dynamic(0)
    assert hdr10_plus_message(whole[:-1]) == b""  # of another FFmpeg
    assert (
        hdr10_plus_message(whole[:3] + b"\xff" * (len(whole) - 3)) == b""
    )  # one window of nonsense


def test_captions_that_begin_late_are_kept_too(tmp_path: Path) -> None:
    source = captioned(tmp_path / "a.mkv", frames=100, first=90, size=(32, 32), gop=100)
    assert "captions" not in stated(source)
    plan = plan_of(source, tmp_path / "b.mkv", JobSettings(model="none"))
    assert not plan.notices or all(one.code != "statement-left-out" for one in plan.notices)
    run(plan, tmp_path / "job")
    report = verify(source, plan.output)
    assert report.passed, report.problems
    assert report.statements == ("captions",)


SOURCES = {
    "stereo3d": lambda path: with_facts(path, stereo3d="1"),
    "spherical": lambda path: with_facts(path, spherical=EQUI),
    "captions": captioned,
    "time-code": lambda path: make_clip(path, metadata={"timecode": "01:00:00:00"}),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_statement_that_is_taken_from_the_result_is_missed(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path / "a.mkv")
    good, bad = tmp_path / "good.mkv", tmp_path / "bad.mkv"
    make_identity(source, good)
    assert verify(source, good).passed
    plain = make_clip(tmp_path / "other.mkv")
    make_identity(plain, bad)
    problems = {one.code: str(one.message) for one in verify(source, bad).problems}
    assert "lost" in problems["statements"]


def test_a_statement_that_changes_is_missed(tmp_path: Path) -> None:
    source, result = tmp_path / "a.mkv", tmp_path / "b.mkv"
    with_facts(source, stereo3d="1")
    with_facts(result, stereo3d="2")
    problems = {one.code: str(one.message) for one in verify(source, result).problems}
    assert "not as in the source" in problems["statements"]


def test_what_is_left_out_is_counted_in_the_report(tmp_path: Path) -> None:
    source = with_message(tmp_path / "a.mkv", AFD)
    assert stated(source) == {"afd": ""}
    result = tmp_path / "b.mkv"
    make_identity(source, result)
    report = verify(source, result)
    (check,) = (one for one in report.checks if one.code == "statements")
    assert report.passed
    assert "1 left out" in str(check.message), check.message
    assert "active format" in str(check.message)


def test_side_data_of_later_frames_is_found_by_the_examination(tmp_path: Path) -> None:
    source = captioned(tmp_path / "a.mkv", frames=30, first=10)
    assert "captions" not in stated(source)
    assert [one.kind for one in examined(probe(source)).statements] == ["captions"]


def test_a_time_code_of_the_middle_is_not_that_of_the_beginning(tmp_path: Path) -> None:
    options = {"gop_timecode": "00:00:00:00"}
    source = make_clip(
        tmp_path / "a.mkv", codec="mpeg2video", options=options, frames=120, size=(32, 32), gop=5
    )
    assert stated(source) == {}
    assert "time-code" not in {one.kind for one in examined(probe(source)).statements}


@pytest.mark.parametrize(("code", "written"), [("01:00:00.02", "01:00:00;02"), ("x", "x")])
def test_a_time_code_is_compared_whatever_its_sign(code: str, written: str, tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", rate=Fraction(30), metadata={"timecode": code})
    assert stated(source) == {"time-code": written}
    for suffix in ("mkv", "mov"):
        make_identity(source, tmp_path / f"b.{suffix}")
        assert verify(source, tmp_path / f"b.{suffix}").passed


def test_time_codes_of_frames_become_that_of_the_result(tmp_path: Path) -> None:
    options = {"gop_timecode": "10:00:00:00"}
    source = make_clip(tmp_path / "a.mkv", codec="mpeg2video", options=options)
    assert stated(source) == {"time-code": "10:00:00:00"}
    for suffix in ("mkv", "mov"):
        make_identity(source, tmp_path / f"b.{suffix}")
        assert stated(tmp_path / f"b.{suffix}") == {"time-code": "10:00:00:00"}
