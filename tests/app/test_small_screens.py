"""The window on small screens: it opens inside them and folds its columns down to 910x432."""

import dataclasses

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from app.actions import SPECS
from app.jobs.found_files import media_files
from app.preview.empty_view import EmptyView
from app.ui_state import UiState
from app.widgets.compact_scroll import CompactScroll
from app.window_place import fitted, keep_place, key_of, place_window
from engine.core.errors import DiskFull, ResultHeldBack
from engine.protocol import events
from engine.protocol.plan import Notice
from tests.app.conftest import Bench, texts
from tests.app.jobs.test_unfinished import begun
from tests.app.plan.test_plan_card import TOO_MUCH, plan, say_plan
from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.extended import rest_extended
from tests.helpers.plans import on_gpu

SIZES = ((910, 432), (910, 512), (1024, 600), (1280, 680), (1366, 728))
_between = [pytest.param(size, marks=pytest.mark.extended) for size in SIZES[1:-1]]
EACH_SIZE = pytest.mark.parametrize("size", [SIZES[0], *_between, SIZES[-1]])


def resize(bench: Bench, width: int, height: int) -> None:
    bench.window.resize(width, height)
    settle()


def lies_inside(widget: QWidget) -> bool:
    """Whether all of a widget can be seen in its window."""
    window = widget.window()
    place = QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())
    seen = widget.visibleRegion().boundingRect().size()
    return window.rect().contains(place) and seen == widget.size()


# Place


def test_a_window_lies_on_the_free_part_of_its_screen_with_its_frame():
    free = QRect(0, 0, 1280, 680)  # 1920x1080 at 150 %, less the task bar
    place = fitted(QRect(-100, -50, 1440, 900), free)
    assert free.contains(place.adjusted(0, -40, 0, 0))
    assert fitted(QRect(2000, 900, 1000, 600), free) == QRect(280, 80, 1000, 600)
    assert fitted(QRect(100, 100, 1000, 560), free) == QRect(100, 100, 1000, 560)


def test_the_first_start_opens_inside_a_small_screen(bench, tmp_path, monkeypatch):
    screen = type(bench.window.screen())
    for free in (QRect(0, 0, 1280, 680), QRect(0, 0, 910, 472)):
        monkeypatch.setattr(screen, "availableGeometry", lambda _self, free=free: free)
        place_window(bench.window, UiState(tmp_path / "new.ini"))
        settle()
        assert free.contains(bench.window.geometry())
        assert lies_inside(bench.find("primaryAction")), free


def test_the_place_is_remembered_for_each_screen(bench, tmp_path, monkeypatch):
    free = QRect(0, 0, 1280, 680)
    monkeypatch.setattr(type(bench.window.screen()), "availableGeometry", lambda _self: free)
    state = UiState(tmp_path / "kept.ini")
    here = key_of(bench.window.screen())
    bench.window.setGeometry(30, 60, 950, 560)
    settle()
    keep_place(bench.window, state)
    state.keep_place("elsewhere_800x600", QRect(1, 2, 3, 4))
    state.save()
    bench.window.setGeometry(0, 40, 1000, 600)
    again = UiState(tmp_path / "kept.ini")
    assert (again.screen, again.is_maximised) == (here, False)
    place_window(bench.window, again)
    assert bench.window.geometry() == QRect(30, 60, 950, 560)
    assert again.place("elsewhere_800x600") == QRect(1, 2, 3, 4)


# Folding


@EACH_SIZE
def test_everything_that_starts_a_film_is_in_sight_and_nothing_is_cut(bench, size):
    say_plan(bench, on_gpu(plan()))
    bench.measure(GPU)
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        resize(bench, *size)
        assert (bench.window.width(), bench.window.height()) == size
        for name in ("primaryAction", "outputName", "outputFolder", "planHead", "logButton"):
            assert lies_inside(bench.find(name)), (language, name)
        assert list(cut_off(bench.window.top)) == []
        assert bench.find("planCard").parentWidget().parentWidget().height() <= 0.4 * size[1]


