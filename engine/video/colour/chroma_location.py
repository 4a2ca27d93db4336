"""Where chroma samples lie: what a codec means, and what an H.264 or HEVC stream says itself.

PyAV does not hand out this property, so the sequence header is read here.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.protocol.media import Chroma

_LOCATIONS = ("left", "center", "topleft", "top", "bottomleft", "bottom")
_MEANT = {
    "h264": "left",
    "hevc": "left",
    "mpeg2video": "left",
    "mpeg4": "left",
    "mpeg1video": "center",
    "mjpeg": "center",
    "theora": "center",
}
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def chroma_location(codec: str, chroma: Chroma, header: bytes) -> str:
    """FFmpeg's name of the place of chroma, "" where nothing says it or chroma is not reduced.

    Args:
        codec: FFmpeg's name.
        chroma: Of the picture; only 4:2:0 can be placed otherwise than by its codec.
        header: The decoder's extradata, or the first packet: NAL units in any packing.
    """
    if chroma not in ("420", "422", "411", "410", "440"):
        return ""
    meant = _MEANT.get(codec, "")
    if chroma != "420" or codec not in ("h264", "hevc"):
        return meant
    for unit in _units(header, codec):
        try:
            number = _in_h264(unit) if codec == "h264" else _in_hevc(unit)
        except IndexError:
            continue  # a damaged header: the decoder had to guess as well
        if number is not None and number < len(_LOCATIONS):
            return _LOCATIONS[number]
    return meant


def _units(header: bytes, codec: str) -> Iterator[bytes]:
    """Sequence headers in extradata of MP4 and MKV (avcC, hvcC) or in a byte stream."""
    if header[:1] == b"\x01":
        yield from _boxed_units(header, codec)
        return
    parts = header.replace(b"\x00\x00\x00\x01", b"\x00\x00\x01").split(b"\x00\x00\x01")
    yield from (part for part in parts[1:] if part and _is_sequence(part, codec))


def _is_sequence(unit: bytes, codec: str) -> bool:
    return unit[0] & 31 == 7 if codec == "h264" else unit[0] >> 1 & 63 == 33


def _boxed_units(header: bytes, codec: str) -> Iterator[bytes]:
    if codec == "h264":
        at, groups = 5, [header[5] & 31 if len(header) > 5 else 0]
    else:
        at, groups = 22, [0] * (header[22] if len(header) > 22 else 0)
    at += 1
    for first in groups:
        count = first
        if codec == "hevc":
            count = int.from_bytes(header[at + 1 : at + 3], "big")
            at += 3
        for _ in range(count):
            size = int.from_bytes(header[at : at + 2], "big")
            unit = header[at + 2 : at + 2 + size]
            at += 2 + size
            if unit and _is_sequence(unit, codec):
                yield unit


class _Bits:
    """Bits of a NAL unit, most significant first, without its emulation bytes."""

    def __init__(self, unit: bytes) -> None:
        self._data = unit.replace(b"\x00\x00\x03", b"\x00\x00")
        self._at = 0

    def take(self, count: int) -> int:
        """The next bits as a number; IndexError behind the end."""
        value = 0
        for _ in range(count):
            value = value << 1 | self._data[self._at >> 3] >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def golomb(self) -> int:
        """The next unsigned Exp-Golomb number; signed ones are only ever skipped."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)

    def golombs(self, count: int) -> None:
        """Skip some."""
        for _ in range(count):
            self.golomb()


def _in_h264(unit: bytes) -> int | None:
    """chroma_sample_loc_type_top_field of a sequence parameter set (ITU-T H.264, 7.3.2.1)."""
    bits = _Bits(unit[1:])
    profile = bits.take(8)
    bits.take(16)
    bits.golomb()
    if profile in _HIGH_PROFILES:
        chroma_format = bits.golomb()
        if chroma_format == 3:
            bits.take(1)
        bits.golombs(2)
        bits.take(1)
        if bits.take(1):
            for index in range(8 if chroma_format != 3 else 12):
                if bits.take(1):
                    _skip_list(bits, 16 if index < 6 else 64)
    bits.golomb()
    order = bits.golomb()
    if order == 0:
        bits.golomb()
    elif order == 1:
        bits.take(1)
        bits.golombs(2)
        bits.golombs(bits.golomb())
    bits.golomb()
    bits.take(1)
    bits.golombs(2)
    if not bits.take(1):
        bits.take(1)
    bits.take(1)
    if bits.take(1):  # cropping
        bits.golombs(4)
    return _in_vui(bits) if bits.take(1) else None


def _skip_list(bits: _Bits, size: int) -> None:
    """A scaling list: signed differences, until one makes the next scale 0."""
    last = 8
    for _ in range(size):
        code = bits.golomb()
        last = (last + (code + 1 >> 1 if code & 1 else -(code >> 1)) + 256) % 256
        if last == 0:
            return


def _in_vui(bits: _Bits) -> int | None:
    """The head of the video usability information, the same in H.264 and HEVC."""
    if bits.take(1) and bits.take(8) == 255:  # shape of a pixel
        bits.take(32)
    if bits.take(1):
        bits.take(1)
    if bits.take(1):
        bits.take(4)
        if bits.take(1):
            bits.take(24)
    return bits.golomb() if bits.take(1) else None


def _in_hevc(unit: bytes) -> int | None:
    """chroma_sample_loc_type_top_field of a sequence parameter set (ITU-T H.265, 7.3.2.2)."""
    bits = _Bits(unit[2:])
    bits.take(4)
    layers = bits.take(3)
    bits.take(1)
    _skip_profile(bits, layers)
    bits.golomb()
    if bits.golomb() == 3:
        bits.take(1)
    bits.golombs(2)
    if bits.take(1):  # cropping
        bits.golombs(4)
    bits.golombs(2)
    order_bits = bits.golomb() + 4
    bits.golombs(3 * (layers + 1 if bits.take(1) else 1))
    bits.golombs(6)
    if bits.take(1) and bits.take(1):
        _skip_hevc_lists(bits)
    bits.take(2)
    if bits.take(1):
        bits.take(8)
        bits.golombs(2)
        bits.take(1)
    _skip_reference_sets(bits)
    if bits.take(1):
        for _ in range(bits.golomb()):
            bits.take(order_bits + 1)
    bits.take(2)
    return _in_vui(bits) if bits.take(1) else None


def _skip_profile(bits: _Bits, layers: int) -> None:
    bits.take(96)
    flags = [(bits.take(1), bits.take(1)) for _ in range(layers)]
    if layers:
        bits.take(2 * (8 - layers))
    for profile, level in flags:
        bits.take(88 * profile + 8 * level)


def _skip_hevc_lists(bits: _Bits) -> None:
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.take(1):
                bits.golomb()
                continue
            bits.golombs(min(64, 1 << (4 + 2 * size)) + (size > 1))


def _skip_reference_sets(bits: _Bits) -> None:
    entries = 0  # pictures in the set before
    for index in range(bits.golomb()):
        if index and bits.take(1):
            bits.take(1)
            bits.golomb()
            kept = 0
            for _ in range(entries + 1):
                used = bits.take(1)
                kept += 1 if used or bits.take(1) else 0
            entries = kept
        else:
            entries = bits.golomb() + bits.golomb()
            for _ in range(entries):
                bits.golomb()
                bits.take(1)
