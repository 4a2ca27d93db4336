"""What else the files of stills hold: pages, layers, further images, maps, videos."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, features
from PIL.PngImagePlugin import PngInfo

from engine.core.errors import EngineError
from engine.video.read.picture_data import read_picture_data
from engine.video.read.picture_parts import parts_beside
from engine.video.read.probe import probe
from engine.video.write.statements import StatedResult, name_of, statement_notices
from tests.helpers.clips import make_clip, number_picture
from tests.helpers.photographs import a_psd


def _image(number: int = 5, mode: str = "RGB") -> Image.Image:
    return Image.fromarray(number_picture(number, 96, 64)).convert(mode)


def _pages(path: Path) -> None:
    _image().save(path, save_all=True, append_images=[_image(6), _image(7).resize((40, 30))])


def _multi_picture(path: Path) -> None:
    _image().save(path, "MPO", save_all=True, append_images=[_image(6), _image(7)])


def _gain_map(path: Path) -> None:
    about = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a hdrgm:Version="1.0"/></x:xmpmeta>'
    second = _image(6)
    second.encoderinfo = {"xmp": about}
    _image().save(path, "MPO", save_all=True, append_images=[second])


def _motion_photo(path: Path) -> None:
    _image().save(path)
    film = make_clip(path.with_suffix(".mp4"), frames=3)
    path.write_bytes(path.read_bytes() + film.read_bytes())


def _motion_jpeg(path: Path) -> None:
    for number in (5, 6, 7):
        with path.open("ab") as file:
            _image(number).save(file, "JPEG")


def _gain_map_of_iso(path: Path) -> None:
    _image().save(path, "MPO", save_all=True, append_images=[_image(6)])
    data = path.read_bytes()
    start = data.rindex(b"\xff\xd8\xff")
    second = with_segment(data[start:], 0xE2, b"urn:iso:std:iso:ts:21496:-1\0" + bytes(4))
    path.write_bytes(data[:start] + second)


def with_segment(jpeg: bytes, marker: int, content: bytes) -> bytes:
    """A JPEG that begins with another segment."""
    return jpeg[:2] + struct.pack(">BBH", 0xFF, marker, 2 + len(content)) + content + jpeg[2:]


def _resolution_of_photoshop(path: Path) -> None:
    _image().save(path)
    resource = b"8BIM\x03\xed\0\0" + struct.pack(">IIHHIHH", 16, 300 << 16, 1, 1, 300 << 16, 1, 1)
    path.write_bytes(with_segment(path.read_bytes(), 0xED, b"Photoshop 3.0\0" + resource))


def _layers(path: Path) -> None:
    """A PSD as its format asks: header, no palette, no resources, three layers, the whole image."""
    planes = b"".join(band.tobytes() for band in _image().split())
    layers = struct.pack(">IIh", 6, 2, -3)
    head = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 64, 96, 8, 3)
    path.write_bytes(head + bytes(8) + layers + b"\0\0" + planes)


@pytest.mark.parametrize(
    ("name", "make", "stated"),
    [
        ("a.tif", _pages, {"pages": "2"}),
        ("a.jpg", _multi_picture, {"images": "2"}),
        ("b.jpg", _gain_map, {"gain-map": "1"}),
        ("b.jpg", _gain_map_of_iso, {"gain-map": "1"}),
        ("c.jpg", _motion_photo, {"motion-video": "1"}),
        ("d.jpg", _motion_jpeg, {"images": "2"}),
        ("e.jpg", _resolution_of_photoshop, {}),  # it is no IPTC
        ("a.psd", _layers, {"layers": "3"}),
        ("one.tif", lambda path: _image().save(path), {}),
        ("one.jpg", lambda path: _image().save(path), {}),
    ],
)
def test_all_that_is_left_out_is_named(
    tmp_path: Path, name: str, make: Callable[[Path], None], stated: dict[str, str]
) -> None:
    make(tmp_path / name)
    media = probe(tmp_path / name)
    assert (media.kind, str(media.video.size), media.is_cut_short) == ("image", "96x64", False)
    assert {one.kind: one.value for one in media.statements} == stated
    result = StatedResult(container="image", codec="png", frame_rate=None)
    notices = list(statement_notices(media, result))
    assert [(one.code, one.case) for one in notices] == [("statement-left-out", "parts")] * len(
        stated
    )


@pytest.mark.skipif(not features.check("avif"), reason="Pillow writes no AVIF")
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_tracks_of_an_animated_avif_are_no_other_videos(tmp_path: Path, mode: str) -> None:
    pages = [_image(number, mode) for number in range(3)]
    for page in pages if mode == "RGBA" else ():
        page.paste((0, 0, 0, 0), (8, 8, 24, 24))
    pages[0].save(tmp_path / "a.avif", save_all=True, append_images=pages[1:])
    media = probe(tmp_path / "a.avif")
    assert (media.kind, media.video.frame_count, media.streams) == ("video", 3, ())
    assert media.video.has_unread_alpha == (mode == "RGBA")


def _tiff(*tags: tuple[int, int], mark: bytes = b"II*\0\x08\0\0\0") -> bytes:
    """A directory of whole numbers."""
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return mark + bytes(len(mark) - 8) + struct.pack("<H", len(tags)) + rows + bytes(4)


@pytest.mark.parametrize(
    "content",
    [
        _tiff((0x100, 4), (0xC612, 4)),  # DNG
        _tiff((0xFE, 1), (0x100, 4)),  # begins with a smaller copy: NEF, ARW
        _tiff((0x106, 32803)),  # a mosaic
        b"II*\0\x10\0\0\0CR\2\0" + bytes(4) + bytes(6),  # CR2
        b"\0\0\0\x18ftypcrx \0\0\0\1crx isom",  # CR3
    ],
)
def test_raw_photographs_are_refused_as_that(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.dng").write_bytes(content)
    with pytest.raises(EngineError) as caught:
        probe(tmp_path / "a.dng")
    assert (caught.value.code, caught.value.case) == ("unsupported-media", "camera-raw")


@pytest.mark.parametrize("name", ["a.ico", "a.dds", "a.pbm", "a.xbm"])
def test_icons_textures_and_bitmaps_are_images(tmp_path: Path, name: str) -> None:
    how = {"sizes": [(16, 16), (64, 64)]} if name == "a.ico" else {}
    mode = "1" if name in ("a.pbm", "a.xbm") else "RGBA"
    _image(mode="RGBA").resize((64, 64)).convert(mode).save(tmp_path / name, **how)
    media = probe(tmp_path / name)
    assert (media.kind, str(media.video.size), media.streams) == ("image", "64x64", ())
    assert media.video.frame_rate == 25, "whatever the container says"
    assert [one.kind for one in media.statements] == (["images"] if name == "a.ico" else [])


@pytest.mark.parametrize(("suffix", "more"), [("png", {}), ("jpg", {}), ("webp", {}), ("tif", {})])
def test_metadata_that_no_result_has_is_named(suffix: str, more: dict, tmp_path: Path) -> None:
    path, xmp = tmp_path / f"a.{suffix}", b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
    if suffix == "png":
        texts = PngInfo()
        texts.add_text("Software", "a program")
        texts.add_itxt("XML:com.adobe.xmp", xmp.decode())
        texts.add_text("parameters", "steps: 20")
        more = {"pnginfo": texts}
    elif suffix == "tif":
        more = {"tiffinfo": {700: xmp, 33723: b"\x1c\x02\x05\0\x01a"}}
    else:
        more = {"xmp": xmp}
    Image.new("RGB", (32, 16)).save(path, **more)
    wanted = {"png": {"xmp", "text-entries"}, "tif": {"xmp", "iptc"}}.get(suffix, {"xmp"})
    media = probe(path)
    assert {one.kind for one in media.statements} == wanted
    result = StatedResult(container="image", codec="png", frame_rate=None)
    assert {one.severity for one in statement_notices(media, result)} == {"info"}


def test_inks_and_data_of_programs_are_named(tmp_path: Path) -> None:
    """Content credentials (APP11) and thermal data (APP1) are data of programs."""
    _image(mode="CMYK").save(tmp_path / "a.jpg")
    _image(mode="CMYK").save(tmp_path / "a.tif")
    head = a_psd(tmp_path / "a.psd", {}).read_bytes()[:24]
    (tmp_path / "a.psd").write_bytes(head + b"\0\4" + bytes(12))
    assert read_picture_data(tmp_path / "a.psd").also == {"inks"}
    for name in ("a.jpg", "a.tif"):
        media = probe(tmp_path / name)
        assert [one.kind for one in media.statements] == ["inks"]
        result = StatedResult(container="image", codec="png", frame_rate=None)
        assert [one.severity for one in statement_notices(media, result)] == ["warning"]
    _image().save(tmp_path / "b.jpg")
    plain = (tmp_path / "b.jpg").read_bytes()
    for marker, content, named in (
        (0xEB, b"JP\0\1", {"program-data"}),
        (0xE1, b"FLIR\0\1", {"program-data"}),
        (0xE1, b"http://ns.adobe.com/xmp/extension/\0", {"xmp"}),
        (0xEC, b"Ducky\0\1", set()),
    ):
        (tmp_path / "b.jpg").write_bytes(with_segment(plain, marker, content))
        assert read_picture_data(tmp_path / "b.jpg").also == named


def test_channels_and_further_images_of_exr_are_named(tmp_path: Path) -> None:
    def header(*channels: bytes) -> bytes:
        names = b"".join(name + bytes(1 + 16) for name in channels) + b"\0"
        return b"channels\0chlist\0" + len(names).to_bytes(4, "little") + names + b"\0"

    path = tmp_path / "a.exr"
    one = header(b"A", b"B", b"G", b"R", b"Z", b"normal.X")
    path.write_bytes(b"v/1\x01\x02\0\0\0" + one)
    assert [(one.kind, one.value) for one in parts_beside(path, "exr")] == [("channels", "2")]
    path.write_bytes(b"v/1\x01\x02\x10\0\0" + header(b"R") + header(b"R") + b"\0")
    assert [(one.kind, one.value) for one in parts_beside(path, "exr")] == [("images", "1")]
    path.write_bytes(b"v/1\x01\x02\x10\0\0" + header(b"R"))
    assert parts_beside(path, "exr") == ()


def test_a_psd_without_layers_has_none(tmp_path: Path) -> None:
    path = a_psd(tmp_path / "a.psd", {})
    assert parts_beside(path, "psd") == ()


def test_overscan_of_exr_is_named(tmp_path: Path) -> None:
    def window(name: bytes, *sides: int) -> bytes:
        return name + b"\0box2i\0" + struct.pack("<I4i", 16, *sides)

    shown, path = window(b"displayWindow", 0, 0, 31, 15), tmp_path / "a.exr"
    for sides, is_larger in (
        ((0, 0, 31, 15), False),
        ((-4, 0, 31, 15), True),
        ((4, 4, 8, 8), False),
    ):
        path.write_bytes(b"v/1\x01\x02\0\0\0" + shown + window(b"dataWindow", *sides) + b"\0")
        found = parts_beside(path, "exr")
        assert [one.kind for one in found] == ["overscan"] * is_larger
        assert ["visible area" in str(name_of(one)) for one in found] == [True] * is_larger
