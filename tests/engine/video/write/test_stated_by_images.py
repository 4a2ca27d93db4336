"""Statements of images about colours and pixels: kept in a result, or named before the start."""

import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av import CodecContext, VideoFrame
from PIL import Image

from engine.core.geometry import Size
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.colour_tags import hdr_metadata
from engine.video.read.image_headers import exr_header, with_attributes
from engine.video.read.picture_data import read_picture_data
from engine.video.read.probe import probe
from engine.video.write.codecs import picture_notices, plan_picture
from tests.helpers.clips import make_clip, number_picture
from tests.helpers.jobs import plan_of, run
from tests.helpers.photographs import ADOBE_RGB, chunked, srgb_profile

ACES = (0.713, 0.293, 0.165, 0.830, 0.128, 0.044, 0.32168, 0.33767)
TIFF_TAGS = {"white": 318, "primaries": 319}
P3 = (0.68, 0.32, 0.265, 0.69, 0.15, 0.06, 0.3127, 0.329)


def job(source: Path, output: Path, **settings: Any) -> tuple[Path, list[str]]:
    """The result of a job without a model, and the codes of the notices of its plan."""
    plan = plan_of(source, output, JobSettings(model="none", scale=1, **settings))
    run(plan, output.parent / f"{output.name}_job")
    said = [f"{one.code}.{one.params.get('kind', '')}" for one in plan.notices]
    report = verify(source, plan.output, plan=plan)
    assert report.passed, [str(check.message) for check in report.checks if not check.passed]
    return plan.output, [one for one in said if not one.startswith("light-is-linear")]


def failures(source: Path, output: Path) -> list[str]:
    """Checks that a result fails."""
    return [check.code for check in verify(source, output).checks if not check.passed]


