"""Colour profile and EXIF of pictures, from every kind of file to both kinds of result."""

import gc
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.core.geometry import Size
from engine.scripting import upscale
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read.picture_data import read_picture_data
from engine.video.read.probe import probe
from engine.video.write import image_files
from engine.video.write.codecs import picture_notices
from engine.video.write.picture_data import with_picture_data
from engine.video.write.statements import StatedResult, statement_notices
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import number_picture
from tests.helpers.heif import box
from tests.helpers.jobs import plan_of as planned
from tests.helpers.jobs import run
from tests.helpers.photographs import (
    CAMERA,
    DATE,
    MAKER,
    PLACE,
    TAKEN,
    a_psd,
    an_exif,
    chunked,
    make_photograph,
    profile_of,
    srgb_profile,
    upright,
    with_thumbnail,
)
from tests.helpers.results import plan_of


def job(source: Path, output: Path, **settings: Any) -> Path:
    """The result of a whole job, twice as large unless the settings say otherwise."""
    plan = planned(source, output, JobSettings(**{"model": "lite", "scale": 2, **settings}))
    run(plan, output.parent / f"{output.stem}_job")
    return output


@pytest.mark.parametrize("after", ["png", "tif"])
@pytest.mark.parametrize("before", ["png", "jpg", "tif", "webp"])
def test_profile_and_exif_are_kept(tmp_path: Path, before: str, after: str) -> None:
    source = make_photograph(
        tmp_path / f"a.{before}", profile=srgb_profile(), exif=an_exif(orientation=6)
    )
    output = job(source, tmp_path / f"b.{after}")
    with Image.open(output) as found:
        found.load()
        exif = found.getexif()
        assert found.info["icc_profile"] == srgb_profile()
        assert found.size == (128, 192)
        assert exif.get(0x0112, 1) == 1, "it is not turned again"
        assert (exif[MAKER], exif[0x010E]) == ("Maker & Sons", "A hill")
        camera, place = exif.get_ifd(CAMERA), exif.get_ifd(PLACE)
    assert (camera[0xA002], camera[0xA003]) == (128, 192)
    assert camera[TAKEN] == DATE
    assert place[2] == (52.0, 31.0, 12.5)
    assert all(check.passed for check in verify(source, output).checks)


def test_every_orientation_is_applied_once(tmp_path: Path) -> None:
    for orientation in range(1, 9):
        source = make_photograph(
            tmp_path / f"{orientation}.png", exif=an_exif(orientation=orientation)
        )
        output = job(source, tmp_path / f"{orientation}_out.png", model="none", scale=1)
        np.testing.assert_array_equal(upright(output), upright(source), str(orientation))
        if orientation in (5, 7):  # rotated by a quarter, then mirrored
            assert verify(source, output).passed, orientation


def test_the_thumbnail_is_dropped(tmp_path: Path) -> None:
    source = make_photograph(tmp_path / "a.jpg", exif=with_thumbnail(an_exif()))
    assert source.read_bytes().count(b"\xff\xd8\xff") == 2
    output = job(source, tmp_path / "b.png")
    data = read_picture_data(output)
    assert data.exif is not None
    assert b"\xff\xd8\xff" not in output.read_bytes()
    with Image.open(output) as found:
        assert not found.getexif().get_ifd(1)


