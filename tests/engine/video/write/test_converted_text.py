"""Subtitles of text that become another format of text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import av
import pytest
from av.stream import Disposition

from engine.verification.verify import verify
from engine.video.read.probe import probe
from engine.video.write.converted_text import ShownTexts, plain_text, read_events
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import make_clip
from tests.helpers.program import ffmpeg
from tests.helpers.results import FAST, faults, job, make_identity

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
        found = [
            (packet, *read_events(track, packet)) for packet in file.demux(track) if packet.size
        ]
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


# Start, duration and text of each packet.
Cues = Sequence[tuple[int, int, str]]


def moments_of(cues: Cues, *asked: int) -> list[tuple[int, int, list[str]]]:
    """Moments, ms, of a conversion that is asked after each packet for what has begun."""
    texts, found = ShownTexts(Fraction(1, 1000)), []
    for number, (start, duration, text) in enumerate(cues):
        found += [*texts.take_before(start)]
        texts.add(start, duration, [text])
        for time in asked[number : number + 1]:
            found += [*texts.take_begun(time)]
    found += [*texts.take_before(inf)]
    return [(start, length, [*shown]) for start, length, shown in found]


def test_texts_that_begin_together_or_have_no_end_are_shown_together() -> None:
    assert moments_of([(0, 500, "a"), (0, 300, "b"), (301, 0, "c"), (9000, 10, "d")]) == [
        (0, 300, ["a", "b"]),
        (301, 199, ["a", "c"]),
        (500, 3801, ["c"]),
        (9000, 10, ["d"]),
    ]


def test_a_text_is_given_some_time_after_it_began_and_once() -> None:
    both = [(10, 2000, "a"), (10, 2000, "b")]
    assert moments_of(both, 500) == [(10, 2000, ["a", "b"])], "b may still come"
    late = [(10, 2000, ["a"]), (11, 1999, ["a", "b"])]
    assert moments_of(both, 510) == late, "not lost"
    assert moments_of([(10, 2000, "a")], 510, 600) == [(10, 2000, ["a"])]
    short = moments_of([(10, 4, "a"), (14, 900, "b")], 600, 600)
    assert short == [(14, 900, ["b"])], "as the moments before"


def test_what_is_left_when_a_text_ends_is_given_some_time_later() -> None:
    texts = ShownTexts(Fraction(1, 1000))
    texts.add(0, 1000, ["a"])
    texts.add(0, 200, ["b"])
    found = [[(start, *shown) for start, _, shown in texts.take_begun(at)] for at in (699, 700)]
    assert found == [[(0, "a", "b")], [(200, "a")]]
    assert not [*texts.take_before(inf)]


def test_texts_that_are_stored_out_of_order_begin_with_those_before_them() -> None:
    assert moments_of([(100, 50, "a"), (90, 200, "b"), (95, 20, "c")]) == [
        (100, 20, ["a", "b", "c"]),
        (120, 30, ["a", "b"]),
        (150, 150, ["b"]),
    ]


def test_layers_of_a_text_are_one_text() -> None:
    layers = ["0,0,Default,,0,0,0,,{\\bord3}Hi", "1,1,Default,,0,0,0,,{\\blur2}Hi"]
    texts = ShownTexts(Fraction(1, 1000))
    texts.add(0, 9, layers)
    assert [*texts.take_before(inf)] == [(0, 9, {"Hi": layers[0]})]


FIVE = Fraction(5)  # frames per second: few in 15 s


def spoken_in(path: Path, *tracks: Cues, late_ms: int = 0, **film: Any) -> Path:
    """A video with subtitles, stored later than they begin but for the first."""
    given = {"frames": 100, "audio_tracks": 1, "b_frames": 0} | film
    made = make_clip(path.with_name("film.mkv"), **given)
    with av.open(str(made)) as old, av.open(str(path), "w") as new:
        added = {one: new.add_stream_from_template(one, opaque=True) for one in old.streams}
        packets = [packet for packet in old.demux() if packet.dts is not None]
        stored = [(float(one.dts * one.time_base), added[one.stream], one) for one in packets]
        for cues in tracks:
            track: Any = new.add_mux_stream("subrip", time_base=Fraction(1, 1000))
            for number, (start, duration, text) in enumerate(cues):
                packet = av.Packet(text.encode())
                packet.pts = packet.dts = start
                packet.duration, packet.time_base = duration, Fraction(1, 1000)
                stored.append(((start + (late_ms if number else 0)) / 1000, track, packet))
        for _, own, packet in sorted(stored, key=lambda one: one[0]):
            packet.stream = own
            new.mux_one(packet)
    return path


@pytest.mark.parametrize("late_ms", [0, 300, 1200])
def test_texts_that_begin_together_are_whole_however_they_are_stored(
    tmp_path: Path, late_ms: int
) -> None:
    cues = [(1050, 800, "first"), (1050, 800, "second"), (2700, 300, "later")]
    source, output = spoken_in(tmp_path / "a.mkv", cues, late_ms=late_ms), tmp_path / "out.mp4"
    media, plan = job(source, output)
    assert shown(output)[-2][2] == "first second"
    assert faults(media, output, plan) == {}


def test_texts_of_several_tracks_are_written_in_one_order(tmp_path: Path) -> None:
    """FFmpeg's muxer ends a text when a later one of another track comes."""
    others = [(2010, 100, "c"), (2200, 100, "d")]
    source = spoken_in(tmp_path / "a.mkv", others, [(500, 1500, "a"), (1900, 700, "b")])
    job(source, tmp_path / "out.mp4")
    assert shown(tmp_path / "out.mp4") == [(0.5, 1.9, "a"), (1.9, 2.0, "a b"), (2.0, 2.6, "b")]


