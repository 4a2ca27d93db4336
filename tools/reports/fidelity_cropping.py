"""Sources whose container crops their frames, which FFmpeg's own program does not write."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from engine.core.geometry import Margins, Size
from engine.video.read.ebml import EbmlElement, children
from tools.reports.fidelity_sources import PICTURE, Source, ffmpeg

_SIZE, _MARGINS = Size(96, 64), Margins(8, 4, 16, 8)


def cropped_sources() -> list[Source]:
    """All of them, in the order of the table."""
    about = {"mkv": "frames cropped by the container (MKV)", "mov": "clean aperture (MOV)"}
    return [
        Source(about=words, name=f"cropped.{end}", make=_write, cropped=_MARGINS)
        for end, words in about.items()
    ]


def _write(path: Path) -> None:
    ffmpeg(*PICTURE, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", path)
    part = _MARGINS.inside(_SIZE)
    if path.suffix == ".mkv":
        crop_mkv(path, _SIZE, _MARGINS)
    else:
        off = (_MARGINS.left - _MARGINS.right) // 2, (_MARGINS.top - _MARGINS.bottom) // 2
        crop_mp4(path, Fraction(part.width), part.height, *off)


def crop_mkv(
    path: Path, size: Size, margins: Margins, display: tuple[int, int] | None = None
) -> Path:
    """Write cropping into the header of an MKV, in room that its muxer left before the tracks."""
    data = bytearray(path.read_bytes())

    def child(parent: EbmlElement, name: int) -> EbmlElement:
        return next(children(data, parent.content, parent.end, name))

    segment = child(EbmlElement(0, 0, 0, len(data)), 0x18538067)
    room = child(segment, 0xEC)
    parents = [child(segment, 0x1654AE6B)]
    for name in (0xAE, 0xE0):
        parents.append(child(parents[-1], name))
    numbers = dict(zip((0x54CC, 0x54BB, 0x54DD, 0x54AA), _sides(margins), strict=True))
    numbers |= {0xB0: size.width, 0xBA: size.height}
    if display is not None:
        numbers |= dict(zip((0x54B0, 0x54BA), display, strict=True))
    content = b"".join(
        name.to_bytes((name.bit_length() + 7) // 8, "big") + b"\x82" + value.to_bytes(2, "big")
        for name, value in numbers.items()
    )
    more = len(content) - (parents[-1].end - parents[-1].content)
    for one, change in ((room, -more), *((parent, more) for parent in parents)):
        name_bytes = (one.name.bit_length() + 7) // 8
        width = one.content - one.start - name_bytes
        length = (1 << 7 * width) | (one.end - one.content + change)
        data[one.start + name_bytes : one.content] = length.to_bytes(width, "big")
    data[parents[-1].content : parents[-1].end] = content
    data[min(room.end, room.end - more) : room.end] = bytes(max(0, -more))
    path.write_bytes(data)
    return path


def crop_mp4(path: Path, width: Fraction, height: int, across: int = 0, down: int = 0) -> Path:
    """Give the video of an MP4, whose index comes last, a clean aperture."""
    values = (width.numerator, width.denominator, height, 1, across, 1, down, 1)
    box = _box(b"clap", b"".join(value.to_bytes(4, "big", signed=True) for value in values))
    data = bytearray(path.read_bytes())
    at = 0
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1"):
        at = data.index(name, at) - 4
        data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + len(box)).to_bytes(4, "big")
    after = at + 8 + 78
    data[after:after] = box
    path.write_bytes(data)
    return path


def _box(name: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4, "big") + name + content


def _sides(margins: Margins) -> tuple[int, int, int, int]:
    return margins.left, margins.top, margins.right, margins.bottom
