import struct
import sys
import zlib
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from engine.core.errors import SourceMissing, TruncatedMedia, UnreadableMedia, UnsupportedMedia
from engine.core.geometry import Size
from engine.settings.schema import JobSettings
from engine.video.film_preparation import source_notices
from engine.video.read import image_probe, stream_info
from engine.video.read.frame_reader import FrameReader
from engine.video.read.images import find_sequence, picture_codec, sequence_file
from engine.video.read.probe import probe
from tests.helpers.clips import cut_short, make_picture, make_pictures, number_picture, read_number
from tests.helpers.photographs import ADOBE_RGB, chunked, srgb_profile

KINDS = {
    "a.png": ("png", "rgb24", "rgb", 8),
    "b.png": ("png", "rgb48be", "rgb", 16),
    "c.png": ("png", "rgba", "rgb", 8),
    "d.png": ("png", "gray16be", "gray", 16),
    "a.tif": ("tiff", "rgb24", "rgb", 8),
    "b.tif": ("tiff", "rgb48le", "rgb", 16),
    "a.jpg": ("mjpeg", "yuvj420p", "420", 8),
    "b.jpg": ("mjpeg", "yuvj444p", "444", 8),
    "a.webp": ("webp", "yuv420p", "420", 8),
    "a.bmp": ("bmp", "bgr24", "rgb", 8),
    "a.exr": ("exr", "gbrpf32le", "rgb", 16),
    "a.dpx": ("dpx", "gbrp10le", "rgb", 10),
    "a.qoi": ("qoi", "rgb24", "rgb", 8),
}


