"""Values at which checks begin to fail, in comparisons made by hand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from engine.core.control import Control
from engine.core.messages import message
from engine.protocol.media import Deinterlacing, StreamInfo
from engine.verification import frames, streams
from engine.verification.frames import DecodedFile, FrameComparison
from engine.verification.streams import ComparedFile, StreamPair
from engine.verification.thumbnails import Thumbnail
from engine.video.read.digest import StreamDigest
from tests.helpers.plans import a_media

MS = Fraction(1, 1000)


def compared(result: Sequence[int] = range(0, 400, 40), **more: object) -> FrameComparison:
    """Ten frames of the source, 40 ms apart, and those of a result; times in ms."""
    old, new = (DecodedFile(MS, pts=array("q", one)) for one in (range(0, 400, 40), result))
    return FrameComparison(old, new, shown=list(range(len(result))), **more)


def test_all_frames_together_must_be_alike() -> None:
    for alike, black, unlike, passes in (
        ([0.85, 0.85], [], [], True),
        ([0.95, 0.76], [], [], True),  # 0.855
        ([0.95, 0.74], [], [], False),  # 0.845
        ([0.95, 0.95, 0.1], [2], [], True),  # black frames have a check of their own
        ([0.95, 0.95], [], [1], False),
        ([], [], [], True),
    ):
        found = compared(alike=array("f", alike), black=black, unlike=unlike)
        assert frames.likeness_check(found).passed == passes, alike


def test_frames_are_counted_exactly_but_at_the_ends_of_a_part() -> None:
    for rendering, taken, left_out, in_result, whole, part in (
        # ten frames go on; the decoder returned as many, or half of them with two fields each
        (None, 0, 0, 10, True, True),
        (None, 0, 0, 9, False, False),
        (None, 0, 0, 11, False, False),
        ("frames", 10, 0, 10, True, True),
        ("frames", 11, 0, 10, False, True),  # at each end of a part one may be on both sides
        ("frames", 12, 0, 10, False, True),
        ("frames", 13, 0, 10, False, False),
        ("frames", 8, 0, 10, False, True),
        ("frames", 7, 0, 10, False, False),
        ("fields", 5, 0, 10, True, True),
        ("fields", 6, 0, 10, False, True),
        ("fields", 7, 0, 10, False, False),
        ("film", 12, 2, 10, True, True),
        ("film", 12, 1, 10, False, True),
        ("film", 12, 2, 9, False, False),
    ):
        found = compared(range(in_result))
        if rendering is not None:
            found.source.deinterlacing = Deinterlacing(rendering=rendering, field_order="tt")
        found.source.taken, found.source.left_out = taken, left_out
        checks = [frames.count_check(found, is_part=is_part) for is_part in (False, True)]
        assert [check.passed for check in checks] == [whole, part], (rendering, taken, left_out)


def test_times_are_those_of_the_source_or_rounded_to_ms() -> None:
    for shift, in_mp4, in_mkv in (
        (0, True, True),
        (1, False, True),  # half a ms to either side
        (-1, False, True),
        (2, False, False),
        (-2, False, False),
    ):
        times = list(range(1000, 1400, 40))  # all begin a second later: that is no fault
        times[7] += shift
        for container, passes in (("mp4", in_mp4), ("matroska,webm", in_mkv)):
            media = replace(a_media(), container=container)
            assert frames.times_check(compared(times), media).passed == passes, (shift, container)


def grey(*levels: float) -> Thumbnail:
    """20 x 20 cells of the first level; the others are those of single cells in its first row."""
    found = np.full((20, 20), levels[0], np.float32)
    found[0, : len(levels) - 1] = levels[1:]
    return found


def test_a_frame_is_black_or_shows_something_else() -> None:
    for source, result, judged in (
        # black: nothing at 3.5 % or more, where the source has something above 10 %
        (grey(0.09, 0.11), grey(0.034), "black"),
        (grey(0.09, 0.11), grey(0.034, 0.036), ""),
        (grey(0.09, 0.099), grey(0.034), ""),
        # one cell of 400 is below 0.3 %, two are above it; far off are more than 25 %
        (grey(0.5), grey(0.5, 0.76), ""),
        (grey(0.5), grey(0.5, 0.76, 0.76), "unlike"),
        (grey(0.5), grey(0.5, 0.74, 0.74), ""),
        (grey(0.5), grey(0.5, 0.24, 0.24), "unlike"),
        # of even areas (2ab + 1e-4) / (a^2 + b^2 + 1e-4): 0.0601 / 0.1001 = 0.6004, and 0.599
        (grey(0.1), grey(0.3), ""),
        (grey(0.1), grey(0.301), "unlike"),
    ):
        found = compared()
        frames._judge(found, 3, source, result)
        wanted = [3] * (judged == "black"), [3] * (judged == "unlike")
        assert (found.black, found.unlike) == wanted, result


def test_sound_may_be_less_than_10_ms_off() -> None:
    sound = StreamInfo(index=1, kind="audio", codec="aac")
    for shift, wander, case in (
        (0.0099, 0.0, ""),
        (0.010, 0.0, "late"),
        (-0.0099, 0.0, ""),
        (-0.010, 0.0, "early"),
        (0.0, 0.0099, ""),
        (0.0, 0.010, "wandering"),
    ):
        off = {"shift": shift, "wander": wander}
        pair = StreamPair(name=message("stream.audio"), source=sound, result=sound, **off)
        fault = streams._timing_fault(pair)
        assert fault is None if not case else fault.code == f"check.sound-timing.{case}", off


def spoken(
    *tracks: Sequence[tuple[str, int]], languages: Sequence[str] = (), codec: str = "subrip"
) -> ComparedFile:
    """A video with tracks of subtitles, by text and start, ms; each text is shown for 100 ms."""
    found, packets = [], {}
    for index, texts in enumerate(tracks, 1):
        language = languages[index - 1] if languages else "und"
        found.append(StreamInfo(index=index, kind="subtitle", codec=codec, language=language))
        packets[index] = StreamDigest(index=index, lengths=[100] * len(texts))
        for text, start in texts:
            packets[index].add(text.encode(), start)
    media = replace(a_media(), streams=tuple(found))
    return ComparedFile(media=media, packets=packets, origin=Fraction(0))


def failed(source: ComparedFile, result: ComparedFile, part_s: float | None) -> set[str]:
    checks, _ = streams.compare_streams(source, result, None, part_s, Control())
    return {check.code for check in checks if not check.passed}


def test_tracks_with_equal_packets_are_told_apart_by_times_and_names() -> None:
    source = spoken([("a", -900), ("b", 5000)], [("a", 1000), ("b", 5000)])
    for tracks, expected in (
        (([], [("a", 1000)]), set()),
        (([("a", 1000)], []), set()),  # in the other order
        (([], []), {"stream-content"}),
        (([], [("a", 1500)]), {"sound-timing"}),
        (([("a", 1000)],), {"streams"}),
    ):
        assert failed(source, spoken(*tracks), 2.0) == expected, tracks
    mp4 = replace(a_media(), container="mov,mp4", path=Path("a.mp4"))
    for tracks, expected in (([[("a", 1000)]], set()), ([], {"streams"})):
        result = spoken(*tracks)
        result = replace(result, media=replace(mp4, streams=result.media.streams))
        assert failed(source, result, 2.0) == expected, "the other track has nothing in the part"
    two, names = ([("a", 1000)],) * 2, ("eng", "deu")
    source, result = spoken(*two, languages=names), spoken(*two, languages=names[::-1])
    _, pairs = streams.compare_streams(source, result, None, None, Control())
    assert [(old.language, new.language) for old, new in pairs] == [("eng",) * 2, ("deu",) * 2]


def test_converted_texts_are_told_apart_by_times_and_by_the_languages_that_both_files_state() -> (
    None
):
    source = spoken([("a", 0)], [("b", 0)], [("c", 500)], languages=("en", "deu", "und"))
    for tracks, expected in (
        ((("", 0), ("deu", 0), ("", 500)), {1: 1, 2: 2, 3: 3}),
        ((("deu", 0), ("", 500)), {2: 1, 3: 2}),
        ((("", 500),), {3: 1}),
    ):
        texts = [[("", start)] for _, start in tracks]
        names = [language for language, _ in tracks]
        result = spoken(*texts, languages=names, codec="mov_text")
        found = streams._match(source, result, [*source.media.streams], None)
        assert {old: new.index for old, new in found.items()} == expected
