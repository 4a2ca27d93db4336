"""Films of an earlier run: which they are, and that Start does not mean them."""

from pathlib import Path

import pytest

from engine.api import UnfinishedJob
from tests.app.conftest import texts


def begun(*names: str) -> tuple[UnfinishedJob, ...]:
    return tuple(
        UnfinishedJob(job_id=name, source=Path("films") / name, output=Path("films", f"{name}.mkv"))
        for name in names
    )


@pytest.mark.parametrize(
    ("names", "said", "chinese"),
    [
        (["holiday.mp4"], "holiday.mp4", "holiday.mp4"),
        (["a.mp4", "b.mp4", "c.mp4"], "a.mp4 and 2 more", "a.mp4 等（另有 2 个）"),
    ],
)
def test_the_banner_names_what_is_unfinished(bench, names, said, chinese):
    bench.program.offer_left_over(begun(*names))
    bench.hear()
    banner = bench.find("unfinishedBanner")
    assert said in texts(banner).splitlines()
    assert bench.find("continueUnfinished").accessibleDescription() == said
    bench.program.use_language("zh_CN")
    bench.hear()
    assert chinese in texts(banner).splitlines()


def test_a_long_name_keeps_the_width_of_the_queue(bench):
    bench.program.offer_left_over(begun("a very long name of a film " * 8 + ".mp4"))
    bench.hear()
    assert "…" in texts(bench.find("unfinishedBanner"))
    assert bench.window.queue_column.width() == bench.window.queue_column.maximumWidth()


def test_start_says_that_it_starts_only_what_waits_while_others_are_unfinished(bench):
    start = bench.find("primaryAction")
    bench.program.offer_left_over(begun("old.mp4"))
    assert start.toolTip() == "Continue the unfinished films, or add one"
    bench.add("one.mp4")
    assert start.text() == "Start the waiting film"
    bench.add("two.mp4")
    assert start.text() == "Start 2 waiting films"
    bench.press("discardUnfinished")
    assert start.text() == "Start queue (2)"
    bench.do("undo")
    assert start.text() == "Start 2 waiting films"
