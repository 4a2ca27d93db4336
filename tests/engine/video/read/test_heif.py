"""Photographs in HEIF files: what is in them, pixel by pixel, and what is refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps, features

from engine.core.errors import EngineError
from engine.protocol.media import MediaInfo
from engine.video.read.frame_reader import FrameReader
from engine.video.read.media_file import is_truncated
from engine.video.read.picture_data import read_picture_data
from engine.video.read.probe import probe
from tests.helpers.clips import number_picture
from tests.helpers.heif import HeifFile, box, full, grid
from tests.helpers.photographs import an_exif, srgb_profile

_TILE = 64
_RNG = np.random.default_rng(5)
_ALPHA = full(b"auxC", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0")
_DEPTH = full(b"auxC", b"urn:mpeg:hevc:2015:auxid:2\0")
_GAIN = full(b"auxC", b"urn:com:apple:photo:2020:aux:hdrgainmap\0")


def planes(width: int, height: int, *, bits: int = 8, chroma: bool = True) -> list[np.ndarray]:
    """Noise in 4:2:0."""
    sides = [(height, width), *[(height // 2, width // 2)] * (2 if chroma else 0)]
    kind = np.uint8 if bits == 8 else np.uint16
    return [_RNG.integers(0, 1 << bits, side, dtype=kind) for side in sides]


def read(path: Path) -> tuple[MediaInfo, tuple[np.ndarray, ...]]:
    """A file's facts, and the planes of its only frame."""
    media = probe(path)
    with FrameReader(media) as reader:
        (frame,) = reader
    return media, frame.planes


def tiled(file: HeifFile, whole: list[np.ndarray], pixel_format: str, *more: bytes) -> None:
    """Adds a photograph of 120x100 in tiles of 64x64, without colours of 2x2."""
    file.add(b"grid", grid(2, 2, 120, 100), *more)
    tiles = []
    for y in range(2):
        for x in range(2):
            cut = []
            for number, plane in enumerate(whole):
                side = _TILE // (2 if number else 1)
                cut.append(plane[y * side : (y + 1) * side, x * side : (x + 1) * side])
            tiles.append(file.add_image(cut, pixel_format))
    file.refer(b"dimg", 1, *tiles)


@pytest.mark.parametrize(("bits", "pixel_format"), [(8, "yuv420p"), (10, "yuv420p10le")])
def test_tiles_make_one_image(tmp_path: Path, bits: int, pixel_format: str) -> None:
    whole, file = planes(128, 128, bits=bits), HeifFile()
    colours = box(b"colr", b"nclx", struct.pack(">HHHB", 12, 13, 6, 0x80))
    tiled(file, whole, pixel_format, colours)
    media, found = read(file.written(tmp_path / "a.heic"))
    assert (media.kind, media.container, media.video.codec) == ("image", "image2", "heic")
    assert str(media.video.size) == "120x100"
    tags = media.video.tags
    assert (tags.primaries, tags.transfer, tags.matrix) == ("smpte432", "iec61966-2-1", "smpte170m")
    assert (tags.range, media.video.bit_depth) == ("pc", bits)
    for number, (plane, old) in enumerate(zip(found, whole, strict=True)):
        height, width = (50, 60) if number else (100, 120)
        assert np.array_equal(plane, old[:height, :width])
    assert not media.statements


@pytest.mark.parametrize("bits", [8, 10])
def test_alpha_is_an_image_of_its_own(tmp_path: Path, bits: int) -> None:
    file, alpha = HeifFile(), planes(64, 64, chroma=False)
    colour = planes(64, 64, bits=bits)
    file.add_image(colour, "yuv420p" if bits == 8 else "yuv420p10le")
    other = file.add_image(alpha, "gray", _ALPHA)
    file.refer(b"auxl", other, 1)
    media, found = read(file.written(tmp_path / "a.heic"))
    assert media.video.has_alpha
    assert np.array_equal(found[0], colour[0])
    expected = np.rint(alpha[0].astype(np.float32) * (((1 << bits) - 1) / 255))
    assert np.array_equal(found[3], expected)


