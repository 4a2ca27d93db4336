import errno
import os
import random
import struct
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import pytest

from engine.core.errors import (
    EngineError,
    SourceMissing,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
)
from engine.core.geometry import Size
from engine.protocol.media import ChapterInfo, ColourTags
from engine.video.read.media_file import is_truncated
from engine.video.read.probe import probe
from engine.video.read.stream_info import hdr_metadata_of
from tests.helpers.clips import cut_short, make_clip, make_picture, make_pictures
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg

HDR = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}


def test_a_plain_film_is_described_completely(tmp_path: Path) -> None:
    tags = {"matrix": "bt709", "range": "tv", "primaries": "bt709", "transfer": "bt709"}
    path = make_clip(
        tmp_path / "a.mp4", frames=12, rate=Fraction(30000, 1001), tags=tags, audio_tracks=2
    )
    media = probe(path)
    video = media.video
    assert (media.path, media.kind, media.bytes) == (path, "video", path.stat().st_size)
    assert (video.codec, video.size, video.pixel_format) == ("h264", Size(96, 64), "yuv420p")
    assert (video.chroma, video.bit_depth, video.has_alpha) == ("420", 8, False)
    assert video.frame_rate == Fraction(30000, 1001)
    assert (video.frame_count, video.frame_count_is_exact) == (12, True)
    assert video.duration is not None
    assert abs(video.duration - 12 / Fraction(30000, 1001)) < Fraction(1, 1000)
    assert (video.sample_aspect, video.rotation, video.is_interlaced) == (1, 0, False)
    assert video.tags == ColourTags(
        matrix="bt709", range="tv", primaries="bt709", transfer="bt709", chroma_location="left"
    )
    assert (video.hdr, video.language, media.is_cut_short) == ("", "eng", False)
    assert video.bit_rate > 0
    sounds = media.audio_streams
    assert [(s.codec, s.language, s.channels, s.sample_rate) for s in sounds] == [
        ("aac", "eng", 1, 48000),
        ("aac", "deu", 2, 48000),
    ]


def test_other_streams_chapters_and_metadata_are_listed(tmp_path: Path) -> None:
    texts = ["subrip", "ass", "hdmv_pgs_subtitle"]
    about = {"attachments": {"font.ttf": b"abc"}, "metadata": {"title": "A film"}}
    path = tmp_path / "a.mkv"
    make_clip(path, frames=25, audio_tracks=1, subtitles=texts, chapters=2, **about)
    media = probe(path)
    assert [(s.index, s.kind, s.codec, s.file_name) for s in media.streams] == [
        (1, "audio", "aac", ""),
        (2, "subtitle", "subrip", ""),
        (3, "subtitle", "ass", ""),
        (4, "subtitle", "hdmv_pgs_subtitle", ""),
        (5, "attachment", "", "font.ttf"),
    ]
    assert [s.language for s in media.streams[1:4]] == ["eng", "deu", "fra"]
    assert media.streams[4].mime_type == "application/octet-stream"
    assert media.streams[0].title == "Sound 1"
    assert media.chapters == (
        ChapterInfo(start=Fraction(0), end=Fraction(1, 2), title="Chapter 1"),
        ChapterInfo(start=Fraction(1, 2), end=Fraction(1), title="Chapter 2"),
    )
    assert media.metadata["title"] == "A film"


def test_frames_are_counted_where_the_container_does_not(tmp_path: Path) -> None:
    for name in ("a.mkv", "a.ts", "a.webm", "a.avi", "a.h264"):
        codec = {"a.webm": "libvpx-vp9", "a.avi": "mpeg4"}.get(name, "libx264")
        video = probe(make_clip(tmp_path / name, frames=13, codec=codec)).video
        assert (video.frame_count, video.frame_count_is_exact) == (13, True), name
        assert video.duration == Fraction(13, 25)
    media = probe(make_clip(tmp_path / "one.mkv", frames=1))
    assert (media.kind, media.video.frame_count) == ("video", 1)