def test_the_queue_becomes_a_strip_and_opens_over_the_stage(bench):
    bench.add()
    resize(bench, 1024, 600)
    assert bench.find("openQueue").text() == "1"
    assert not bench.window.queue_column.isVisible()
    bench.press("openQueue")
    assert bench.window.queue_column.view.isVisible()
    QTest.keyClick(bench.find("queueSheet"), Qt.Key.Key_Escape)
    assert not bench.window.queue_column.isVisible()
    for is_open in (True, False):
        bench.press("openQueue")
        assert bench.window.queue_column.isVisible() == is_open
    resize(bench, 1440, 900)
    assert bench.window.queue_column.isVisible()
    assert not bench.find("queueStrip").isVisible()


@EACH_SIZE
def test_the_queue_scrolls_where_not_all_of_it_has_room_and_is_never_squeezed(bench, size):
    bench.program.left_over.offer(begun("old.mp4"))
    bench.window.queue_column.watch.show_folder("/films/Incoming", is_on=True, is_away=True)
    for name in ("one.mp4", "two.mp4", "three.mp4"):
        bench.add(name)
    bench.do("remove")
    resize(bench, *size)
    if bench.find("queueStrip").isVisible():
        bench.press("openQueue")
    settle()
    for name in ("addFiles", "watchLine", "watchSwitch", "undoLine", "undoRemoval"):
        assert lies_inside(bench.find(name)), name
    for name in ("unfinishedBanner", "queueView", "dropZone", "watchLine", "undoLine"):
        part = bench.find(name)
        assert part.height() >= part.minimumSizeHint().height(), name
    assert list(cut_off(bench.window.queue_column.watch)) == []


def test_a_folded_queue_opens_to_ask_about_unfinished_films(bench):
    resize(bench, 910, 512)
    assert not bench.window.queue_column.isVisible()
    bench.program.left_over.offer(begun("old.mp4"))
    settle()
    assert lies_inside(bench.find("continueUnfinished"))
    bench.find("queueSheetClose").click()
    bench.press("discardUnfinished")
    settle()
    assert not bench.window.queue_column.isVisible(), "there is nothing more to answer"


def test_the_choices_become_a_sheet_and_work_there(bench):
    bench.add()
    resize(bench, 910, 512)
    assert not bench.find("target").isVisible()
    bench.press("openChoices")
    settle()
    assert lies_inside(bench.find("segment-x4"))
    bench.find("segment-x4").click()
    bench.window.choices.flush()
    bench.hear()
    assert bench.window.selected.settings.scale == 4
    bench.press("openQueue")
    assert not bench.find("target").isVisible(), "one sheet at a time"
    resize(bench, 1440, 900)
    assert lies_inside(bench.find("target"))


# What opens or takes the focus is brought into view


@EACH_SIZE
def test_choose_another_name_puts_a_cursor_that_can_be_seen(bench, size):
    there = Notice(
        code="output-exists", case="before-start", severity="refusal", params={"name": "film.mp4"}
    )
    say_plan(bench, dataclasses.replace(plan(), notices=(there,)))
    resize(bench, *size)
    bench.window.activateWindow()
    bench.press("planHelp")
    settle()
    field = bench.find("outputName")
    assert QApplication.focusWidget() is field
    assert lies_inside(field)


@EACH_SIZE
def test_more_choices_show_themselves(bench, size):
    bench.add()
    resize(bench, *size)
    if size[1] < 620:
        bench.press("openChoices")
    settle()
    bench.press("moreChoices")
    settle()
    first = next(iter(bench.window.choices.more.editors.values()))
    shown = [one for one in bench.window.choices.more.editors.values() if lies_inside(one)]
    assert shown, f"{first.name} and all others lie below the fold"


def test_change_the_choices_opens_the_sheet(bench):
    bench.add()
    resize(bench, 910, 512)
    bench.window.activateWindow()
    bench.do("choices")
    settle()
    assert lies_inside(bench.find("target"))