@pytest.mark.parametrize(
    ("properties", "seen"),
    [
        ((box(b"irot", b"\1"),), lambda one: np.rot90(one)),
        ((box(b"irot", b"\3"),), lambda one: np.rot90(one, 3)),
        ((box(b"imir", b"\0"),), lambda one: one[::-1]),
        ((box(b"imir", b"\1"),), lambda one: one[:, ::-1]),
        ((box(b"irot", b"\1"), box(b"imir", b"\1")), lambda one: np.rot90(one)[:, ::-1]),
        ((box(b"imir", b"\0"), box(b"irot", b"\3")), lambda one: np.rot90(one[::-1], 3)),
    ],
)
def test_turns_are_made_in_their_order(tmp_path: Path, properties, seen) -> None:
    file, whole = HeifFile(), planes(64, 32)
    file.add_image(whole, "yuv420p", *properties)
    media, found = read(file.written(tmp_path / "a.heic"))
    turned = np.rot90(found[0], -media.video.rotation // 90)
    turned = turned[:, ::-1] if media.video.is_mirrored else turned
    assert np.array_equal(turned, seen(whole[0]))


def test_the_shape_of_pixels_and_their_light_are_read(tmp_path: Path) -> None:
    for shape, expected in (((16, 15), Fraction(16, 15)), ((1, 0), 1), ((100, 1), 1)):
        file = HeifFile()
        light = box(b"clli", struct.pack(">HH", 1000, 400))
        file.add_image(planes(64, 32), "yuv420p", box(b"pasp", struct.pack(">II", *shape)), light)
        video = probe(file.written(tmp_path / "a.heic")).video
        assert video.sample_aspect == expected
        assert video.hdr_metadata is not None
        assert video.hdr_metadata.light_level == (1000, 400)


def test_a_clean_aperture_crops(tmp_path: Path) -> None:
    file, whole = HeifFile(), planes(64, 64)
    clap = struct.pack(">IIIIiIiI", 40, 1, 30, 1, -2, 1, 3, 1)  # its centre beside the image's
    file.add_image(whole, "yuv420p", box(b"clap", clap))
    media, found = read(file.written(tmp_path / "a.heic"))
    assert str(media.video.size) == "40x30"
    assert np.array_equal(found[0], whole[0][20:50, 10:50])
    assert np.array_equal(found[1], whole[1][10:25, 5:25])


def test_all_beside_the_photograph_is_named(tmp_path: Path) -> None:
    file, small = HeifFile(), planes(32, 32)
    for more in ((), (_DEPTH,), (_GAIN,), (), (), (_ALPHA,)):
        file.add_image(small, "yuv420p", *more)
    file.refer(b"auxl", 2, 1)
    file.refer(b"auxl", 3, 1)
    file.refer(b"thmb", 4, 1)
    file.refer(b"auxl", 6, 5)
    media = probe(file.written(tmp_path / "a.heic", after=box(b"mpvd", bytes(9))))
    stated = [(one.kind, one.value) for one in media.statements]
    assert stated == [(kind, "1") for kind in ("depth-map", "gain-map", "images", "motion-video")]
    assert not media.video.has_alpha


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_avif_of_another_program(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "a.avif"
    exif = an_exif(orientation=orientation)
    picture = Image.fromarray(number_picture(5, 96, 64)).convert("RGBA")
    picture.putalpha(Image.linear_gradient("L").resize((96, 64)))
    picture.save(path, quality=100, subsampling="4:4:4", exif=exif, icc_profile=srgb_profile())
    media, found = read(path)
    video = media.video
    assert (media.kind, video.codec, video.profile, video.has_exif) == (
        "image",
        "avif",
        "RGB",
        True,
    )
    assert read_picture_data(path).profile == srgb_profile()
    turned = np.rot90(found[3], -video.rotation // 90)
    turned = turned[:, ::-1] if video.is_mirrored else turned
    with Image.open(path) as file:
        seen = np.asarray(ImageOps.exif_transpose(file))
    assert np.array_equal(turned, seen[..., 3])


def test_an_image_sequence_stays_a_video(tmp_path: Path) -> None:
    if not features.check("avif"):
        pytest.skip("this Pillow writes no AVIF")
    frames = [Image.fromarray(number_picture(number, 96, 64)) for number in range(3)]
    frames[0].save(tmp_path / "a.avif", save_all=True, append_images=frames[1:], duration=40)
    media = probe(tmp_path / "a.avif")
    assert (media.kind, media.video.frame_count) == ("video", 3)


@pytest.mark.parametrize("kind", [b"iovl", b"jpeg", b"avc1"])
def test_what_is_not_read_is_named(tmp_path: Path, kind: bytes) -> None:
    file = HeifFile(b"mif1")
    file.add(kind, bytes(40), full(b"ispe", struct.pack(">II", 8, 8)))
    with pytest.raises(EngineError) as caught:
        probe(file.written(tmp_path / "a.heif"))
    assert (caught.value.code, caught.value.case) == ("unsupported-media", "photograph-coding")
    assert kind.decode() in caught.value.message


def test_cut_and_damaged_files_are_refused_as_that(tmp_path: Path) -> None:
    file = HeifFile()
    tiled(file, planes(128, 128), "yuv420p")
    path = file.written(tmp_path / "a.heic")
    whole = path.read_bytes()
    assert not is_truncated(path)
    for share in (0.4, 0.7, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert is_truncated(path)
        with pytest.raises(EngineError, match="end") as caught:
            probe(path)
        assert caught.value.code == "truncated-media"
    for _ in range(60):
        damaged = bytearray(whole)
        for at in _RNG.integers(24, 900, 3):
            damaged[at] = _RNG.integers(256)
        path.write_bytes(damaged)
        with suppress(EngineError):
            read(path)