def test_each_picture_of_a_sequence_keeps_its_own(tmp_path: Path) -> None:
    """Even where the first one has none."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        exif = an_exif()
        exif[MAKER] = f"maker {number}"
        profile = srgb_profile() if number == 2 else b""
        path = tmp_path / "in" / f"shot_{number:04d}.png"
        make_photograph(path, profile=profile, exif=exif if number else None)
    media = probe(tmp_path / "in")
    notices = picture_notices(media, plan_of(media, tmp_path / "b.mkv").picture)
    assert {"profile-left-out", "exif-left-out"} <= {one.code for one in notices}
    report = upscale(tmp_path / "in", tmp_path / "out_%04d.png", model="none", scale=1)
    files = sorted(report.output.iterdir())
    for number, path in enumerate(files):
        with Image.open(path) as found:
            assert found.getexif().get(MAKER) == (f"maker {number}" if number else None)
            assert ("icc_profile" in found.info) == (number == 2)
    assert len(files) == 3
    make_photograph(files[2])
    failed = [check for check in verify(tmp_path / "in", report.output).checks if not check.passed]
    assert [str(check.message) for check in failed] == ["Metadata differs: ICC is lost."]
    for path in files[1:]:
        path.unlink()
    part = (Fraction(0), Fraction(1, 25))
    assert verify(tmp_path / "in", report.output, part=part).passed, "of the first image alone"


def test_a_profile_of_other_colours_than_those_of_a_sequence_is_named(tmp_path: Path) -> None:
    make_photograph(tmp_path / "1.png", mode="L", profile=profile_of(b"GRAY"))
    make_photograph(tmp_path / "2.png", profile=srgb_profile())
    media = probe(tmp_path)
    assert media.video.profile == "RGB"
    result = StatedResult(container="sequence", codec="png", frame_rate=None)
    (notice,) = statement_notices(media, result)
    assert "GRAY" in str(notice.params["what"])


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    def codes(source: Path, output: str) -> list[str]:
        media = probe(source)
        plan = plan_of(media, tmp_path / output)
        return [f"{n.code}.{n.case}" for n in picture_notices(media, plan.picture)]

    whole = make_photograph(tmp_path / "a.png", profile=srgb_profile(), exif=an_exif())
    assert codes(whole, "b.png") == []
    left_out = ["profile-left-out.", "exif-left-out.", "chroma-reduced."]
    assert codes(whole, "b.mkv") == left_out
    other = make_photograph(tmp_path / "c.jpg", profile=profile_of(b"CMYK"))
    assert codes(other, "d.png") == ["profile-left-out.other-colours"]
    output = job(other, tmp_path / "d.png")
    assert read_picture_data(output).profile == b""


@pytest.mark.parametrize("after", ["png", "tif"])
@pytest.mark.parametrize("before", ["png", "jpg", "tif", "bmp"])
def test_the_resolution_for_printing_is_kept(tmp_path: Path, before: str, after: str) -> None:
    source, output = tmp_path / f"a.{before}", tmp_path / f"b.{after}"
    Image.new("RGB", (32, 16)).save(source, dpi=(300, 150))
    assert probe(source).stated("resolution") == "300 x 150 dpi"
    assert job(source, output, model="none", scale=1) == output
    with Image.open(output) as found:
        assert found.info["dpi"] == pytest.approx((300, 150), abs=0.02)
    assert verify(source, output).passed
    Image.new("RGB", (32, 16)).save(output)
    failed = [check for check in verify(source, output).checks if not check.passed]
    assert [check.code for check in failed] == ["statements"]


def test_the_resolution_of_a_turned_photograph_is_turned(tmp_path: Path) -> None:
    exif = an_exif(orientation=6)
    exif[0x11A], exif[0x11B], exif[0x128] = 300.0, 150.0, 2
    source = make_photograph(tmp_path / "a.webp", exif=exif)
    output = job(source, tmp_path / "b.png", model="none", scale=1)
    assert probe(output).stated("resolution") == "150 x 300 dpi"


def test_a_resolution_that_is_left_out_is_named_and_one_without_sense_is_none(
    tmp_path: Path,
) -> None:
    Image.new("RGB", (32, 16)).save(tmp_path / "shot_1.tif", dpi=(300, 300))
    media = probe(tmp_path / "shot_%d.tif")
    for container, codec, is_named in (("sequence", "tiff", 0), ("sequence", "exr", 1)):
        result = StatedResult(container=container, codec=codec, frame_rate=None)
        assert len(list(statement_notices(media, result))) == is_named
    for dots, unit in (((0, 5), 1), ((2**32 - 1, 5), 1), ((7, 7), 0)):
        chunked(tmp_path / "c.png", {b"pHYs": struct.pack(">IIB", *dots, unit)})
        assert probe(tmp_path / "c.png").statements == ()


def test_a_missing_profile_fails_the_check(tmp_path: Path) -> None:
    source = make_photograph(tmp_path / "a.png", profile=srgb_profile(), exif=an_exif())
    bare = make_photograph(tmp_path / "b.png")
    failed = [check for check in verify(source, bare).checks if not check.passed]
    assert [check.code for check in failed] == ["metadata"]
    assert str(failed[0].message) == "Metadata differs: ICC is lost; EXIF is lost."


def test_a_profile_replaces_other_colours_but_not_hdr(tmp_path: Path) -> None:
    make_photograph(tmp_path / "a.png", profile=srgb_profile())
    plain = make_photograph(tmp_path / "b.png").read_bytes()
    data = read_picture_data(tmp_path / "a.png")
    for transfer, is_kept in ((16, True), (13, False)):
        chunk = b"cICP" + bytes([9, transfer, 0, 1])
        chunk = bytes([0, 0, 0, 4]) + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        found = with_picture_data(plain[:33] + chunk + plain[33:], data, Size(96, 64))
        assert b"iCCP" in found
        assert (b"cICP" in found) == is_kept


def test_a_profile_in_many_parts_is_joined(tmp_path: Path) -> None:
    profile = bytearray(srgb_profile()) + bytes(150_000)
    profile[:4] = len(profile).to_bytes(4, "big")
    source = make_photograph(tmp_path / "a.jpg", profile=bytes(profile))
    assert read_picture_data(source).profile == bytes(profile)


def test_an_animated_png_with_a_profile_is_read(tmp_path: Path) -> None:
    pages = [Image.new("RGB", (48, 32), (60 * n, 0, 0)) for n in range(3)]
    how = {"save_all": True, "append_images": pages[1:], "icc_profile": srgb_profile()}
    pages[0].save(tmp_path / "a.png", **how)
    media = probe(tmp_path / "a.png")
    gc.collect()
    assert (media.kind, media.video.profile) == ("video", "RGB")


def test_damaged_data_is_left_out(tmp_path: Path) -> None:
    source = make_photograph(tmp_path / "a.tif", profile=srgb_profile(), exif=an_exif())
    whole = source.read_bytes()
    noise = np.random.default_rng(3)
    kept = 0
    for number in range(200):
        data = bytearray(whole)
        for place in noise.integers(0, len(data), 8):
            data[place] = noise.integers(0, 256)
        start = int.from_bytes(data[4:8], "little")
        data[start : start + 8] = noise.bytes(8) if number % 2 else data[start : start + 8]
        source.write_bytes(data[: int(noise.integers(1, len(data) + 1))])
        kept += read_picture_data(source).exif is not None
    assert kept < 200


def test_other_byte_orders_are_read_and_written(tmp_path: Path) -> None:
    exif = an_exif()
    exif.endian = ">"
    source = make_photograph(tmp_path / "a.png", exif=b"Exif\0\0" + exif.tobytes()[6:])
    data = read_picture_data(source).exif
    assert data is not None
    assert data.order == ">"
    output = job(source, tmp_path / "b.tif", model="none", scale=1)
    with Image.open(output) as found:
        assert found.getexif().get_ifd(PLACE)[2] == (52.0, 31.0, 12.5)


def _psd(path: Path) -> Path:
    dots = struct.pack(">IHHIHH", 300 << 16, 1, 1, 150 << 16, 1, 1)
    exif = an_exif().tobytes()[6:]
    return a_psd(path, {1005: dots, 1039: srgb_profile(), 1058: exif, 1060: b"<x/>", 1028: b"x"})


def _jpeg_2000(path: Path) -> Path:
    Image.fromarray(number_picture(5, 32, 16)).save(path)
    data = path.read_bytes()
    start = data.index(b"jp2h") - 4
    size = int.from_bytes(data[start : start + 4], "big")
    inner = data[start + 8 : start + size]
    colours = inner.index(b"colr") - 4
    dots = box(b"resd", struct.pack(">4H2b", 5906, 1, 11811, 1, 0, 0))
    profile = box(b"colr", b"\2\0\0", srgb_profile())
    exif = box(b"uuid", b"JpgTiffExif->JP2", an_exif().tobytes()[6:])
    xmp = box(b"uuid", bytes.fromhex("be7acfcb97a942e89c71999491e3afac"), b"<x/>")
    header = box(b"jp2h", inner[:colours], profile, box(b"res ", dots))
    path.write_bytes(data[:start] + header + exif + xmp + data[start + size :])
    return path


def _bmp(path: Path) -> Path:
    rows = number_picture(5, 32, 16)[::-1, :, ::-1].tobytes()
    profile = srgb_profile()
    start = struct.pack("<IiiHHIIiiII", 124, 32, 16, 1, 24, 0, len(rows), 11811, 5906, 0, 0)
    place = struct.pack("<IIII", 4, 124 + len(rows), len(profile), 0)
    header = start + bytes(16) + b"DEBM" + bytes(48) + place
    size = 138 + len(rows) + len(profile)
    path.write_bytes(b"BM" + struct.pack("<IHHI", size, 0, 0, 138) + header + rows + profile)
    return path


@pytest.mark.parametrize(
    ("name", "make", "stated", "has_exif"),
    [
        ("a.psd", _psd, ["iptc", "xmp", "resolution"], True),
        ("a.jp2", _jpeg_2000, ["xmp", "resolution"], True),
        ("a.bmp", _bmp, ["resolution"], False),
    ],
)
def test_data_of_other_formats_are_kept(
    tmp_path: Path, name: str, make: Callable[[Path], Path], stated: list[str], has_exif: bool
) -> None:
    source = make(tmp_path / name)
    media = probe(source)
    assert [one.kind for one in media.statements] == stated
    assert (media.video.profile, media.video.has_exif) == ("RGB", has_exif)
    output = job(source, tmp_path / "b.png", model="none", scale=1)
    data = read_picture_data(output)
    assert data.profile == srgb_profile()
    assert data.resolution_text == "300 x 150 dpi"
    assert (data.exif is not None) == has_exif
    assert verify(source, output).passed
    whole = source.read_bytes()
    noise = np.random.default_rng(5)
    for _ in range(100):  # damaged ones are read without an error
        damaged = bytearray(whole)
        for place in noise.integers(8, len(whole), 12):
            damaged[place] = noise.integers(0, 256)
        source.write_bytes(damaged[: int(noise.integers(20, len(whole)))])
        read_picture_data(source)


def test_adobe_rgb_of_cameras_is_stated_as_primaries(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[CAMERA] = {0xA001: 65535, 0xA005: {1: "R03", 2: b"0100"}}
    source = make_photograph(tmp_path / "a.jpg", exif=exif)
    assert probe(source).stated("primaries") == "Adobe RGB"
    output = job(source, tmp_path / "b.png", model="none", scale=1)
    assert probe(output).stated("primaries") == "Adobe RGB"
    assert probe(output).video.tags.transfer == "bt470m"
    with_profile = make_photograph(tmp_path / "c.jpg", exif=exif, profile=srgb_profile())
    assert probe(with_profile).statements == ()


def test_exif_with_damaged_rules_of_files_is_kept(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[CAMERA] = {0x829A: 0.5, 0xA005: {1: "R03"}}
    source = make_photograph(tmp_path / "a.jpg", exif=exif)
    entry = struct.pack(">HHI", 0xA005, 4, 1)
    data = source.read_bytes()
    place = data.index(entry) + len(entry)
    source.write_bytes(data[:place] + b"\0\x0f\0\0" + data[place + 4 :])
    found = read_picture_data(source).exif
    assert found is not None
    assert 0x829A in found.camera
    assert not found.has_adobe_rgb


def test_a_part_of_a_file_that_would_lie_beyond_all_disks_is_left_out(tmp_path: Path) -> None:
    source = _jpeg_2000(tmp_path / "a.jp2")
    size = struct.pack(">I4sQ", 1, b"free", 1 << 61)
    source.write_bytes(source.read_bytes() + size)
    assert [one.kind for one in probe(source).statements] == ["xmp", "resolution"]


def test_images_of_an_animation_keep_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once for all of them: a long one has a hundred thousand chunks."""
    reads = list[Path]()
    monkeypatch.setattr(
        image_files,
        "read_picture_data",
        lambda path: reads.append(path) or read_picture_data(path),
    )
    pages = [Image.fromarray(number_picture(number, 32, 16)) for number in range(2)]
    how = {"save_all": True, "append_images": pages[1:], "icc_profile": srgb_profile()}
    pages[0].save(tmp_path / "a.png", dpi=(300, 300), **how)
    output = job(tmp_path / "a.png", tmp_path / "b_%d.png", model="none", scale=1)
    for path in output.parent.glob("b/*.png"):
        assert read_picture_data(path).profile == srgb_profile()
        assert read_picture_data(path).resolution_text == "300 dpi"
    assert len(reads) == 1


def test_the_comment_of_a_gif_is_named(tmp_path: Path) -> None:
    Image.fromarray(number_picture(5, 32, 16)).save(tmp_path / "a.gif", comment=b"by me")
    media = probe(tmp_path / "a.gif")
    assert [one.code for one in stream_notices(media, "image")] == ["statement-left-out"]
