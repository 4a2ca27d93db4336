import contextlib
import itertools
import random
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.errors import InputError, ResultHeldBack, SourceMissing
from engine.planner.target import frames_between
from engine.protocol.media import FrameMark, MediaInfo, VideoInfo
from engine.video.read.clock import PartClock, film_jumps
from engine.video.read.decoder import VideoDecoder
from engine.video.read.frame_reader import FrameReader, frame_at
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from tests.helpers.clips import cut_short, make_clip, make_picture, make_pictures, read_number
from tests.helpers.disks import FailingReads
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg

COUNT = 24
UNEVEN = [Fraction(number * 40 + number * 7 % 23, 1000) for number in range(COUNT)]
REFRESH = {"x264-params": "intra-refresh=1"}
DEEP = {"pixel_format": "yuv420p10le", "b_frames": 3}
OPEN = {"x264-params": "open-gop=1:keyint=8:min-keyint=8:scenecut=0:bframes=3"}

CLIPS: dict[str, tuple[str, dict[str, Any]]] = {
    "h264 with B-frames in MP4": ("a.mp4", {"gop": 8}),
    "h264 with open groups in MKV": ("a.mkv", {"options": OPEN}),
    "h264 in MPEG-TS with sound": ("a.ts", {"gop": 8, "audio_tracks": 1}),
    "h264 without any times": ("a.h264", {"gop": 8}),
    "h264 with intra refresh": ("a.mp4", {"b_frames": 0, "options": REFRESH}),
    "hevc 10 bit with open groups": ("a.mkv", {"codec": "libx265", **DEEP, "gop": 8}),
    "variable rate in MKV": ("a.mkv", {"gop": 8, "vfr_times": UNEVEN}),
    "variable rate in MP4": ("a.mp4", {"gop": 8, "vfr_times": UNEVEN}),
    "ntsc in MOV": ("a.mov", {"rate": Fraction(24000, 1001), "gop": 8}),
    "vp9 in WebM": ("a.webm", {"codec": "libvpx-vp9", "options": {"g": "8"}}),
    "mpeg4 in AVI": ("a.avi", {"codec": "mpeg4", "gop": 8}),
    "motion jpeg in AVI": ("a.avi", {"codec": "mjpeg", "pixel_format": "yuvj420p"}),
    "prores in MOV": ("a.mov", {"codec": "prores_ks", "pixel_format": "yuv422p10le"}),
    "ffv1 with alpha": ("a.mkv", {"codec": "ffv1", "pixel_format": "yuva444p10le"}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MediaInfo]:
    folder = tmp_path_factory.mktemp("clips")

    @cache
    def get(name: str) -> MediaInfo:
        place = folder / name
        place.mkdir()
        if name == "numbered pictures":
            return probe(make_pictures(place, COUNT, first=7))
        if name == "one picture":
            return probe(make_picture(place / "a.png", 0))
        file, changes = CLIPS[name]
        return probe(make_clip(place / file, frames=COUNT, **changes))

    return get


def read(media: MediaInfo, **how: Fraction) -> list[PlanarFrame]:
    with FrameReader(media, **how) as reader:
        frames = list(reader)
    assert reader.problems == []
    return frames


def facts(frames: list[PlanarFrame]) -> list[tuple[int, int]]:
    return [(frame.pts, frame.crc) for frame in frames]


@pytest.mark.parametrize("name", [*CLIPS, "numbered pictures", "one picture"])
def test_every_frame_comes_once_in_order(made: Callable[[str], MediaInfo], name: str) -> None:
    media = made(name)
    whole = read(media)
    green = 1 if media.video.chroma == "rgb" else 0
    assert [read_number(frame.planes[green]) for frame in whole] == list(range(len(whole)))
    assert len(whole) == media.video.frame_count == (1 if name == "one picture" else COUNT)
    assert media.video.frame_count_is_exact
    assert_plain_code_values(media.video, whole[0])
    if name != "one picture":
        assert_same_after_any_frame(media, facts(whole))
        assert_same_when_left(media, facts(whole))
        assert_same_in_a_span(media, whole)
        assert_shown_at_its_time(media, whole)


EVEN = [*(name for name in CLIPS if not name.startswith("variable")), "numbered pictures"]


@pytest.mark.parametrize("name", EVEN)
def test_plans_count_the_frames_of_a_part_as_they_are_read(made, name: str) -> None:
    media = made(name)
    stamps = [frame.pts for frame in read(media)]
    moments = [*(Fraction(number, 50) for number in range(50)), Fraction("0.4794")]
    before = {one: bisect_left(stamps, media.time_stamp(one)) for one in moments}
    parts = [(one, None) for one in moments] + [(None, one) for one in moments]
    for apart in (-1, 0, 1, 5):
        parts += zip(moments, [*moments[apart:], *moments[:apart]], strict=True)
    for start, stop in parts:
        expected = before.get(stop, COUNT) - before.get(start, 0)
        assert frames_between(media, start, stop) == max(1, expected), (start, stop)


def assert_plain_code_values(video: VideoInfo, frame: PlanarFrame) -> None:
    assert len(frame.planes) == 3 + video.has_alpha
    for plane in frame.planes:
        assert plane.dtype == (np.uint8 if video.bit_depth == 8 else np.uint16)
        assert plane.flags.c_contiguous
        assert plane.flags.writeable
        assert int(plane.max()) < 1 << video.bit_depth
    assert frame.planes[0].shape == (video.size.height, video.size.width)


def assert_same_after_any_frame(media: MediaInfo, whole: list[tuple[int, int]]) -> None:
    for done in (0, 1, 7, 8, 9, 13, 17, COUNT - 1, COUNT):
        pts, crc = whole[done - 1]
        with FrameReader(media) as reader:
            rest = facts(list(reader.iter_after(FrameMark(count=done, pts=pts, crc=crc))))
        assert rest == whole[done:], f"after {done} frames"


def assert_same_when_left(media: MediaInfo, whole: list[tuple[int, int]]) -> None:
    with FrameReader(media) as reader:
        for done, count in ((0, 2), (2, 3), (9, 4), (13, 1), (14, 0), (16, 2), (5, 3), (19, COUNT)):
            pts, crc = whole[done - 1]
            rest = reader.iter_after(FrameMark(count=done, pts=pts, crc=crc))
            assert facts(list(itertools.islice(rest, count))) == whole[done : done + count], done


def assert_same_in_a_span(media: MediaInfo, whole: list[PlanarFrame]) -> None:
    clock = [frame.pts * media.video.time_base - media.start for frame in whole]
    for first, last in ((0, 3), (6, 12), (9, 10), (16, COUNT - 1)):
        span = read(media, start=clock[first], stop=clock[last])
        assert facts(span) == facts(whole[first:last])
    with FrameReader(media, start=clock[6], stop=clock[20]) as reader:
        mark = FrameMark(count=5, pts=whole[10].pts, crc=whole[10].crc)
        assert facts(list(reader.iter_after(mark))) == facts(whole[11:20])


def assert_shown_at_its_time(media: MediaInfo, whole: list[PlanarFrame]) -> None:
    for number in (0, 1, 8, 15, COUNT - 1):
        moment = whole[number].pts * media.video.time_base - media.start
        assert frame_at(media, float(moment) + 1e-4).crc == whole[number].crc
    assert frame_at(media, -5.0).crc == whole[0].crc
    assert frame_at(media, 1e6).crc == whole[-1].crc


def test_times_follow_the_clip_exactly(made: Callable[[str], MediaInfo]) -> None:
    for name in CLIPS:
        media = made(name)
        times = [frame.pts * media.video.time_base for frame in read(media)]
        rate = Fraction(24000, 1001) if name == "ntsc in MOV" else Fraction(25)
        expected = [number / rate for number in range(COUNT)]
        if name.startswith("variable rate"):
            expected = UNEVEN
        assert [time - times[0] for time in times] == expected, name


def test_seeking_is_used_with_an_index(
    made: Callable[[str], MediaInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: FrameReader, mark: FrameMark) -> None:
        raise AssertionError("read from the beginning")

    media = made("h264 with B-frames in MP4")
    whole = facts(read(media))
    monkeypatch.setattr(FrameReader, "_counted", never)
    pts, crc = whole[19]
    with FrameReader(media) as reader:
        rest = facts(list(reader.iter_after(FrameMark(count=20, pts=pts, crc=crc))))
    assert rest == whole[20:]


def test_reading_goes_on_where_it_was_left(
    made: Callable[[str], MediaInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[VideoDecoder] = []
    open_file = VideoDecoder._open
    monkeypatch.setattr(
        VideoDecoder, "_open", lambda self: (opened.append(self), open_file(self))[1]
    )
    media = made("h264 with B-frames in MP4")
    whole = facts(read(media))
    opened.clear()
    with FrameReader(media) as reader:
        for done in (17, 18, 21, 17):  # the last one was passed
            pts, crc = whole[done - 1]
            next(reader.iter_after(FrameMark(count=done, pts=pts, crc=crc)))
    assert len(opened) == 2


def test_a_mark_that_no_longer_fits_is_a_problem(made: Callable[[str], MediaInfo]) -> None:
    media = made("h264 with B-frames in MP4")
    whole = facts(read(media))
    with FrameReader(media) as reader:
        rest = facts(list(reader.iter_after(FrameMark(count=10, pts=whole[9][0], crc=1))))
    assert rest == whole[10:]
    assert any("interrupted" in str(problem) for problem in reader.problems)


@NEEDS_FFMPEG
def test_an_edit_list_hides_the_frames_before_it(tmp_path: Path) -> None:
    source, target = make_clip(tmp_path / "a.mp4", frames=20, gop=10), tmp_path / "b.mp4"
    ffmpeg("-ss", "0.56", "-i", source, "-c", "copy", target)
    media = probe(target)
    frames = read(media)
    assert read_number(frames[0].planes[0]) == 14
    assert len(frames) == media.video.frame_count
    assert media.video.frame_count_is_exact


def test_a_film_that_is_cut_off_gives_its_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = make_clip(tmp_path / "a.mp4", frames=40, container_options={"movflags": "faststart"})
    media = probe(cut_short(whole, tmp_path / "cut.mp4", 0.6))
    assert media.is_cut_short
    with FrameReader(media) as reader:
        frames = list(reader)
    assert 5 < len(frames) < 40
    assert [read_number(f.planes[0]) for f in frames[:5]] == [0, 1, 2, 3, 4]
    assert any("ends early" in str(problem) for problem in reader.problems)
    assert capfd.readouterr() == ("", ""), "FFmpeg's own words"
    assert av.logging.get_level() is None


@pytest.mark.parametrize(("size", "must_be_whole"), [(400, False), (40, True)])
def test_frames_after_damage_are_read_and_the_damage_is_a_problem(
    tmp_path: Path, size: int, must_be_whole: bool
) -> None:
    """Damage inside of the file is no missing frame."""
    data = bytearray(make_clip(tmp_path / "a.mkv", frames=30, gop=5).read_bytes())
    middle = len(data) // 2
    data[middle : middle + size] = bytes(size)
    (tmp_path / "b.mkv").write_bytes(data)
    with FrameReader(probe(tmp_path / "b.mkv"), must_be_whole=must_be_whole) as reader:
        frames = list(reader)
    assert len(frames) >= 15
    assert read_number(frames[-1].planes[0]) == 29
    assert reader.problems


def test_reading_a_badly_damaged_film_comes_to_an_end(tmp_path: Path) -> None:
    """Threads of the HEVC decoder once waited for each other for ever."""
    codecs = ("libx264", "libx265")
    clips = [make_clip(tmp_path / "a.mkv", frames=20, codec=c, gop=10).read_bytes() for c in codecs]
    for seed in range(24):
        draw, data = random.Random(seed), bytearray(clips[seed % 2])
        for _ in range(20):
            data[draw.randrange(800, len(data))] = draw.randrange(256)
        (tmp_path / "b.mkv").write_bytes(data)
        with (
            contextlib.suppress(InputError),  # refused: also an end
            FrameReader(probe(tmp_path / "b.mkv")) as reader,
        ):
            assert len(list(reader)) <= 20


def test_a_change_of_size_and_format_is_brought_back(tmp_path: Path) -> None:
    parts = [
        make_clip(tmp_path / "a.h264", frames=5, size=(96, 64)),
        make_clip(tmp_path / "b.h264", frames=5, size=(128, 96), pixel_format="yuv444p"),
    ]
    joined = tmp_path / "joined.h264"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    media = probe(joined)
    with FrameReader(media) as reader:
        frames = list(reader)
    assert len(frames) == 10
    assert {tuple(p.shape for p in f.planes) for f in frames} == {((64, 96), (32, 48), (32, 48))}
    assert [read_number(f.planes[0]) for f in frames] == [0, 1, 2, 3, 4] * 2
    assert any("128x96" in str(problem) for problem in reader.problems)


def test_a_clock_that_jumps_back_goes_on(tmp_path: Path) -> None:
    part = make_clip(tmp_path / "a.ts", frames=30).read_bytes()
    (tmp_path / "thrice.ts").write_bytes(part * 3)
    media = probe(tmp_path / "thrice.ts")
    with FrameReader(media) as reader:
        stamps = [frame.pts for frame in reader]
    assert [after - before for before, after in itertools.pairwise(stamps)] == [3600] * 89
    jumps = film_jumps(media)
    assert jumps == (Fraction(30, 25), Fraction(60, 25)), "as long as the parts before"
    clock = PartClock(Fraction(1, 100), jumps, None)  # of subtitles, in 1/100 s
    assert [clock.moved(time) for time in (5, 110, 5, 90, 7)] == [5, 110, 125, 210, 247]
    assert any("jump back" in str(problem) for problem in reader.problems)


@NEEDS_FFMPEG
def test_a_clock_that_wraps_goes_on_and_is_named(tmp_path: Path) -> None:
    source, wrapping = tmp_path / "a.ts", tmp_path / "wraps.ts"
    make_clip(source, frames=100, rate=Fraction(1), gop=25)
    for late_s in (90, 1):  # FFmpeg counts on, or down from before 0
        start = Fraction(1 << 33, 90_000) - late_s
        how = ("-c", "copy", "-muxdelay", "0", "-output_ts_offset", f"{float(start):f}")
        ffmpeg("-i", source, *how, wrapping)
        with FrameReader(probe(wrapping)) as reader:
            stamps = [frame.pts for frame in reader]
        assert [b - a for a, b in itertools.pairwise(stamps)] == [90_000] * 99
        assert [problem.code for problem in reader.problems] == ["reading.clock-wraps"]


def test_nothing_stays_open_and_a_missing_file_is_an_error(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "a.mkv", frames=6))
    handles = Path("/proc/self/fd")  # of Linux
    before = len([*handles.glob("*")])
    with FrameReader(media) as reader:
        next(iter(reader))
        frame_at(media, 0.1)
    assert len([*handles.glob("*")]) == before
    media.path.unlink()
    with FrameReader(media) as reader, pytest.raises(SourceMissing):
        next(iter(reader))
    with pytest.raises(InputError):
        frame_at(media, 0)


def test_a_passing_read_error_changes_nothing(
    made: Callable[[str], MediaInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("h264 with B-frames in MP4", "h264 with open groups in MKV"):
        media = made(name)
        whole = facts(read(media))
        with monkeypatch.context() as patch:
            rule = FailingReads(media.path, first=media.bytes // 2, times=2).install(patch)
            with FrameReader(media, must_be_whole=True) as reader:
                assert facts(list(reader)) == whole
        assert rule.seen == 2
        assert not reader.problems


def test_what_a_drive_does_not_give_is_missing_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in (".mkv", ".ts"):
        media = probe(make_clip(tmp_path / f"a{suffix}", frames=COUNT))
        with monkeypatch.context() as patch:
            FailingReads(media.path, first=media.bytes * 3 // 4).install(patch)
            with (
                FrameReader(media, must_be_whole=True) as reader,
                pytest.raises(ResultHeldBack, match="Input/output error"),
            ):
                list(reader)
            with FrameReader(media) as reader:
                assert 0 < len(list(reader)) < COUNT
            assert any("could be read" in str(problem) for problem in reader.problems)


def test_frames_that_were_counted_and_are_not_in_the_file_any_more_are_missing(
    tmp_path: Path,
) -> None:
    media = probe(make_clip(tmp_path / "a.mkv", frames=30))
    make_clip(tmp_path / "a.mkv", frames=20)
    with (
        FrameReader(media, must_be_whole=True) as reader,
        pytest.raises(ResultHeldBack, match="20 of the 30 frames"),
    ):
        list(reader)


def test_frames_that_a_decoder_leaves_out_are_damaged_and_not_the_end(tmp_path: Path) -> None:
    """FFmpeg's MPEG-2 decoder drops the frame that it holds back where the size changes."""
    parts = [
        make_clip(tmp_path / f"{size[0]}.ts", frames=24, codec="mpeg2video", size=size)
        for size in ((96, 64), (72, 64))
    ]
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    with FrameReader(probe(joined)) as reader:
        assert len(list(reader)) == 47
    problems = [problem.code for problem in reader.problems]
    assert "reading.frames-damaged" in problems
    assert "reading.ends-early" not in problems


def test_a_picture_of_a_sequence_that_has_gone_is_missing_and_not_left_out(tmp_path: Path) -> None:
    media = probe(make_pictures(tmp_path, 4))
    gone = sorted(tmp_path.iterdir())[2]
    gone.unlink()
    with FrameReader(media, must_be_whole=True) as reader, pytest.raises(ResultHeldBack):
        list(reader)
    with FrameReader(media) as reader:
        assert [frame.pts for frame in reader] == [0, 1, 3]
    assert any(gone.name in str(problem) for problem in reader.problems)


@pytest.mark.parametrize(("suffix", "checksums"), [(".mkv", "1"), (".avi", "1"), (".mkv", "0")])
def test_a_rotten_byte_in_a_lossless_film_is_a_problem(
    tmp_path: Path, suffix: str, checksums: str
) -> None:
    """Films without checksums are read without them."""
    options = {"level": "3", "slicecrc": checksums, "slices": "4"}
    film = make_clip(
        tmp_path / f"a{suffix}", frames=8, codec="ffv1", pixel_format="yuv420p", options=options
    )
    with FrameReader(probe(film)) as reader:
        assert len(list(reader)) == 8
    assert not reader.problems
    if checksums == "0":
        return
    data = bytearray(film.read_bytes())
    data[len(data) // 2] ^= 16
    film.write_bytes(data)
    with FrameReader(probe(film)) as reader:
        list(reader)
    assert any("may look wrong" in str(problem) for problem in reader.problems)