def test_the_form_never_moves_sideways(bench):
    bench.add()
    bench.window.choices.more.unfold()
    settle()
    area = bench.window.choices.parentWidget().parentWidget()
    for editor in bench.window.choices.more.editors.values():
        area.ensureWidgetVisible(editor)
        assert area.horizontalScrollBar().value() == 0


# The right column


@pytest.mark.parametrize("on_card", [False, True])
def test_on_a_small_laptop_nothing_that_most_choose_lies_below_a_fold(bench, on_card):
    say_plan(bench, on_gpu(plan()) if on_card else plan())
    resize(bench, 1366, 688)
    area = bench.window.choices.parentWidget().parentWidget()
    assert area.verticalScrollBar().maximum() == 0
    assert lies_inside(bench.find("moreChoices"))


def test_a_card_that_scrolls_is_as_wide_as_any_other(bench):
    say_plan(bench, dataclasses.replace(plan(), notices=(TOO_MUCH,) * 4))
    card, start = bench.find("planCard"), bench.find("primaryAction")
    bar = bench.window.decision.findChild(CompactScroll).verticalScrollBar()
    for size, scrolls in (((1440, 900), False), ((1366, 560), True)):
        resize(bench, *size)
        assert bar.isVisible() == scrolls
        assert card.width() == start.width()


def test_the_refusal_is_open_and_the_rest_a_line_each(bench):
    more = Notice(code="colours-guessed", severity="info", params={"standard": "BT.709"})
    made = dataclasses.replace(on_gpu(plan(), needed=20.0), notices=(more, TOO_MUCH))
    say_plan(bench, made)
    settle()
    heads = bench.find("planCard").findChildren(QWidget, "noticeHead")
    heights = [head.height() for head in heads if head.isVisible()]
    assert len(heights) == 2
    assert heights[1] <= 24
    assert bench.find("planOffer0").isVisible()


def test_a_film_that_was_started_shows_its_choices_as_text(bench):
    bench.start()
    settle()
    shown = texts(bench.find("chosenText"))
    assert "Clean first with" not in shown
    assert "480×270 → 960×540" in shown
    assert "Lite" in shown
    assert "High · 16" in shown
    assert bench.find("outputFixed").text() == "film_x2.mp4"
    form = bench.window.choices
    assert not [
        one for one in form.findChildren(QWidget) if one.isVisible() and not one.isEnabled()
    ]
    bench.finish()
    shown = texts(bench.find("chosenText"))
    assert "480×270 → 960×540" in shown
    assert "Codec" in shown
    image = dataclasses.replace(plan(), picture=dataclasses.replace(plan().picture, codec="png"))
    bench.emit(events.PlanChosen(job_id=bench.program.queue.rows[0].job_id, plan=image))
    shown = texts(bench.find("chosenText"))
    assert not [word for word in ("Codec", "Quality", "High · 16") if word in shown]


def test_a_plan_lists_what_it_copies_and_what_it_does_not(bench):
    made = plan()
    lost = dataclasses.replace(
        made.streams[0], index=2, kind="subtitle", codec="dvb_subtitle", copied=False, why="no room"
    )
    say_plan(bench, dataclasses.replace(made, streams=(*made.streams, lost)))
    assert bench.find("planStreams").text() == "Copied: audio track; left out: subtitle"
    bench.press("whyThisPlan")
    settle()
    shown = texts(bench.find("whySheet"))
    for text in ("Audio track · 2 channels · aac", "copied", "left out: no room"):
        assert text in shown


@pytest.mark.parametrize("height", rest_extended([205, 300, 480], 205))
def test_the_empty_stage_keeps_its_texts_and_buttons_below_the_offer_of_a_runtime(bench, height):
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        view = EmptyView(bench.window.actions_)
        view.resize(490, height)
        view.show()
        settle()
        assert list(cut_off(view)) == []
        assert all(lies_inside(one) for one in view.findChildren(QPushButton)), language


