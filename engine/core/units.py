"""Bytes, seconds, frame rates and versions to and from text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from engine.core.errors import SettingsError
from engine.core.messages import Message, message


def bytes_text(count: float) -> str:
    """Bytes in decimal units: "1.3 GB", "212 MB", "512 B"."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def memory_text(count: float) -> str:
    """Bytes of memory in the units of Windows and GPU vendors: "15.9 GB" are 15.9 * 2**30."""
    for unit, size in (("GB", 2**30), ("MB", 2**20)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if unit == "GB" else f"{count / size:.0f} {unit}"
    return f"{count / 2**10:.0f} kB"


def parse_memory(text: str) -> int:
    """Bytes of "16GiB", "16 GB", "12288 MiB" or "16g".

    GB and GiB both mean 2**30 bytes here, as in the names of GPUs.

    Raises:
        SettingsError: Not a size, or zero.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([mgt])(?:i?b)?", text.strip().casefold())
    count = round(float(match[1]) * 2 ** {"m": 20, "g": 30, "t": 40}[match[2]]) if match else 0
    if count < 1:
        raise SettingsError("not-a-memory-size", text=text)
    return count


def duration_text(seconds: float) -> str:
    """A duration: "under 1 s", "45 s", "3 min 20 s", "2 h 05 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s" if whole or seconds <= 0 else "under 1 s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02d} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def minutes_message(seconds: float) -> Message:
    """A duration in a sentence of any language: "20 min", "1 h 05 min", at least a minute."""
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    if hours:
        return message("duration.hours", hours=hours, minutes=f"{minutes:02d}")
    return message("duration.minutes", minutes=minutes)


def range_in_unit(low: float, high: float) -> tuple[str, str, str]:
    """Least and most seconds as figures in one unit, "s", "min" or "h", rounded outwards."""
    unit, length = ("s", 1) if high < 120 else ("min", 60) if high < 7200 else ("h", 3600)

    def figure(seconds: float, rounded: Callable[[float], int]) -> str:
        value = round(seconds / length, 6)
        scale = 10 if unit != "s" and value < 2 else 1
        return f"{max(1, rounded(value * scale)) / scale:g}"

    return figure(low, math.floor), figure(high, math.ceil), unit


def range_text(low: float, high: float) -> str:
    """A range of durations: "2 to 14 min"."""
    least, most, unit = range_in_unit(low, high)
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"


def clock_text(seconds: float | Fraction) -> str:
    """A time in a video: "00:01:58.040"."""
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"


def parse_clock(text: str) -> Fraction:
    """Exact seconds of "12.5", "1:02.5", "01:02:03.250" or a fraction "1001/24".

    Raises:
        SettingsError: Not a time, or a negative one.
    """
    parts = text.strip().split(":")
    try:
        if len(parts) > 3 or not all(parts):
            raise ValueError(text)
        seconds = Fraction(0)
        for part in parts:
            seconds = seconds * 60 + parse_fraction(part)
    except ValueError as err:
        raise SettingsError("not-a-time", text=text) from err
    if seconds < 0:
        raise SettingsError("negative-time", text=text)
    return seconds


_MOST_FIGURES = 60  # of a number as text
_FRACTION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)|[+-]?\d+/\d+", re.ASCII)


def parse_fraction(text: str) -> Fraction:
    """Exact value of "24000/1001", "25", "12.5" or "-3/2".

    Exponents are no part of it: of "1e1000000000" Fraction would compute every digit.

    Raises:
        ValueError: It is none of these, is longer than 60 characters, or divides by zero.
        TypeError: It is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no text")
    text = text.strip() if len(text) <= _MOST_FIGURES else ""
    if not _FRACTION.fullmatch(text):
        raise ValueError("not a number")
    try:
        return Fraction(text)
    except ZeroDivisionError as err:
        raise ValueError("division by zero") from err


def rate_text(rate: Fraction | None) -> str:
    """Frames per second: "25", "23.976"; "unknown" for None."""
    if rate is None:
        return "unknown"
    return str(rate.numerator) if rate.denominator == 1 else f"{float(rate):.3f}"


def ratio_text(ratio: Fraction) -> str:
    """A ratio of sides: "16:9"; "2.39:1" where that is shorter."""
    exact = f"{ratio.numerator}:{ratio.denominator}"
    return exact if len(exact) <= len("64:45") else f"{float(ratio):.2f}:1"


def version_parts(version: str) -> tuple[int, ...]:
    """The whole numbers of a version, to compare it: (580, 97) of "580.97", () of ""."""
    return tuple(map(int, re.findall(r"\d+", version)))
