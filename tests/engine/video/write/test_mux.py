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
import pytest

from engine.core.control import Control
from engine.core.errors import (
    Cancelled,
    ContainerMismatch,
    DiskFull,
    OutputError,
    OutputUnwritable,
)
from engine.protocol.media import ColourTags
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from engine.video.write.mux import SegmentFile, mux
from tests.helpers.clips import make_clip, make_cover, make_picture, make_pictures
from tests.helpers.results import (
    ffprobe,
    frame_times,
    make_identity,
    needs_ffprobe,
    packets,
    plan_of,
    segments_of,
)

pytestmark = needs_ffprobe
FAST = JobSettings(model="none", speed="fast")
UNEVEN = [Fraction(n, 30000) for n in (0, 1001, 2402, 3003, 5405, 6006, 6607, 9009, 9010, 12012)]
MS = Fraction(1, 1000)


def identity(source: Path, name: str, **settings: Any) -> Path:
    output = source.parent / name
    make_identity(source, output, replace(FAST, **settings))
    return output


def assert_same_times(source: Path, result: Path, within: Fraction = Fraction(0)) -> None:
    ours, theirs = frame_times(result), frame_times(source)
    assert len(ours) == len(theirs)
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) <= within


def assert_same_packets(source: Path, result: Path, stream: str, within: float = 1e-6) -> None:
    ours, theirs = packets(result, stream), packets(source, stream)
    assert [content for _, content in ours] == [content for _, content in theirs]
    assert max(abs(a - b) for (a, _), (b, _) in zip(ours, theirs, strict=True)) <= within


@pytest.mark.parametrize("name", ["out.mp4", "out.mov"])
def test_uneven_frames_keep_every_exact_time(tmp_path: Path, name: str) -> None:
    source = make_clip(tmp_path / "a.mp4", vfr_times=UNEVEN, frames=10)
    result = identity(source, name)
    assert frame_times(result) == UNEVEN
    assert ffprobe(result, "-show_streams")["streams"][0]["time_base"] == "1/30000"


def test_uneven_frames_are_rounded_to_a_millisecond_in_mkv(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", vfr_times=UNEVEN, frames=10)
    assert_same_times(source, identity(source, "out.mkv"), within=MS / 2)


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("h264", "out.mp4"),
        ("hevc", "out.mp4"),
        ("av1", "out.mp4"),
        ("prores", "out.mov"),
        ("hevc", "out.mov"),
        ("ffv1", "out.mkv"),
        ("av1", "out.mkv"),
        ("prores", "out.mkv"),
    ],
)
def test_every_codec_comes_out_whole_beside_its_sound(
    tmp_path: Path, codec: str, name: str
) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=13, audio_tracks=1)
    result = identity(source, name, codec=codec)
    assert_same_times(source, result)
    assert_same_packets(source, result, "a:0", within=0.001 if name.endswith("mkv") else 1e-6)
    stream = ffprobe(result, "-show_streams")["streams"][0]
    assert stream["codec_name"] == codec
    if codec == "hevc":
        assert stream["codec_tag_string"] == "hvc1"


def test_everything_in_mkv_is_copied_to_mkv(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "a.mkv",
        audio_tracks=2,
        subtitles=["subrip", "ass", "hdmv_pgs_subtitle"],
        chapters=2,
        attachments={"font.ttf": b"\0\1 glyphs", "note.txt": b"words"},
        metadata={"title": "A film", "PROMPT": "two words"},
    )
    result = identity(source, "out.mkv")
    ours, theirs = (
        ffprobe(path, "-show_streams", "-show_chapters", "-show_format")
        for path in (result, source)
    )
    for mine, other in zip(ours["streams"], theirs["streams"], strict=True):
        assert mine.get("codec_name") == other.get("codec_name")
        assert mine["disposition"] == other["disposition"]
        for tag in ("language", "title", "filename", "mimetype"):
            assert mine.get("tags", {}).get(tag) == other.get("tags", {}).get(tag)
    for stream in ("a:0", "a:1", "s:0", "s:1", "s:2"):
        assert_same_packets(source, result, stream)
    assert ours["chapters"] == theirs["chapters"]
    assert len(ours["chapters"]) == 2
    assert ours["format"]["tags"]["title"] == "A film"
    assert ours["format"]["tags"]["PROMPT"] == "two words"
    assert_same_times(source, result)
    with av.open(str(result)) as file:
        files = {s.name: s.data for s in file.streams.attachments}
    assert files == {"font.ttf": b"\0\1 glyphs", "note.txt": b"words"}


