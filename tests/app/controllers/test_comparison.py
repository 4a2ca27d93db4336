"""Results of one source, shown against each other."""

from dataclasses import replace
from fractions import Fraction

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox

from app.preview.playback import Playback
from app.preview.scene import Mode
from app.state.job_row import JobState
from engine.core.errors import ResultGone
from engine.core.geometry import FrameSpan, Size
from engine.protocol import commands, events
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, part, real_program
from tests.app.preview.test_player import _film
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.clips import Clip, make_clip
from tests.helpers.fakes import grey

SMALL, LARGE = Size(960, 540), Size(1920, 1080)


def finished(bench: Bench, **choices: object) -> str:
    """Put the film into the queue with choices of its own, and let its job end well."""
    job_id = bench.add()
    bench.select(job_id)
    bench.choose(**choices)
    bench.do("start")
    bench.finish()
    return job_id


def items(bench: Bench, name: str) -> list[str]:
    box = part(bench.window, name, QComboBox)
    return [box.itemText(at) for at in range(box.count())]


def pick(bench: Bench, name: str, text: str) -> None:
    """As a choice in one of the two lists."""
    box = part(bench.window, name, QComboBox)
    at = box.findText(text)
    assert at >= 0, items(bench, name)
    box.setCurrentIndex(at)
    box.activated.emit(at)
    bench.hear()


def answer(
    bench: Bench, job_id: str, *, source: int | None, result: int | None, size: Size
) -> None:
    """The engine gives the frame that was asked for last, in levels of grey."""
    pair = bench.window.preview.pair
    bench.emit(
        events.PreviewReady(
            job_id=job_id,
            frame=0,
            seconds=pair.asked_s,
            source=None if source is None else grey(Size(480, 270), source),
            result=None if result is None else grey(size, result),
        )
    )


def levels(bench: Bench) -> tuple[int | None, ...]:
    """Grey of the two pictures."""
    images = bench.window.preview.pair.images
    return tuple(None if one.isNull() else one.pixelColor(5, 5).red() for one in images)


@pytest.fixture
def two(bench: Bench) -> tuple[str, str]:
    """Twice and four times the size; the second one is selected."""
    first, second = finished(bench, scale=2), finished(bench, scale=4)
    bench.select(second)
    return first, second


def test_one_result_has_nothing_to_choose(bench):
    finished(bench)
    assert not bench.find("pairBar").isVisible()
    bench.add("other.mp4")
    bench.do("start")
    bench.finish()
    assert not bench.find("pairBar").isVisible(), "of another film"


def test_two_results_of_a_film_can_be_chosen_as_a_and_b(bench, two):
    assert bench.find("pairBar").isVisible()
    names = ["Original 480×270", "Lite 1920×1080", "Lite 960×540"]
    assert items(bench, "filmA") == items(bench, "filmB") == names
    shown = [part(bench.window, name, QComboBox).currentText() for name in ("filmA", "filmB")]
    assert shown == names[:2]
    assert part(bench.window, "segment-first").text() == "Original"
    pick(bench, "filmA", "Lite 960×540")
    assert bench.window.preview.canvas.scene.labels == ("A: Lite 960×540", "B: Lite 1920×1080")
    assert part(bench.window, "segment-first").text() == "A"


def test_a_film_that_the_other_side_has_changes_sides(bench, two):
    pick(bench, "filmA", "Lite 1920×1080")
    pair = bench.window.preview.pair
    assert [film.key for film in pair.shown] == [two[1], ""]
    assert bench.window.preview.canvas.scene.labels == ("A: Lite 1920×1080", "B: Original 480×270")


