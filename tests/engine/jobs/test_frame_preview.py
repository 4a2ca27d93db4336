"""One frame of source and result, before and after the job."""

import os
import shutil
from fractions import Fraction

import pytest

from engine.api import Engine
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, running_engine

FAST = JobSettings(
    model="lite", codec="ffv1", container="mkv", segment_seconds=0.5, treatment="faithful"
)


@pytest.fixture
def source(tmp_path):
    return make_clip(tmp_path / "film.mkv", Clip(frames=12, rate=Fraction(25)))


def add(engine: Engine, source) -> None:
    engine.send(c.AddJob(job_id="a", source=source, settings=FAST))


def test_frames_are_shown_before_and_after(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        engine.send(c.ShowFrame(job_id="a", seconds=0.4, longest_side=64))
        shown = heard.wait(e.PreviewReady)
        assert shown.source.size.width == 64
        assert shown.result is None
        engine.send(c.StartQueue())
        heard.wait(*ENDS)
        engine.send(c.ShowFrame(job_id="a", seconds=0.4))
        shown = heard.wait(e.PreviewReady)
        assert (shown.frame, shown.source.size.width) == (10, 96)
        assert shown.result is not None
        assert shown.result.size.width == 192


def test_a_result_with_another_time_is_the_same_one(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        engine.send(c.StartQueue())
        output = heard.wait(*ENDS).report.output
        os.utime(output, (0, 0))
        engine.send(c.ShowFrame(job_id="a", seconds=0.4))
        assert heard.wait(e.PreviewReady, e.ResultLost).result is not None


@pytest.mark.parametrize("case", ["deleted", "replaced"])
def test_a_result_that_is_not_the_one_that_was_made_is_not_shown(source, tmp_path, case):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        engine.send(c.StartQueue())
        output = heard.wait(*ENDS).report.output
        if case == "deleted":
            output.unlink()
        else:
            shutil.copyfile(source, output)
        engine.send(c.ShowFrame(job_id="a", seconds=0.4))
        lost = heard.wait(e.ResultLost)
        assert (lost.error.code, lost.error.case) == ("result-gone", case)
        assert lost.error.params["name"] == output.name
        shown = heard.wait(e.PreviewReady)
        assert shown.source is not None
        assert shown.result is None


def test_a_result_is_shown_without_its_source_where_it_is_compared_with_another(source, tmp_path):
    with running_engine(tmp_path / "jobs") as (engine, heard):
        add(engine, source)
        engine.send(c.StartQueue())
        heard.wait(*ENDS)
        source.unlink()
        engine.send(c.ShowFrame(job_id="a", seconds=0.4, has_source=False))
        shown = heard.wait(e.PreviewReady, e.Warned)
        assert (shown.source, shown.result.size.width) == (None, 192)
