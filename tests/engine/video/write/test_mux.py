import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, DiskFull, OutputError, OutputUnwritable
from engine.protocol.media import ColourTags, MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read.digest import digest
from engine.video.read.probe import probe
from engine.video.write import passthrough
from engine.video.write.mux import shifted_chapters, tried
from engine.video.write.segment_file import SegmentFile
from tests.helpers.clips import copied, make_clip, make_cover, make_picture, with_edits
from tests.helpers.program import ROOT
from tests.helpers.results import (
    Ffprobed,
    faults,
    make_identity,
    mux_all,
    needs_ffprobe,
    plan_of,
    segments_of,
)

pytestmark = needs_ffprobe
FAST = JobSettings(model="none", speed="fast")
UNEVEN = [Fraction(n, 30000) for n in (0, 1001, 2402, 3003, 5405, 6006, 6607, 9009, 9010, 12012)]
MS = Fraction(1, 1000)
HDR = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}


def identity(source: Path, name: str, **settings: Any) -> Path:
    output = source.parent / name
    make_identity(source, output, replace(FAST, **settings))
    return output


def job(source: Path, output: Path, **changes: Any) -> tuple[MediaInfo, Plan, list[SegmentFile]]:
    """What `mux` needs, with the segments next to the source."""
    media = probe(source)
    plan = plan_of(media, output, FAST, **changes)
    return media, plan, segments_of(media, plan, source.parent)


def assert_same_times(source: Ffprobed, result: Ffprobed, within: Fraction = Fraction(0)) -> None:
    ours, theirs = result.frame_times, source.frame_times
    assert len(ours) == len(theirs)
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) <= within


def assert_same_packets(
    source: Ffprobed, result: Ffprobed, kind: str, number: int = 0, within: float = 1e-6
) -> None:
    ours, theirs = result.packets(kind, number), source.packets(kind, number)
    assert [content for _, content in ours] == [content for _, content in theirs]
    assert max(abs(a - b) for (a, _), (b, _) in zip(ours, theirs, strict=True)) <= within


