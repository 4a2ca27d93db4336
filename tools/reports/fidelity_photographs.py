"""Photographs of the fidelity matrix: stills with colour profile and EXIF, judged by Pillow."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Colorspace
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageCms, ImageOps, UnidentifiedImageError

from tests.helpers.heif import HeifFile, box, grid
from tools.reports.fidelity_sources import Make, Source, ffmpeg

_D65 = (0.313, 0.329)
_PRIMARIES = {12: (0.68, 0.32, 0.265, 0.69, 0.15, 0.06, *_D65)}  # Display P3, by ITU-T H.273
_ADOBE_RGB = (31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000)
_LIKE = 1.0  # mean difference of 255: JPEG and WebP are decoded by others
_SIDES = (ExifTags.Base.ExifImageWidth, ExifTags.Base.ExifImageHeight)
_PNG_HEAD = 33  # bytes before the first chunk that is not needed
_TURNED = 6  # a quarter to the right
# Not of the picture but of its file: sides, compression, places of the pixels; what was turned.
_OF_THE_FILE = frozenset({254, 256, 257, 258, 259, 262, 273, 274, 277, 278, 279, 282, 283, 284})
_OF_THE_FILE |= {296, 305, 317, 339, ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo, 0x8773}


@dataclass(frozen=True, slots=True, kw_only=True)
class Photograph:
    """An upright still as Pillow reads it."""

    pixels: NDArray[np.uint8]  # [h, w, 3]
    profile: bytes
    said: dict[str, Any]  # EXIF, by directory and number
    sides: tuple[int, int]  # size by EXIF; the size of the image where EXIF has none
    orientation: int
    resolution: tuple[int, ...]  # dots per inch, or a ratio of numbers without a unit; () for none

    @property
    def is_marked(self) -> bool:
        """Whether it has a profile or EXIF."""
        return bool(self.profile or self.said)

    @property
    def shape(self) -> float:
        """Width over height."""
        return self.pixels.shape[1] / self.pixels.shape[0]


def photograph(path: Path) -> Photograph | None:
    """A still; None where Pillow cannot read it."""
    try:
        with Image.open(path) as file:
            exif, profile = file.getexif(), file.info.get("icc_profile") or b""
            camera, place = (exif.get_ifd(ifd) for ifd in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo))
            resolution = _resolution(file.info)
            upright = ImageOps.exif_transpose(file).convert("RGB")
    except (UnidentifiedImageError, OSError):
        return None
    said = {
        f"{name} {number}": value
        for name, part in (("main", exif), ("camera", camera), ("place", place))
        for number, value in part.items()
        if not (name == "main" and number in _OF_THE_FILE) and number not in _SIDES
    }
    return Photograph(
        pixels=np.asarray(upright),
        profile=profile,
        said=said,
        sides=tuple(camera.get(tag, side) for tag, side in zip(_SIDES, upright.size, strict=True)),
        orientation=exif.get(ExifTags.Base.Orientation, 1),
        resolution=resolution,
    )


def _resolution(info: Mapping[Any, Any]) -> tuple[int, ...]:
    dots = tuple(round(one) for one in info.get("dpi", ()))
    ratio = info.get("aspect") or info.get("resolution") or ()
    if info.get("jfif_unit") == 0:  # Pillow then gives 72 dots
        dots, ratio = (), info["jfif_density"]
    numbers = tuple(round(one) for one in ratio)
    has_dots = len(dots) == 2 and min(dots) > 1  # Pillow gives 1 where nothing is stated
    return dots if has_dots else numbers if len(set(numbers)) == 2 else ()


def colours_of(path: Path) -> dict[str, object]:
    """Primaries and gamma that a PNG or EXR image states, read byte by byte."""
    if "%" in path.name or path.suffix not in (".png", ".exr"):
        return {}
    data, found = path.read_bytes(), dict[str, object]()
    if path.suffix == ".exr":
        mark = b"chromaticities\0chromaticities\0 \0\0\0"
        start = data.find(mark) + len(mark)
        values = struct.unpack("<8f", data[start : start + 32]) if mark in data else ()
        return {"primaries": tuple(round(value, 3) for value in values)} if values else {}
    chunks = {name: data.find(name) + 4 for name in (b"cICP", b"cHRM", b"gAMA") if name in data}
    if b"cICP" in chunks:
        found["primaries"] = _PRIMARIES.get(data[chunks[b"cICP"]], ())
    elif b"cHRM" in chunks:
        white_x, white_y, *others = struct.unpack_from(">8I", data, chunks[b"cHRM"])
        found["primaries"] = tuple(round(one / 1e5, 3) for one in (*others, white_x, white_y))
    return found


def pixel_fault(before: Photograph, after: Photograph) -> str:
    """The difference between two upright images of the same size."""
    if before.pixels.shape != after.pixels.shape:
        return f"{before.pixels.shape[1::-1]}, {after.pixels.shape[1::-1]} in the result"
    off = float(np.abs(before.pixels.astype(int) - after.pixels).mean())
    return f"{off:.1f} of 255 off" if off > _LIKE else ""


def exif_fault(before: Photograph, after: Photograph | None) -> str:
    """EXIF data that is missing in the result or wrong for it."""
    if after is None:
        return "EXIF is missing" if before.said else ""
    lost = [key for key, value in before.said.items() if after.said.get(key) != value]
    if lost:
        return f"EXIF {', '.join(lost)} is missing"
    if after.orientation != 1:
        return f"orientation {after.orientation}: it is turned twice"
    sides = after.pixels.shape[1::-1]
    return "" if after.sides == sides else f"EXIF states the size {after.sides} of {sides}"


def photographs() -> list[Source]:
    """Stills as cameras and programs write them."""
    found = [
        Source(about=f"rotated photograph with profile and EXIF, {name}", name=name, make=_made)
        for name in ("photo.jpg", "photo.png", "photo.tif", "photo.webp", "photo.avif")
    ]
    grey = _maker("L", b"GRAY")
    found.append(Source(about="grey photograph with a grey profile", name="grey.jpg", make=grey))
    other = _maker("RGB", b"CMYK")
    return [
        *found,
        Source(
            about="photograph with a profile of another colour space", name="print.jpg", make=other
        ),
        Source(about="rotated photograph of a phone, in tiles", name="tiles.heic", make=_tiled),
        Source(about="still with three pages", name="pages.tif", make=_pages),
        *_colours(),
        Source(about="ratio of resolutions, PNG", name="ratio.png", make=_with_ratio),
        Source(
            about="ratio of resolutions, to DPX",
            name="ratio.png",
            make=_with_ratio,
            choices={"container": "dpx"},
        ),
    ]


def _colours() -> list[Source]:
    """PNG images of wide gamuts without a profile, to all images."""
    chunks = {
        "Display P3": {b"cICP": bytes((12, 13, 0, 1))},
        "Adobe RGB": {
            b"gAMA": struct.pack(">I", 45455),
            b"cHRM": struct.pack(">8I", *_ADOBE_RGB),
        },
    }
    return [
        Source(
            about=f"{name} without a profile, to {kind.upper()}",
            name="wide.png",
            make=partial(_with_chunks, chunks=added),
            choices={"container": kind},
        )
        for name, added in chunks.items()
        for kind in ("png", "tiff", "exr", "dpx")
    ]


def _with_chunks(path: Path, chunks: Mapping[bytes, bytes]) -> None:
    _test_picture().save(path)
    added = b""
    for name, data in chunks.items():
        check = zlib.crc32(name + data)
        added += struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
    whole = path.read_bytes()
    path.write_bytes(whole[:_PNG_HEAD] + added + whole[_PNG_HEAD:])


def _with_ratio(path: Path) -> None:
    _with_chunks(path, {b"pHYs": struct.pack(">IIB", 16, 15, 0)})


def judged(path: Path) -> Path:
    """The file that other programs read in place of a source: of HEIC, the PNG it was made of."""
    return path.with_suffix(".png") if path.suffix == ".heic" else path


def _tiled(path: Path) -> None:
    """Four tiles without loss, turned a quarter to the right; and the PNG beside it."""
    frame = av.VideoFrame.from_ndarray(np.asarray(_test_picture()), format="rgb24")
    frame = frame.reformat(format="yuvj444p", dst_colorspace=Colorspace.ITU601, threads=1)
    shown = Image.fromarray(frame.to_ndarray(format="rgb24"))
    shown.transpose(Image.Transpose.ROTATE_270).save(judged(path))
    planes = frame.to_ndarray()
    colours = box(b"colr", b"nclx", struct.pack(">HHHB", 1, 13, 6, 0x80))
    file = HeifFile()
    file.add(b"grid", grid(2, 2, 96, 64), colours, box(b"irot", b"\3"))
    halves = (slice(0, 32), slice(32, 64))
    sides = (slice(0, 48), slice(48, 96))
    tiles = [
        file.add_image([np.ascontiguousarray(one[y, x]) for one in planes], "yuv444p")
        for y in halves
        for x in sides
    ]
    file.refer(b"dimg", 1, *tiles)
    file.written(path)


def _pages(path: Path) -> None:
    picture = _test_picture()
    picture.save(path, save_all=True, append_images=[picture, picture])


def _maker(mode: str, space: bytes) -> Make:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    profile[16:20] = space

    def make(path: Path) -> None:
        _write(path, bytes(profile), mode)

    return make


def _made(path: Path) -> None:
    _maker("RGB", b"RGB ")(path)


def _write(path: Path, profile: bytes, mode: str) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = _TURNED
    exif[ExifTags.Base.Make], exif[ExifTags.Base.ImageDescription] = "A maker", "A hill"
    camera, place = (exif.get_ifd(ifd) for ifd in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo))
    camera.update({_SIDES[0]: 96, _SIDES[1]: 64, 0x829A: 0.004, 0x9003: "2020:01:02 03:04:05"})
    place.update({1: "N", 2: (52.0, 31.0, 12.5)})
    whole = Image.Exif()
    whole.load(exif.tobytes())  # Pillow writes the directories of such a one into TIFF too
    picture = _test_picture().convert(mode)
    picture.save(path, icc_profile=profile, exif=whole, quality=95)


def _test_picture() -> Image.Image:
    raw = ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=96x64,gblur=sigma=1.5", "-frames:v", "1"),
        *("-pix_fmt", "rgb24", "-f", "rawvideo", "-"),
    )
    return Image.frombytes("RGB", (96, 64), raw)
