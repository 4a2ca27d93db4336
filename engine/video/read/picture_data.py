"""Data of an image besides its pixels: colour profile (ICC), EXIF, resolution, primaries.

Read from PNG, JPEG, WebP, TIFF, HEIF (HEIC, AVIF), PSD, JPEG 2000, BMP, EXR, DPX and
Radiance. TRAP: not from frames of PyAV 18.1, whose `side_data` cannot name EXIF, and frees the name
of a PNG's profile twice.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from engine.core.file_access import RetryingFile
from engine.protocol.media import ColourTags, HdrMetadata, Statement
from engine.video.colour_tags import hdr_metadata
from engine.video.read.exif import MARKS, PER_METRE, PROFILE, Exif, read_exif
from engine.video.read.heif import Heif, HeifDamaged
from engine.video.read.image_headers import (
    EXR_MARK,
    MOST_BYTES,
    Attributes,
    boxes,
    bytes_at,
    chunks,
    read_exr_header,
    segments,
)

_log = logging.getLogger(__name__)
_RADIANCE = b"#?RADIANCE"
_END_OF_FILE = 1 << 62
_BMP_PROFILE = b"DEBM"  # a colour space that is embedded
_PSD_DOTS, _PSD_PROFILE, _PSD_EXIF, _PSD_ASPECT = 1005, 1039, 1058, 1064  # numbers of resources
_PSD_CMYK = b"\0\4"
_OTHERS_OF_PSD = {1028: "iptc", 1060: "xmp"}
_XMP_UUID = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
_EXIF_UUID = b"JpgTiffExif->JP2"
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_DOTS = 1 << 24  # per metre
_MOST_ASPECT = 8  # times as wide as high, or as high as wide
_PNG_UNIT = 100_000  # of colours
_ADOBE_RGB = (0.64, 0.33, 0.21, 0.71, 0.15, 0.06, 0.3127, 0.329)
_MOST_COLOUR = 10  # of x and y, which go a little beyond 0 to 1 where no light has a colour
_SAME = 0.001
_UNSPECIFIED = 2  # as primaries and as transfer of ITU-T H.273
_USUAL_GAMMA = 45_455  # 2.2, also that of Adobe RGB
_DENSITIES = (b"\1", b"\3")  # transfers of DPX: printing density, logarithmic
DPX_CODES, DPX_ASPECT = 801, 1628  # places: transfer and colorimetry of the first element; pixels
OS2_HEADER = b"\x0c\0\0\0"  # length of the header of a BMP of OS/2: sizes in 16 bits, no dots
_JFIF_MARK = b"JFIF\0"
_EXIF_MARK, _PROFILE_MARK = b"Exif\0\0", b"ICC_PROFILE\0"
_PROFILE_HEADER = 128
_RESOURCES_MARK, _IPTC = b"Photoshop 3.0\0", b"8BIM\x04\x04"  # IPTC is one of the resources
_XMP_MARKS = (b"http://ns.adobe.com/xap/1.0/\0", b"http://ns.adobe.com/xmp/extension/\0")
_FRAMES_OF_JPEG, _APPLICATIONS = (0xC0, 0xC1, 0xC2), range(0xE0, 0xF0)  # markers
# Thumbnail, list of images, version of a gain map, transform, settings, resources of Photoshop.
_OF_THE_CODING = (
    *(b"JFXX\0", b"MPF\0", b"urn:iso:std:iso:ts:21496:-1\0", b"Adobe", b"Ducky"),
    _RESOURCES_MARK,
)
_OTHERS_OF_TIFF = {700: "xmp", 33723: "iptc"}  # tags
_XMP_KEY = b"XML:com.adobe.xmp"
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_OF_PROGRAMS = (b"Software", b"date:", b"Creation Time")  # keys of texts that writers add


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureData:
    """Data of one image; `profile` is b"" and `exif` None where there is none that makes sense.

    `turn` is clockwise degrees from the stored to the seen picture, and its mirroring after that.
    `resolution` is dots per metre across and down the seen picture, (0, 0) where none are stated;
    where it `has_unit` not, only their ratio means anything. `pixel_aspect` is the width of a pixel
    over its height in EXR, DPX and HEIF. `chromaticities` are x and y of red, green, blue and
    white, `gamma` is 100,000 times the exponent of PNG, that of linear light 100,000. `attributes`
    are those of EXR, `codes` of DPX its transfer and colorimetry. `has_code_points` is true of a
    PNG with "cICP", which counts in place of the profile. `also` names what else it states and
    nothing here keeps: "xmp", "iptc", "text-entries", "program-data", "inks" (it is CMYK),
    "transfer-function".
    """

    profile: bytes = b""
    exif: Exif | None = None
    turn: tuple[int, bool] = (0, False)
    resolution: tuple[int, int] = (0, 0)
    has_unit: bool = True
    pixel_aspect: Fraction = Fraction(1)
    chromaticities: tuple[float, ...] = ()
    gamma: int = 0
    attributes: Attributes = field(default_factory=dict)
    codes: bytes = b""
    has_code_points: bool = False
    hdr_metadata: HdrMetadata | None = None
    also: frozenset[str] = frozenset()

    @property
    def colour_space(self) -> str:
        """Colour space of the profile: "RGB", "GRAY", "CMYK", ...; "" without one."""
        return self.profile[16:20].decode("ascii", "replace").strip()

    @property
    def is_linear(self) -> bool:
        """Whether the values are linear light."""
        return self.gamma == _PNG_UNIT

    @property
    def resolution_text(self) -> str:
        """Resolution as users know it: "300 dpi"; "204 x 98 dpi" where it differs; or "16:15"."""
        if not self.has_unit:
            return ":".join(map(str, self.resolution))
        across, down = (round(dots / PER_METRE[2]) for dots in self.resolution)
        return f"{across} dpi" if across == down else f"{across} x {down} dpi"

    @property
    def aspect_of_video(self) -> Fraction:
        """Width of a pixel over its height, as FFmpeg states it in images of a video.

        In PNG it is the ratio across to down, though by the format it would be its inverse.
        """
        across, down = self.resolution if all(self.resolution) else (1, 1)
        return Fraction(down, across) if self.has_unit else Fraction(across, down)

    def statements(self, tags: ColourTags) -> Iterator[Statement]:
        """Everything that is neither a profile nor EXIF.

        Args:
            tags: Colour tags of the image, which state most colours.
        """
        yield from (Statement(kind=kind) for kind in sorted(self.also))
        if any(self.resolution):
            kind = "resolution" if self.has_unit else "pixel-ratio"
            yield Statement(kind=kind, value=self.resolution_text)
        if self.chromaticities and not self.profile and not tags.primaries:
            pairs = zip(self.chromaticities, _ADOBE_RGB, strict=True)
            is_adobe = all(abs(a - b) < _SAME for a, b in pairs)
            values = " ".join(f"{value:.3f}" for value in self.chromaticities)
            yield Statement(kind="primaries", value="Adobe RGB" if is_adobe else values)
        is_usual = self.gamma == _USUAL_GAMMA
        if self.gamma and not (is_usual or self.profile or tags.transfer):
            yield Statement(kind="gamma", value=f"{_PNG_UNIT / self.gamma:.2f}")
        names = [name.decode("ascii", "replace") for name in self.attributes]
        if others := sorted({*names} - {"framesPerSecond"}):  # no sequence has a rate
            yield Statement(kind="attributes", value=", ".join(others))
        if self.codes[:1] in _DENSITIES:
            yield Statement(kind="densities")

    @property
    def says_anything(self) -> bool:
        """Whether there is EXIF with more than the file's own structure."""
        return self.exif is not None and self.exif.says_anything


