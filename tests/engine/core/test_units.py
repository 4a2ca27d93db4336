from fractions import Fraction

import pytest

from engine.core.errors import SettingsError
from engine.core.messages import text_of
from engine.core.units import (
    bytes_text,
    clock_text,
    duration_text,
    memory_text,
    minutes_message,
    parse_clock,
    parse_memory,
    range_text,
    rate_text,
)


def test_bytes_are_shown_in_decimal_units_and_memory_in_those_of_1024() -> None:
    assert [bytes_text(count) for count in (0, 999, 1500, 212e6, 1.34e9)] == [
        *("0 B", "999 B", "1.5 kB", "212 MB", "1.3 GB")
    ]
    assert [memory_text(count) for count in (500, 300 * 2**20, 2**30, 17_071_734_784)] == [
        *("0 kB", "300 MB", "1.0 GB", "15.9 GB")
    ]


def test_durations_have_few_digits() -> None:
    assert [duration_text(seconds) for seconds in (0, 0.3, 59.4, 200, 1800, 3590, 7500)] == [
        *("0 s", "under 1 s", "59 s", "3 min 20 s", "30 min", "1 h 00 min", "2 h 05 min")
    ]


def test_a_range_has_one_unit_and_is_rounded_outwards() -> None:
    for low, high, text in (
        (0.2, 0.7, "1 s"),
        (11.6, 86.1, "11 to 87 s"),
        (50, 340, "0.8 to 6 min"),
        (130, 830, "2 to 14 min"),
        (3600, 7200, "1 to 2 h"),
        (5000, 40_000, "1.3 to 12 h"),
    ):
        assert range_text(low, high) == text


def test_times_are_exact_and_other_texts_are_refused() -> None:
    for text, seconds in {
        "12.5": Fraction(25, 2),
        "1:02.5": Fraction(125, 2),
        "01:02:03.250": Fraction(14893, 4),
        "1001/24": Fraction(1001, 24),
        "0": Fraction(0),
    }.items():
        assert parse_clock(text) == seconds
    for text in ("", "a", "1:2:3:4", "1::2", "1/0", "-5", "1e999999999", "9" * 99):
        with pytest.raises(SettingsError) as caught:
            parse_clock(text)
        assert caught.value.case == ("negative-time" if text == "-5" else "not-a-time"), text


def test_clock_and_rate() -> None:
    assert clock_text(Fraction(118040, 1000)) == "00:01:58.040"
    rates = (Fraction(25), Fraction(24000, 1001), None)
    assert [rate_text(rate) for rate in rates] == ["25", "23.976", "unknown"]


def test_sizes_of_memory_are_read_in_all_usual_spellings() -> None:
    for text in ("16GiB", "16 GB", "16g", " 16384 MiB ", "16384mb", "0.015625 TiB", "16.0 GB"):
        assert parse_memory(text) == 16 * 2**30
    for text in ("", "16", "GB", "0 GiB", "-1 GB", "1e3 GB", "16 kB", "9" * 999 + "g"):
        with pytest.raises(SettingsError, match="not a valid memory size"):
            parse_memory(text)


def test_minutes_in_a_sentence_are_in_its_language() -> None:
    durations = [minutes_message(seconds) for seconds in (2, 1200, 3900)]
    shown = {
        language: [text_of(one, language) for one in durations] for language in ("en", "zh_CN")
    }
    assert shown["en"] == ["1 min", "20 min", "1 h 05 min"]
    assert shown["zh_CN"] == ["1 分钟", "20 分钟", "1 小时 05 分钟"]