def test_both_frames_come_from_their_jobs_and_are_shown_together(bench, two):
    first, second = two
    view = bench.window.preview
    before = len(bench.asked(commands.ShowFrame))
    pick(bench, "filmA", "Lite 960×540")
    asked = bench.asked(commands.ShowFrame)[before:]
    assert [(c.job_id, c.has_source) for c in asked] == [(first, False), (second, False)]
    assert len({c.seconds for c in asked}) == 1
    answer(bench, first, source=None, result=40, size=SMALL)
    assert levels(bench) == (None, None), "the other one is awaited"
    answer(bench, second, source=None, result=90, size=LARGE)
    assert levels(bench) == (40, 90)
    assert view.canvas.scene.viewport.content.toSize().toTuple() == (1920, 1080)
    view.set_mode(Mode.DIFFERENCE)
    middle = view.canvas.grab().toImage().pixelColor(view.canvas.rect().center())
    assert middle.red() == 4 * (90 - 40)


def test_a_choice_of_films_asks_once_also_where_their_frames_were_to_be_asked_soon(bench, two):
    pair = bench.window.preview.pair
    pair.ask_soon()
    before = len(bench.asked(commands.ShowFrame))
    pick(bench, "filmA", "Lite 960×540")
    QTest.qWait(200)
    assert len(bench.asked(commands.ShowFrame)) - before == 2


def test_a_picture_changes_sides_with_its_film(bench, two):
    answer(bench, two[1], source=10, result=60, size=LARGE)
    assert levels(bench) == (10, 60)
    pick(bench, "filmA", "Lite 1920×1080")
    assert levels(bench) == (60, 10)
    pick(bench, "filmB", "Lite 960×540")
    assert levels(bench) == (60, None), "no picture of another film"


def test_scrubbing_asks_both_jobs(bench, two, qtbot):
    pick(bench, "filmA", "Lite 960×540")
    before = len(bench.asked(commands.ShowFrame))
    qtbot.keyClick(bench.window.preview.timeline.strip, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: len(bench.asked(commands.ShowFrame)) > before)
    assert [c.job_id for c in bench.asked(commands.ShowFrame)[before:]] == list(two)


def test_the_source_and_another_result_come_from_the_job_of_that(bench, two):
    before = len(bench.asked(commands.ShowFrame))
    pick(bench, "filmB", "Lite 960×540")
    (asked,) = bench.asked(commands.ShowFrame)[before:]
    assert (asked.job_id, asked.has_source) == (two[0], True)
    answer(bench, two[0], source=10, result=60, size=SMALL)
    assert levels(bench) == (10, 60)


def test_both_are_played_in_step_by_the_same_keys(bench, two, monkeypatch):
    read, played = [], []
    playback = bench.window.preview.playback

    def opened(_self, film, side):
        read.append((film.job_id, side))
        return _film(250)

    monkeypatch.setattr(Playback, "_opener", opened)
    monkeypatch.setattr(playback.player, "play", lambda films, *_: played.append(list(films)))
    pick(bench, "filmA", "Lite 960×540")
    bench.window.preview.set_mode(Mode.SPLIT)
    playback.toggle()
    assert read == [(two[0], "result"), (two[1], "result")]
    assert played == [["first", "second"]]


@pytest.mark.parametrize(
    ("trims", "span"),
    [
        (((0, 6), (2, None)), (48, 144)),
        (((None, None), (4, 8)), (96, 192)),
    ],
)
def test_the_common_part_is_kept_of_two_trims(bench, trims, span):
    def cut(start, stop):
        ends = [None if one is None else Fraction(one) for one in (start, stop)]
        plan = replace(bench.program.queue.rows[-1].plan, start=ends[0], stop=ends[1])
        bench.engine.plans[bench.program.queue.rows[-1].job_id] = plan
        bench.emit(events.PlanChosen(job_id=bench.program.queue.rows[-1].job_id, plan=plan))

    for scale, trim in zip((2, 4), trims, strict=True):
        finished(bench, scale=scale)
        cut(*trim)
    bench.select(bench.program.queue.rows[0].job_id)
    pick(bench, "filmA", items(bench, "filmA")[2])
    strip = bench.window.preview.timeline.strip
    assert strip.span == span
    assert strip.finished == span[1] - span[0]
    bench.window.preview.timeline.set_step(span[1] + 3)
    assert "Only one of the two" in bench.window.preview.canvas.scene.missing_texts[0]
    pick(bench, "filmA", "Original 480×270")
    assert strip.span != span, "the trim of the selected job again"