def test_everything_in_mp4_is_copied_to_mp4(tmp_path: Path) -> None:
    source = make_clip(
        tmp_path / "a.mp4",
        audio_tracks=2,
        subtitles=["mov_text"],
        chapters=2,
        metadata={"title": "A film", "workflow": "of nodes"},
        container_options={"movflags": "use_metadata_tags"},
    )
    result = identity(source, "out.mp4")
    ours, theirs = (ffprobe(p, "-show_chapters", "-show_format") for p in (result, source))
    for stream in ("a:0", "a:1", "s:0"):
        assert_same_packets(source, result, stream)
    for mine, other in zip(ours["chapters"], theirs["chapters"], strict=True):
        assert float(mine["start_time"]) == pytest.approx(float(other["start_time"]), abs=5e-4)
        assert mine["tags"] == other["tags"]
    assert ours["format"]["tags"]["title"] == "A film"
    assert ours["format"]["tags"]["workflow"] == "of nodes"
    assert_same_times(source, result)


def test_the_index_of_mp4_comes_first(tmp_path: Path) -> None:
    data = identity(make_clip(tmp_path / "a.mp4"), "out.mp4").read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_sound_that_starts_before_the_picture_stays_in_step(tmp_path: Path, name: str) -> None:
    times = [Fraction(7, 10) + Fraction(n, 25) for n in range(10)]
    source = make_clip(tmp_path / "a.mp4", vfr_times=times, audio_tracks=1)
    result = identity(source, name)
    assert frame_times(result) == times
    assert_same_packets(source, result, "a:0", within=0.001 if name.endswith("mkv") else 1e-6)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_transport_stream_is_moved_to_0_as_a_whole(tmp_path: Path, name: str) -> None:
    source = make_clip(tmp_path / "a.ts", audio_tracks=1, frames=12)
    moved = probe(source).start
    assert moved > Fraction(1, 20)
    result = identity(source, name)
    shifts = [a - b for a, b in zip(frame_times(source), frame_times(result), strict=True)]
    assert all(abs(shift - moved) <= MS / 2 for shift in shifts)
    for (old, _), (new, _) in zip(packets(source, "a:0"), packets(result, "a:0"), strict=True):
        assert old - new == pytest.approx(float(moved), abs=0.001)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_trimmed_job_starts_at_0_with_everything_cut(tmp_path: Path, name: str) -> None:
    kind = "subrip" if name.endswith("mkv") else "mov_text"
    source = make_clip(
        tmp_path / f"a{Path(name).suffix}",
        frames=25,
        audio_tracks=1,
        chapters=2,
        subtitles=[kind],
    )
    output = tmp_path / name
    make_identity(source, output, FAST, start=Fraction(1, 5), stop=Fraction(3, 5))
    assert frame_times(output) == [Fraction(n, 25) for n in range(10)]
    whole, part = packets(source, "a:0"), packets(output, "a:0")
    contents = [content for _, content in whole]
    at = contents.index(part[0][1])
    assert contents[at : at + len(part)] == [content for _, content in part]
    assert whole[at][0] - 0.2 == pytest.approx(part[0][0], abs=0.001)
    assert 0 <= part[0][0] < 0.03
    assert 0.37 < part[-1][0] < 0.4
    chapters = ffprobe(output, "-show_chapters")["chapters"]
    assert [float(c["start_time"]) for c in chapters] == pytest.approx([0, 0.3], abs=0.001)
    assert float(chapters[-1]["end_time"]) == pytest.approx(0.4, abs=0.001)
    texts = [time for time, _ in packets(output, "s:0") if time < 0.4]
    assert texts[0] == pytest.approx(0.0, abs=0.001)