def test_rotation_and_mirror_are_read(tmp_path: Path) -> None:
    for degrees in (0, 90, 180, 270):
        for mirrored in (False, True):
            path = make_clip(tmp_path / "a.mp4", frames=2, rotation=degrees, mirrored=mirrored)
            video = probe(path).video
            assert (video.rotation, video.is_mirrored) == (degrees, mirrored)
            assert video.seen_size == (Size(64, 96) if degrees in (90, 270) else Size(96, 64))


def test_sample_aspect_ratio_and_field_order_are_read(tmp_path: Path) -> None:
    for name, order in (("a.mp4", "tt"), ("a.mkv", "bb")):
        path = make_clip(tmp_path / name, frames=4, sar=Fraction(16, 11), interlaced=order)
        video = probe(path).video
        assert video.sample_aspect == Fraction(16, 11)
        assert (video.is_interlaced, video.field_order) == (True, order)


def test_the_chroma_location_and_high_dynamic_range_are_read(tmp_path: Path) -> None:
    places = ("left", "center", "topleft", "top", "bottomleft", "bottom")
    for codec, name in (("libx264", "a.mp4"), ("libx265", "a.ts")):
        for number, place in enumerate(places):
            options = {f"{codec.removeprefix('lib')}-params": f"chromaloc={number}"}
            path = make_clip(tmp_path / name, frames=2, codec=codec, options=options)
            assert probe(path).video.tags.chroma_location == place, name
    for transfer, kind in (("smpte2084", "pq"), ("arib-std-b67", "hlg")):
        how = {"codec": "libx265", "pixel_format": "yuv420p10le"}
        tags = {**HDR, "transfer": transfer}
        video = probe(make_clip(tmp_path / "a.mkv", frames=2, tags=tags, **how)).video
        assert (video.hdr, video.bit_depth, video.tags.matrix) == (kind, 10, "bt2020nc")


@NEEDS_FFMPEG
def test_the_default_or_else_the_largest_picture_is_the_film(tmp_path: Path) -> None:
    small = make_clip(tmp_path / "s.mp4", frames=2, size=(32, 32))
    large = make_clip(tmp_path / "l.mp4", frames=2, size=(96, 64))
    join = ("-i", small, "-i", large, "-map", "0", "-map", "1", "-c", "copy")
    ffmpeg(*join, "-disposition", "0", tmp_path / "a.mkv")
    media = probe(tmp_path / "a.mkv")
    assert media.video.size == Size(96, 64)
    assert [(s.kind, s.codec) for s in media.streams] == [("video", "h264")]
    marked = ("-disposition:v:1", "0", "-disposition:v:0", "default")
    ffmpeg(*join, *marked, tmp_path / "b.mkv")
    assert probe(tmp_path / "b.mkv").video.size == Size(32, 32)


def test_unusual_names_are_only_names(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mkv", frames=2)
    names = ["100%d.mkv", "Ünï 漢字 😀.mkv", "-v.mkv"]
    names += [] if sys.platform == "win32" else ["a:b.mkv", "a?b*.mkv"]
    names += [os.fsdecode(b"\xff\xfe.mkv")] if sys.platform == "linux" else []
    for name in names:
        path = path.rename(tmp_path / name)
        assert probe(path).video.frame_count == 2


CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "text": b"What a film it was.\n" * 300,
    "noise": random.Random(1).randbytes(30_000),
    "html": b"<html><body>404 not found</body></html>",
    "playlist": b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nwhole.ts\n#EXT-X-ENDLIST\n",
    "list of files": b"ffconcat version 1.0\nfile whole.ts\n",
    "archive": b"PK\x03\x04" + bytes(400),
    "drawing": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
}
UNSUPPORTED = ("subtitles", "sound", "unknown codec", "no size", "absurd size")
BAD_FILES: dict[str, type[EngineError]] = {
    **dict.fromkeys(CONTENTS, UnreadableMedia),
    **dict.fromkeys(UNSUPPORTED, UnsupportedMedia),
    "cut off": TruncatedMedia,
}