def test_figures_of_the_gauges_are_whole_at_every_width(bench):
    bench.window.top.show_gpu_idle(True)
    for name in ("GeForce RTX 5070 Ti", "RTX 6000 Ada Generation Laptop GPU"):
        gpu = dataclasses.replace(GPU, name=f"NVIDIA {name}", spilled_mb=12290, total_mb=49140)
        bench.measure(gpu)
        for width in range(890, 1500, 40):
            resize(bench, width, 640)
            assert list(cut_off(bench.window.top)) == [], width
        bench.measure()
        resize(bench, 910, 640)
        bench.measure(gpu)
        settle()
        assert list(cut_off(bench.window.top)) == []


def test_the_time_of_the_frame_is_whole_above_a_short_timeline(bench):
    bench.start()
    bench.advance(10)
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        resize(bench, 910, 512)
        assert list(cut_off(bench.window.preview.timeline)) == []


def test_a_running_film_keeps_its_buttons_and_picture(bench):
    bench.add()
    bench.start()
    bench.engine.advance(10)
    resize(bench, 910, 440)
    for name in ("pauseAction", "cancelAction", "stopsAfterThis"):
        button = bench.find(name)
        assert lies_inside(button), name
        assert button.height() >= button.minimumSizeHint().height(), name
    stage = bench.window.preview
    assert not stage.timeline.geometry().intersects(stage.canvas.geometry())
    for _ in range(2):
        assert not bench.find("primaryAction").isVisible(), "a film runs"
        bench.finish()
        settle()
    assert bench.find("primaryAction").isVisible()


def test_the_plan_of_a_running_film_can_be_read_in_the_lowest_window(bench):
    say_plan(bench, plan())
    bench.add("other.mp4")
    bench.do("start")
    resize(bench, 910, 432)
    assert not bench.find("primaryAction").isVisible(), "it only counts films"
    assert lies_inside(bench.find("planHead"))
    assert bench.find("planCard").visibleRegion().boundingRect().height() >= 90


@pytest.mark.parametrize(
    "error",
    [
        DiskFull("while-writing", name="film_x2.mp4"),
        ResultHeldBack(
            "source-lost", name="a film of last summer.mp4", reason="Input/output error"
        ),
    ],
)
def test_the_button_of_an_error_is_whole_in_the_lowest_window(bench, error):
    bench.start()
    bench.fail(error.info())
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        resize(bench, 910, 432)
        assert lies_inside(bench.find("errorAction")), language


def test_the_log_takes_the_place_of_the_columns_in_a_low_window(bench):
    bench.add()
    for size, is_alone in (((910, 440), True), ((910, 640), False), ((910, 440), True)):
        resize(bench, *size)
        bench.window.actions_["log"].setChecked(True)
        settle()
        assert bench.find("primaryAction").isVisible() != is_alone
        assert bench.find("logDock").height() > (250 if is_alone else 90)
    bench.window.actions_["log"].setChecked(False)
    settle()
    assert lies_inside(bench.find("primaryAction"))


def test_a_folded_queue_opens_to_say_what_of_a_folder_was_left_out(bench, tmp_path):
    resize(bench, 910, 512)
    (tmp_path / "letter.docx").touch()
    bench.window.queue_column.show_found(media_files([tmp_path]))
    settle()
    assert bench.find("addedLine").isVisible()


# Pages


@pytest.mark.parametrize("free", [QRect(0, 0, 1024, 560), QRect(0, 0, 910, 472)])
def test_pages_lie_on_a_small_screen_with_their_close_button(bench, monkeypatch, free):
    monkeypatch.setattr(type(bench.window.screen()), "availableGeometry", lambda _self: free)
    program = bench.program
    for page, view in (
        ("models", lambda: program.models.view),
        ("settings", lambda: program.settings.dialog),
        ("bench", lambda: program.bench.view),
        ("help", lambda: program.window.help),
        ("runtime", lambda: program.runtime.view),
        ("updates", lambda: program.updates.view),
    ):
        bench.do(page) if page in SPECS else getattr(program, page).open_view()
        settle()
        assert view().width() <= free.width(), page
        assert view().height() <= free.height() - 40, page
        closers = [one for one in view().findChildren(QPushButton) if one.text() == "Close"]
        assert all(lies_inside(one) for one in closers), page
        assert closers, page
        view().close()