def test_pictures_are_read(tmp_path: Path) -> None:
    for name, (codec, pixel_format, chroma, bits) in KINDS.items():
        media = probe(make_picture(tmp_path / name, 6, pixel_format=pixel_format))
        video = media.video
        alpha = pixel_format == "rgba"
        assert (media.kind, video.codec, video.size) == ("image", codec, Size(48, 32))
        assert (video.chroma, video.bit_depth, video.has_alpha) == (chroma, bits, alpha), name
        assert (video.frame_count, video.frame_count_is_exact) == (1, True)
        with FrameReader(media) as reader:
            (frame,) = reader
        assert (frame.pts, len(frame.planes)) == (0, {"gray": 1}.get(chroma, 3) + alpha)
        assert read_number(frame.planes[1 if chroma == "rgb" else 0]) == 6
        assert not reader.problems
    png = (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    assert picture_codec(png) == probe(png).video.codec == "png", "whatever the name"


def test_sixteen_bits_are_exact(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    values = draw.integers(0, 65536, (20, 30, 3)).astype(np.uint16)
    for name, form in (("a.png", "rgb48be"), ("a.tif", "rgb48le")):
        frame = av.VideoFrame.from_ndarray(values, format="rgb48le")
        frame = frame.reformat(format=form, threads=1)
        context = av.CodecContext.create("png" if name == "a.png" else "tiff", "w")
        context.width, context.height, context.pix_fmt = 30, 20, form
        context.time_base = 1
        packets = [*context.encode(frame), *context.encode(None)]
        (tmp_path / name).write_bytes(b"".join(map(bytes, packets)))
        with FrameReader(probe(tmp_path / name)) as reader:
            (read,) = reader
        np.testing.assert_array_equal(np.stack(read.planes, axis=2), values)


def test_pictures_of_another_program_are_exact(tmp_path: Path) -> None:
    picture = number_picture(9, 50, 30)
    for name in ("a.png", "a.bmp", "a.tif", "b.webp"):
        Image.fromarray(picture).save(tmp_path / name, lossless=True)
        with FrameReader(probe(tmp_path / name)) as reader:
            (frame,) = reader
        assert len(frame.planes) in (3, 4)
        np.testing.assert_array_equal(np.stack(frame.planes[:3], axis=2), picture)


def test_a_palette_has_alpha_only_where_something_is_transparent(tmp_path: Path) -> None:
    solid = Image.fromarray(number_picture(3, 32, 32)).quantize(16)
    solid.save(tmp_path / "a.png")
    media = probe(tmp_path / "a.png")
    assert (media.video.pixel_format, media.video.has_alpha) == ("pal8", False)
    solid.save(tmp_path / "b.png", transparency=0)
    media = probe(tmp_path / "b.png")
    assert media.video.has_alpha
    with FrameReader(media) as reader:
        (frame,) = reader
    assert set(np.unique(frame.planes[3]).tolist()) == {0, 255}
    true = np.asarray(solid.convert("RGB"))
    np.testing.assert_array_equal(np.stack(frame.planes[:3], axis=2), true)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("suffix", ["gif", "png"])
def test_an_animation_has_alpha_only_where_a_frame_is_transparent(
    suffix: str, count: int, tmp_path: Path
) -> None:
    for is_clear in (False, True):
        pages = [Image.fromarray(number_picture(n, 32, 32)).quantize(200) for n in range(count)]
        if suffix == "png":
            pages = [page.convert("RGBA") for page in pages]
        if is_clear:
            pages[-1].paste(250 if suffix == "gif" else (0, 0, 0, 0), (8, 8, 24, 24))
        how = {"transparency": 250, "disposal": 2} if suffix == "gif" else {}
        path = tmp_path / f"{is_clear}.{suffix}"
        pages[0].save(path, save_all=True, append_images=pages[1:], optimize=False, **how)
        media = probe(path)
        expected = is_clear or (suffix == "png" and media.kind == "image")  # it has the channel
        assert media.video.has_alpha == expected


def test_of_a_long_animation_the_beginning_shows_whether_it_has_alpha(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [Image.fromarray(number_picture(n, 32, 32)).quantize(200) for n in range(4)]
    pages[-1].paste(250, (8, 8, 24, 24))
    how = {"transparency": 250, "disposal": 2, "optimize": False}
    pages[0].save(tmp_path / "a.gif", save_all=True, append_images=pages[1:], **how)
    assert probe(tmp_path / "a.gif").video.has_alpha
    monkeypatch.setattr(stream_info, "_MOST_PIXELS", 2 * 32 * 32)
    assert not probe(tmp_path / "a.gif").video.has_alpha


def test_a_bitmap_of_os_2_is_read(tmp_path: Path) -> None:
    rows = bytes(range(12)) + bytes(4) + bytes(range(12, 24)) + bytes(4)  # of 4 bytes' multiples
    header = struct.pack("<2sIIIIHHHH", b"BM", 26 + len(rows), 0, 26, 12, 4, 2, 1, 24)
    (tmp_path / "a.bmp").write_bytes(header + rows)
    media = probe(tmp_path / "a.bmp")
    assert (media.kind, media.video.size) == ("image", Size(4, 2))
    assert media.statements == ()


def test_a_jpeg_with_four_colours_has_no_alpha(tmp_path: Path) -> None:
    picture = Image.fromarray(number_picture(3, 32, 32))
    picture.convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    media = probe(tmp_path / "a.jpg")
    assert not media.video.has_alpha
    with FrameReader(media) as reader:
        (frame,) = reader
    np.testing.assert_allclose(np.stack(frame.planes, axis=2), np.asarray(picture), atol=12)


def test_the_rotation_of_a_camera_is_read(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise
    Image.fromarray(number_picture(1, 64, 32)).save(tmp_path / "a.jpg", exif=exif)
    video = probe(tmp_path / "a.jpg").video
    assert (video.size, video.rotation) == (Size(64, 32), 90)


def test_an_animation_is_a_film_and_a_single_gif_a_picture(tmp_path: Path) -> None:
    pages = [Image.fromarray(number_picture(n, 48, 32)) for n in range(4)]
    for name in ("a.gif", "a.png"):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:], duration=100)
        assert probe(tmp_path / name).kind == "video"
    assert probe(tmp_path / "a.gif").video.frame_count == 4
    pages[0].save(tmp_path / "b.gif", duration=10)
    media = probe(tmp_path / "b.gif")
    assert (media.kind, media.video.frame_rate) == ("image", 25), "whatever time it is shown"
    with FrameReader(probe(tmp_path / "b.gif")) as reader:
        assert len(list(reader)) == 1


def test_unusual_names_of_pictures_are_only_names(tmp_path: Path) -> None:
    make_picture(tmp_path / "a1.png", 1)
    names = ["shot%03d.png", "100%.png"]
    names += [] if sys.platform == "win32" else ["a*.png", "b?{1,2}.png", "a:b.png"]
    for name in names:
        media = probe(make_picture(tmp_path / name, 5))
        assert media.kind == "image"
        with FrameReader(media) as reader:
            (frame,) = reader
        assert read_number(frame.planes[1]) == 5, name


def with_size(path: Path, width: int, height: int) -> Path:
    """Change the size in the header of a PNG, its checksum included."""
    data = bytearray(path.read_bytes())
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    return path


def test_bad_pictures_and_missing_sequences_are_refused(tmp_path: Path) -> None:
    path = make_picture(tmp_path / "a.png")
    garbage = tmp_path / "garbage.png"
    garbage.write_bytes(path.read_bytes()[:40] + b"\x11" * 500 + b"IEND")
    (tmp_path / "empty").mkdir()
    stub = tmp_path / "stub.webp"
    stub.write_bytes(b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0")
    for bad, error in (
        (cut_short(path, tmp_path / "b.png", 0.5), TruncatedMedia),
        (garbage, UnreadableMedia),
        (stub, TruncatedMedia),
        (tmp_path / "none_%04d.png", SourceMissing),
        (tmp_path / "empty", UnsupportedMedia),
    ):
        with pytest.raises(error) as caught:
            probe(bad)
        assert type(caught.value) is error
        assert caught.value.hint
    drive = Path(tmp_path.anchor)
    with pytest.raises(UnsupportedMedia) as of_drive:
        probe(drive)
    assert f"The folder {drive} contains" in str(of_drive.value)
    for size in ((0, 32), (60000, 60000), (20000, 4)):
        with pytest.raises(UnsupportedMedia) as refused:
            probe(with_size(path, *size))
        assert refused.value.hint


def test_formats_without_a_decoder_are_refused_as_what_they_are(tmp_path: Path) -> None:
    pages = [Image.fromarray(number_picture(n, 48, 32)) for n in range(2)]
    pages[0].save(tmp_path / "a.webp", save_all=True, append_images=pages[1:])
    (tmp_path / "a.jxl").write_bytes(b"\xff\x0a" + bytes(20))
    (tmp_path / "b.jxl").write_bytes(b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(20))
    for name, case in (("a.webp", "animated-webp"), ("a.jxl", "jpeg-xl"), ("b.jxl", "jpeg-xl")):
        with pytest.raises(UnsupportedMedia) as caught:
            probe(tmp_path / name)
        assert caught.value.case == case
        assert "PNG" in caught.value.hint


def test_the_part_of_a_jpeg_that_is_there_is_shown(tmp_path: Path) -> None:
    whole = make_picture(tmp_path / "a.jpg", 3, size=(640, 480), pixel_format="yuvj420p")
    media = probe(cut_short(whole, tmp_path / "b.jpg", 0.7))
    assert media.is_cut_short
    with FrameReader(media) as reader:
        (frame,) = reader
    assert read_number(frame.planes[0]) == 3
    assert any("end of the image file" in str(problem) for problem in reader.problems)


def test_a_sequence_ends_at_the_first_gap(tmp_path: Path) -> None:
    pattern = make_pictures(tmp_path, 8)
    (tmp_path / "shot_0005.png").unlink()
    assert find_sequence(pattern) == (str(pattern), 1, 4)
    with FrameReader(probe(tmp_path)) as reader:
        frames = list(reader)
    assert [read_number(f.planes[1]) for f in frames] == [0, 1, 2, 3]
    assert any("shot_0005.png" in str(problem) for problem in reader.problems)


def test_numbers_may_outgrow_their_zeros_and_the_longest_sequence_is_taken(tmp_path: Path) -> None:
    make_pictures(tmp_path, 2, name="a_%03d.png")
    (tmp_path / "notes_001.txt").write_text("x")
    make_pictures(tmp_path, 93, name="p%02d.png", first=9, size=(4, 4))
    found = find_sequence(tmp_path)
    assert found == (str(tmp_path / "p%02d.png"), 9, 93)
    assert find_sequence(tmp_path / "p%02d.png") == found
    assert sequence_file(found[0], 101).name == "p101.png"


@pytest.mark.parametrize("suffix", [".jp2", ".j2k"])
def test_the_digit_of_a_format_is_not_the_number_of_an_image(tmp_path: Path, suffix: str) -> None:
    for number in range(8, 11):
        Image.fromarray(number_picture(3, 32, 32)).save(tmp_path / f"a.v2_{number}{suffix}")
    assert find_sequence(tmp_path) == (str(tmp_path / f"a.v2_%d{suffix}"), 8, 3)


def test_sequences_are_in_the_order_of_their_numbers_whatever_their_names(tmp_path: Path) -> None:
    for number, name in enumerate(("50%%_%03d.png", "a%%d_%03d.png", "%%%03d.png", "%d.png")):
        folder = tmp_path / f"take%d 100% {number}"
        make_pictures(folder, 4, name=name, first=8)
        media = probe(folder)
        assert (media.kind, media.video.frame_count) == ("sequence", 4)
        assert media.path.name == name % 8
        assert media.pattern == str(folder / name)
        with FrameReader(media) as reader:
            assert [read_number(f.planes[1]) for f in reader] == [0, 1, 2, 3]


def test_damaged_pictures_in_a_sequence_or_of_another_size_are_problems(tmp_path: Path) -> None:
    pattern = make_pictures(tmp_path, 4)
    (tmp_path / "shot_0003.png").write_bytes(b"")
    make_picture(tmp_path / "shot_0004.png", 3, size=(96, 64))
    with FrameReader(probe(pattern)) as reader:
        frames = [(frame.pts, frame.planes[0].shape) for frame in reader]
    assert frames == [(0, (32, 48)), (1, (32, 48)), (3, (32, 48))]
    for part in ("shot_0003.png", "96x64"):
        assert any(part in str(problem) for problem in reader.problems)


def test_a_sequence_has_transparency_colour_and_bits_of_any_of_its_images(tmp_path: Path) -> None:
    colour = Image.fromarray(number_picture(3, 32, 32))
    solid, clear = colour.quantize(16), colour.copy()
    clear.putalpha(colour.convert("L"))
    deep = Image.fromarray(np.full((32, 32), 40000, np.uint16))
    cases = {
        "clear palette": ([solid, solid, solid], "rgb", 8, True),
        "palette": ([solid, solid], "rgb", 8, False),
        "clear": ([colour, clear], "rgb", 8, True),
        "colour": ([colour.convert("L"), colour], "rgb", 8, False),
        "deep": ([colour.convert("L"), deep], "gray", 16, False),
        "deep, then colour": ([deep, colour], "rgb", 16, False),
    }
    for name, (made, chroma, bits, is_clear) in cases.items():
        for number, image in enumerate(made):
            last = {"transparency": 0} if name == "clear palette" and number == 2 else {}
            (tmp_path / name).mkdir(exist_ok=True)
            image.save(tmp_path / name / f"{number}.png", **last)
        media = probe(tmp_path / name)
        video = media.video
        assert (video.chroma, video.bit_depth, video.has_alpha) == (chroma, bits, is_clear), name
        assert media.findings is None, name
        with FrameReader(media) as reader:
            frames = list(reader)
        assert {len(one.planes) for one in frames} == {(3 if chroma == "rgb" else 1) + is_clear}
        if is_clear:
            assert [int(one.planes[3].min()) < 255 for one in frames] == [
                one in ("clear palette", "clear") and at == len(made) - 1
                for at, one in enumerate([name] * len(made))
            ]
            assert not reader.problems


def test_images_of_another_size_are_named_before_the_start(tmp_path: Path) -> None:
    pattern = make_pictures(tmp_path, 4)
    make_picture(tmp_path / "shot_0004.png", 3, size=(96, 64))
    (notice,) = source_notices(probe(pattern), JobSettings())
    assert (notice.code, notice.case, notice.severity) == (
        "changes-within",
        "images-size",
        "warning",
    )
    assert (notice.params["other"], notice.params["share"]) == ("96x64", "25 %")


def test_colours_and_orientation_of_later_images_are_named_before_the_start(
    tmp_path: Path,
) -> None:
    """Colours that are stated differ from none at all, unless they are those that are assumed."""
    gamma, primaries = struct.pack(">I", 45455), struct.pack(">8I", *ADOBE_RGB)
    exif = Image.Exif()
    exif[0x0112] = 6
    stated: list[dict[bytes, bytes]] = [
        {},
        {b"cICP": bytes((12, 13, 0, 1))},
        {b"gAMA": gamma, b"cHRM": primaries},
        {b"sRGB": b"\0"},
        {b"eXIf": exif.tobytes()[6:], b"iCCP": b"p\0\0" + zlib.compress(srgb_profile())},
    ]
    for number, chunks in enumerate(stated):
        chunked(tmp_path / f"{number}.png", chunks)
    found = [
        (one.case, one.params["taken"], one.params["other"], one.params["share"])
        for one in source_notices(probe(tmp_path), JobSettings())
    ]
    assert found == [
        ("images-colours", "bt709", "smpte432", "20 %"),
        ("images-colours", "bt709, iec61966-2-1", "Adobe RGB, bt470m", "20 %"),
        ("images-rotation", "0", "90", "20 %"),
    ]


@pytest.mark.parametrize(("limit", "value"), [("MOST_LOOKS", 2), ("MOST_READ", 700)])
def test_transparency_that_the_look_at_a_sequence_misses_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Images that are looked at have a number, and a size on the drive."""
    monkeypatch.setattr(image_probe, limit, value)
    solid = Image.fromarray(number_picture(3, 32, 32)).quantize(16)
    for number in range(3):
        solid.save(tmp_path / f"{number}.png", **({"transparency": 0} if number == 1 else {}))
    media = probe(tmp_path)
    assert not media.video.has_alpha
    with FrameReader(media) as reader:
        list(reader)
    assert [problem.code for problem in reader.problems] == ["reading.alpha-lost"]


def test_texts_of_later_images_are_stated(tmp_path: Path) -> None:
    text = PngInfo()
    text.add_text("Title", "A hill")
    for number in range(3):
        how = {"pnginfo": text} if number == 1 else {}
        Image.fromarray(number_picture(3, 32, 32)).save(tmp_path / f"{number}.png", **how)
    assert [one.kind for one in probe(tmp_path).statements] == ["text-entries"]


def test_parts_and_resolutions_of_later_images_are_stated(tmp_path: Path) -> None:
    image = Image.fromarray(number_picture(3, 32, 32))
    image.save(tmp_path / "1.tif")
    image.save(tmp_path / "2.tif", save_all=True, append_images=[image], dpi=(300, 300))
    image.convert("L").save(tmp_path / "3.tif")
    media = probe(tmp_path)
    stated = [(one.kind, one.value) for one in media.statements]
    assert stated == [("pages", "1"), ("resolution", "300 dpi")]
    assert media.findings is None, "grey TIFF states no gamma"
