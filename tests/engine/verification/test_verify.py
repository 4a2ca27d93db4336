import shutil
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.core.control import Control
from engine.core.errors import Cancelled, SourceMissing
from engine.core.geometry import Margins, Size
from engine.protocol.media import ColourTags, HdrMetadata, MediaInfo
from engine.protocol.plan import PassPlan, Plan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.planes import layout_of, planar_format
from engine.video.read.digest import digest
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.clips import (
    cut_short,
    half_clear,
    joined,
    make_clip,
    make_picture,
    make_pictures,
)
from tests.helpers.fakes import make_plan
from tests.helpers.fields import write_planes
from tests.helpers.jobs import plan_of, run
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.results import make_result
from tools.reports.fidelity_cropping import crop_mkv

FRAMES = 30
ALL = list(range(FRAMES))
HD = {"matrix": "bt709", "range": "tv", "primaries": "bt709", "transfer": "bt709"}
MKV = {"subtitles": ("subrip", "ass"), "attachments": {"font.ttf": b"abc"}}
MP4 = {"subtitles": ("mov_text",)}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("clips")
    common = {"audio_tracks": 2, "chapters": 2, "metadata": {"title": "A film"}, "tags": HD}
    return {
        suffix: make_clip(folder / f"source{suffix}", frames=FRAMES, **common, **more)
        for suffix, more in ((".mkv", MKV), (".mp4", MP4))
    }


@pytest.fixture
def film(clips: dict[str, Path]) -> Path:
    """One container, where the damage is in the picture alone."""
    return clips[".mkv"]


@pytest.fixture(params=[".mkv", ".mp4"])
def source(request: pytest.FixtureRequest, clips: dict[str, Path]) -> Path:
    return clips[request.param]


@cache
def examined_once(source: Path, _modified_ns: int) -> MediaInfo:
    return examined(probe(source))


def known(source: Path) -> MediaInfo:
    return examined_once(source, source.stat().st_mtime_ns)


def judge(source: Path, folder: Path, **damage: Any) -> Report:
    return verify(known(source), make_result(source, folder / f"result{source.suffix}", **damage))


def codes(report: Report) -> set[str]:
    return {check.code for check in report.problems}


def message(report: Report, code: str) -> str:
    return next(str(check.message) for check in report.checks if check.code == code)


def a_plan(source: Path, **changes: Any) -> Plan:
    media = known(source)
    plan = make_plan(media)
    picture = replace(plan.picture, tags=media.video.tags)
    streams = tuple(
        PassPlan(index=s.index, kind=s.kind, codec=s.codec, copied=s.kind != "data")
        for s in media.streams
    )
    return replace(plan, picture=picture, streams=streams, **changes)


def test_good_result_passes_every_check(source: Path, tmp_path: Path) -> None:
    report = judge(source, tmp_path)
    assert report.passed, report.problems
    assert [check.code for check in report.checks] == [
        *("readable", "frame-count", "frame-order", "time-stamps", "size", "tags"),
        *("streams", "stream-content", "sound-timing", "chapters", "metadata"),
        *("statements", "likeness", "black"),
    ]
    assert (report.frames_in, report.frames_out) == (FRAMES, FRAMES)
    assert report.likeness_min > 0.95
    planned = verify(source, report.output, plan=a_plan(source))
    assert planned.passed, planned.problems