def read_picture_data(path: Path) -> PictureData:
    """Colour profile and EXIF of an image; nothing of other formats and of damaged parts.

    Raises:
        OSError: The file cannot be read.

    Memory: 32 MiB at most.
    """
    with RetryingFile(path) as file:
        found = _read(file)
        if file.failure is not None:
            raise file.failure
    return found


def _read(file: RetryingFile) -> PictureData:
    head = bytes_at(file, 0, 12)
    if head[:4] in MARKS:
        exif = _exif(file)
        tags = exif.main if exif is not None else {}
        profile = tags.get(PROFILE)
        also = {name for number, name in _OTHERS_OF_TIFF.items() if number in tags}
        also |= {"inks"} if exif is not None and exif.has_inks else set()
        return _data(profile.data if profile else b"", exif, also)
    if head.startswith(_PNG):
        return _of_png(file)
    if head.startswith(b"\xff\xd8"):
        return _of_jpeg(file)
    if head.startswith(b"BM"):
        return _of_bmp(file)
    if head[:4] == b"8BPS":
        return _of_psd(file)
    if head[4:8] == b"jP  ":
        return _of_jpeg_2000(file)
    if head[:4] in (b"SDPX", b"XPDS"):
        return _of_dpx(file)
    if head[:4] == EXR_MARK:
        return _of_exr(file)
    if head.startswith(_RADIANCE):
        return _of_radiance(file)
    if head[4:8] == b"ftyp":
        return _of_heif(file)
    return _of_webp(file) if head[8:] == b"WEBP" else PictureData()