def test_results_without_a_common_part_say_so(bench, two):
    for job_id, (start, stop) in zip(two, ((0, 2), (4, 6)), strict=True):
        plan = bench.program.queue.find(job_id).plan
        cut = {"start": Fraction(start), "stop": Fraction(stop), "span": FrameSpan(0, 48)}
        bench.emit(events.PlanChosen(job_id=job_id, plan=replace(plan, **cut)))
    pick(bench, "filmA", "Lite 960×540")
    texts = bench.window.preview.canvas.scene.missing_texts
    assert all("in common" in text for text in texts)


def test_a_lost_result_leaves_the_list_with_a_sentence(bench, two):
    pick(bench, "filmA", "Lite 960×540")
    error = ResultGone("deleted", name="film_x2.mp4").info()
    bench.emit(events.ResultLost(job_id=two[0], error=error))
    assert bench.window.preview.pair.is_usual
    assert not bench.find("filmA").isVisible()
    problem = bench.find("pairProblem")
    assert problem.isVisible()
    assert problem._message.text() == "film_x2.mp4 no longer exists."
    bench.use_language("zh_CN")
    assert problem._message.text() == "film_x2.mp4 已不存在。"
    bench.program.use_language("en")
    bench.select(two[0])
    assert not problem.isVisible()


def test_a_lost_result_of_the_selected_job_says_why(bench, two):
    error = ResultGone("replaced", name="film_x4.mp4").info()
    bench.emit(events.ResultLost(job_id=two[1], error=error))
    assert bench.window.preview.canvas.scene.missing_texts[1].startswith("film_x4.mp4 was changed")
    bench.select(two[0])
    assert not bench.find("pairBar").isVisible(), "it is offered to no other one"
    answer(bench, two[1], source=10, result=60, size=LARGE)
    bench.select(two[1])
    bench.select(two[0])
    assert bench.find("pairBar").isVisible(), "its drive is back"


def test_a_removed_result_gives_way_to_the_usual_pair(bench, two):
    pick(bench, "filmA", "Lite 960×540")
    bench.program.controller.remove([two[0]])
    bench.hear()
    assert bench.window.preview.pair.is_usual
    assert not bench.find("pairBar").isVisible()


def test_a_film_that_waits_is_compared_with_its_earlier_result_and_trimmed_without_it(bench):
    earlier = finished(bench, scale=2)
    bench.do("run_again")
    bench.choose(scale=4)
    view = bench.window.preview
    assert items(bench, "filmA") == ["Original 480×270", "Lite preview 1920×1080", "Lite 960×540"]
    assert view.timeline.strip.can_trim
    pick(bench, "filmA", "Lite 960×540")
    assert not view.timeline.strip.can_trim
    assert view.pair.shown[0].job_id == earlier
    bench.do("start")
    assert view.pair.is_usual, "the frame in work is shown next to the original"
    assert not bench.find("pairBar").isVisible()


def test_a_result_that_does_not_exist_yet_is_not_called_by_its_file(bench):
    finished(bench)
    bench.do("run_again")
    names = ["Original 480×270", "Lite preview 960×540", "Lite 960×540"]
    assert items(bench, "filmB") == names
    assert bench.window.preview.canvas.scene.labels[1] == names[1]
    bench.do("start")
    bench.finish()
    assert items(bench, "filmB")[1:] == ["film_x2.mp4 960×540"] * 2  # the fake engine's names