def test_a_job_with_only_an_end_keeps_its_beginning(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=25, audio_tracks=1)
    make_identity(source, tmp_path / "out.mp4", FAST, stop=Fraction(2, 5))
    assert frame_times(tmp_path / "out.mp4") == frame_times(source)[:10]
    assert packets(tmp_path / "out.mp4", "a:0")[:5] == packets(source, "a:0")[:5]


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.mkv"])
@pytest.mark.parametrize(("rotation", "mirrored"), [(90, False), (270, False), (180, True)])
def test_rotation_and_mirror_are_kept(
    tmp_path: Path, name: str, rotation: int, mirrored: bool
) -> None:
    source = make_clip(tmp_path / "a.mp4", rotation=rotation, mirrored=mirrored)
    seen = probe(identity(source, name)).video
    meant = probe(source).video
    assert (seen.rotation, seen.is_mirrored) == (meant.rotation, meant.is_mirrored)
    assert seen.is_mirrored == mirrored


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("h264", "out.mp4"),
        ("hevc", "out.mkv"),
        ("prores", "out.mov"),
        ("av1", "out.mp4"),
        ("av1", "out.mkv"),
        ("prores", "out.mkv"),
        ("ffv1", "out.mkv"),
    ],
)
def test_tags_and_pixel_shape_are_in_the_file(tmp_path: Path, codec: str, name: str) -> None:
    tags = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}
    source = make_clip(
        tmp_path / "a.mp4",
        codec="libx265",
        pixel_format="yuv420p10le",
        tags=tags,
        sar=Fraction(16, 15),
    )
    stream = ffprobe(identity(source, name, codec=codec), "-show_streams")["streams"][0]
    assert stream["sample_aspect_ratio"] == "16:15"
    assert "side_data_list" not in stream  # nothing turns the picture
    assert stream["color_space"] == "bt2020nc"
    assert stream["color_range"] == "tv"
    assert stream["color_primaries"] == "bt2020"
    assert stream["color_transfer"] == "smpte2084"


def test_the_place_of_chroma_is_in_the_file(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", codec="ffv1")
    media = probe(source)
    tags = ColourTags(matrix="bt709", range="tv", chroma_location="topleft")
    media = replace(media, video=replace(media.video, tags=tags))
    for codec in ("h264", "hevc"):
        output = tmp_path / f"{codec}.mkv"
        plan = plan_of(media, output, replace(FAST, codec=codec))
        folder = tmp_path / codec
        folder.mkdir()
        pieces = segments_of(media, plan, folder)
        mux(media, plan, pieces, output, control=Control(), progress=lambda done, total: None)
        stream = ffprobe(output, "-show_streams")["streams"][0]
        assert stream["chroma_location"] == "topleft"


def test_a_cover_stays_a_cover(tmp_path: Path) -> None:
    picture = make_picture(tmp_path / "cover.png", size=(8, 8)).read_bytes()
    source = make_cover(tmp_path / "a.mp4", make_clip(tmp_path / "b.mp4"), picture)
    for name in ("out.mp4", "out.mkv"):
        result = identity(source, name)
        media = probe(result)
        (cover,) = media.streams
        assert cover.kind == "cover"
        with av.open(str(result)) as file:
            found = next(file.demux(file.streams[cover.index]))
            assert bytes(found) == picture
        assert len(frame_times(result)) >= 1


def test_a_time_code_track_is_written_again(tmp_path: Path) -> None:
    plain = make_clip(tmp_path / "b.mov", frames=6)
    source = tmp_path / "a.mov"
    with av.open(str(plain)) as old, av.open(str(source), "w") as new:
        film = new.add_stream_from_template(old.streams.video[0], opaque=True)
        film.metadata["timecode"] = "01:02:03:04"
        film.framerate = Fraction(25)
        for packet in old.demux(old.streams.video[0]):
            if packet.dts is not None:
                packet.stream = film
                new.mux(packet)
    for name in ("out.mov", "out.mkv"):
        about = ffprobe(identity(source, name), "-show_streams", "-show_format")
        places = [about["format"], *about["streams"]]
        found = {k.lower(): v for p in places for k, v in p.get("tags", {}).items()}
        assert found["timecode"] == "01:02:03:04"


def test_pictures_become_a_film_when_asked(tmp_path: Path) -> None:
    pattern = make_pictures(tmp_path / "in", 6)
    media = probe(pattern)
    plan = plan_of(media, tmp_path / "out.mkv", FAST)
    assert (plan.container, plan.picture.codec) == ("mkv", "h264")


def run(source: Path, output: Path, control: Control, **changes: Any) -> None:
    media = probe(source)
    plan = plan_of(media, output, FAST, **changes)
    folder = source.parent / "job"
    folder.mkdir()
    pieces = segments_of(media, plan, folder)

    def progress(done: int, total: int) -> None:
        if done:
            control.cancel()

    mux(media, plan, pieces, output, control=control, progress=progress)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_cancelling_leaves_nothing(tmp_path: Path, name: str) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=12, audio_tracks=1)
    with pytest.raises(Cancelled):
        run(source, tmp_path / name, Control())
    assert not (tmp_path / name).exists()


