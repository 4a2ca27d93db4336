"""Data of an image besides its pixels: colour profile (ICC) and EXIF.

Read from PNG, JPEG, WebP, TIFF and HEIF (HEIC, AVIF). TRAP: not from frames of PyAV 18.1, whose
`side_data` cannot name EXIF, and frees the name of a PNG's profile twice.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.file_access import RetryingFile
from engine.video.read.exif import MARKS, PROFILE, Exif, read_exif
from engine.video.read.heif import Heif, HeifDamaged, still_kind

_log = logging.getLogger(__name__)
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_BYTES = 1 << 24  # of a profile, and of EXIF
_MOST_CHUNKS = 1 << 16
_EXIF_MARK, _PROFILE_MARK = b"Exif\0\0", b"ICC_PROFILE\0"
_PROFILE_HEADER = 128
_XMP_MARK, _IPTC_MARK = b"http://ns.adobe.com/xap/1.0/\0", b"Photoshop 3.0\0"
_OTHERS_OF_TIFF = {700: "xmp", 33723: "iptc"}  # tags
_XMP_KEY = b"XML:com.adobe.xmp"
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_OF_PROGRAMS = (b"Software", b"date:", b"Creation Time")  # keys of texts that writers add


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureData:
    """Data of one image; `profile` is b"" and `exif` None where there is none that makes sense.

    `turn` is clockwise degrees from the stored to the seen picture, and its mirroring after that.
    `also` names what else it states and nothing here keeps: "xmp", "iptc", "text-entries".
    """

    profile: bytes = b""
    exif: Exif | None = None
    turn: tuple[int, bool] = (0, False)
    also: frozenset[str] = frozenset()

    @property
    def colour_space(self) -> str:
        """Colour space of the profile: "RGB", "GRAY", "CMYK", ...; "" without one."""
        return self.profile[16:20].decode("ascii", "replace").strip()

    @property
    def says_anything(self) -> bool:
        """Whether there is EXIF with more than the file's own structure."""
        return self.exif is not None and self.exif.says_anything


def read_picture_data(path: Path) -> PictureData:
    """Colour profile and EXIF of a file; nothing of other formats and of damaged parts.

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
    head = _at(file, 0, 12)
    if head[:4] in MARKS:
        exif = _exif(file)
        tags = exif.main if exif is not None else {}
        profile = tags.get(PROFILE)
        also = {name for number, name in _OTHERS_OF_TIFF.items() if number in tags}
        return _data(profile.data if profile else b"", exif, also)
    if head.startswith(_PNG):
        return _of_png(file)
    if head.startswith(b"\xff\xd8"):
        return _of_jpeg(file)
    if still_kind(head):
        return _of_heif(file)
    return _of_webp(file) if head[8:] == b"WEBP" else PictureData()


def _of_heif(file: RetryingFile) -> PictureData:
    """Data of a HEIF file; its own properties turn it, whatever its EXIF."""
    try:
        heif = Heif(lambda offset, count: _at(file, offset, count))
        also = {"xmp"} if heif.has_xmp else set[str]()
        found = _data(heif.profile(), _exif(heif.exif()), also)
    except HeifDamaged as err:
        _log.info("Colour profile and EXIF are left out: %s", err)
        return PictureData()
    return replace(found, turn=heif.turn())


def _of_png(file: RetryingFile) -> PictureData:
    profile = exif = b""
    also = set[str]()
    for name, offset, size in _chunks(file, start=len(_PNG), order="big"):
        if name in _PNG_TEXTS:
            key = _at(file, offset, min(size, 80)).partition(b"\0")[0]
            if not key.startswith(_OF_PROGRAMS):
                also.add("xmp" if key == _XMP_KEY else "text-entries")
        elif name == b"iCCP":
            packed = _at(file, offset, size).partition(b"\0")[2][1:]
            profile = _unpacked(packed)
        elif name == b"eXIf":
            exif = _at(file, offset, size)
        elif name == b"IEND":
            break
    return _data(profile, _exif(exif), also)


def _of_webp(file: RetryingFile) -> PictureData:
    profile = exif = b""
    also = set[str]()
    for name, offset, size in _chunks(file, start=12, order="little"):
        if name == b"XMP ":
            also.add("xmp")
        elif name == b"ICCP":
            profile = _at(file, offset, size)
        elif name == b"EXIF":
            exif = _at(file, offset, size).removeprefix(_EXIF_MARK)
    return _data(profile, _exif(exif), also)


def _of_jpeg(file: RetryingFile) -> PictureData:
    exif, parts, also = b"", dict[int, bytes](), set[str]()
    for marker, offset, size in _segments(file):
        data = _at(file, offset, size) if marker in (0xE1, 0xE2, 0xED) else b""
        if data.startswith(_XMP_MARK):
            also.add("xmp")
        elif data.startswith(_IPTC_MARK):
            also.add("iptc")
        elif marker == 0xFE:
            also.add("text-entries")
        elif data.startswith(_EXIF_MARK):
            exif = exif or data[len(_EXIF_MARK) :]
        elif data.startswith(_PROFILE_MARK):
            number = data[len(_PROFILE_MARK)] if size > len(_PROFILE_MARK) else 0
            parts[number] = data[len(_PROFILE_MARK) + 2 :]  # its number, and how many there are
    return _data(b"".join(parts[number] for number in sorted(parts)), _exif(exif), also)


def _chunks(file: RetryingFile, *, start: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and size of chunks: of PNG ("big") or RIFF ("little")."""
    at = start
    for _ in range(_MOST_CHUNKS):
        head = _at(file, at, 8)
        if len(head) < 8:
            return
        is_png = order == "big"
        name, size = (head[4:], head[:4]) if is_png else (head[:4], head[4:])
        count = int.from_bytes(size, "big" if is_png else "little")
        yield name, at + 8, count
        at += 8 + count + (4 if is_png else count % 2)


def _segments(file: RetryingFile) -> Iterator[tuple[int, int, int]]:
    """Marker, offset and size of what is before the pixels of a JPEG."""
    at = 2
    for _ in range(_MOST_CHUNKS):
        head = _at(file, at, 4)
        if len(head) < 4 or head[0] != 0xFF or head[1] == 0xDA:
            return
        if head[1] == 0xFF:  # filler
            at += 1
            continue
        size = int.from_bytes(head[2:], "big")
        yield head[1], at + 4, max(0, size - 2)
        at += 2 + max(2, size)


def _at(file: RetryingFile, offset: int, count: int) -> bytes:
    """Bytes at a place; b"" where it would be too many."""
    if count > _MOST_BYTES:
        return b""
    file.seek(offset)
    return file.read(count)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        profile = unpacking.decompress(packed, _MOST_BYTES)
    except zlib.error:
        return b""
    return profile if unpacking.eof else b""


def _exif(source: RetryingFile | bytes) -> Exif | None:
    try:
        if isinstance(source, RetryingFile):
            return read_exif(lambda offset, count: _at(source, offset, count))
        return read_exif(lambda offset, count: source[offset : offset + count]) if source else None
    except ValueError as err:
        _log.info("EXIF is left out: %s", err)
        return None


def _data(profile: bytes, exif: Exif | None, also: Collection[str] = ()) -> PictureData:
    """Keep a profile only if it is whole: it begins with its own size."""
    is_whole = len(profile) > _PROFILE_HEADER and profile[36:40] == b"acsp"
    if not is_whole or int.from_bytes(profile[:4], "big") != len(profile):
        profile = b""
    turn = exif.turn if exif is not None else (0, False)
    return PictureData(profile=profile, exif=exif, turn=turn, also=frozenset(also))
