from fractions import Fraction
from types import SimpleNamespace

from engine.video.read.clock import FrameTimes, StampCheck


def times(
    rate: Fraction = Fraction(25), base: Fraction = Fraction(1, 1000), container: str = "matroska"
) -> FrameTimes:
    stream = SimpleNamespace(time_base=base, guessed_rate=rate, average_rate=None)
    return FrameTimes(stream, StampCheck(container))


def stamps(line: FrameTimes, *frames: tuple[int | None, int | None]) -> list[int]:
    return [line.pts_of(SimpleNamespace(pts=pts, dts=dts)) for pts, dts in frames]


def test_a_stamp_is_kept_and_decoding_time_or_the_rate_stands_in() -> None:
    assert stamps(times(), (-40, 0), (0, 40), (None, 80), (90, 120)) == [-40, 0, 80, 90]
    assert stamps(times(), (100, None), (140, None), (None, None)) == [100, 140, 180]


def test_frames_without_times_follow_the_rate_exactly() -> None:
    line = times(Fraction(24000, 1001), Fraction(1, 1_200_000))
    made = stamps(line, *[(None, None)] * 1001)
    assert made == [round(number * Fraction(1001, 24000) * 1_200_000) for number in range(1001)]


def test_stamps_always_rise() -> None:
    assert stamps(times(), (0, 0), (40, 0), (40, 0), (40, 0), (120, 0)) == [0, 40, 41, 42, 120]


def test_stamps_that_had_to_be_moved_differ_in_milliseconds_too() -> None:
    line = times(base=Fraction(1, 90_000), container="mpegts")
    assert stamps(line, (0, 0), (9000, 0), (9000, 0), (27_000, 0)) == [0, 9000, 9090, 27_000]


def test_a_clock_that_jumps_back_twice_goes_on_both_times() -> None:
    line = times()
    made = stamps(line, *((pts, 0) for pts in (5000, 5040, 0, 40, 3000, 0, 40)))
    assert made == [5000, 5040, 5080, 5120, 8080, 8120, 8160]
    assert line.jumps == 2


def test_a_stamp_of_a_broadcast_that_leaps_ahead_counts_if_the_next_one_confirms_it() -> None:
    wrong = [(pts, 0) for pts in (0, 40, 90_000_000, 120, 160)]
    assert stamps(times(container="mpegts"), *wrong) == [0, 40, 80, 120, 160]
    silence = [(pts, 0) for pts in (0, 40, 60_000, 60_040, 60_080)]
    assert stamps(times(container="mpegts"), *silence) == [0, 40, 80, 60_040, 60_080]
    assert stamps(times(), *silence) == [0, 40, 60_000, 60_040, 60_080], "a slide show"