def _of_bmp(file: RetryingFile) -> PictureData:
    header = bytes_at(file, 14, 124)
    dots = b"" if header[:4] == OS2_HEADER else header[24:32]
    place, size = _whole(header[112:120] if header[56:60] == _BMP_PROFILE else b"", "<II")
    profile = bytes_at(file, 14 + place, size) if size else b""
    return _data(profile, None, resolution=_whole(dots, "<ii"))


def _of_psd(file: RetryingFile) -> PictureData:
    """Resources of a PSD: a mark, a number, a name and data, each padded to an even size."""
    start = 26 + 4 + int.from_bytes(bytes_at(file, 26, 4), "big")
    data = bytes_at(file, start + 4, int.from_bytes(bytes_at(file, start, 4), "big"))
    found, at = dict[int, bytes](), 0
    while data[at : at + 4] == b"8BIM" and len(data) > at + 6:
        number = int.from_bytes(data[at + 4 : at + 6], "big")
        at += 6 + (data[at + 6] // 2 + 1) * 2
        size = int.from_bytes(data[at : at + 4], "big")
        found[number] = data[at + 4 : at + 4 + size]
        at += 4 + size + size % 2
    also = {name for number, name in _OTHERS_OF_PSD.items() if number in found}
    also |= {"inks"} if bytes_at(file, 24, 2) == _PSD_CMYK else set()
    dots = found.get(_PSD_DOTS, b"")  # for an inch, in units of 1/65536
    inches = _whole(dots[:4] + dots[8:12], ">II")
    across, down = (round(Fraction(dots, 1 << 16) * PER_METRE[2]) for dots in inches)
    result = _data(
        found.get(_PSD_PROFILE, b""), _exif(found.get(_PSD_EXIF, b"")), also, (across, down)
    )
    aspect = found.get(_PSD_ASPECT, b"")
    ratio = struct.unpack(">d", aspect[4:12])[0] if len(aspect) >= 12 else 1.0
    return replace(result, pixel_aspect=_aspect(ratio))


def _of_jpeg_2000(file: RetryingFile) -> PictureData:
    """Boxes of a JPEG 2000 file: profile, resolution, XMP and EXIF."""
    profile = exif = b""
    also, resolution = set[str](), (0, 0)
    for name, offset, size in boxes(file, 0, _END_OF_FILE):
        if name == b"uuid":
            mark, data = bytes_at(file, offset, 16), bytes_at(file, offset + 16, max(0, size - 16))
            also |= {"xmp"} if mark == _XMP_UUID else set()
            exif = data.removeprefix(_EXIF_MARK) if mark == _EXIF_UUID else exif
        elif name == b"xml ":
            also.add("text-entries")
        for below, place, count in boxes(file, offset, offset + size) if name == b"jp2h" else ():
            data = bytes_at(file, place, count)
            if below == b"colr" and data[:1] in (b"\2", b"\3"):
                profile = data[3:]
            elif below == b"res ":
                resolution = _resolution_of_boxes(data[8:])
    return _data(profile, _exif(exif), also, resolution)


def _resolution_of_boxes(data: bytes) -> tuple[int, int]:
    """Dots per metre across and down: two fractions, down first, and their powers of ten."""
    if len(data) < 10:
        return 0, 0
    *parts, power_down, power_across = struct.unpack(">4H2b", data[:10])
    if not parts[1] or not parts[3]:
        return 0, 0
    down, across = Fraction(*parts[:2]), Fraction(*parts[2:])
    return round(across * Fraction(10) ** power_across), round(down * Fraction(10) ** power_down)


def _of_heif(file: RetryingFile) -> PictureData:
    """Data of a HEIF file; its own properties turn it, whatever its EXIF."""
    try:
        heif = Heif(lambda offset, count: bytes_at(file, offset, count))
        also = {"xmp"} if heif.has_xmp else set[str]()
        found = _data(heif.profile(), _exif(heif.exif()), also)
    except HeifDamaged as err:
        _log.info("Colour profile and EXIF are left out: %s", err)
        return PictureData()
    across, down = _whole(heif.primary.of("pasp"), ">II")
    aspect = _aspect(Fraction(across, down)) if down else Fraction(1)
    display, light = heif.primary.of("mdcv"), heif.primary.of("clli")
    hdr = hdr_metadata(display, light, begins_with_red=False)
    return replace(found, turn=heif.turn(), pixel_aspect=aspect, hdr_metadata=hdr)


def _of_png(file: RetryingFile) -> PictureData:
    profile = exif = b""
    dots, unit, also = (0, 0), b"", set[str]()
    colours, gamma, has_code_points = tuple[float, ...](), 0, False
    hdr = {b"mDCV": b"", b"cLLI": b""}
    for name, offset, size in chunks(file, start=len(_PNG), order="big"):
        if name in _PNG_TEXTS:
            key = bytes_at(file, offset, min(size, 80)).partition(b"\0")[0]
            if not key.startswith(_OF_PROGRAMS):
                also.add("xmp" if key == _XMP_KEY else "text-entries")
        elif name == b"iCCP":
            packed = bytes_at(file, offset, size).partition(b"\0")[2][1:]
            profile = _unpacked(packed)
        elif name == b"eXIf":
            exif = bytes_at(file, offset, size)
        elif name == b"pHYs":
            dots, unit = _whole(bytes_at(file, offset, 8), ">II"), bytes_at(file, offset + 8, 1)
        elif name == b"cHRM" and len(data := bytes_at(file, offset, 32)) == 32:
            values = [value / _PNG_UNIT for value in struct.unpack(">8I", data)]
            colours = _colours((*values[2:], *values[:2]))  # white comes first
        elif name == b"gAMA":
            gamma = int.from_bytes(bytes_at(file, offset, 4), "big")
        elif name == b"cICP":
            has_code_points = _UNSPECIFIED not in bytes_at(file, offset, 2)
        elif name in hdr:
            hdr[name] = bytes_at(file, offset, size)
        elif name == b"IEND":
            break
    found = _data(profile, _exif(exif), also, dots, has_unit=unit == b"\1")
    return replace(
        found,
        chromaticities=colours or found.chromaticities,
        gamma=gamma or found.gamma,
        has_code_points=has_code_points,
        hdr_metadata=hdr_metadata(hdr[b"mDCV"], hdr[b"cLLI"], begins_with_red=True),
    )


def _of_webp(file: RetryingFile) -> PictureData:
    profile = exif = b""
    also = set[str]()
    for name, offset, size in chunks(file, start=12, order="little"):
        if name == b"XMP ":
            also.add("xmp")
        elif name == b"ICCP":
            profile = bytes_at(file, offset, size)
        elif name == b"EXIF":
            exif = bytes_at(file, offset, size).removeprefix(_EXIF_MARK)
    return _data(profile, _exif(exif), also)


def _of_jpeg(file: RetryingFile) -> PictureData:
    exif, parts, also = b"", dict[int, bytes](), set[str]()
    resolution, unit = (0, 0), Fraction(0)
    for marker, offset, size in segments(file):
        is_read = marker in _FRAMES_OF_JPEG or marker in _APPLICATIONS
        data = bytes_at(file, offset, size) if is_read else b""
        if data.startswith(_JFIF_MARK):
            unit = PER_METRE.get(data[7] + 1, unit) if len(data) > 7 else unit  # 1: inch
            across, down = (round(dots * (unit or 1)) for dots in _whole(data[8:12], ">HH"))
            resolution = across, down
        elif marker in _FRAMES_OF_JPEG:
            also |= {"inks"} if data[5:6] == b"\4" else set()
        elif data.startswith(_XMP_MARKS):
            also.add("xmp")
        elif data.startswith(_RESOURCES_MARK) and _IPTC in data:
            also.add("iptc")
        elif marker == 0xFE:
            also.add("text-entries")
        elif data.startswith(_EXIF_MARK):
            exif = exif or data[len(_EXIF_MARK) :]
        elif data.startswith(_PROFILE_MARK):
            number = data[len(_PROFILE_MARK)] if size > len(_PROFILE_MARK) else 0
            parts[number] = data[len(_PROFILE_MARK) + 2 :]  # its number, and how many there are
        elif marker in _APPLICATIONS and not data.startswith(_OF_THE_CODING):
            also.add("program-data")
    profile = b"".join(parts[number] for number in sorted(parts))
    return _data(profile, _exif(exif), also, resolution, has_unit=bool(unit))


def _of_exr(file: RetryingFile) -> PictureData:
    try:
        header = read_exr_header(lambda count: bytes_at(file, 0, count))
    except ValueError as err:
        _log.info("Attributes are left out: %s", err)
        return PictureData()
    return PictureData(
        pixel_aspect=_aspect(header.pixel_aspect),
        chromaticities=_colours(header.chromaticities),
        attributes=header.others,
    )


def _of_radiance(file: RetryingFile) -> PictureData:
    """Lines of text in front of the pixels: of primaries x and y of red, green, blue and white."""
    for line in bytes_at(file, 0, 4096).partition(b"\n\n")[0].splitlines():
        name, _, text = line.partition(b"=")
        with suppress(ValueError):
            values = tuple(map(float, text.split()))
            if name == b"PRIMARIES" and len(values) == 8:
                return PictureData(chromaticities=_colours(values))
    return PictureData()


def _of_dpx(file: RetryingFile) -> PictureData:
    order = ">" if bytes_at(file, 0, 4) == b"SDPX" else "<"
    across, down = _whole(bytes_at(file, DPX_ASPECT, 8), f"{order}II")
    is_stated = 0 < across < _MOST_DOTS and 0 < down < _MOST_DOTS  # else all bits are set
    aspect = Fraction(across, down) if is_stated else Fraction(1)
    return PictureData(pixel_aspect=_aspect(aspect), codes=bytes_at(file, DPX_CODES, 2))


def _colours(stated: tuple[float, ...]) -> tuple[float, ...]:
    """Primaries, if they are plausible numbers."""
    return stated if all(abs(value) <= _MOST_COLOUR for value in stated) else ()


def _aspect(stated: float | Fraction) -> Fraction:
    """A shape of pixels, if it is plausible."""
    is_plausible = 1 / _MOST_ASPECT <= stated <= _MOST_ASPECT
    return Fraction(stated).limit_denominator(1000) if is_plausible else Fraction(1)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        profile = unpacking.decompress(packed, MOST_BYTES)
    except zlib.error:
        return b""
    return profile if unpacking.eof else b""


def _exif(source: RetryingFile | bytes) -> Exif | None:
    try:
        if isinstance(source, RetryingFile):
            return read_exif(lambda offset, count: bytes_at(source, offset, count))
        return read_exif(lambda offset, count: source[offset : offset + count]) if source else None
    except ValueError as err:
        _log.info("EXIF is left out: %s", err)
        return None


def _whole(data: bytes, kinds: str) -> tuple[int, int]:
    """Two whole numbers; (0, 0) where there are none."""
    if len(data) != struct.calcsize(kinds):
        return 0, 0
    first, second = struct.unpack(kinds, data)
    return first, second


def _data(
    profile: bytes,
    exif: Exif | None,
    also: Collection[str] = (),
    resolution: tuple[int, int] = (0, 0),
    *,
    has_unit: bool = True,
) -> PictureData:
    """Keep a profile only if it is whole (it begins with its size), a resolution if plausible."""
    is_whole = len(profile) > _PROFILE_HEADER and profile[36:40] == b"acsp"
    if not is_whole or int.from_bytes(profile[:4], "big") != len(profile):
        profile = b""
    turn = exif.turn if exif is not None else (0, False)
    if not has_unit and resolution[0] == resolution[1]:
        resolution, has_unit = (0, 0), True
    if exif is not None and not any(resolution):
        has_unit = any(exif.resolution) or exif.ratio[0] == exif.ratio[1]
        resolution = exif.resolution if has_unit else exif.ratio
    if not all(0 < dots < _MOST_DOTS for dots in resolution):
        resolution = (0, 0)
    chromaticities, gamma = tuple[float, ...](), 0
    if exif is not None and not profile:
        is_adobe, exponent = exif.has_adobe_rgb, exif.gamma
        chromaticities = _ADOBE_RGB if is_adobe else _colours(exif.chromaticities)
        if exponent is None:
            also = {*also, "transfer-function"}
        else:
            gamma = round(_PNG_UNIT / exponent) if exponent else _USUAL_GAMMA * is_adobe
    return PictureData(
        profile=profile,
        exif=exif,
        chromaticities=chromaticities,
        gamma=gamma,
        turn=turn,
        resolution=resolution[::-1] if turn[0] in (90, 270) else resolution,
        has_unit=has_unit,
        also=frozenset(also),
    )
