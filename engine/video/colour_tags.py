"""Colour tags of a stream in FFmpeg's names, as read and as written, and its chroma location.

PyAV gives the code points of ITU-T H.273. It has no property for the chroma location: an H.264 or
HEVC stream states it in its sequence parameter set, which is parsed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from engine.core.geometry import Size
from engine.protocol.media import Chroma, ColourTags, Hdr, HdrMetadata, VideoInfo


def _code_points(table: str) -> dict[int, str]:
    """A table of "code point name" pairs."""
    pairs = (entry.split() for entry in table.split(","))
    return {int(code): name for code, name in pairs}


_MATRIX = _code_points(
    """
    0 rgb, 1 bt709, 4 fcc, 5 bt470bg, 6 smpte170m, 7 smpte240m, 8 ycgco, 9 bt2020nc, 10 bt2020c,
    11 smpte2085, 12 chroma-derived-nc, 13 chroma-derived-c, 14 ictcp, 15 ipt-c2, 16 ycgco-re,
    17 ycgco-ro
    """
)
_RANGE = {1: "tv", 2: "pc"}
_PRIMARIES = _code_points(
    """
    1 bt709, 4 bt470m, 5 bt470bg, 6 smpte170m, 7 smpte240m, 8 film, 9 bt2020, 10 smpte428,
    11 smpte431, 12 smpte432, 22 jedec-p22
    """
)
_TRANSFER = _code_points(
    """
    1 bt709, 4 bt470m, 5 bt470bg, 6 smpte170m, 7 smpte240m, 8 linear, 9 log100, 10 log316,
    11 iec61966-2-4, 12 bt1361e, 13 iec61966-2-1, 14 bt2020-10, 15 bt2020-12, 16 smpte2084,
    17 smpte428, 18 arib-std-b67
    """
)


_D65, _DCI, _C = (0.3127, 0.329), (0.314, 0.351), (0.310, 0.316)
# x and y of red, green, blue and white (ITU-T H.273, table 2).
CHROMATICITIES: dict[str, tuple[float, ...]] = {
    "bt709": (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, *_D65),
    "bt470m": (0.67, 0.33, 0.21, 0.71, 0.14, 0.08, *_C),
    "bt470bg": (0.64, 0.33, 0.29, 0.60, 0.15, 0.06, *_D65),
    "smpte170m": (0.63, 0.34, 0.31, 0.595, 0.155, 0.07, *_D65),
    "smpte240m": (0.63, 0.34, 0.31, 0.595, 0.155, 0.07, *_D65),
    "film": (0.681, 0.319, 0.243, 0.692, 0.145, 0.049, *_C),
    "bt2020": (0.708, 0.292, 0.17, 0.797, 0.131, 0.046, *_D65),
    "smpte428": (1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1 / 3, 1 / 3),
    "smpte431": (0.68, 0.32, 0.265, 0.69, 0.15, 0.06, *_DCI),
    "smpte432": (0.68, 0.32, 0.265, 0.69, 0.15, 0.06, *_D65),
    "jedec-p22": (0.63, 0.34, 0.295, 0.605, 0.155, 0.077, *_D65),
}
_SAME = 0.0015  # difference of primaries that are the same


def primaries_of(chromaticities: tuple[float, ...]) -> str:
    """Name of primaries; "" where they have none.

    Args:
        chromaticities: x and y of red, green, blue and white; () where none are stated.
    """
    for name, known in CHROMATICITIES.items() if chromaticities else ():
        if all(abs(a - b) <= _SAME for a, b in zip(chromaticities, known, strict=True)):
            return name
    return ""


def tags_of(context: Any, frame: Any) -> ColourTags:
    """Tags of a decoder and its first frame; those of the frame come first.

    Args:
        context: av.VideoCodecContext or None.
        frame: av.VideoFrame or None.
    """
    return ColourTags(
        matrix=_tag(_MATRIX, "colorspace", frame, context),
        range=_tag(_RANGE, "color_range", frame, context),
        primaries=_tag(_PRIMARIES, "color_primaries", frame, context),
        transfer=_tag(_TRANSFER, "color_trc", frame, context),
    )


def _tag(names: dict[int, str], attribute: str, *tagged: Any) -> str:
    values = (int(getattr(each, attribute)) for each in tagged if each is not None)
    return next((names[value] for value in values if value in names), "")


def hdr_of(tags: ColourTags) -> Hdr:
    """Kind of high dynamic range, by the transfer."""
    if tags.transfer == "smpte2084":
        return "pq"
    return "hlg" if tags.transfer == "arib-std-b67" else ""


def hdr_metadata(display: bytes, light: bytes, *, begins_with_red: bool) -> HdrMetadata | None:
    """HDR metadata of an image; None where neither part is stated.

    Args:
        display: Primaries and white in 1/50000, most and least luminance in 1/10000 cd/m2.
        light: Light of the brightest pixel and the mean of the brightest frame: of 2 bytes in
            cd/m2, of 4 in 1/10000 of it.
        begins_with_red: Red, green, blue in place of green, blue, red.
    """
    found = HdrMetadata()
    if len(display) == 24:
        *points, most, least = struct.unpack(">8H2I", display)
        colours, white = points[:6], points[6:]
        ordered = (*(colours if begins_with_red else colours[4:] + colours[:4]), *white)
        primaries = tuple(Fraction(value, 50_000) for value in ordered)
        luminance = Fraction(least, 10_000), Fraction(most, 10_000)
        found = HdrMetadata(primaries=primaries, luminance=luminance)
    if len(light) in (4, 8):
        levels = struct.unpack(">2H" if len(light) == 4 else ">2I", light)
        unit = 1 if len(light) == 4 else 10_000
        found = replace(found, light_level=tuple(round(level / unit) for level in levels))
    return found if found != HdrMetadata() else None


def assumed_matrix(size: Size) -> str:
    """Matrix of an untagged YUV picture: BT.601 for SD, BT.709 above."""
    return "smpte170m" if size.height <= 576 and size.width <= 1024 else "bt709"


def assumed_range(video: VideoInfo) -> str:
    """Range of an untagged picture: full ("pc") for RGB, gray and JPEG, else limited ("tv")."""
    is_full = video.chroma in ("rgb", "gray") or video.pixel_format.startswith("yuvj")
    return "pc" if is_full else "tv"


def assumed_transfer(video: VideoInfo) -> str:
    """Transfer of an untagged picture: sRGB for stills, which have full range, else BT.709."""
    is_full = (video.tags.range or assumed_range(video)) == "pc"
    return "iec61966-2-1" if is_full else "bt709"


# Values that FFmpeg's options spell otherwise than its probe.
_OPTION_VALUES = {
    "transfer": {"bt470m": "gamma22", "bt470bg": "gamma28"},
    "matrix": {"gbr": "rgb"},
    "primaries": {"ebu3213": "jedec-p22"},
}
_OPTION_NAMES = {
    "matrix": "colorspace",
    "range": "color_range",
    "primaries": "color_primaries",
    "transfer": "color_trc",
    "chroma_location": "chroma_sample_location",
}


def colour_options(tags: ColourTags) -> dict[str, str]:
    """Options by which any encoder of FFmpeg, and the file around it, carry the tags."""
    options = {}
    for name, option in _OPTION_NAMES.items():
        value: str = getattr(tags, name)
        if value and value not in ("unknown", "unspecified", "reserved"):
            options[option] = _OPTION_VALUES.get(name, {}).get(value, value)
    return options


def tag_like(frame: Any, context: Any) -> None:
    """Give a frame the colours of an open encoder: some read those of frames."""
    for name in ("colorspace", "color_range", "color_primaries", "color_trc"):
        setattr(frame, name, int(getattr(context, name)))


_LOCATIONS = ("left", "center", "topleft", "top", "bottomleft", "bottom")
_DEFAULT_LOCATIONS = {
    "h264": "left",
    "hevc": "left",
    "mpeg2video": "left",
    "mpeg4": "left",
    "mpeg1video": "center",
    "mjpeg": "center",
    "avif": "center",  # its writers average the colours of four pixels
    "theora": "center",
}
_HIGH_PROFILES = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)


def chroma_location(codec: str, chroma: Chroma, header: bytes) -> str:
    """FFmpeg's name of the chroma location; "" where it is unknown or chroma is not reduced.

    Args:
        codec: FFmpeg's name.
        chroma: Subsampling; only 4:2:0 can have another location than its codec's default.
        header: The decoder's extradata, or the first packet: NAL units in any packing.
    """
    if chroma not in ("420", "422", "411", "410", "440"):
        return ""
    default = _DEFAULT_LOCATIONS.get(codec, "")
    if chroma != "420" or codec not in ("h264", "hevc"):
        return default
    for unit in _parameter_sets(header, codec):
        try:
            value = _in_h264(unit) if codec == "h264" else _in_hevc(unit)
        except IndexError:
            continue  # a damaged header: the decoder uses the default, too
        if value is not None and value < len(_LOCATIONS):
            return _LOCATIONS[value]
    return default


def _parameter_sets(header: bytes, codec: str) -> Iterator[bytes]:
    """Sequence parameter sets in extradata of MP4 and MKV (avcC, hvcC) or in a byte stream."""
    if header[:1] == b"\x01":
        yield from _boxed_parameter_sets(header, codec)
        return
    parts = header.replace(b"\x00\x00\x00\x01", b"\x00\x00\x01").split(b"\x00\x00\x01")
    yield from (part for part in parts[1:] if part and _is_sequence(part, codec))


def _is_sequence(unit: bytes, codec: str) -> bool:
    return unit[0] & 31 == 7 if codec == "h264" else unit[0] >> 1 & 63 == 33


def _boxed_parameter_sets(header: bytes, codec: str) -> Iterator[bytes]:
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


class _BitReader:
    """Bits of a NAL unit, most significant first, without its emulation bytes."""

    def __init__(self, unit: bytes) -> None:
        self._data = unit.replace(b"\x00\x00\x03", b"\x00\x00")
        self._at = 0

    def read(self, count: int) -> int:
        """The next bits as an integer; IndexError after the end."""
        value = 0
        for _ in range(count):
            value = value << 1 | self._data[self._at >> 3] >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def read_golomb(self) -> int:
        """The next unsigned Exp-Golomb code; signed ones are only ever skipped."""
        zeros = 0
        while not self.read(1):
            zeros += 1
        return (1 << zeros) - 1 + self.read(zeros)

    def skip_golombs(self, count: int) -> None:
        """Skip `count` codes."""
        for _ in range(count):
            self.read_golomb()


def _in_h264(unit: bytes) -> int | None:
    """chroma_sample_loc_type_top_field of a sequence parameter set (ITU-T H.264, 7.3.2.1)."""
    bits = _BitReader(unit[1:])
    profile = bits.read(8)
    bits.read(16)
    bits.read_golomb()
    if profile in _HIGH_PROFILES:
        chroma_format = bits.read_golomb()
        if chroma_format == 3:
            bits.read(1)
        bits.skip_golombs(2)
        bits.read(1)
        if bits.read(1):
            for index in range(8 if chroma_format != 3 else 12):
                if bits.read(1):
                    _skip_list(bits, 16 if index < 6 else 64)
    bits.read_golomb()
    order = bits.read_golomb()
    if order == 0:
        bits.read_golomb()
    elif order == 1:
        bits.read(1)
        bits.skip_golombs(2)
        bits.skip_golombs(bits.read_golomb())
    bits.read_golomb()
    bits.read(1)
    bits.skip_golombs(2)
    if not bits.read(1):
        bits.read(1)
    bits.read(1)
    if bits.read(1):  # cropping
        bits.skip_golombs(4)
    return _in_vui(bits) if bits.read(1) else None


def _skip_list(bits: _BitReader, size: int) -> None:
    """Skips a scaling list: signed differences, until one makes the next scale 0."""
    last = 8
    for _ in range(size):
        code = bits.read_golomb()
        last = (last + (code + 1 >> 1 if code & 1 else -(code >> 1)) + 256) % 256
        if last == 0:
            return


def _in_vui(bits: _BitReader) -> int | None:
    """The start of the video usability information, the same in H.264 and HEVC."""
    if bits.read(1) and bits.read(8) == 255:  # sample aspect ratio
        bits.read(32)
    if bits.read(1):
        bits.read(1)
    if bits.read(1):
        bits.read(4)
        if bits.read(1):
            bits.read(24)
    return bits.read_golomb() if bits.read(1) else None


def _in_hevc(unit: bytes) -> int | None:
    """chroma_sample_loc_type_top_field of a sequence parameter set (ITU-T H.265, 7.3.2.2)."""
    bits = _BitReader(unit[2:])
    bits.read(4)
    layers = bits.read(3)
    bits.read(1)
    _skip_profile(bits, layers)
    bits.read_golomb()
    if bits.read_golomb() == 3:
        bits.read(1)
    bits.skip_golombs(2)
    if bits.read(1):  # cropping
        bits.skip_golombs(4)
    bits.skip_golombs(2)
    order_bits = bits.read_golomb() + 4
    bits.skip_golombs(3 * (layers + 1 if bits.read(1) else 1))
    bits.skip_golombs(6)
    if bits.read(1) and bits.read(1):
        _skip_hevc_lists(bits)
    bits.read(2)
    if bits.read(1):
        bits.read(8)
        bits.skip_golombs(2)
        bits.read(1)
    _skip_reference_sets(bits)
    if bits.read(1):
        for _ in range(bits.read_golomb()):
            bits.read(order_bits + 1)
    bits.read(2)
    return _in_vui(bits) if bits.read(1) else None


def _skip_profile(bits: _BitReader, layers: int) -> None:
    bits.read(96)
    flags = [(bits.read(1), bits.read(1)) for _ in range(layers)]
    if layers:
        bits.read(2 * (8 - layers))
    for profile, level in flags:
        bits.read(88 * profile + 8 * level)


def _skip_hevc_lists(bits: _BitReader) -> None:
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.read(1):
                bits.read_golomb()
                continue
            bits.skip_golombs(min(64, 1 << (4 + 2 * size)) + (size > 1))


def _skip_reference_sets(bits: _BitReader) -> None:
    entries = 0  # pictures in the set before
    for index in range(bits.read_golomb()):
        if index and bits.read(1):
            bits.read(1)
            bits.read_golomb()
            kept = 0
            for _ in range(entries + 1):
                used = bits.read(1)
                kept += 1 if used or bits.read(1) else 0
            entries = kept
        else:
            entries = bits.read_golomb() + bits.read_golomb()
            for _ in range(entries):
                bits.read_golomb()
                bits.read(1)