def test_a_part_has_texts_without_a_stated_end(tmp_path: Path) -> None:
    source = spoken_in(tmp_path / "a.mkv", [(200, 0, "open"), (2000, 500, "next")])
    output = tmp_path / "part.mp4"
    plan = make_identity(source, output, FAST, start=Fraction(1), stop=Fraction(3))
    assert shown(output) == [(0, 1, "open"), (1, 1.5, "open next"), (1.5, 2, "open")]
    assert faults(probe(source), output, plan) == {}


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


def test_a_part_has_a_text_that_began_long_before(tmp_path: Path) -> None:
    cues = [(500, 14_000, "long"), (12_500, 500, "short")]
    source, output = (
        spoken_in(tmp_path / "a.mkv", cues, frames=75, rate=FIVE),
        tmp_path / "part.mp4",
    )
    plan = make_identity(source, output, FAST, start=Fraction(12), stop=Fraction(15))
    assert shown(output) == [(0, 0.5, "long"), (0.5, 1, "long short"), (1, 2.5, "long")]
    assert faults(probe(source), output, plan) == {}


@pytest.mark.parametrize("container", ["mkv", "webm"])
def test_a_part_has_a_copied_text_that_began_long_before(tmp_path: Path, container: str) -> None:
    """Copied into MKV, converted packet by packet into WebM."""
    begun, short = (500, 14_000, "long"), (12_500, 500, "short")
    cues = [begun, (1000, 500, "over"), short]
    source = spoken_in(tmp_path / "a.mkv", cues, frames=75, rate=FIVE)
    outputs = [tmp_path / f"{name}.{container}" for name in ("part", "lossy")]
    plan = make_identity(source, outputs[0], FAST, start=Fraction(12), stop=Fraction(15))
    assert shown(outputs[0]) == [(0, 2.5, "long"), (0.5, 1, "short")]
    assert faults(probe(source), outputs[0], plan) == {}
    without = spoken_in(tmp_path / "b.mkv", [short], frames=75, rate=FIVE)
    make_identity(without, outputs[1], FAST, start=Fraction(12), stop=Fraction(15))
    found = faults(probe(source), outputs[1], plan)
    assert "1 of 2 packets missing at 0.000 s" in found["stream-content"]


def test_texts_that_are_shown_when_a_part_begins_keep_their_order(tmp_path: Path) -> None:
    """Texts without a stated end last up to the next such one, the others for their duration."""
    cues = [(100, 900, "a"), (200, 0, "b"), (300, 0, "c"), (400, 1000, "d"), (1200, 0, "e")]
    source = spoken_in(tmp_path / "a.mkv", cues, frames=50)
    output = tmp_path / "part.mkv"
    plan = make_identity(source, output, FAST, start=Fraction(4, 5))
    assert [text for _, _, text in shown(output)] == ["a", "c", "d", "e"]
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