def bad_file(folder: Path, what: str) -> Path:
    path = folder / f"{what.replace(' ', '_')}.mp4"
    if what in CONTENTS:
        path.write_bytes(CONTENTS[what])
    elif what == "subtitles":
        path.write_bytes(b"1\n00:00:00,000 --> 00:00:01,000\nHello\n")
    elif what == "sound":
        ffmpeg(*("-f", "lavfi", "-i", "anullsrc", "-t", "0.1", path))
    elif what == "cut off":
        cut_short(make_clip(folder / "whole.mp4", frames=30), path, 0.5)
    elif what == "unknown codec":
        make_clip(path, frames=3)
        path.write_bytes(path.read_bytes().replace(b"avc1", b"qqq1"))
    else:
        size = {"no size": 0, "absurd size": 100_000}[what]
        data = bytearray(make_clip(folder / "raw.avi", frames=2, codec="rawvideo").read_bytes())
        at = data.find(b"strf") + 12
        data[at : at + 8] = size.to_bytes(4, "little") * 2
        path.write_bytes(data)
    return path


@NEEDS_FFMPEG
def test_bad_files_are_refused_with_their_own_error(tmp_path: Path) -> None:
    make_clip(tmp_path / "whole.ts", frames=3)
    for what, error in BAD_FILES.items():
        path = bad_file(tmp_path, what)
        before = path.read_bytes()
        with pytest.raises(error) as caught:
            probe(path)
        assert type(caught.value) is error, what
        assert path.name in caught.value.message
        assert caught.value.hint
        assert path.read_bytes() == before
    for name in ("readme.txt", "a.ans", "a.nfo", "a.diz", "a.mkv", "a.png"):
        (tmp_path / name).write_text("\x1b[31mHello\n" * 50)
        with pytest.raises(UnreadableMedia):  # text is not drawn
            probe(tmp_path / name)


def test_what_is_no_file_has_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film = make_clip(tmp_path / "a.mp4", frames=1)
    for missing in (tmp_path / "nothing.mp4", film / "inside.mp4"):
        with pytest.raises(SourceMissing):
            probe(missing)
    with pytest.raises(UnsupportedMedia):
        probe(tmp_path)
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.mp4")
        with pytest.raises(SourceUnreadable):  # at once
            probe(tmp_path / "pipe.mp4")

    def locked(*_: object) -> None:
        raise PermissionError(errno.EACCES, "locked")

    monkeypatch.setattr(Path, "open", locked)
    with pytest.raises(SourceUnreadable) as caught:
        probe(film)
    assert caught.value.case == "not-permitted"


def test_counting_gives_up_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.video.read.probe.COUNT_SECONDS", -1.0)
    video = probe(make_clip(tmp_path / "a.mkv", frames=200, size=(32, 32))).video
    assert (video.frame_count, video.frame_count_is_exact) == (200, False)


def test_a_sequence_is_probed_as_a_whole(tmp_path: Path) -> None:
    pattern = make_pictures(tmp_path / "shots", 5, first=3)
    for name in (pattern, tmp_path / "shots"):
        media = probe(name)
        assert (media.kind, media.video.frame_count, media.first_number) == ("sequence", 5, 3)
        assert media.path == tmp_path / "shots" / "shot_0003.png"
        assert media.pattern == str(pattern)
        assert media.bytes == sum(file.stat().st_size for file in (tmp_path / "shots").iterdir())
    assert probe(media.path).kind == "image"


def test_a_missing_end_is_noticed(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.mov", "a.mkv", "a.webm", "a.avi", "a.png", "a.jpg"):
        codec = {"a.webm": "libvpx-vp9", "a.avi": "mpeg4"}.get(name, "libx264")
        if name in ("a.png", "a.jpg"):
            pixel_format = "rgb24" if name == "a.png" else "yuvj420p"
            whole = make_picture(tmp_path / name, pixel_format=pixel_format)
        else:
            whole = make_clip(tmp_path / name, frames=12, codec=codec)
        assert not is_truncated(whole), name
        for share in (0.3, 0.6, 0.95):
            cut = cut_short(whole, tmp_path / f"cut{whole.suffix}", share)
            assert is_truncated(cut), (name, share)


def _box(kind: bytes, *content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, content)), kind) + b"".join(content)


