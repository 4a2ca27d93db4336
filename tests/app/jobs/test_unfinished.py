"""Films of an earlier run: which they are, and that Start does not mean them."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.theme import tokens
from engine.api import UnfinishedJob
from engine.core.errors import CheckpointMismatch, SourceMissing
from engine.protocol import commands, events
from engine.settings.schema import JobSettings
from tests.app.conftest import texts


def begun(*names: str) -> tuple[UnfinishedJob, ...]:
    return tuple(
        UnfinishedJob(job_id=name, source=Path("films") / name, output=Path("films", f"{name}.mkv"))
        for name in names
    )


def test_the_banner_names_what_is_unfinished(bench):
    banner = bench.find("unfinishedBanner")
    for names, said, chinese in (
        (["holiday.mp4"], "holiday.mp4", "holiday.mp4"),
        (["a.mp4", "b.mp4", "c.mp4"], "a.mp4 and 2 more", "a.mp4 等（另有 2 个）"),
    ):
        bench.program.left_over.offer(begun(*names))
        bench.use_language("en")
        assert said in texts(banner).splitlines()
        assert bench.find("continueUnfinished").accessibleDescription() == said
        bench.use_language("zh_CN")
        assert chinese in texts(banner).splitlines()


CHANGED = CheckpointMismatch("source", name="old.mp4").info()


def test_films_that_can_only_fail_again_are_not_offered_to_continue(bench):
    able, unable = begun("new.mp4", "old.mp4")
    unable = replace(unable, problem=CHANGED)
    bench.program.left_over.offer((unable, able))
    banner = bench.find("unfinishedBanner")
    assert "new.mp4" in texts(banner).splitlines()
    assert "old.mp4" not in texts(banner)
    bench.press("continueUnfinished")
    assert [c.job_id for c in bench.asked(commands.AdoptJob)] == ["new.mp4"]
    assert "old.mp4 has changed since the job started." in texts(banner)
    assert not bench.find("continueUnfinished").isVisible()
    assert bench.find("primaryAction").toolTip() != "Continue the unfinished videos, or add a video"
    bench.use_language("zh_CN")
    assert "old.mp4" in texts(banner)
    assert "has changed" not in texts(banner)
    bench.press("discardUnfinished")
    assert not banner.isVisible()
    assert not bench.asked(commands.RemoveJob)
    bench.do("undo")
    assert banner.isVisible()
    assert [c.job_id for c in bench.asked(commands.AdoptJob)] == ["new.mp4"]


def test_a_film_that_can_only_fail_again_is_not_tried_again(bench):
    bench.start("old.mp4")
    bench.fail(CHANGED)
    assert not bench.window.actions_["retry"].isEnabled()
    assert bench.find("primaryAction").text() == "Start"
    assert bench.find("errorAction").text() == "Remove from the queue"


def test_a_long_name_keeps_the_width_of_the_queue(bench):
    bench.program.left_over.offer(begun("a very long name of a film " * 8 + ".mp4"))
    bench.hear()
    assert "…" in texts(bench.find("unfinishedBanner"))
    assert bench.window.queue_column.width() == tokens.QUEUE_WIDTH


def test_start_says_that_it_starts_only_what_waits_while_others_are_unfinished(bench):
    start = bench.find("primaryAction")
    bench.program.left_over.offer(begun("old.mp4"))
    assert start.toolTip() == "Continue the unfinished videos, or add a video"
    bench.add("one.mp4")
    assert start.text() == "Start the queued video"
    bench.add("two.mp4")
    assert start.text() == "Start 2 queued videos"
    bench.press("discardUnfinished")
    assert start.text() == "Start queue (2)"
    bench.do("undo")
    assert start.text() == "Start 2 queued videos"


@pytest.fixture
def add_again(bench, qtbot):
    """Adds a video of which another program has left 40 % with other choices."""
    (left,) = begun("holiday.mp4")
    settings, output = JobSettings(scale=4), Path("films", "results")
    left = replace(left, settings=settings, chosen_output=output, frames_done=96, frames_total=240)
    bench.patch.setattr("engine.api.begun_jobs", lambda files: (left,))

    def add() -> None:
        with qtbot.waitSignal(bench.program.left_over.looked, timeout=3000):
            bench.window.intake.take([left.source])
        bench.hear()

    return add


def test_a_video_that_is_added_again_continues_its_unfinished_job_with_its_settings(
    bench, add_again
):
    bench.program.left_over.offer(begun("old.mp4"))
    bench.add("waits.mp4")
    add_again()
    banner, said = bench.find("unfinishedBanner"), "40 % done. It continues with its own settings."
    title = "This video has an unfinished job"
    assert texts(banner).splitlines() == [title, "holiday.mp4", said]
    bench.use_language("zh_CN")
    assert "已完成 40 %，继续时沿用其原有设置。" in texts(banner)
    assert bench.find("discardUnfinished").text() == "重新开始"
    bench.press("continueUnfinished")
    rows = [(row.job_id, row.settings.scale, row.output) for row in bench.program.queue.rows]
    assert rows[0] == ("holiday.mp4", 4, Path("films", "results"))
    assert len(rows) == 2, "it takes the place of the new one"
    kinds = [type(one) for one in bench.engine.commands]
    assert kinds.index(commands.RemoveJob) < kinds.index(commands.AdoptJob), "of the same result"
    assert not bench.find("undoLine").isVisible()
    assert "old.mp4" in texts(banner)
    add_again()
    assert "old.mp4" in texts(banner), "it is in the queue"


def test_a_video_that_is_added_again_begins_again_and_its_job_can_come_back(bench, add_again):
    add_again()
    bench.press("discardUnfinished")
    banner = bench.find("unfinishedBanner")
    assert not banner.isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["holiday.mp4"]
    assert "Removed: holiday.mp4" in texts(bench.find("undoLine"))
    assert not bench.asked(commands.AdoptJob)
    assert not bench.asked(commands.RemoveJob)
    add_again()
    assert not banner.isVisible(), "it was answered"
    bench.do("undo")
    assert "This video has an unfinished job" in texts(banner)
    bench.press("continueUnfinished")
    assert [c.job_id for c in bench.asked(commands.AdoptJob)] == ["holiday.mp4"]


def test_two_unfinished_jobs_of_a_video_continue_in_place_of_the_new_one(bench, add_again):
    first, second = (
        replace(job, source=Path("films", "holiday.mp4"), frames_done=1, frames_total=2)
        for job in begun("first", "second")
    )
    bench.program.left_over.offer((replace(first, frames_done=0),))  # another program went on
    bench.patch.setattr("engine.api.begun_jobs", lambda files: (first, second))
    add_again()
    assert "50 % done. They continue with their own settings." in texts(bench.window.queue_column)
    bench.press("continueUnfinished")
    assert [row.job_id for row in bench.program.queue.rows] == ["first", "second"]
    assert len(bench.asked(commands.RemoveJob)) == 1
    assert not bench.find("unfinishedBanner").isVisible()


def test_the_job_of_a_folder_of_images_continues_in_place_of_the_new_one(bench, add_again):
    add_again()
    (row,) = bench.program.queue.rows
    image = row.source / "0001.png"
    row.media = replace(row.media, kind="sequence", is_folder=True, path=image)
    bench.press("continueUnfinished")
    assert [row.job_id for row in bench.program.queue.rows] == ["holiday.mp4"]


@pytest.mark.parametrize("error", [SourceMissing("since-start", name="old.mp4"), CHANGED])
def test_a_film_whose_drive_is_back_goes_on_and_a_changed_one_begins_again(bench, error):
    bench.program.left_over.offer(begun("old.mp4"))
    bench.press("continueUnfinished")
    info = error if error is CHANGED else error.info()
    bench.emit(events.JobRejected(job_id="old.mp4", source="old.mp4", error=info))
    bench.select("old.mp4")
    bench.do("retry")
    adopted = [command.job_id for command in bench.asked(commands.AdoptJob)]
    assert len(bench.program.queue.rows) == 1
    if error is CHANGED:
        assert adopted == ["old.mp4"]
        assert len(bench.asked(commands.AddJob)) == 1
    else:
        assert adopted == ["old.mp4", "old.mp4"]
        assert not bench.asked(commands.AddJob)