def an_exr(
    path: Path, *, chromaticities: tuple[float, ...] = (), brightest: float = 0, **others: str
) -> Path:
    """An EXR image of 32x16."""
    picture = VideoFrame.from_ndarray(np.asarray(number_picture(5, 32, 16)))
    frame = picture.reformat(format="gbrpf32le")
    if brightest:
        frame.planes[0].update(np.full((16, frame.planes[0].line_size // 4), brightest, "<f4"))
    texts = {name.encode(): (b"string", value.encode()) for name, value in others.items()}
    path.write_bytes(with_attributes(encoded("exr", frame), texts, chromaticities))
    return path


def encoded(codec: str, frame: VideoFrame) -> bytes:
    """A file with one image."""
    encoder: Any = CodecContext.create(codec, "w")
    encoder.width, encoder.height = frame.width, frame.height
    encoder.pix_fmt, encoder.time_base = frame.format.name, Fraction(1, 25)
    return b"".join(map(bytes, encoder.encode(frame)))


def a_dpx(path: Path, *, transfer: int = 6, aspect: Fraction = Fraction(1)) -> Path:
    """A DPX image of 32x16."""
    encoder: Any = CodecContext.create("dpx", "w")
    encoder.width, encoder.height, encoder.pix_fmt = 32, 16, "gbrp10be"
    encoder.time_base, encoder.sample_aspect_ratio = Fraction(1, 25), aspect
    frame = VideoFrame.from_ndarray(np.asarray(number_picture(5, 32, 16)), format="rgb24")
    data = bytearray(b"".join(map(bytes, encoder.encode(frame.reformat(format="gbrp10be")))))
    data[801] = transfer
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["png", "jpg", "tif"])
def test_a_ratio_of_resolutions_without_a_unit_is_kept_or_named(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"a.{kind}"
    if kind == "png":
        chunked(source, {b"pHYs": struct.pack(">IIB", 16, 15, 0)})
    elif kind == "tif":
        Image.new("RGB", (32, 16)).save(source, tiffinfo={282: 16.0, 283: 15.0, 296: 1})
    else:
        Image.new("RGB", (32, 16)).save(source)
        data = bytearray(source.read_bytes())
        at = data.index(b"JFIF") + 7
        data[at : at + 5] = struct.pack(">BHH", 0, 16, 15)
        source.write_bytes(data)
    assert probe(source).stated("pixel-ratio") == "16:15"
    for after in ("png", "tif"):
        output, said = job(source, tmp_path / f"b.{after}")
        assert said == []
        assert read_picture_data(output).resolution == (16, 15)
    assert job(source, tmp_path / "b.dpx")[1] == ["statement-left-out.pixel-ratio"]
    Image.new("RGB", (32, 16)).save(tmp_path / "b.png")
    assert "statements" in failures(source, tmp_path / "b.png")


def test_primaries_without_a_name_are_kept_or_named(tmp_path: Path) -> None:
    chunks = {b"gAMA": struct.pack(">I", 45455), b"cHRM": struct.pack(">8I", *ADOBE_RGB)}
    source = chunked(tmp_path / "a.png", chunks)
    assert probe(source).stated("primaries") == "Adobe RGB"
    output, said = job(source, tmp_path / "b.png")
    assert said == []
    assert struct.pack(">8I", *ADOBE_RGB) in output.read_bytes()
    assert b"cICP" not in output.read_bytes(), "it would count in their place"
    output, said = job(source, tmp_path / "b.exr")
    assert said == []
    red, blue = exr_header(output.read_bytes()).chromaticities[:2], (0.64, 0.33)
    assert red == pytest.approx(blue)
    assert job(source, tmp_path / "b.dpx")[1] == ["statement-left-out.primaries"]
    assert job(source, tmp_path / "b.tif")[1] == ["statement-left-out.primaries"]
    Image.new("RGB", (32, 16)).save(tmp_path / "b.png")
    assert "statements" in failures(source, tmp_path / "b.png")


def test_code_points_count_in_place_of_a_profile_as_in_the_source(tmp_path: Path) -> None:
    profile = {b"iCCP": b"p\0\0" + zlib.compress(srgb_profile())}
    code_points = {b"cICP": bytes((12, 13, 0, 1))}
    source = chunked(tmp_path / "1.png", {**code_points, **profile})
    data = job(source, tmp_path / "b.png")[0].read_bytes()
    assert (b"cICP\x0c\x0d\0\1" in data, b"iCCP" in data) == (True, True)
    other = chunked(tmp_path / "2.png", {b"cICP": bytes((9, 13, 0, 1)), **profile})
    findings = probe(tmp_path / "%d.png").findings
    assert findings is not None
    assert [one.other for one in findings.changes] == ["bt2020"]
    chunked(other, {**profile, b"cHRM": struct.pack(">8I", *ADOBE_RGB)})
    assert probe(tmp_path / "%d.png").findings is None, "its profile counts"


def test_hdr_metadata_of_images_are_read_and_named(tmp_path: Path) -> None:
    """PNG and HEIF differ in the order of the primaries and in the unit of light."""
    units = [round(50_000 * value) for value in P3]
    luminance = struct.pack(">II", 10_000_000, 50)
    display = struct.pack(">8H", *units) + luminance
    light = struct.pack(">II", 10_000_000, 4_000_000)
    chunks = {b"cICP": bytes((9, 16, 0, 1)), b"mDCV": display, b"cLLI": light}
    source = chunked(tmp_path / "a.png", chunks)
    assert job(source, tmp_path / "b.png")[1] == ["hdr-tags-only."]
    found = probe(source).video.hdr_metadata
    assert found is not None
    assert [float(value) for value in found.primaries] == list(P3)
    assert (found.luminance, found.light_level) == ((Fraction(1, 200), 1000), (1000, 400))
    turned = struct.pack(">8H", *units[2:6], *units[:2], *units[6:]) + luminance
    light = struct.pack(">HH", 1000, 400)
    assert hdr_metadata(turned, light, begins_with_red=False) == found
    assert hdr_metadata(b"", b"", begins_with_red=False) is None


def test_a_gamma_without_a_name_is_kept_or_named(tmp_path: Path) -> None:
    source = chunked(tmp_path / "a.png", {b"gAMA": struct.pack(">I", 55556)})
    output, said = job(source, tmp_path / "b.png")
    assert said == []
    assert probe(output).stated("gamma") == "1.80"
    assert job(source, tmp_path / "b.tif")[1] == ["statement-left-out.gamma"]


def a_tiff(path: Path, light: Callable[[float], float] | None = None, **tags: Any) -> Path:
    """A TIFF image of 32x16 with a transfer function and further tags, by name."""
    found = {TIFF_TAGS[name]: value for name, value in tags.items()}
    if light is not None:
        found[301] = tuple(round(65535 * light(code / 255)) for code in range(256))
    Image.new("RGB", (32, 16)).save(path, tiffinfo=found)
    return path


def test_colours_of_tiff_images_are_kept_or_named(tmp_path: Path) -> None:
    adobe = tuple(value / 100_000 for value in ADOBE_RGB)
    source = a_tiff(
        tmp_path / "a.tif", lambda code: code**1.8, primaries=adobe[2:], white=adobe[:2]
    )
    output, said = job(source, tmp_path / "b.png")
    assert said == []
    media = probe(output)
    assert (media.stated("primaries"), media.stated("gamma")) == ("Adobe RGB", "1.80")
    said = job(source, tmp_path / "b.tif")[1]
    assert said == ["statement-left-out.primaries", "statement-left-out.gamma"]
    wide = a_tiff(tmp_path / "c.tif", primaries=P3[:6])
    assert probe(wide).video.tags.primaries == "smpte432"


def test_linear_light_is_stated_in_png_and_named_in_others(tmp_path: Path) -> None:
    source = a_tiff(tmp_path / "a.tif", lambda code: code)
    output, said = job(source, tmp_path / "b.png")
    assert said == []
    assert probe(output).video.tags.transfer == "linear"
    assert job(source, tmp_path / "b.tif")[1] == ["light-unstated."]
    assert job(output, tmp_path / "c.tif")[1] == ["light-unstated."]
    linear = a_dpx(tmp_path / "a.dpx", transfer=2)
    assert job(linear, tmp_path / "b.dpx")[1] == []


def test_a_transfer_function_without_a_name_is_named_before_the_start(tmp_path: Path) -> None:
    def of_srgb(code: float) -> float:
        return code / 12.92 if code <= 0.04045 else ((code + 0.055) / 1.055) ** 2.4

    assert probe(a_tiff(tmp_path / "a.tif", of_srgb)).statements == ()
    odd = {"curve": lambda code: code * code * (3 - 2 * code), "constant": lambda _: 65534 / 65535}
    for name, light in odd.items():
        source = a_tiff(tmp_path / f"{name}.tif", light)
        assert job(source, tmp_path / f"{name}.png")[1] == ["statement-left-out.transfer-function"]


def test_a_sequence_has_the_colours_of_its_first_image(tmp_path: Path) -> None:
    """Linear light is read as sRGB, also where a later image gives a sequence its colour."""
    for name in ("mixed", "deep"):
        (tmp_path / name).mkdir()
    grey = VideoFrame.from_ndarray(np.zeros((16, 32), np.float32), format="grayf32le")
    (tmp_path / "mixed" / "1.exr").write_bytes(encoded("exr", grey))
    an_exr(tmp_path / "mixed" / "2.exr")
    assert probe(tmp_path / "mixed").video.tags.transfer == "iec61966-2-1"
    chunked(tmp_path / "deep" / "1.png", {b"cICP": bytes((12, 13, 0, 1))})
    deep = VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint16), format="rgb48be")
    (tmp_path / "deep" / "2.png").write_bytes(encoded("png", deep))
    video = probe(tmp_path / "deep").video
    assert (video.bit_depth, video.tags.primaries) == (16, "smpte432")


@pytest.mark.parametrize("is_video", [False, True])
def test_a_wide_gamut_is_stated_in_exr_and_named_in_others(tmp_path: Path, is_video: bool) -> None:
    if is_video:
        source = make_clip(
            tmp_path / "a.mkv", frames=1, size=(32, 16), tags={"primaries": "smpte432"}
        )
    else:
        source = chunked(tmp_path / "a.png", {b"cICP": bytes([12, 13, 0, 1])})
    name = "b_%d" if is_video else "b"
    output, said = job(source, tmp_path / f"{name}.exr")
    assert [one for one in said if "gamut" in one] == []
    assert probe(output).video.tags.primaries == "smpte432"
    plain = an_exr(tmp_path / "plain.exr")
    assert "tags" in failures(source, plain)
    media = probe(source)
    for kind in ("tiff", "dpx"):
        container = "sequence" if is_video else "image"
        picture = plan_picture(media, JobSettings(container=kind), Size(32, 16), container)
        codes = [one.code for one in picture_notices(media, picture)]
        assert codes == ["gamut-unstated"]


def test_exr_images_keep_attributes_and_primaries(tmp_path: Path) -> None:
    source = an_exr(tmp_path / "a.exr", chromaticities=ACES, owner="me")
    assert probe(source).stated("attributes") == "owner"
    output, said = job(source, tmp_path / "b.exr")
    assert said == []
    header = exr_header(output.read_bytes())
    assert header.others[b"owner"] == (b"string", b"me")
    assert header.chromaticities == pytest.approx(ACES)
    assert job(source, tmp_path / "b.png")[1] == ["statement-left-out.attributes"]
    assert "statements" in failures(source, an_exr(tmp_path / "plain.exr"))
    wide = an_exr(tmp_path / "c.exr", chromaticities=P3)
    assert probe(wide).video.tags.primaries == "smpte432"


def test_primaries_below_zero_are_kept_in_exr_and_named_in_others(tmp_path: Path) -> None:
    blue = (0.7347, 0.2653, 0.0, 1.0, 0.0001, -0.077, 0.32168, 0.33767)  # of ACES 2065-1
    source = an_exr(tmp_path / "a.exr", chromaticities=blue)
    output, said = job(source, tmp_path / "b.exr")
    assert said == []
    assert exr_header(output.read_bytes()).chromaticities == pytest.approx(blue)
    assert job(source, tmp_path / "b.png")[1] == ["statement-left-out.primaries"]


def test_primaries_that_are_no_numbers_or_far_too_large_do_not_count(tmp_path: Path) -> None:
    for value in (float("nan"), float("inf"), 1e30):
        source = an_exr(tmp_path / "a.exr", chromaticities=(value, *P3[1:]))
        assert read_picture_data(source).chromaticities == ()
    radiance = tmp_path / "a.hdr"
    radiance.write_bytes(b"#?RADIANCE\nPRIMARIES= 1e39 .3 .3 .6 .2 .1 .3 .3\n\n-Y 1 +X 1\n")
    assert read_picture_data(radiance).chromaticities == ()


def test_a_long_header_of_exr_is_read(tmp_path: Path) -> None:
    """Headers of Cryptomatte (object masks) list thousands of names."""
    source = an_exr(tmp_path / "a.exr", chromaticities=ACES, objects="x" * (2 << 20))
    output, said = job(source, tmp_path / "b.exr")
    assert said == []
    assert len(read_picture_data(output).attributes[b"objects"][1]) == 2 << 20


def test_long_names_of_attributes_are_announced_in_the_version_of_exr(tmp_path: Path) -> None:
    """OpenEXR refuses names of more than 31 letters in a file that does not announce them."""
    for length, expected in ((31, 0), (32, 0x400)):
        data = an_exr(tmp_path / "a.exr", **{"x" * length: "me"}).read_bytes()
        assert int.from_bytes(data[4:8], "little") & 0x400 == expected
        assert b"x" * length in exr_header(data).others


def test_a_damaged_header_of_exr_states_nothing(tmp_path: Path) -> None:
    whole = an_exr(tmp_path / "a.exr", owner="me").read_bytes()
    noise = np.random.default_rng(4)
    for _ in range(200):
        data = bytearray(whole)
        for place in noise.integers(8, 300, 4):
            data[place] = noise.integers(0, 256)
        (tmp_path / "b.exr").write_bytes(data[: int(noise.integers(4, len(data)))])
        read_picture_data(tmp_path / "b.exr")


def test_dpx_images_keep_film_densities_and_others_name_them(tmp_path: Path) -> None:
    source = a_dpx(tmp_path / "a.dpx", transfer=3)
    output, said = job(source, tmp_path / "b.dpx")
    assert said == []
    assert output.read_bytes()[801] == 3
    assert job(source, tmp_path / "b.png")[1] == ["statement-left-out.densities"]
    assert failures(source, a_dpx(tmp_path / "c.dpx")) == ["statements"]


def test_pixels_of_exr_and_dpx_keep_their_shape(tmp_path: Path) -> None:
    source = a_dpx(tmp_path / "a.dpx", aspect=Fraction(2))
    for kind in ("dpx", "exr", "png", "tif"):
        output, said = job(source, tmp_path / f"b.{kind}")
        assert said == []
    assert failures(source, a_dpx(tmp_path / "c.dpx")) == ["size"]
    Image.new("RGB", (32, 16)).save(tmp_path / "c.png")
    assert "size" in failures(source, tmp_path / "c.png")
    output, _ = job(source, tmp_path / "b.mkv")
    assert probe(output).video.sample_aspect == 2


@pytest.mark.parametrize("kind", ["png", "tif", "exr", "dpx"])
@pytest.mark.parametrize("rotation", [0, 90])
def test_images_of_a_video_state_the_shape_of_its_pixels(
    tmp_path: Path, kind: str, rotation: int
) -> None:
    source = make_clip(
        tmp_path / "a.mp4", frames=2, size=(64, 32), sar=Fraction(16, 15), rotation=rotation
    )
    output, _ = job(source, tmp_path / f"b_%d.{kind}")
    (first, _) = sorted(output.iterdir())
    data = read_picture_data(first)
    aspect = data.pixel_aspect if kind in ("exr", "dpx") else data.aspect_of_video
    assert float(aspect) == pytest.approx(15 / 16 if rotation else 16 / 15, abs=1e-3)


def test_exr_images_state_the_frame_rate_of_their_video(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "a.mp4", frames=2, size=(32, 32), rate=Fraction(24000, 1001))
    output, _ = job(source, tmp_path / "b_%d.exr")
    others = exr_header(next(output.iterdir()).read_bytes()).others
    assert others[b"framesPerSecond"] == (b"rational", struct.pack("<iI", 24000, 1001))


@pytest.mark.parametrize("kind", ["png", "tif"])
def test_a_shape_that_the_user_chose_takes_the_place_of_the_resolution(
    tmp_path: Path, kind: str
) -> None:
    Image.fromarray(number_picture(5, 32, 16)).save(tmp_path / "a.png", dpi=(300, 300))
    output, said = job(tmp_path / "a.png", tmp_path / f"b.{kind}", aspect="4:3")
    assert said == ["statement-left-out.resolution"]
    assert float(read_picture_data(output).aspect_of_video) == pytest.approx(2 / 3, abs=1e-3)


def test_values_beyond_white_are_named_before_the_start(tmp_path: Path) -> None:
    source = an_exr(tmp_path / "a.exr", brightest=3.0)
    assert job(source, tmp_path / "b.exr")[1] == ["statement-left-out.beyond"]
    assert job(source, tmp_path / "b.png")[1] == ["statement-left-out.beyond"]
    assert probe(an_exr(tmp_path / "c.exr")).statements == ()


def test_primaries_of_radiance_images_are_stated(tmp_path: Path) -> None:
    pixels = np.full((16, 32, 4), 128, np.uint8)
    head = f"#?RADIANCE\nPRIMARIES={' '.join(map(str, P3))}\nFORMAT=32-bit_rle_rgbe\n\n"
    source = tmp_path / "a.hdr"
    source.write_bytes(f"{head}-Y 16 +X 32\n".encode() + pixels.tobytes())
    assert probe(source).video.tags.primaries == "smpte432"
    assert probe(job(source, tmp_path / "b.png")[0]).video.tags.primaries == "smpte432"
