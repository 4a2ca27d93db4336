"""Interlaced films, and films with black bars or a wrong shape, from file to file."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import Cancelled
from engine.core.geometry import Box, Size
from engine.pipeline.prepare import decoded
from engine.protocol.events import JobEvent, PreviewReady, SegmentDone, TileDone
from engine.protocol.media import Deinterlacing, HdrMetadata
from engine.protocol.plan import Plan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.film_preparation import enlarged
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip
from tests.helpers.extended import rest_extended
from tests.helpers.fields import NTSC, interlaced, picture, telecined, write
from tests.helpers.jobs import plan_of, planes_of, run

COPY = {"model": "none", "codec": "ffv1", "container": "mkv", "segment_seconds": 0.5}


def made(film: Path, output: Path, **settings: object) -> tuple[Plan, Report]:
    plan = plan_of(film, output, JobSettings(**{**COPY, **settings}))
    run(plan, output.parent / f"{output.stem}-job")
    source = decoded(probe(film), plan, output.parent)
    return plan, verify(source, output, plan=plan)


@pytest.mark.parametrize(
    ("choice", "rendering", "frames", "rate"),
    [("auto", "frames", 26, 25), ("fields", "fields", 52, 50), ("off", None, 26, 25)],
)
def test_an_interlaced_film_becomes_whole_frames(tmp_path, choice, rendering, frames, rate):
    film = write(tmp_path / "film.mkv", interlaced(26, "bb"))
    plan, report = made(film, tmp_path / "result.mkv", deinterlace=choice)
    expected = rendering and Deinterlacing(rendering=rendering, field_order="bb")
    assert (plan.deinterlacing, plan.frames) == (expected, frames)
    assert report.passed, report.problems
    result = probe(tmp_path / "result.mkv").video
    assert (result.frame_count, round(result.frame_rate)) == (frames, rate)
    codes = {notice.code for notice in plan.notices}
    assert ("interlaced-as-frames" in codes, "deinterlaced" in codes) == (
        choice == "off",
        choice != "off",
    )


@pytest.mark.parametrize("choice", rest_extended(["frames", "fields", "film"], "film"))
def test_without_its_plan_a_result_shows_how_it_was_made(tmp_path, choice):
    pictures = telecined(40) if choice == "film" else interlaced(50, "tt")
    film = write(tmp_path / "film.mkv", pictures, NTSC)
    made(film, tmp_path / "result.mkv", deinterlace=choice)
    report = verify(film, tmp_path / "result.mkv")
    assert report.passed, report.problems
    assert (
        report.frames_in == report.frames_out == {"frames": 50, "fields": 100, "film": 40}[choice]
    )


def test_a_telecined_film_is_that_film_again(tmp_path):
    film = write(tmp_path / "film.mkv", telecined(40), NTSC)
    plan, report = made(film, tmp_path / "result.mkv")
    assert plan.deinterlacing == Deinterlacing(rendering="film", field_order="tt")
    assert report.passed, report.problems
    count = next(check for check in report.checks if check.code == "frame-count")
    assert str(count.message) == "50 frames in, 40 out: 10 of them repeat another one."
    originals = [picture(n) for n in range(40)]
    shown = planes_of(tmp_path / "result.mkv")
    errors = [[np.abs(one.astype(int) - each).mean() for each in originals] for one in shown]
    assert [int(np.argmin(row)) for row in errors] == list(range(40))


@pytest.mark.parametrize("rendering", rest_extended(["frames", "fields", "film"], "fields"))
def test_a_resumed_job_gives_equal_frames(tmp_path, rendering):
    pictures = telecined(48) if rendering == "film" else interlaced(48, "tt")
    film = write(tmp_path / "film.mp4", pictures, NTSC, "libx264")
    made(film, tmp_path / "whole.mkv", deinterlace=rendering)
    plan = plan_of(film, tmp_path / "result.mkv", JobSettings(**COPY, deinterlace=rendering))
    with pytest.raises(Cancelled):
        run(plan, tmp_path / "job", stop_after=1)
    again = [event for event in run(plan, tmp_path / "job") if isinstance(event, SegmentDone)]
    assert again[0].segment == 1, "the first one was kept"
    whole, resumed = planes_of(tmp_path / "whole.mkv"), planes_of(tmp_path / "result.mkv")
    assert len(whole) == len(resumed)
    assert all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True))


def barred(number: int) -> np.ndarray:
    frame = np.full((64, 96), 16, np.uint8)
    frame[12:52] = np.maximum(40, picture(number))[12:52]
    return frame


@pytest.mark.parametrize("model", ["lite", "none"])
def test_black_bars_are_left_out_and_put_back(tmp_path, model):
    film = write(tmp_path / "film.mkv", [barred(n) for n in range(8)])
    whole, report = made(film, tmp_path / "whole.mkv", model=model)
    assert whole.enlarged is None
    plan, report = made(film, tmp_path / "part.mkv", model=model, black_bars="put-back")
    assert plan.enlarged == Box(0, 12, 96, 40)
    assert plan.work.canvas.pixels < whole.work.canvas.pixels
    assert plan.picture == whole.picture
    assert report.passed, report.problems
    inner = enlarged(plan.enlarged, Size(96, 64), plan.picture)
    pairs = zip(planes_of(tmp_path / "whole.mkv"), planes_of(tmp_path / "part.mkv"), strict=True)
    for one, other in pairs:
        bars = np.concatenate((other[: inner.y], other[inner.bottom :]))
        assert (bars == 16).all()
        middle = slice(inner.y + 8, inner.bottom - 8)
        assert np.abs(one[middle].astype(int) - other[middle]).mean() < 1
    assert "put-back" in {notice.case for notice in plan.notices if notice.code == "black-bars"}
    offers = {notice.params.get("offers") for notice in whole.notices}
    assert "black_bars=put-back" in offers


def test_previews_and_tiles_have_the_bars_too(tmp_path):
    film = write(tmp_path / "film.mkv", [barred(n) for n in range(4)])
    settings = JobSettings(**{**COPY, "model": "lite"}, black_bars="put-back", tile=32)
    plan = plan_of(film, tmp_path / "result.mkv", settings)
    events: list[JobEvent] = run(plan, tmp_path / "job")
    shown = next(event for event in events if isinstance(event, PreviewReady))
    assert (shown.source.size, shown.result.size) == (Size(96, 64), Size(192, 128))
    tiles = [event for event in events if isinstance(event, TileDone)]
    assert {tile.canvas for tile in tiles} == {Size(192, 128)}
    assert min(tile.box.y for tile in tiles) == 24
    assert max(tile.box.bottom for tile in tiles) == 104


def test_a_wrong_shape_is_corrected(tmp_path):
    film = write(tmp_path / "film.mkv", [picture(n) for n in range(6)])
    for choice, aspect in (("16:9", Fraction(32, 27)), ("square", Fraction(1))):
        output = tmp_path / f"{aspect.numerator}.mkv"
        _, report = made(film, output, aspect=choice)
        assert report.passed, report.problems
        assert probe(output).video.sample_aspect == aspect


MASTERING = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
PQ = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}


def hdr_film(path: Path, parameters: str) -> Path:
    return make_clip(
        path,
        frames=14,
        codec="libx265",
        pixel_format="yuv420p10le",
        tags=PQ,
        options={"x265-params": f"hdr10=1:{parameters}"},
    )


@pytest.mark.parametrize(
    ("codec", "container", "parameters"),
    [
        ("auto", "mkv", f"master-display={MASTERING}:max-cll=1000,400"),
        ("hevc", "mp4", f"master-display={MASTERING}"),
        ("hevc", "mkv", "max-cll=1000,400"),
        ("h264", "mkv", f"master-display={MASTERING}:max-cll=1000,400"),
        ("av1", "mkv", f"master-display={MASTERING}:max-cll=1000,400"),
    ],
)
def test_what_an_hdr_film_states_about_its_light_is_kept(tmp_path, codec, container, parameters):
    film = hdr_film(tmp_path / "film.mkv", parameters)
    stated = probe(film).video.hdr_metadata
    if "master" in parameters:
        assert stated.luminance == (Fraction(1, 10_000), 1000)
        assert stated.primaries[:2] == (Fraction(34, 50), Fraction(16, 50)), "red comes first"
    assert stated.light_level == ((1000, 400) if "max-cll" in parameters else ())
    output = tmp_path / f"result.{container}"
    plan, report = made(film, output, codec=codec, container=container)
    assert report.passed, report.problems
    kept = probe(output).video.hdr_metadata
    assert kept.light_level == stated.light_level
    pairs = zip(kept.primaries + kept.luminance, stated.primaries + stated.luminance, strict=True)
    assert all(abs(a - b) < Fraction(1, 5000) for a, b in pairs)
    other = HdrMetadata(light_level=(1, 1))
    wrong = replace(plan, picture=replace(plan.picture, hdr_metadata=other))
    problems = verify(probe(film), output, plan=wrong).problems
    assert [check.code for check in problems] == ["tags"]
