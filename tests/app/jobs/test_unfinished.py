"""Films of an earlier run: which they are, and that Start does not mean them."""

from dataclasses import replace
from pathlib import Path

from app.theme import tokens
from engine.api import UnfinishedJob
from engine.core.errors import CheckpointMismatch
from engine.protocol import commands
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
        bench.program.offer_left_over(begun(*names))
        bench.use_language("en")
        assert said in texts(banner).splitlines()
        assert bench.find("continueUnfinished").accessibleDescription() == said
        bench.use_language("zh_CN")
        assert chinese in texts(banner).splitlines()


CHANGED = CheckpointMismatch("source", name="old.mp4").info()


def test_films_that_can_only_fail_again_are_not_offered_to_continue(bench):
    able, unable = begun("new.mp4", "old.mp4")
    unable = replace(unable, problem=CHANGED)
    bench.program.offer_left_over((unable, able))
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
    bench.program.offer_left_over(begun("a very long name of a film " * 8 + ".mp4"))
    bench.hear()
    assert "…" in texts(bench.find("unfinishedBanner"))
    assert bench.window.queue_column.width() == tokens.QUEUE_WIDTH


def test_start_says_that_it_starts_only_what_waits_while_others_are_unfinished(bench):
    start = bench.find("primaryAction")
    bench.program.offer_left_over(begun("old.mp4"))
    assert start.toolTip() == "Continue the unfinished videos, or add a video"
    bench.add("one.mp4")
    assert start.text() == "Start the queued video"
    bench.add("two.mp4")
    assert start.text() == "Start 2 queued videos"
    bench.press("discardUnfinished")
    assert start.text() == "Start queue (2)"
    bench.do("undo")
    assert start.text() == "Start 2 queued videos"
