"""Dynamic metadata of HDR10+ (SMPTE ST 2094-40): from FFmpeg's structure to a message again.

FFmpeg gives the metadata of each decoded frame as a structure of C, and PyAV gives it to no
encoder. So this module writes the message (ITU-T T.35) that a stream carries, as the standard lays
out its bits; `engine/video/write/frame_messages.py` puts it into the packets of the result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import Structure, c_int, c_uint8, c_uint16

UNWRITABLE = "unwritable"  # value of the statement where no message can be written
# United States, Samsung, ST 2094-40, application 4.
_OWNER = b"\xb5\x00\x3c\x00\x01\x04"
_WINDOWS, _PERCENTILES, _ANCHORS, _ROW = 3, 15, 15, 25
_PEAKS = _ROW * _ROW

# Names and order of the fields are those of AVDynamicHDRPlus; FFmpeg keeps the values of the
# message as numerators.


class _Rational(Structure):
    _fields_ = [("num", c_int), ("den", c_int)]


class _Percentile(Structure):
    _fields_ = [("percentage", c_uint8), ("percentile", _Rational)]


class _Window(Structure):
    _fields_ = [
        ("corners", _Rational * 4),
        ("centre", c_uint16 * 2),
        ("rotation", c_uint8),
        ("axes", c_uint16 * 3),
        ("overlap", c_int),
        ("maxscl", _Rational * 3),
        ("average_maxrgb", _Rational),
        ("percentile_count", c_uint8),
        ("percentiles", _Percentile * _PERCENTILES),
        ("fraction_bright", _Rational),
        ("has_tone_mapping", c_uint8),
        ("knee", _Rational * 2),
        ("anchor_count", c_uint8),
        ("anchors", _Rational * _ANCHORS),
        ("has_saturation", c_uint8),
        ("saturation", _Rational),
    ]


class _DynamicHdrPlus(Structure):
    _fields_ = [
        ("country", c_uint8),
        ("version", c_uint8),
        ("window_count", c_uint8),
        ("windows", _Window * _WINDOWS),
        ("target_luminance", _Rational),
        ("has_target_peaks", c_uint8),
        ("target_size", c_uint8 * 2),
        ("target_peaks", _Rational * _PEAKS),
        ("has_mastering_peaks", c_uint8),
        ("mastering_size", c_uint8 * 2),
        ("mastering_peaks", _Rational * _PEAKS),
    ]


def hdr10_plus_message(side_data: bytes) -> bytes:
    """The message of a frame's dynamic metadata, from its country code on.

    Args:
        side_data: AVDynamicHDRPlus as FFmpeg has it in memory.

    Returns:
        b"" for metadata of several windows, whose places are in pixels of the source, and for a
        structure of another version of FFmpeg.
    """
    if len(side_data) != ctypes.sizeof(_DynamicHdrPlus):
        return b""
    about = _DynamicHdrPlus.from_buffer_copy(side_data)
    sides = (*about.target_size, *about.mastering_size)
    if about.window_count != 1 or max(sides) > _ROW:
        return b""
    fields = list(_fields(about))
    if any(not 0 <= value < 1 << width for value, width in fields):
        return b""
    value, size = 0, 0
    for number, width in fields:
        value, size = value << width | number, size + width
    padding = -size % 8
    return _OWNER + (value << padding).to_bytes((size + padding) // 8, "big")


def _fields(about: _DynamicHdrPlus) -> Iterator[tuple[int, int]]:
    """Values of a message and their bits."""
    window = about.windows[0]
    yield about.version, 8
    yield about.window_count, 2
    yield about.target_luminance.num, 27
    yield from _peaks(about.has_target_peaks, about.target_size, about.target_peaks)
    for brightest in window.maxscl:
        yield brightest.num, 17
    yield window.average_maxrgb.num, 17
    yield window.percentile_count, 4
    for one in window.percentiles[: window.percentile_count]:
        yield one.percentage, 7
        yield one.percentile.num, 17
    yield window.fraction_bright.num, 10
    yield from _peaks(about.has_mastering_peaks, about.mastering_size, about.mastering_peaks)
    yield window.has_tone_mapping, 1
    if window.has_tone_mapping:
        for at in window.knee:
            yield at.num, 12
        yield window.anchor_count, 4
        for anchor in window.anchors[: window.anchor_count]:
            yield anchor.num, 10
    yield window.has_saturation, 1
    if window.has_saturation:
        yield window.saturation.num, 6


def _peaks(
    is_there: int, size: ctypes.Array[c_uint8], peaks: ctypes.Array[_Rational]
) -> Iterator[tuple[int, int]]:
    """Luminance that a display has in each part, row by row."""
    yield is_there, 1
    if is_there:
        rows, columns = size
        yield rows, 5
        yield columns, 5
        for row in range(rows):
            for column in range(columns):
                yield peaks[_ROW * row + column].num, 4
