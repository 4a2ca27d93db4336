"""The fidelity matrix: its page is whole and green, and its judge sees what differs."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.clips import make_clip
from tests.helpers.photographs import an_exif, make_photograph, srgb_profile
from tests.helpers.program import NEEDS_FFMPEG
from tools.reports import fidelity, fidelity_pictures
from tools.reports.fidelity import PROPERTIES, Row, all_sources, described, page, rows
from tools.reports.fidelity_sources import PICTURE, ffmpeg

PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"


def test_the_page_has_a_green_row_for_each_source() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    wanted = [source.about for source in all_sources()]
    table = [line.split(" | ") for line in lines if line.startswith("| ")][1:]
    assert len(wanted) >= 80
    assert [row[0].removeprefix("| ") for row in table] == wanted
    assert not [row for row in table if any(cell.startswith("no:") for cell in row)]


@pytest.mark.extended
@NEEDS_FFMPEG
def test_sources_are_written_and_compared(tmp_path: Path) -> None:
    names = ("subrip.mkv", "turned90.mp4", "telecined.mkv")
    wanted = [source for source in all_sources() if source.name in names]
    found = {row.source.name: row for row in rows(wanted, tmp_path)}
    assert not any(row.is_red or row.refused for row in found.values())
    said = {name for name, mark in found["telecined.mkv"].marks.items() if mark != "yes"}
    assert said == {"frames", "times"}
    red = replace(found["subrip.mkv"], marks=dict.fromkeys(PROPERTIES, "no: other"))
    refused = Row(source=wanted[0], refused="too large")
    text = page([red, refused])
    assert "2 sources, 1 with an unannounced difference." in text
    assert "| refused: too large |" in text


@NEEDS_FFMPEG
@pytest.mark.extended
def test_the_judge_sees_what_differs(tmp_path: Path) -> None:
    whole = {"frames": 8, "audio_tracks": 1, "subtitles": ("subrip",), "chapters": 2}
    one = described(make_clip(tmp_path / "one.mkv", **whole, metadata={"title": "A"}))
    other = described(make_clip(tmp_path / "other.mkv", frames=8, rate=30, sar=2, codec="mpeg4"))
    faults = {name: fault(one, other) for name, fault in fidelity.FAULTS.items()}
    assert all(faults[name] for name in ("times", "shape", "sound", "other streams", "titles"))
    assert not any(fault(one, one) for fault in fidelity.FAULTS.values())
    shorter = described(make_clip(tmp_path / "shorter.mkv", frames=7))
    assert fidelity.FAULTS["frames"](one, shorter) == "8 frames, 7 in the result"


_LEFT, _MIDDLE = "h_chr_pos=0:{0}_v_chr_pos=128", "h_chr_pos=128:{0}_v_chr_pos=128"
_AS_IT_IS = "scale=in_" + _LEFT.format("in")
_TO_LEFT, _TO_MIDDLE = ("scale=flags=bicubic:out_" + at.format("out") for at in (_LEFT, _MIDDLE))
PLANTED = {
    "null": "",
    "shuffleplanes=0:2:1": "Cb of frame",
    "chromashift=cbh=1:crh=1": "Cb of frame",
    f"{_AS_IT_IS},format=yuv444p,{_TO_LEFT},format=yuv420p": "",
    f"{_AS_IT_IS},format=yuv444p,{_TO_MIDDLE},format=yuv420p": "samples across",
    f"{_AS_IT_IS}:in_color_matrix=bt601,format=gbrp,{_TO_LEFT}:out_color_matrix=bt709": "luma of",
    "scale=in_range=tv:out_range=pc": "luma of",
    "tpad=start=1:start_mode=clone,trim=end_frame=4": "luma of",
}


_BT709 = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709")
_CODEC = ("-c:v", "libx264", "-preset", "ultrafast", "-crf", "1", "-pix_fmt", "yuv420p")


@pytest.mark.extended
@NEEDS_FFMPEG
def test_the_judge_sees_wrong_planes(tmp_path: Path) -> None:
    source, result = tmp_path / "source.mkv", tmp_path / "result.mkv"
    codec = (*_CODEC, *_BT709, "-color_range", "tv")
    tagged = ("-vf", "scale=out_color_matrix=bt709", "-frames:v", "4")
    ffmpeg(*PICTURE, *tagged, *codec, source)
    film = described(source).film
    for filters, expected in PLANTED.items():
        ffmpeg("-i", source, "-vf", filters, *codec, result)
        found = fidelity_pictures.fault(source, result, film, film)
        assert expected in found, filters
        assert bool(found) == bool(expected), filters


@pytest.mark.extended
@NEEDS_FFMPEG
@pytest.mark.parametrize(
    ("name", "decoder", "pixels", "right", "wrong"),
    [
        ("clear_libvpx-vp9.webm", "libvpx-vp9", "yuva420p", "null", "lutyuv=a=128"),
        ("cropped.mkv", "h264", "yuv420p", "crop=72:52:8:4", "crop=72:52:8:8"),
        ("cropped.mov", "h264", "yuv420p", "crop=72:52:8:4", "null"),
    ],
)
def test_the_judge_sees_transparency_and_cropping(
    tmp_path: Path, name: str, decoder: str, pixels: str, right: str, wrong: str
) -> None:
    source = next(one for one in all_sources() if one.name == name)
    path, result = tmp_path / name, tmp_path / "result.mkv"
    source.make(path)
    before = described(path, source.cropped)
    for filters, is_right in ((right, True), (wrong, False)):
        words = ("-vf", filters, "-c:v", "ffv1", "-pix_fmt", pixels)
        ffmpeg("-c:v", decoder, "-i", path, *words, result)
        assert (fidelity.FAULTS["frames"](before, described(result)) == "") == is_right


@NEEDS_FFMPEG
def test_the_judge_sees_what_photographs_lose(tmp_path: Path) -> None:
    def judged(name: str, **how: object) -> list[str]:
        after = described(make_photograph(tmp_path / name, **how))
        return [name for name, fault in fidelity.FAULTS.items() if fault(before, after)]

    whole = {"profile": srgb_profile(), "exif": an_exif(orientation=6)}
    before = described(make_photograph(tmp_path / "source.png", **whole))
    assert judged("turned.png", **whole) == ["titles"], "its orientation would be applied twice"
    assert "colours" in judged("other.png", exif=an_exif())
    assert "titles" in judged("bare.png", profile=srgb_profile())


@NEEDS_FFMPEG
def test_the_judge_sees_colours_and_resolution_that_images_lose(tmp_path: Path) -> None:
    source = next(
        one for one in all_sources() if one.about == "Display P3 without a profile, to PNG"
    )
    source.make(tmp_path / "wide.png")
    before = described(tmp_path / "wide.png")
    with Image.open(tmp_path / "wide.png") as image:
        image.save(tmp_path / "bare.png")
        image.save(tmp_path / "printed.png", dpi=(300, 300))
    bare, printed = (described(tmp_path / f"{name}.png") for name in ("bare", "printed"))
    assert fidelity.FAULTS["colours"](before, before) == ""
    assert fidelity.FAULTS["colours"](before, bare) == "primaries of the image is missing"
    assert fidelity.FAULTS["statements"](printed, bare) == "resolution is missing"


def test_help_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fidelity.main(["--help"])
    assert "--only" in capsys.readouterr().out
