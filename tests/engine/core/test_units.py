from fractions import Fraction

import pytest

from engine.core.errors import SettingsError
from engine.core.units import (
    bytes_text,
    clock_text,
    duration_text,
    memory_text,
    parse_clock,
    parse_memory,
    rate_text,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (212e6, "212 MB"),
        (1.34e9, "1.3 GB"),
    ],
)
def test_bytes_as_people_read_them(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(500, "0 kB"), (300 * 2**20, "300 MB"), (2**30, "1.0 GB"), (17_071_734_784, "15.9 GB")],
)
def test_memory_is_counted_as_on_the_box_of_a_card(count, text):
    assert memory_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (200, "3 min 20 s"),
        (1800, "30 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_length_of_time(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12.5", Fraction(25, 2)),
        ("1:02.5", Fraction(125, 2)),
        ("01:02:03.250", Fraction(14893, 4)),
        ("1001/24", Fraction(1001, 24)),
        ("0", Fraction(0)),
    ],
)
def test_times_are_exact(text, seconds):
    assert parse_clock(text) == seconds


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "1::2", "-5", "1/0"])
def test_no_time(text):
    with pytest.raises(SettingsError):
        parse_clock(text)


def test_clock_and_rate():
    assert clock_text(Fraction(118040, 1000)) == "00:01:58.040"
    assert (rate_text(Fraction(25)), rate_text(Fraction(24000, 1001)), rate_text(None)) == (
        "25",
        "23.976",
        "unknown",
    )


@pytest.mark.parametrize(
    "text", ["16GiB", "16 GB", "16g", " 16384 MiB ", "16384mb", "0.015625 TiB", "16.0 GB"]
)
def test_memory_as_people_write_it(text):
    assert parse_memory(text) == 16 * 2**30


@pytest.mark.parametrize("text", ["", "16", "GB", "0 GiB", "-1 GB", "1e3 GB", "16 kB"])
def test_no_size_of_memory(text):
    with pytest.raises(SettingsError):
        parse_memory(text)