def test_results_are_named_by_what_tells_them_apart(bench):
    finished(bench, model="lite", crf=20)
    finished(bench, model="none", crf=20)
    assert items(bench, "filmA")[1:] == ["Same size 960×540", "Lite 960×540"]
    finished(bench, model="lite", crf=30, container="mkv")
    names = {"film_x2.mkv 960×540", "film_x2.mp4 960×540"}
    assert set(items(bench, "filmA")[1:]) == names
    own = {"tier": "", "is_own": True}
    presets = [
        Preset(name=f"p{crf}", title=f"Quality {crf}", changes={"crf": crf}, **own)
        for crf in (20, 30)
    ]
    bench.emit(events.PresetsListed(presets=tuple(presets), card=""))
    bench.program.controller.remove([bench.program.queue.rows[1].job_id])
    bench.hear()
    assert items(bench, "filmA")[1:] == ["Quality 30 960×540", "Quality 20 960×540"]


def test_in_a_low_window_both_bars_share_a_line_and_nothing_overlaps(bench, two):
    view = bench.window.preview
    assert view.pair_bar.y() > view.bar.y()
    bench.window.resize(910, 432)
    settle()
    assert view.pair_bar.y() == view.bar.y()
    assert view.pair_bar.x() > view.bar.geometry().right()
    assert view.pair_bar.geometry().bottom() < view.canvas.y()
    assert view.canvas.geometry().bottom() < view.timeline.y()
    assert view.timeline.geometry().bottom() < view._below.y()
    assert view.canvas.height() >= 100
    assert not bench.find("zoomFit").isVisible(), "there is no room for it"


def test_a_long_name_loses_its_middle_and_the_open_list_shows_all_of_it(bench, two):
    label = "Grandmother's birthday, tape 3 of 7, restored_x4.mp4 1920×1080"
    bench.window.resize(910, 432)
    settle()
    box = part(bench.window, "filmB", QComboBox)
    box.setItemText(box.currentIndex(), label)
    assert box.shown_text != label
    assert box.shown_text.startswith("Gr")
    assert box.shown_text.endswith("0")
    box.showPopup()
    settle()
    assert box.view().viewport().width() >= box.fontMetrics().horizontalAdvance(label) + 12
    box.hidePopup()


def test_in_a_low_window_the_lists_leave_room_for_the_tries_of_a_film_that_waits(bench, two):
    bench.select(bench.add())
    bench.window.resize(910, 432)
    view = bench.window.preview
    menu, lists = bench.find("tryMenu"), view.pair_bar
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        settle()
        assert menu.isVisible(), language
        assert list(cut_off(view)) == []
        assert menu.mapTo(view, menu.rect().topRight()).x() < lists.x(), language
        assert lists.geometry().right() < view.width(), language


def test_names_follow_the_language(bench, two):
    bench.use_language("zh_CN")
    assert items(bench, "filmA")[0] == "原片 480×270"
    bench.program.use_language("en")


def test_two_real_results_are_shown_and_played_until_one_is_deleted(qapp, qtbot, tmp_path):
    source = make_clip(tmp_path / "film.mkv", Clip(frames=12, rate=Fraction(25)))
    with real_program(qapp, tmp_path) as program:
        rows, view = program.queue.rows, program.window.preview
        for scale in (2, 3):
            settings = JobSettings(model="lite", treatment="faithful", crf=30, scale=scale)
            program.controller.add_file(source, settings=settings, starts_at_once=True)
        qtbot.waitUntil(lambda: program.queue.count(JobState.DONE) == 2, timeout=60_000)
        rows = program.queue.rows
        program.window.queue_column.view.select(rows[0].job_id)
        view.pair.choose(rows[1].job_id, rows[0].job_id)
        qtbot.waitUntil(lambda: not any(one.isNull() for one in view.pair.images), timeout=30_000)
        assert [one.width() for one in view.pair.images] == [288, 192]
        seen = []
        view.playback.pictures_changed.connect(
            lambda *pair: seen.append(not any(one.isNull() for one in pair))
        )
        view.timeline.set_step(0)
        view.playback.toggle()
        qtbot.waitUntil(lambda: seen.count(True) >= 3, timeout=30_000)
        view.playback.stop()
        rows[1].report.output.unlink()
        view.timeline.strip.go(1)
        qtbot.waitUntil(lambda: view.pair.is_usual, timeout=30_000)
        assert part(program.window, "pairProblem").isVisible()