WITHOUT_17 = "Frame 17 at 00:00:00.680 is missing"
TWICE_16 = "Frame 16 at 00:00:00.640 is shown twice"
PICTURE_DAMAGE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a dropped frame": (
        {"shows": ALL[:17] + ALL[18:]},
        {"frame-count": "30 frames in, 29 out.", "frame-order": WITHOUT_17},
    ),
    "a dropped frame, the others closed up": (
        {"shows": ALL[:17] + ALL[18:], "retimed": True},
        {"frame-count": "", "frame-order": WITHOUT_17, "time-stamps": "0.680 is 40 ms too early"},
    ),
    "a doubled frame in place of the next": (
        {"shows": [*ALL[:17], 16, *ALL[18:]], "retimed": True},
        {"frame-order": f"{TWICE_16}; {WITHOUT_17}. Frames count from 0."},
    ),
    "two frames in the wrong order": (
        {"shows": [*ALL[:20], 21, 20, *ALL[22:]], "retimed": True},
        {"frame-order": "Frame 20 at 00:00:00.800 comes too late", "time-stamps": ""},
    ),
    "a missing end": (
        {"shows": ALL[:20]},
        {"frame-count": "", "frame-order": "Frames 20 to 29 from 00:00:00.800 on are missing"},
    ),
    "a black second": (
        {"black": range(2, 27)},
        {"black": "is black at 00:00:00.080 to 00:00:01.040 (frames 2 to 26)"},
    ),
    "frames of something else": (
        {"spoilt": [5, 6]},
        {"likeness": "00:00:00.200 to 00:00:00.240 (frames 5 to 6)"},
    ),
    "a wrong matrix and range": (
        {"tags": {**HD, "matrix": "smpte170m", "range": "pc"}},
        {"tags": "matrix is smpte170m instead of bt709 (source: bt709); range is pc"},
    ),
    "wrong primaries and transfer": (
        {"tags": {**HD, "primaries": "bt2020", "transfer": "smpte2084"}},
        {"tags": "primaries is bt2020 instead of bt709 (source: bt709); transfer is smpte2084"},
    ),
}
FILE_DAMAGE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a frame shown late": (
        {"late": {9: Fraction(3, 1000)}},
        {"time-stamps": "Frame 9 at 00:00:00.363"},
    ),
    "a lost sound track": ({"without": [1]}, {"streams": "audio track 1 (eng, aac)"}),
    "a lost subtitle": ({"without": [3]}, {"streams": "subtitle 1 (eng"}),
    "a changed sound packet": (
        {"flipped_byte": True},
        {"stream-content": "packets differ from number 5"},
    ),
    "lost chapters": ({"without_chapters": True}, {"chapters": "0 of 2 chapters found"}),
    "a lost title": ({"metadata": {}}, {"metadata": "title is lost"}),
    "another aspect ratio": ({"stretch": Fraction(5, 4)}, {"size": "instead of 1.500"}),
}


def assert_named(report: Report, expected: dict[str, str]) -> None:
    assert codes(report) == set(expected), report.problems
    for code, text in expected.items():
        assert text in message(report, code)


@pytest.mark.parametrize("what", PICTURE_DAMAGE)
def test_damage_of_the_picture_is_named(film: Path, tmp_path: Path, what: str) -> None:
    damage, expected = PICTURE_DAMAGE[what]
    assert_named(judge(film, tmp_path, **damage), expected)


@pytest.mark.parametrize("what", FILE_DAMAGE)
def test_damage_of_the_file_is_named(source: Path, tmp_path: Path, what: str) -> None:
    damage, expected = FILE_DAMAGE[what]
    assert_named(judge(source, tmp_path, **damage), expected)


def test_shifted_sound_is_named_with_its_direction(source: Path, tmp_path: Path) -> None:
    for shift, direction in ((80, "late"), (-80, "early")):
        report = judge(source, tmp_path, sound_shift=Fraction(shift, 1000))
        # MKV has no times below 0: it moves picture and sound, but not the chapters. MP4 hides what
        # would come before 0.
        also = {"stream-content"} if shift < 0 and source.suffix == ".mp4" else {"chapters"}
        assert codes(report) - also == {"sound-timing"}
        found = message(report, "sound-timing")  # MP4 counts edits in whole ms
        assert f"80 ms {direction}" in found or f"79 ms {direction}" in found