def test_uneven_frames_keep_every_exact_time_but_for_milliseconds_in_mkv(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", vfr_times=UNEVEN, frames=10)
    for name in ("out.mp4", "out.mov"):
        result = Ffprobed(identity(source, name))
        assert result.frame_times == UNEVEN
        assert result.film["time_base"] == "1/30000"
    rounded = Ffprobed(identity(source, "out.mkv"))
    assert_same_times(Ffprobed(source), rounded, within=MS / 2)


def test_every_codec_comes_out_whole_with_sound_tags_and_pixel_shape(tmp_path: Path) -> None:
    how = {"codec": "libx265", "pixel_format": "yuv420p10le", "audio_tracks": 1}
    path = make_clip(tmp_path / "a.mp4", frames=13, tags=HDR, sar=Fraction(16, 15), **how)
    media, source = probe(path), Ffprobed(path)
    containers = {"h264": ["mp4"], "hevc": ["mp4", "mov", "mkv"], "av1": ["mp4", "mkv"]}
    containers["vp9"] = ["mp4", "mkv"]
    for codec, suffixes in {**containers, "prores": ["mov", "mkv"], "ffv1": ["mkv"]}.items():
        settings, segments = replace(FAST, codec=codec), []
        for suffix in suffixes:
            output = tmp_path / f"{codec}.{suffix}"
            plan = plan_of(media, output, settings)
            segments = segments or segments_of(media, plan, tmp_path)
            mux_all(media, plan, segments, output)
            result = Ffprobed(output)
            assert_same_times(source, result)
            assert_same_packets(source, result, "audio", within=0.001 if suffix == "mkv" else 1e-6)
            film = result.film
            assert film["codec_name"] == codec
            if codec == "hevc" and suffix != "mkv":
                assert film["codec_tag_string"] == "hvc1"
            assert film["sample_aspect_ratio"] == "16:15", output
            assert "side_data_list" not in film  # no rotation
            tags = ("color_space", "color_range", "color_primaries", "color_transfer")
            assert [film[tag] for tag in tags] == list(HDR.values()), output


def assert_everything_is_copied(path: Path, texts: int, key: str) -> Path:
    output = identity(path, f"out{path.suffix}")
    ours, theirs = Ffprobed(output), Ffprobed(path)
    for kind, number in (("audio", 0), ("audio", 1), *(("subtitle", n) for n in range(texts))):
        assert_same_packets(theirs, ours, kind, number)
    assert len(ours.chapters) == 2
    for mine, other in zip(ours.chapters, theirs.chapters, strict=True):
        assert float(mine["start_time"]) == pytest.approx(float(other["start_time"]), abs=5e-4)
        assert mine["tags"] == other["tags"]
    for mine, other in zip(ours.streams, theirs.streams, strict=path.suffix == ".mkv"):
        assert mine.get("codec_name") == other.get("codec_name")
        assert mine["disposition"] == other["disposition"]
        for tag in ("language", "title", "filename", "mimetype"):
            assert mine.get("tags", {}).get(tag) == other.get("tags", {}).get(tag)
    for tag in ("title", key):
        assert ours.format["tags"][tag] == theirs.format["tags"][tag] != ""
    assert_same_times(theirs, ours)
    return output


def test_everything_is_copied(tmp_path: Path) -> None:
    files = {"font.ttf": b"\0\1 glyphs", "note.txt": b"words"}
    common = {"audio_tracks": 2, "chapters": 2}
    metadata = {"title": "A film", "PROMPT": "two words"}
    texts = ["subrip", "ass", "hdmv_pgs_subtitle"]
    mkv = make_clip(
        tmp_path / "a.mkv", **common, subtitles=texts, attachments=files, metadata=metadata
    )
    with av.open(str(assert_everything_is_copied(mkv, 3, "PROMPT"))) as file:
        assert {s.name: s.data for s in file.streams.attachments} == files
    tags = {"container_options": {"movflags": "use_metadata_tags"}, "metadata": metadata}
    mp4 = make_clip(tmp_path / "a.mp4", **common, subtitles=["mov_text"], **tags)
    data = assert_everything_is_copied(mp4, 1, "PROMPT").read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")  # the index comes first


def test_sound_that_starts_before_the_picture_stays_in_step(tmp_path: Path) -> None:
    times = [Fraction(7, 10) + Fraction(n, 25) for n in range(10)]
    source = make_clip(tmp_path / "a.mp4", vfr_times=times, audio_tracks=1)
    known = Ffprobed(source)
    for name, within in (("out.mp4", 1e-6), ("out.mkv", 0.001)):
        result = Ffprobed(identity(source, name))
        assert result.frame_times == times
        assert_same_packets(known, result, "audio", within=within)


def test_sound_that_an_edit_list_hides_is_not_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg reads a second of it before each edit: it would be heard, and all after it be late."""
    edits = (0.4, 0.24), (0.4, 0.76)  # from the middle of a packet
    aac, opus = ("aac", -0.027), ("libopus", 0.0)  # a packet of AAC is decoded with that before it
    for name, (codec, first) in {"a.mov": opus, "a.mp4": aac, "a.mkv": aac}.items():
        whole = make_clip(tmp_path / f"{codec}.mp4", frames=30, audio_tracks=1, audio_codec=codec)
        source, output = with_edits(whole, tmp_path / "cut.mp4", *edits), tmp_path / name
        media, plan, segments = job(source, output)
        mux_all(media, plan, segments, output)
        assert faults(media, output, plan) == {}
        times = [time for time, _ in Ffprobed(output).packets("audio")]
        assert times[0] == pytest.approx(first, abs=0.001)
        assert times == sorted(times)
        assert times[-1] < 0.8
    monkeypatch.setattr(passthrough, "without_hidden", lambda packets, decoded: packets)
    mux_all(media, plan, segments, output)
    assert "stream-content" in faults(media, output, plan)
    unknown = source.read_bytes().replace(b"mp4a", b"ac-4").replace(b"esds", b"free")
    source.write_bytes(unknown)  # a codec that FFmpeg does not know
    assert len(digest(source, [1])[1])


def test_a_transport_stream_is_moved_to_0_as_a_whole(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.ts", audio_tracks=1, frames=12)
    moved, source = probe(path).start, Ffprobed(path)
    assert moved > Fraction(1, 20)
    for name in ("out.mp4", "out.mkv"):
        result = Ffprobed(identity(path, name))
        times = zip(source.frame_times, result.frame_times, strict=True)
        assert all(abs(a - b - moved) <= MS / 2 for a, b in times)
        sound = zip(source.packets("audio"), result.packets("audio"), strict=True)
        for (old, _), (new, _) in sound:
            assert old - new == pytest.approx(float(moved), abs=0.001)


def test_a_trimmed_job_starts_at_0_with_everything_cut(tmp_path: Path) -> None:
    for suffix, text in ((".mp4", "mov_text"), (".mkv", "subrip")):
        source, output = tmp_path / f"a{suffix}", tmp_path / f"out{suffix}"
        make_clip(source, frames=25, audio_tracks=1, chapters=2, subtitles=[text])
        make_identity(source, output, FAST, start=Fraction(1, 5), stop=Fraction(3, 5))
        result = Ffprobed(output)
        assert result.frame_times == [Fraction(n, 25) for n in range(10)]
        whole, part = Ffprobed(source).packets("audio"), result.packets("audio")
        contents = [content for _, content in whole]
        at = contents.index(part[0][1])
        assert contents[at : at + len(part)] == [content for _, content in part]
        assert whole[at][0] - 0.2 == pytest.approx(part[0][0], abs=0.001)
        assert 0 <= part[0][0] < 0.03
        assert 0.37 < part[-1][0] < 0.4
        starts = [float(chapter["start_time"]) for chapter in result.chapters]
        assert starts == pytest.approx([0, 0.3], abs=0.001)
        assert float(result.chapters[-1]["end_time"]) == pytest.approx(0.4, abs=0.001)
        texts = [time for time, _ in result.packets("subtitle") if time < 0.4]
        assert texts[0] == pytest.approx(0.0, abs=0.001)


FIVE = Fraction(5)  # frames per second: few in 15 s


@pytest.mark.parametrize("suffix", [".mkv", ".m2ts"])
def test_pictures_of_subtitles_that_are_shown_when_a_part_begins_are_in_it(
    tmp_path: Path, suffix: str
) -> None:
    """Also those that are made of several packets; in M2TS each segment is a packet."""
    made = [(0, 0x80, 1), (0.2, 0, 0), (0.4, 0x80, 1), (0.44, 0, 1), (13, 0, 0), (13.2, 0x80, 1)]
    film = make_clip(tmp_path / "film.mkv", rate=FIVE, frames=75, b_frames=0, gop=5, audio_tracks=1)
    source, output = tmp_path / f"a{suffix}", tmp_path / "part.mkv"
    with_pictures(film, source, made)
    media, plan = probe(source), make_identity(source, output, FAST, start=Fraction(12))
    texts = Ffprobed(output).packets("subtitle")
    assert [round(time, 2) for time, _ in texts] == [0, 0, 1, 1.2]
    assert verify(media, output, plan=plan).passed
    without, lossy = tmp_path / f"b{suffix}", tmp_path / "lossy.mkv"
    with_pictures(film, without, made[4:])
    make_identity(without, lossy, FAST, start=Fraction(12))
    (fault,) = verify(media, lossy, plan=plan).problems
    assert "2 of 4 packets missing at 0.000 s" in str(fault.message)


@pytest.mark.parametrize("suffix", [".mkv", ".m2ts"])
def test_a_picture_that_is_over_when_a_part_begins_is_not_in_it_and_not_missing(
    tmp_path: Path, suffix: str
) -> None:
    """Its end, a picture without parts, is read or not, as the start is near to it or far."""
    film = make_clip(tmp_path / "film.mkv", rate=FIVE, frames=75, b_frames=0, gop=5, audio_tracks=1)
    source = tmp_path / f"a{suffix}"
    with_pictures(film, source, [(0, 0x80, 1), (0.4, 0, 0), (13, 0x80, 1), (14, 0, 0)])
    for start in (1, 12):
        output = tmp_path / f"{start}.mkv"
        plan = make_identity(source, output, FAST, start=Fraction(start))
        times = [round(time, 2) for time, _ in Ffprobed(output).packets("subtitle")]
        assert times == [13 - start, 14 - start]
        report = verify(probe(source), output, plan=plan)
        assert report.passed, report.problems


def with_pictures(film: Path, target: Path, made: Sequence[tuple[float, int, int]]) -> None:
    """Copy a video and add pictures of PGS: time in s, state and number of objects."""
    with (
        av.open(str(film)) as old,
        av.open(str(target), "w", format="mpegts" if target.suffix == ".m2ts" else None) as new,
    ):
        added = {one: new.add_stream_from_template(one, opaque=True) for one in old.streams}
        track: Any = new.add_mux_stream("hdmv_pgs_subtitle", time_base=MS)
        packets = [(float(one.dts * MS), added[one.stream], one) for one in old.demux() if one.size]
        for seconds, state, objects in made:
            number = round(10 * seconds)
            composed = bytes(
                [0, 96, 0, 64, 16, 0, number, state, 0, 0, objects, *[0] * 8 * objects]
            )
            segments = [b"\x16" + len(composed).to_bytes(2, "big") + composed, b"\x80\0\0"]
            for data in segments if target.suffix == ".m2ts" else [b"".join(segments)]:
                packet = av.Packet(data)
                packet.pts = packet.dts = round(seconds * 1000)
                packet.time_base = MS
                packets.append((seconds, track, packet))
        for _, stream, packet in sorted(packets, key=lambda one: one[0]):
            packet.stream = stream
            new.mux_one(packet)


def test_chapters_of_a_part_are_cut_at_its_edges() -> None:
    three = [
        {"id": n, "start": 2000 * n, "end": 2000 * (n + 1), "time_base": MS, "metadata": {}}
        for n in range(3)
    ]
    for shift, end, expected in (
        ("0", None, [(0, 2000), (2000, 4000), (4000, 6000)]),
        ("3/4", None, [(0, 1250), (1250, 3250), (3250, 5250)]),  # MKV refuses one before 0
        ("5/2", None, [(0, 1500), (1500, 3500)]),
        ("5/2", 1, [(0, 1000)]),
        ("0", 3, [(0, 2000), (2000, 3000)]),
        ("7", None, []),
        ("-1", None, [(1000, 3000), (3000, 5000), (5000, 7000)]),
    ):
        file = SimpleNamespace(chapters=lambda: [dict(each) for each in three])
        found = shifted_chapters(file, Fraction(shift), Fraction(end) if end else None)
        assert [(chapter["start"], chapter["end"]) for chapter in found] == expected, (shift, end)


def test_rotation_and_mirror_are_kept(tmp_path: Path) -> None:
    for rotation, mirrored in ((90, False), (270, False), (180, True)):
        path = tmp_path / f"{rotation}.mp4"
        source = make_clip(path, frames=3, rotation=rotation, mirrored=mirrored)
        for suffix in ("mp4", "mov", "mkv"):
            video = probe(identity(source, f"{rotation}.out.{suffix}")).video
            assert (video.rotation, video.is_mirrored) == (rotation, mirrored), suffix


def test_the_chroma_location_is_in_the_file(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "a.mkv", codec="ffv1", frames=3))
    tags = ColourTags(matrix="bt709", range="tv", chroma_location="topleft")
    media = replace(media, video=replace(media.video, tags=tags))
    for codec in ("h264", "hevc"):
        output = tmp_path / f"{codec}.mkv"
        plan = plan_of(media, output, replace(FAST, codec=codec))
        mux_all(media, plan, segments_of(media, plan, tmp_path), output)
        assert Ffprobed(output).film["chroma_location"] == "topleft"


def test_a_cover_stays_a_cover(tmp_path: Path) -> None:
    picture = make_picture(tmp_path / "cover.png", size=(8, 8)).read_bytes()
    source = make_cover(tmp_path / "a.mp4", make_clip(tmp_path / "b.mp4"), picture)
    for name in ("out.mp4", "out.mkv"):
        result = identity(source, name)
        media = probe(result)
        (cover,) = media.streams
        assert cover.kind == "cover"
        with av.open(str(result)) as file:
            assert bytes(next(file.demux(file.streams[cover.index]))) == picture
        assert media.video.frame_count == 10


def test_a_time_code_track_is_written_again(tmp_path: Path) -> None:
    def give_time_code(film: Any) -> None:
        film.metadata["timecode"] = "01:02:03:04"
        film.framerate = Fraction(25)

    plain = make_clip(tmp_path / "b.mov", frames=6)
    source = copied(plain, tmp_path / "a.mov", change=give_time_code)
    for name in ("out.mov", "out.mkv"):
        about = Ffprobed(identity(source, name))
        places = [about.format, *about.streams]
        found = {k.lower(): v for p in places for k, v in p.get("tags", {}).items()}
        assert found["timecode"] == "01:02:03:04"


def test_what_a_camera_measures_is_kept(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=25, subtitles=("mov_text",), chapters=2)
    text = source.read_bytes()
    assert (text.count(b"tx3g"), text.count(b"sbtl")) == (1, 1)
    source.write_bytes(text.replace(b"tx3g", b"gpmd").replace(b"sbtl", b"meta"))
    assert [s.codec for s in probe(source).streams] == ["bin_data", "text"]
    known = Ffprobed(source)
    for name in ("b.mp4", "b.mov"):
        assert_same_packets(known, Ffprobed(identity(source, name)), "data")
        assert all(check.passed for check in verify(source, tmp_path / name).checks)


def test_cancelling_leaves_nothing(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=12, audio_tracks=1)
    for name in ("out.mp4", "out.mkv"):
        media, plan, segments = job(source, tmp_path / name)
        control = Control()

        def progress(done: int, total: int, control: Control = control) -> None:
            if done:
                control.cancel()

        with pytest.raises(Cancelled):
            mux_all(media, plan, segments, plan.output, control=control, progress=progress)
        assert not plan.output.exists()


def test_progress_counts_bytes_up_to_the_end(tmp_path: Path) -> None:
    media, plan, segments = job(make_clip(tmp_path / "a.mkv", frames=12), tmp_path / "out.mkv")
    calls: list[tuple[int, int]] = []
    target = tmp_path / "x"  # the plan decides the container, not the name
    mux_all(media, plan, segments, target, progress=lambda *n: calls.append(n))
    assert calls == sorted(calls)
    assert calls[-1] == (sum(p.path.stat().st_size for p in segments),) * 2
    assert probe(target).container == "matroska,webm"


def test_a_missing_or_short_segment_and_a_missing_folder_are_errors(tmp_path: Path) -> None:
    media, plan, segments = job(make_clip(tmp_path / "a.mkv", frames=8), tmp_path / "out.mkv")
    first, second = segments
    long = replace(second, pts=(*second.pts, 999), durations=(*second.durations, 1))
    for damaged in (long, replace(second, path=tmp_path / "gone")):
        with pytest.raises(OutputError) as caught:
            mux_all(media, plan, [first, damaged], plan.output)
        assert caught.value.hint
        assert not plan.output.exists()
    with pytest.raises(OutputUnwritable):
        mux_all(media, plan, segments, tmp_path / "no" / "out.mkv")


def test_a_stream_without_packets_is_left_out_where_the_container_has_no_place_for_it(
    tmp_path: Path,
) -> None:
    source = make_clip(tmp_path / "a.mkv", audio_tracks=1, frames=25)
    part = {"start": Fraction(30), "stop": Fraction(31)}  # sound has ended by then
    for name, expected in (
        ("out.mp4", (False, "it has no packets that can be copied")),
        ("out.mkv", (True, "")),
    ):
        media, plan, _ = job(source, tmp_path / name)
        [stream] = tried(media, replace(plan, **part), Control()).streams
        assert (stream.copied, str(stream.why)) == expected


def test_a_stream_that_only_the_plan_thinks_possible_is_left_out(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mkv", subtitles=["hdmv_pgs_subtitle"])
    media, plan, segments = job(source, tmp_path / "out.mp4")
    copied = tuple(replace(stream, copied=True, why="") for stream in plan.streams)
    plan = tried(media, replace(plan, streams=copied), Control())
    assert [(stream.copied, str(stream.why)) for stream in plan.streams] == [
        (False, "MP4 does not accept it")
    ]
    mux_all(media, plan, segments, plan.output)
    assert not probe(plan.output).streams


def test_a_full_disk_is_an_error_and_nothing_is_left(small_disk: Path) -> None:
    source = make_clip(small_disk.parent / "a.mp4", frames=25, size=(192, 128), audio_tracks=1)
    media, plan, segments = job(source, small_disk / "out.mp4")
    for name in ("out.mp4", "out.mkv"):
        with pytest.raises(DiskFull):
            mux_all(media, replace(plan, container=name[-3:]), segments, small_disk / name)
        assert list(small_disk.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in /proc, which Linux has")
def test_hours_of_sound_are_never_in_memory(tmp_path: Path) -> None:
    """A minute of raw sound (11 MB) and two frames: the process grows by far less."""
    code = (
        "import sys; from pathlib import Path; from engine.video.read.probe import probe;"
        "from engine.hardware.telemetry import counted_peak_bytes;"
        "from engine.settings.schema import JobSettings;"
        "from tests.helpers.results import mux_all, plan_of, segments_of;"
        "s = Path(sys.argv[1]); m = probe(s); p = plan_of(m, s.with_name('o.mkv'), JobSettings());"
        "pieces = segments_of(m, p, s.parent);"
        "before = counted_peak_bytes();"
        "mux_all(m, p, pieces, p.output);"
        "print(counted_peak_bytes() - before)"
    )
    source = tmp_path / "a.mkv"
    times = [Fraction(0), Fraction(60)]
    make_clip(source, vfr_times=times, frames=2, audio_tracks=2, audio_codec="pcm_s16le")
    assert source.stat().st_size > 15_000_000
    command = [sys.executable, "-c", code, str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert int(done.stdout) < 8_000_000


def test_a_job_that_starts_between_two_frames_starts_with_the_later_one(tmp_path: Path) -> None:
    source, output = make_clip(tmp_path / "a.mkv", frames=25, audio_tracks=1), tmp_path / "out.mkv"
    make_identity(source, output, FAST, start=Fraction(21, 100))
    result = Ffprobed(output)
    assert result.frame_times[0] == 0
    sound = Ffprobed(source).packets("audio")
    time, first = result.packets("audio")[0]
    before = next(time for time, content in sound if content == first)
    assert before - Fraction(6, 25) == pytest.approx(time, abs=0.002)  # frame 6 is the first
