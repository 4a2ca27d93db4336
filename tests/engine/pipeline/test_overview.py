"""Thumbnails, loudness and cuts for a timeline, in a bounded time."""

from fractions import Fraction

import pytest

from engine.api import probe
from engine.pipeline import overview
from engine.pipeline.overview import overviews
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import TaskKind
from engine.video.read import sound
from tests.helpers.clips import Clip, make_clip, make_pictures
from tests.helpers.jobs import running_engine


@pytest.fixture
def film(tmp_path):
    return make_clip(
        tmp_path / "film.mkv", Clip(frames=48, rate=Fraction(24), gop=6, b_frames=0, audio_tracks=1)
    )


def last(media, is_over=lambda: False):
    return [*overviews("a", media, is_over)][-1]


def test_a_short_video_has_exact_thumbnails_its_loudness_and_its_cuts(film):
    found = last(probe(film))
    assert len(found.thumbnails) == 24
    assert all(
        abs(seconds - (number + 0.5) / 12) < 1.2 / 24
        for number, (seconds, _) in enumerate(found.thumbnails)
    )
    assert {picture.size.height for _, picture in found.thumbnails} == {64}, "never enlarged"
    assert len(found.loudness) == 96
    assert max(found.loudness) > 0.01
    assert len(found.cuts) == 47, "no frame of this clip is like the one before"


def test_a_video_that_takes_too_long_keeps_its_key_frames(film, monkeypatch):
    monkeypatch.setattr(overview, "_TRIED", 3)
    monkeypatch.setattr(overview, "_THROUGH_S", 0.0)
    found = last(probe(film))
    assert [seconds for seconds, _ in found.thumbnails] == [
        0.0,
        0.25,
        0.5,
        0.75,
        1,
        1.25,
        1.5,
        1.75,
    ]
    assert found.cuts == ()


def test_nothing_is_read_through_while_a_job_runs(film):
    *_, found = overviews("a", probe(film), lambda: False, lambda: True)
    assert len(found.thumbnails) == 8
    assert len(found.loudness) == 96
    assert found.cuts == ()


def test_the_number_of_seeks_does_not_depend_on_the_length(film, monkeypatch):
    """Sound of a long video is looked for at as many moments as are shown."""
    monkeypatch.setattr(sound, "_READ_THROUGH_S", 0.5)
    read = []
    real = sound.decoded_frames
    monkeypatch.setattr(sound, "decoded_frames", lambda *to: read.append(1) or real(*to))
    found = sound.loudness(probe(film), 4, lambda: False)
    assert len(found) == 4
    assert all(found)
    assert len(read) < 4 * 16
    assert list(overviews("a", probe(film), lambda: True)) == []


@pytest.mark.parametrize("through_s", [8.0, 0.0])
def test_a_folder_of_images_has_thumbnails_also_where_reading_all_takes_too_long(
    tmp_path, monkeypatch, through_s
):
    monkeypatch.setattr(overview, "_TRIED", 3)
    monkeypatch.setattr(overview, "_THROUGH_S", through_s)
    folder = make_pictures(tmp_path / "frames", 60, first=7).parent
    media = probe(folder)
    assert media.name == "frames"
    found = last(media)
    seconds = [seconds for seconds, _ in found.thumbnails]
    assert len(seconds) == 24
    assert seconds == pytest.approx([(number + 0.5) / 10 for number in range(24)], abs=1 / 25)
    assert found.loudness == ()


def test_without_sound_or_as_an_image_nothing_is_made_up(tmp_path):
    silent = make_clip(tmp_path / "silent.mp4", Clip(frames=12))
    assert last(probe(silent)).loudness == ()
    cut_short = tmp_path / "damaged.mp4"
    cut_short.write_bytes(silent.read_bytes())
    media = probe(cut_short)
    cut_short.unlink()
    assert list(overviews("a", media, lambda: False)) == []


def test_the_engine_reads_it_as_a_task_that_can_be_stopped(film, tmp_path):
    with running_engine(tmp_path / "jobs") as (running, heard):
        running.send(c.AddJob(job_id="a", source=film))
        running.send(c.ReadOverview(job_id="a"))
        assert heard.wait(e.OverviewRead).thumbnails
        running.send(c.StopTask(kind=TaskKind.OVERVIEW, subject="a"))
        while (ended := heard.wait(e.TaskDone, e.TaskStopped)).kind is not TaskKind.OVERVIEW:
            pass
        assert ended.subject == "a"
        assert {path.name for path in tmp_path.iterdir()} <= {"film.mkv", "jobs"}