def test_what_cannot_be_read_does_not_pass(film: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.mp4"
    result.write_bytes(b"not a video" * 100)
    report = verify(film, result)
    assert codes(report) == {"readable"}
    assert not report.passed
    whole = make_result(film, tmp_path / "whole.mkv")
    report = verify(film, cut_short(whole, tmp_path / "cut.mkv", 0.6))
    assert {"readable", "frame-count"} & codes(report)
    with pytest.raises(SourceMissing):
        verify(tmp_path / "none.mp4", whole)


def test_still_and_black_films_give_no_false_alarms(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "source.mp4", frames=FRAMES)
    black = make_result(source, tmp_path / "black.mp4", black=range(20), scale=1)
    assert verify(black, make_result(black, tmp_path / "result.mp4")).passed
    still = make_result(source, tmp_path / "still.mp4", shows=[7] * FRAMES, retimed=True, scale=1)
    report = verify(still, make_result(still, tmp_path / "result.mp4", crf=30))
    assert report.passed, report.problems
    report = verify(still, make_result(still, tmp_path / "result.mp4", shows=ALL[:20] + ALL[21:]))
    assert {"frame-count", "frame-order"} <= codes(report)
    assert "still passage" in message(report, "frame-order")


def test_variable_frame_rate_is_kept(tmp_path: Path) -> None:
    steps = [Fraction(1, 30) if n % 3 else Fraction(7, 90) for n in range(30)]
    times = [sum(steps[:n], Fraction(0)) for n in range(30)]
    for suffix in (".mp4", ".mkv"):
        source = make_clip(tmp_path / f"source{suffix}", frames=30, vfr_times=times)
        report = judge(source, tmp_path)
        assert report.passed, report.problems
        assert not judge(source, tmp_path, retimed=True).passed


def test_mp4_times_in_mkv_may_be_rounded_but_not_the_other_way_round(tmp_path: Path) -> None:
    times = [Fraction(n, 90) for n in range(30)]
    source = make_clip(tmp_path / "source.mp4", frames=30, vfr_times=times)
    mkv = make_result(source, tmp_path / "result.mkv")
    assert verify(source, mkv).passed
    again = make_result(mkv, tmp_path / "again.mp4", scale=1)
    assert codes(verify(source, again)) == {"time-stamps"}


@NEEDS_FFMPEG
def test_the_shape_of_pixels_in_a_video_of_png_is_the_one_that_it_states(tmp_path: Path) -> None:
    """Its resolution states it in PNG images alone."""
    source = make_clip(tmp_path / "source.mp4", frames=2, sar=Fraction(4, 3))
    ffmpeg("-i", source, "-c:v", "png", tmp_path / "result.mkv")
    assert "size" not in codes(verify(source, tmp_path / "result.mkv"))


def test_one_frame_of_any_size(tmp_path: Path) -> None:
    for size in ((16, 16), (18, 34), (2, 2), (98, 18)):
        source = make_clip(tmp_path / "source.mkv", frames=1, size=size, codec="ffv1")
        report = judge(source, tmp_path, crf=1)
        assert report.passed, report.problems
        assert report.frames_out == 1


@NEEDS_FFMPEG
def test_rotated_source_is_compared_as_seen(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "source.mp4", frames=12, rotation=90)
    stored = make_result(source, tmp_path / "stored.mp4")
    report = verify(source, stored)
    assert "size" in codes(report)
    ffmpeg("-i", source, tmp_path / "upright.mp4")
    report = verify(source, tmp_path / "upright.mp4")
    assert not {"size", "likeness", "frame-order"} & codes(report), report.problems


def test_untagged_source_may_be_tagged_as_planned_or_by_a_fair_guess_only(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "source.mp4", frames=10)
    guess = {"matrix": "smpte170m", "range": "tv"}
    assert judge(source, tmp_path, tags=guess).passed
    for wrong in ({"matrix": "bt2020nc"}, {"range": "pc"}):
        assert codes(judge(source, tmp_path, tags={**guess, **wrong})) == {"tags"}
    plan = a_plan(source)
    plan = replace(plan, picture=replace(plan.picture, tags=ColourTags(**guess)))
    result = make_result(source, tmp_path / "result.mp4", tags={"matrix": "bt709", "range": "tv"})
    assert codes(verify(source, result, plan=plan)) == {"tags"}


def test_stream_left_out_as_planned_is_named_and_passes(film: Path, tmp_path: Path) -> None:
    plan = a_plan(film)
    streams = tuple(
        replace(entry, copied=False, why="MP4 cannot take it") if entry.index == 4 else entry
        for entry in plan.streams
    )
    result = make_result(film, tmp_path / "result.mkv", without=[4])
    assert codes(verify(film, result, plan=plan)) == {"streams"}
    report = verify(film, result, plan=replace(plan, streams=streams))
    assert report.passed
    assert "subtitle 2 (deu, ass): MP4 cannot take it" in message(report, "streams")
    large = replace(plan, streams=streams, picture=replace(plan.picture, size=Size(384, 256)))
    report = verify(film, result, plan=large)
    assert codes(report) == {"size"}
    assert "192x128 instead of 384x256" in message(report, "size")


def test_part_of_a_film_is_compared_with_its_part(source: Path, tmp_path: Path) -> None:
    begin, end, media = Fraction(2, 5), Fraction(6, 5), known(source)
    plan = a_plan(source, start=begin - media.start, stop=end - media.start)
    for late in (0, 80):
        result = make_result(
            source,
            tmp_path / f"result{source.suffix}",
            cut=(begin, end),
            sound_shift=Fraction(late, 1000),
            without=[3, 4],
            without_chapters=True,
        )
        report = verify(media, result, plan=plan)
        assert report.frames_in == report.frames_out == 20
        expected = {"streams", "chapters"} | ({"sound-timing"} if late else set())
        assert codes(report) == expected, report.problems
        copied = [stream.index for stream in probe(result).streams]
        packets = sum(map(len, digest(result, copied).values()))
        assert f"{packets} packets" in message(report, "stream-content"), "those of the part"
        unplanned = verify(media, result, part=(plan.start, plan.stop))
        if source.suffix == ".mp4":  # no text is in the part, and MP4 keeps no empty track
            expected -= {"streams"}
        assert (unplanned.frames_in, codes(unplanned)) == (20, expected)
    assert "frame-count" in codes(verify(media, result))


def test_sound_of_a_part_may_end_with_the_picture(source: Path, tmp_path: Path) -> None:
    begin, end = Fraction(2, 5), Fraction(1)
    short = make_result(source, tmp_path / f"short{source.suffix}", shows=ALL[:25], scale=1)
    start = probe(short).start
    result = tmp_path / f"result{source.suffix}"
    make_result(short, result, cut=(begin, end), without_chapters=True)
    for requested in (end, Fraction(99)):
        plan = a_plan(short, start=begin - start, stop=requested - start)
        report = verify(short, result, plan=plan)
        assert not {"frame-count", "stream-content", "sound-timing"} & codes(report)


def test_picture_to_picture(tmp_path: Path) -> None:
    small = make_picture(tmp_path / "small.png", 3, size=(48, 32))
    large = tmp_path / "large.png"
    Image.open(small).resize((96, 64)).save(large)
    other = make_picture(tmp_path / "other.png", 1365, size=(96, 64))
    report = verify(small, large)
    assert report.passed, report.problems
    said = ["readable", "size", "tags", "metadata", "statements", "likeness", "black"]
    assert [check.code for check in report.checks] == said, "nothing about frames and sound"
    assert codes(verify(small, other)) == {"likeness"}


def test_greys_made_of_dots_are_compared_as_greys(tmp_path: Path) -> None:
    y, x = np.mgrid[0:64, 0:96]
    greys = {"source": x * 255 / 96, "other": y * 255 / 64}
    dots = {
        name: Image.fromarray(grey.astype(np.uint8)).convert("1") for name, grey in greys.items()
    }
    for name, image in dots.items():
        image.save(tmp_path / f"{name}.png")
    source, result, other = (tmp_path / f"{name}.png" for name in ("source", "result", "other"))
    run(plan_of(source, result, JobSettings(model="lite", scale=4)), tmp_path / "job")
    report = verify(source, result)
    assert report.passed, report.problems
    assert codes(verify(source, other)) == {"likeness"}


def test_numbered_pictures(tmp_path: Path) -> None:
    small = make_pictures(tmp_path / "small", 12, size=(48, 32))
    large = make_pictures(tmp_path / "large", 12, size=(96, 64))
    report = verify(small, large.parent)
    assert report.passed, report.problems
    assert report.frames_out == 12
    for number in range(5, 12):
        shutil.move(str(large) % (number + 1), str(large) % number)
    report = verify(small, large)
    assert codes(report) == {"frame-count", "frame-order"}
    assert "Frame 4 at 00:00:00.160 is missing" in message(report, "frame-order")


def test_progress_and_cancel(film: Path, tmp_path: Path) -> None:
    result = make_result(film, tmp_path / "result.mkv")
    seen: list[tuple[int, int]] = []
    verify(film, result, progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 1
    assert seen[-1] == (FRAMES, FRAMES)
    control = Control()
    control.cancel()
    with pytest.raises(Cancelled):
        verify(film, result, control=control)


# --- without a plan nothing is excused


def test_without_a_plan_lost_transparency_and_hdr_are_faults(tmp_path: Path) -> None:
    clear = make_picture(tmp_path / "clear.png", 1, pixel_format="rgba")
    solid = make_picture(tmp_path / "solid.png", 1, pixel_format="rgb24")
    report = verify(clear, solid)
    assert (codes(report), message(report, "size")) == ({"size"}, "Transparency is lost.")
    film = probe(make_clip(tmp_path / "film.mkv", frames=3))
    light = HdrMetadata(light_level=(1000, 400))
    lit = replace(film, video=replace(film.video, hdr_metadata=light))
    report = verify(lit, film.path)
    assert codes(report) == {"tags"}
    assert "HDR" in message(report, "tags")


def test_without_a_plan_data_that_is_left_out_is_named(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mp4", frames=25, subtitles=("mov_text",))
    data = source.read_bytes().replace(b"tx3g", b"gpmd").replace(b"sbtl", b"meta")
    source.write_bytes(data)
    bare = make_clip(tmp_path / "bare.mp4", frames=25)
    assert "streams" in codes(verify(source, bare)), "MP4 takes it"
    report = verify(source, make_clip(tmp_path / "bare.mkv", frames=25))
    assert "this kind of data cannot be written into MKV" in message(report, "streams")


def as_it_should_be(source: Path, result: Path, change: Any = lambda planes: planes) -> Path:
    """The frames of a source without loss, or with a change of their planes."""
    media = known(source)
    with FrameReader(media) as reader:
        frames = [change(frame.planes) for frame in reader]
    layout = replace(layout_of(media.video.pixel_format), has_alpha=len(frames[0]) == 4)
    return write_planes(result, frames, planar_format(layout), media.video.frame_rate)


def test_lost_transparency_cropping_and_shape_are_seen(tmp_path: Path) -> None:
    quick = {"auto-alt-ref": "0", "deadline": "realtime", "cpu-used": "8"}
    clear = half_clear(tmp_path / "a.webm", "libvpx-vp9", "yuva420p", **quick)
    size, margins = Size(192, 108), Margins(16, 8, 16, 8)
    whole = make_clip(tmp_path / "b.mkv", size=(192, 108))
    cropped = crop_mkv(make_clip(tmp_path / "c.mkv", size=(192, 108)), size, margins)
    changing = joined(tmp_path / "d.ts", (8, {"sar": Fraction(3, 4)}), (24, {"sar": Fraction(1)}))
    narrow = make_clip(tmp_path / "e.mkv", frames=32, sar=Fraction(3, 4))
    right, wrong = tmp_path / "right.mkv", tmp_path / "wrong.mkv"
    for source, lost in (
        (clear, lambda: as_it_should_be(clear, wrong, lambda planes: planes[:3])),
        (clear, lambda: as_it_should_be(clear, wrong, lambda p: (*p[:3], p[3] | 255))),
        (cropped, lambda: as_it_should_be(whole, wrong)),
        (changing, lambda: narrow),
    ):
        reports = [verify(known(source), one) for one in (as_it_should_be(source, right), lost())]
        assert [bool(codes(one) & {"size", "likeness"}) for one in reports] == [False, True], source


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
@pytest.mark.parametrize("part", [{"stop": "0.82"}, {"start": "0.81"}, {"stop": "0.86"}])
def test_a_part_that_ends_beside_a_chapter_is_right(
    suffix: str, part: dict[str, str], tmp_path: Path
) -> None:
    """The chapter begins between two frames: what counts is which of them it has."""
    film = make_clip(tmp_path / f"film{suffix}", frames=41, chapters=2)
    settings = JobSettings(model="none", codec="ffv1" if suffix == ".mkv" else "h264", **part)
    plan = plan_of(film, tmp_path / f"out{suffix}", settings)
    run(plan, tmp_path / "job")
    report = verify(film, plan.output, part=(plan.start, plan.stop))
    assert report.passed, report.problems
    assert len(probe(plan.output).chapters) == (1 if "start" in part else 2)


def test_colours_that_are_lost_exchanged_or_turned_are_noticed(tmp_path: Path) -> None:
    """Brightness is the same in all of them."""
    y, x = np.mgrid[0:96, 0:128]
    luma = [(128 + 60 * np.sin((x + 3 * n) / 9) * np.cos(y / 7)).astype(np.uint8) for n in range(9)]
    blue = np.linspace(60, 200, 64).astype(np.uint8)[None].repeat(48, 0)
    red = np.linspace(180, 90, 48).astype(np.uint8)[:, None].repeat(64, 1)
    grey = np.full((48, 64), 128, np.uint8)

    def film(name: str, *chroma: np.ndarray) -> Path:
        return write_planes(tmp_path / name, [(one, *chroma) for one in luma], "yuv420p")

    source = film("source.mkv", blue, red)
    wrong = {"grey": (grey, grey), "exchanged": (red, blue), "turned": (255 - blue, 255 - red)}
    for name, chroma in wrong.items():
        report = verify(source, film(f"{name}.mkv", *chroma))
        assert codes(report) == {"likeness"}, name
        assert "colours of the result differ" in message(report, "likeness")
    paler = (128 + (one.astype(float) - 128) * 0.8 for one in (blue, red))
    right = film("paler.mkv", *(one.astype(np.uint8) for one in paler))
    assert verify(source, right).passed, "as noise filters do"
    none = film("none.mkv", grey, grey)
    assert verify(none, film("none_too.mkv", grey + 1, grey)).passed
    as_rgb = tmp_path / "rgb.mkv"
    settings = JobSettings(model="none", codec="ffv1", chroma="444")
    plan = plan_of(source, as_rgb, settings)
    run(plan, tmp_path / "job")
    assert verify(source, as_rgb).passed