def test_progress_counts_bytes_up_to_the_end(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", frames=12)
    media = probe(source)
    plan = plan_of(media, tmp_path / "out.mkv", FAST)
    pieces = segments_of(media, plan, tmp_path)
    told: list[tuple[int, int]] = []
    mux(media, plan, pieces, tmp_path / "x", control=Control(), progress=lambda *n: told.append(n))
    assert told == sorted(told)
    assert told[-1] == (sum(p.path.stat().st_size for p in pieces),) * 2
    assert ffprobe(tmp_path / "x", "-show_format")["format"]["format_name"] == "matroska,webm"


def test_a_missing_or_short_segment_is_told(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", frames=8)
    media = probe(source)
    plan = plan_of(media, tmp_path / "out.mkv", FAST)
    first, second = segments_of(media, plan, tmp_path)
    long = SegmentFile(path=second.path, pts=(*second.pts, 999), durations=(*second.durations, 1))
    gone = SegmentFile(path=tmp_path / "gone", pts=second.pts, durations=second.durations)
    for damaged in (long, gone):
        with pytest.raises(OutputError) as caught:
            mux(
                media,
                plan,
                [first, damaged],
                tmp_path / "out.mkv",
                control=Control(),
                progress=lambda done, total: None,
            )
        assert caught.value.hint
        assert not (tmp_path / "out.mkv").exists()


def test_a_stream_that_only_the_plan_thinks_possible_is_told(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", subtitles=["subrip"])
    media = probe(source)
    plan = plan_of(media, tmp_path / "out.mp4", FAST)
    wrong = replace(plan, streams=tuple(replace(s, copied=True, why="") for s in plan.streams))
    with pytest.raises(ContainerMismatch):
        mux(
            media,
            wrong,
            segments_of(media, plan, tmp_path),
            tmp_path / "out.mp4",
            control=Control(),
            progress=lambda done, total: None,
        )


def test_an_unwritable_place_is_told(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv")
    media = probe(source)
    plan = plan_of(media, tmp_path / "out.mkv", FAST)
    with pytest.raises(OutputUnwritable):
        mux(
            media,
            plan,
            segments_of(media, plan, tmp_path),
            tmp_path / "no" / "out.mkv",
            control=Control(),
            progress=lambda done, total: None,
        )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("a small disk can be made only as root on Linux")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_full_disk_is_told_and_nothing_is_left(small_disk: Path, name: str) -> None:
    source = make_clip(small_disk.parent / "a.mp4", frames=25, audio_tracks=1)
    media = probe(source)
    plan = plan_of(media, small_disk / name, replace(FAST, crf=0))
    pieces = segments_of(media, plan, small_disk.parent)
    with pytest.raises(DiskFull):
        mux(
            media,
            plan,
            pieces,
            small_disk / name,
            control=Control(),
            progress=lambda done, total: None,
        )
    assert list(small_disk.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in /proc, which Linux has")
def test_hours_of_sound_are_never_in_memory(tmp_path: Path) -> None:
    """A minute of raw sound (11 MB) beside two frames: the process grows by far less."""
    code = (
        "import sys; from pathlib import Path; from engine.video.read.probe import probe;"
        "from engine.hardware.telemetry import counted_peak_bytes;"
        "from engine.settings.schema import JobSettings; from engine.core.control import Control;"
        "from engine.video.write.mux import mux;"
        "from tests.helpers.results import plan_of, segments_of;"
        "s = Path(sys.argv[1]); m = probe(s); p = plan_of(m, s.with_name('o.mkv'), JobSettings());"
        "pieces = segments_of(m, p, s.parent);"
        "before = counted_peak_bytes();"
        "mux(m, p, pieces, p.output, control=Control(), progress=lambda a, b: None);"
        "print(counted_peak_bytes() - before)"
    )
    source = tmp_path / "a.mkv"
    times = [Fraction(0), Fraction(60)]
    make_clip(source, vfr_times=times, frames=2, audio_tracks=2, audio_codec="pcm_s16le")
    assert source.stat().st_size > 15_000_000
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", code, str(source)]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    assert int(done.stdout) < 8_000_000