def _riff(*parts: tuple[int, int]) -> bytes:
    """RIFF parts of a stated and a real size."""
    return b"".join(
        b"RIFF" + struct.pack("<I", stated) + b"AVI " + bytes(real - 4) for stated, real in parts
    )


def test_only_what_is_cut_short_is_called_that(tmp_path: Path) -> None:
    head, index, samples = _box(b"ftyp", b"isom"), _box(b"moov", bytes(9)), _box(b"mdat", bytes(90))
    film, part = head + index + samples, _box(b"moof", bytes(20))
    picture = make_picture(tmp_path / "a.jpg", pixel_format="yuvj420p").read_bytes()
    drawing = make_picture(tmp_path / "a.png", pixel_format="rgb24").read_bytes()
    after = bytes(range(200)) * 400
    files = {
        "photograph, HEIF": (head + _box(b"meta", bytes(9)) + samples, False),
        "fragments": (head + index + part + samples, False),
        "fragment that breaks off": (head + index + part + samples[:-3], True),
        "segment without its beginning": (_box(b"styp", b"msdh") + part + samples, False),
        "without an index": (head + samples, True),
        "other data at the end": (film + b"\xff\xff\0\0SEFT" + after, False),
        "samples to the end": (head + index + b"\0\0\0\0mdat" + bytes(50), False),
        "motion photo": (picture + film + after, False),
        "JPEG that breaks off": (picture[: len(picture) * 2 // 3], True),
        "data after a PNG": (drawing + after, False),
        "PNG that breaks off": (drawing[:-14], True),
        "RIFF to a pipe": (_riff((0xFFFFFFFF, 500)), False),
        "RIFF without a size": (_riff((0, 500)), False),
        "OpenDML": (_riff((500, 500), (300, 300)), False),
        "OpenDML that breaks off": (_riff((500, 500), (300, 200)), True),
        "data after RIFF": (_riff((500, 500)) + after, False),
    }
    for name, (content, is_cut) in files.items():
        (tmp_path / "file").write_bytes(content)
        assert is_truncated(tmp_path / "file") is is_cut, name


@pytest.mark.parametrize("name", ["live.mkv", "live.webm", "fragmented.mp4"])
def test_live_recordings_are_whole(tmp_path: Path, name: str) -> None:
    """Written as to a pipe, so that no size is ever filled in."""
    buffer = _Pipe()
    how = {"movflags": "frag_keyframe+empty_moov"} if name.endswith("mp4") else {"live": "1"}
    kind = {"mkv": "matroska", "webm": "webm", "mp4": "mp4"}[name.partition(".")[2]]
    with av.open(buffer, "w", format=kind, options=how) as output:
        stream = output.add_stream("libvpx-vp9" if kind == "webm" else "libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        frames = [av.VideoFrame(64, 48, "yuv420p") for _ in range(3)]
        for number, frame in enumerate(frames):
            frame.pts = number
        for frame in (*frames, None):
            output.mux(stream.encode(frame))
    (tmp_path / name).write_bytes(buffer.data)
    assert not is_truncated(tmp_path / name)
    assert not probe(tmp_path / name).is_cut_short


class _Pipe:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


def test_other_files_count_as_whole(tmp_path: Path) -> None:
    assert not is_truncated(make_clip(tmp_path / "a.ts", frames=3))
    assert not is_truncated(tmp_path / "missing")
    for number, content in enumerate((b"", b"x", b"\x1a\x45\xdf\xa3", bytes(100))):
        (tmp_path / f"{number}").write_bytes(content)
        assert not is_truncated(tmp_path / f"{number}")


def test_hdr_metadata_without_a_denominator_is_none():
    def frame(*kinds: str, data: bytes = b"") -> SimpleNamespace:
        return SimpleNamespace(side_data=[_SideData(data, kind) for kind in kinds])

    damaged = frame("MASTERING_DISPLAY_METADATA", data=bytes(88))
    assert hdr_metadata_of([damaged], "hevc") is None, "fractions without a denominator"


class _SideData(bytearray):
    def __init__(self, data: bytes, kind: str) -> None:
        super().__init__(data)
        self.type = SimpleNamespace(name=kind)
