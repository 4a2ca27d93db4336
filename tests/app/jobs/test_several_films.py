"""What is done with several films at once, and with their order."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest

from app import labels
from app.state.job_row import JobState
from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from tests.app.conftest import texts

NAMES = ("one.mp4", "two.mp4", "three.mp4", "four.mp4")


@pytest.fixture
def films(bench):
    """Names of four jobs that wait."""
    return [bench.add(name) for name in NAMES]


def select(bench, job_ids):
    view = bench.window.queue_column.view
    view.select(job_ids[0])
    for job_id in job_ids[1:]:
        index = bench.program.queue.index(bench.program.queue.position(job_id))
        view.selectionModel().select(index, view.selectionModel().SelectionFlag.Select)
    bench.hear()


def order(bench):
    return [row.source.name.removesuffix(".mp4") for row in bench.program.queue.rows]


def test_a_choice_is_for_all_selected_films_and_changes_nothing_else_of_them(bench, films):
    bench.window.queue_column.view.select(films[1])
    bench.choose(scale=4, start="1", crf=20)
    select(bench, films[:3])
    assert "Changes apply to 3 videos" in texts(bench.window.choices)
    bench.choose(codec="hevc", stop="5")
    made = [(r.settings.codec, r.settings.scale, r.settings.crf) for r in bench.program.queue.rows]
    assert made == [("hevc", 2, 16), ("hevc", 4, 20), ("hevc", 2, 16), ("auto", 2, 16)]
    assert [row.settings.stop for row in bench.program.queue.rows] == ["5", "", "", ""]
    assert bench.program.queue.rows[1].settings.start == "1", "a trim belongs to one film"


def ctrl_click(bench, at):
    view = bench.window.queue_column.view
    place = view.visualRect(bench.program.queue.index(at)).center()
    control = Qt.KeyboardModifier.ControlModifier
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, control, place)
    bench.hear()


def change(bench, codec):
    """Choose as a user does: it is sent a moment later."""
    bench.window.choices.more.changed.emit("codec", codec)


def codecs(bench):
    return [row.settings.codec for row in bench.program.queue.rows]


def test_a_film_that_joins_the_selection_right_after_a_choice_does_not_get_it(bench, films):
    view = bench.window.queue_column.view
    view.select(films[0])
    change(bench, "hevc")
    QTest.keyClick(view, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    bench.hear()
    assert view.selected_ids == films[:2]
    assert codecs(bench)[:2] == ["hevc", "auto"]
    change(bench, "av1")
    ctrl_click(bench, 2)
    assert view.selected_ids == films[:3]
    assert codecs(bench) == ["av1", "av1", "auto", "auto"]


def test_films_keep_a_choice_when_one_leaves_the_selection_right_after_it(bench, films):
    view = bench.window.queue_column.view
    view.select(films[0])
    ctrl_click(bench, 2)
    change(bench, "hevc")
    ctrl_click(bench, 2)  # the one whose choices are shown
    assert view.selected_ids == films[:1]
    bench.window.choices.flush()  # the moment is over
    bench.hear()
    assert codecs(bench) == ["hevc", "auto", "hevc", "auto"]


def test_all_selected_films_are_tried_again(bench, films):
    error = ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"})
    bench.do("start")
    for _ in films:
        bench.fail(error)
    assert bench.program.queue.count(JobState.FAILED) == 4, "a failed film stops no other"
    select(bench, films[:3])
    bench.do("retry")
    assert [one.job_id for one in bench.asked(commands.RetryJob)] == films[:3]


@pytest.mark.parametrize(
    ("dragged", "onto", "is_below", "expected"),
    [
        ([0], 2, True, ["two", "three", "one", "four"]),
        ([0], 2, False, ["two", "one", "three", "four"]),
        ([3], 0, False, ["four", "one", "two", "three"]),
        ([0, 3], 1, True, ["two", "one", "four", "three"]),
    ],
)
def test_cards_are_dragged_to_another_place(bench, films, dragged, onto, is_below, expected):
    view = bench.window.queue_column.view
    select(bench, [films[at] for at in dragged])
    rect = view.visualRect(bench.program.queue.index(onto))
    place = QPointF(rect.center().x(), rect.bottom() - 12 if is_below else rect.top() + 2)
    mime = bench.program.queue.mimeData(view.selectedIndexes())
    no_button = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    drop = QDropEvent(place, Qt.DropAction.MoveAction, mime, *no_button)
    view.dropEvent(drop)
    bench.hear()
    assert order(bench) == expected
    in_engine = list(films)
    for move in bench.asked(commands.MoveJob):
        in_engine.remove(move.job_id)
        in_engine.insert(move.position, move.job_id)
    assert in_engine == [row.job_id for row in bench.program.queue.rows]
    assert not bench.program.queue.removeRows(0, 1), "as the view tries at the end of a drag"
    flags = bench.program.queue.flags(bench.program.queue.index(0))
    assert flags & Qt.ItemFlag.ItemIsDragEnabled


def test_the_time_of_the_whole_queue_is_shown(bench, films):
    plans = [row.plan for row in bench.program.queue.rows]
    assert bench.find("queueTime").text().startswith("4 videos · about ")
    images = [
        replace(row, media=replace(row.media, kind="image")) for row in bench.program.queue.rows
    ]
    assert labels.counted(images, 4) == "4 images"
    assert labels.counted([*images, bench.program.queue.rows[0]], 5) == "5 files"
    spoken = labels.duration(sum(plan.seconds for plan in plans))
    assert bench.find("queueTime").text() == f"4 videos · about {spoken}"
    bench.do("start")
    assert bench.find("queueTime").text() == f"4 videos · about {spoken}", "it is preparing"
    bench.do("cancel")
    refusal = Notice(code="output-exists", severity="refusal", params={"name": "a.mp4"})
    refused = replace(plans[3], notices=(refusal,))
    bench.emit(events.PlanChosen(job_id=films[3], plan=refused))
    spoken = labels.duration(plans[1].seconds + plans[2].seconds)
    assert bench.find("queueTime").text() == f"2 videos · about {spoken}", "one was cancelled"
    bench.program.queue.find(films[1]).media = images[1].media
    bench.emit(events.PlanChosen(job_id=films[3], plan=plans[3]))
    assert bench.find("queueTime").text().startswith("3 files · about ")
    unread = bench.program.controller.add_file(Path("unread.mp4"))
    assert bench.find("queueTime").text().startswith("4 files · at least ")
    for job_id in (*films[1:], unread):
        bench.program.controller.remove([job_id])
    bench.hear()
    assert not bench.find("queueTime").text(), "the card says it"


def test_finished_films_are_cleared_and_can_return(bench, films):
    assert not bench.find("clearFinished").isVisible()
    bench.do("start")
    bench.finish()
    bench.engine.finish(failed=("likeness",))  # two.mp4: to be looked at
    bench.hear()
    bench.finish()
    bench.press("clearFinished")
    assert order(bench) == ["two", "four"]
    bench.do("undo")
    assert order(bench) == ["one", "two", "three", "four"]


def test_fifty_films_at_once_show_the_selected_one_a_few_times_only(bench, monkeypatch):
    bench.add()
    panel, shown = bench.window.decision, []
    show = panel.show_job
    monkeypatch.setattr(panel, "show_job", lambda row: (shown.append(row), show(row)))
    bench.program.controller.add_files([Path(f"film{number}.mp4") for number in range(50)])
    bench.hear()
    assert bench.program.queue.rowCount() == 51
    assert len(shown) < 5


def test_cards_are_low_from_eight_videos_on(bench):
    bench.add("0.mp4")
    view = bench.window.queue_column.view
    high = view.sizeHintForRow(0)
    for number in range(1, 8):
        bench.add(f"{number}.mp4")
    assert view.sizeHintForRow(0) < 0.6 * high
    assert view.sizeHint().height() == 8 * view.sizeHintForRow(0)


def test_many_videos_come_move_go_and_return_as_one_change(bench):
    reports = []
    bench.program.queue.queue_changed.connect(lambda: reports.append(order(bench)))
    controller = bench.program.controller

    def seen(change):
        reports.clear()
        change()
        return reports

    several = [Path(name) for name in NAMES]
    assert seen(lambda: controller.add_files(several)) == [["one", "two", "three", "four"]]
    jobs = [row.job_id for row in bench.program.queue.rows]
    assert seen(lambda: controller.reorder(jobs[:2], 4)) == [["three", "four", "one", "two"]]
    assert seen(lambda: controller.remove(jobs[:3])) == [["four"]]
    assert seen(controller.removals.undo) == [["three", "four", "one", "two"]]
    assert seen(lambda: controller.remove(jobs[:1])) == [["three", "four", "two"]]
    assert not seen(lambda: controller.add_files([])), "nothing has changed"
