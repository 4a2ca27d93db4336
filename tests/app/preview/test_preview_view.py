from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.actions import Actions
from app.i18n import Languages, tr
from app.preview.preview_view import PreviewView
from app.preview.scene import Mode
from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.qss import style_sheet
from engine.core.geometry import Box, Size
from engine.core.messages import message
from engine.protocol.events import PreviewReady, StageProgress, TileDone
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check, Report
from tests.app.conftest import part
from tests.app.preview.conftest import flat

RED, BLUE, GREEN = (200, 40, 40), (40, 40, 200), (40, 200, 40)


@pytest.fixture
def actions(qapp: QApplication) -> Actions:
    """Those of a window."""
    return Actions()


@pytest.fixture
def stage(qtbot: QtBot, actions: Actions) -> PreviewView:
    """As wide as in the smallest window."""
    stage = PreviewView(actions)
    stage.setFont(interface_font())
    stage.setStyleSheet(style_sheet(tokens.DARK))
    qtbot.addWidget(stage)
    stage.resize(652, 632)
    stage.show()
    return stage


@pytest.fixture
def shown(stage: PreviewView, media: MediaInfo, plan: Plan) -> PreviewView:
    """With a job that waits."""
    stage.show_job("a", media, flat(64, 36, RED))
    stage.show_plan("a", plan)
    return stage


def _progress(done: int, stage: str = "write") -> StageProgress:
    return StageProgress(
        job_id="a", stage=stage, done=done, total=150, frames_per_second=20.0, seconds_left=65.0
    )


def _tile(frame: int = 10, *, job_id: str = "a") -> TileDone:
    place = {"tile": 0, "tiles": 1, "box": Box(0, 0, 128, 72), "canvas": Size(128, 72)}
    return TileDone(job_id=job_id, frame=frame, **place, picture=flat(64, 36, GREEN))


def _preview(*, seconds: float = 4.0) -> PreviewReady:
    pictures = {"source": flat(64, 36, RED), "result": flat(128, 72, BLUE)}
    return PreviewReady(job_id="a", frame=50, seconds=seconds, **pictures)


def _report(*, passed: bool = True) -> Report:
    kept = message("check.size.kept", result="128x72", source="64x36")
    checks = [Check(code="size", passed=True, message=kept) for _ in range(12)]
    count = message("check.frame-count.different", before=150, after=149)
    checks.append(Check(code="frame-count", passed=passed, message=count))
    files = {"source": Path("film.mp4"), "output": Path("film_x2.mp4")}
    return Report(**files, checks=tuple(checks), frames_out=150, seconds=7.5, peak_bytes=9 * 10**8)


def _middle(stage: PreviewView, x: float = 0.25) -> tuple[int, ...]:
    image = stage.canvas.grab().toImage()
    return image.pixelColor(round(image.width() * x), image.height() * 2 // 3).getRgb()[:3]


def test_the_empty_stage_invites(stage, actions, qtbot):
    stage.show_empty()
    assert stage.empty.isVisible()
    with qtbot.waitSignal(actions["add_files"].triggered):
        qtbot.mouseClick(part(stage, "emptyAddButton"), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(stage.sample_requested):
        qtbot.mouseClick(part(stage, "emptySampleButton"), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(actions["add_files"].triggered):
        qtbot.mouseClick(stage.empty.panel, Qt.MouseButton.LeftButton)


def test_a_new_job_shows_its_picture_upright_and_asks_for_a_larger_one(stage, media, qtbot):
    with qtbot.waitSignal(stage.frame_requested, timeout=1000) as asked:
        stage.show_job("a", media, flat(64, 36, RED))
        assert _middle(stage) == RED
    assert asked.args[0] == "a"
    assert asked.args[1] == pytest.approx(0.01)
    assert stage.canvas.mode is Mode.FIRST
    upright = replace(media, video=replace(media.video, rotation=90))
    stage.show_job("a", upright, flat(36, 64, RED))  # pictures come as they are seen
    assert stage.canvas.scene.labels[0] == "Original 36×64"
    target = stage.canvas.scene.viewport.target
    assert target.height() > target.width()


def test_the_names_of_both_pictures_tell_their_sizes(shown):
    assert shown.canvas.scene.labels == ("Original 64×36", "Lite 128×72")
    shown.tile_done(_tile())
    shown.preview_ready(replace(_preview(), result=flat(96, 54, BLUE)))
    texts = "Lite 128×72, shown at 96×54", "Lite 128×72", "Lite"
    assert shown.canvas.scene.label_texts[1] == texts


def test_tiles_of_a_running_job_fill_the_picture(shown):
    shown.tile_done(replace(_tile(), tiles=2, box=Box(0, 0, 64, 72)))
    assert shown.canvas.mode is Mode.SECOND
    assert _middle(shown, 0.25) == GREEN
    assert _middle(shown, 0.75)[0] < RED[0]  # dimmed until its tile comes
    assert shown.timeline.strip.value() == 60  # frame 10 of what is kept from 2 s on


def test_the_pair_of_the_frame_in_work_is_split(shown):
    shown.tile_done(_tile())
    assert shown.canvas.mode is Mode.FIRST, "until there are pictures of one moment"
    shown.set_mode(Mode.SPLIT)
    assert GREEN not in (_middle(shown, 0.25), _middle(shown, 0.75))
    shown.set_mode(Mode.FIRST)
    shown.preview_ready(_preview())
    assert shown.canvas.mode is Mode.SPLIT
    assert (_middle(shown, 0.25), _middle(shown, 0.75)) == (RED, BLUE)
    shown.tile_done(_tile(frame=11))
    assert _middle(shown, 0.75) == BLUE


def test_what_nobody_asked_for_is_not_shown(shown):
    shown.tile_done(_tile(job_id="b"))
    assert shown.canvas.mode is Mode.FIRST
    source = flat(32, 18, GREEN)
    shown.preview_ready(PreviewReady(job_id="a", frame=62, seconds=2.5, source=source))
    assert _middle(shown) == RED


def test_progress_fills_timeline_and_figures(shown):
    assert shown.figures.figure("memory").text == "1.3 GB planned"
    shown.progress(_progress(90, "upscale"))
    assert shown.timeline.strip.finished == 90
    shown.progress(_progress(60))
    shown.progress(_progress(95, "upscale"))  # frames on their way to the file do not count
    assert shown.timeline.strip.finished == 60
    texts = {name: shown.figures.figure(name).text for name in ("left", "frame")}
    assert texts == {"left": "1 min 05 s", "frame": "50 ms"}
    shown.figures.show_memory(900 * 2**20)
    assert shown.figures.figure("memory").text == "900 MB planned 1.3 GB"


def test_looking_elsewhere_keeps_the_job_running(shown, qtbot):
    shown.tile_done(_tile())
    follow = part(shown, "liveButton")
    assert not follow.isVisible()
    with qtbot.waitSignal(shown.frame_requested, timeout=1000) as asked:
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_PageDown)
    shown.preview_ready(replace(_preview(seconds=asked.args[1]), source=flat(64, 36, GREEN)))
    assert _middle(shown) == GREEN
    shown.tile_done(_tile(frame=11))
    shown.preview_ready(_preview(seconds=7.0))
    assert _middle(shown) == GREEN
    qtbot.mouseClick(follow, Qt.MouseButton.LeftButton)
    shown.preview_ready(_preview(seconds=7.5))
    assert _middle(shown) == RED
    assert not follow.isVisible()


def test_scrubbing_asks_only_for_the_last_frame(shown, qtbot):
    asked: list[float] = []
    shown.frame_requested.connect(lambda _job, seconds: asked.append(seconds))
    for _ in range(20):
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: bool(asked), timeout=1000)
    assert asked == pytest.approx([20.25 / 25])


def test_a_chosen_view_is_kept_during_the_job(shown, qtbot):
    qtbot.mouseClick(part(shown, "segment-side-by-side"), Qt.MouseButton.LeftButton)
    for event in (lambda: shown.tile_done(_tile()), lambda: shown.finished(_report())):
        event()
        assert shown.canvas.mode is Mode.SIDE


def test_a_finished_job_is_compared(shown, actions, qtbot):
    shown.tile_done(_tile())
    with qtbot.waitSignal(shown.frame_requested) as asked:
        shown.finished(_report())
    assert 2.0 < asked.args[1] < 8.0
    shown.preview_ready(_preview(seconds=asked.args[1]))
    assert shown.canvas.mode is Mode.SPLIT
    assert (_middle(shown, 0.25), _middle(shown, 0.75)) == (RED, BLUE)
    assert "All 13 checks passed" in shown.strip.text
    assert "20.0 fps" in shown.strip.text
    names = {"open": "open_result", "folder": "show_in_folder", "report": "report"}
    names["again"] = "run_again"
    for name, action in names.items():
        with qtbot.waitSignal(actions[action].triggered):
            qtbot.mouseClick(part(shown, f"{name}Button"), Qt.MouseButton.LeftButton)


def test_compare_shows_both_and_plays_them(shown, qtbot, monkeypatch):
    played: list[float] = []
    monkeypatch.setattr(shown.playback, "play", played.append)
    shown.finished(_report())
    qtbot.mouseClick(part(shown, "segment-first"), Qt.MouseButton.LeftButton)
    qtbot.mouseClick(part(shown, "compareButton"), Qt.MouseButton.LeftButton)
    assert (shown.canvas.mode, played) == (Mode.SPLIT, [1.0])
    qtbot.mouseClick(part(shown, "segment-side-by-side"), Qt.MouseButton.LeftButton)
    qtbot.mouseClick(part(shown, "compareButton"), Qt.MouseButton.LeftButton)
    assert shown.canvas.mode is Mode.SIDE, "shows both already"


def test_a_missing_result_is_explained(shown, qtbot):
    scene = shown.canvas.scene
    shown.timeline.set_step(0)
    assert scene.missing_texts[1] == "This part of the video is trimmed off."
    shown.timeline.set_step(60)
    assert scene.missing_texts[1] == "There is no result for this frame yet."
    shown.progress(_progress(90))
    shown.timeline.set_step(61)
    assert scene.missing_texts[1].startswith("This frame is finished.")
    shown.finished(_report())
    assert scene.missing_texts[1] == "Reading this frame …"
    qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_Home)
    with qtbot.waitSignal(shown.frame_requested, timeout=1000) as asked:
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_PageUp)
    shown.preview_ready(_preview(seconds=asked.args[1]))
    assert _middle(shown, 0.75) != BLUE
    assert scene.missing_texts[1] == "This part of the video is trimmed off."


def test_a_screen_reader_says_film_time_and_what_is_shown(shown):
    picture = QAccessible.queryAccessibleInterface(shown.canvas)
    assert picture.role() is QAccessible.Role.Graphic
    shown.timeline.set_step(60)
    said = "Frame of film.mp4, frame 61 of 250, 00:00:02.40: Original 64×36."
    assert picture.text(QAccessible.Text.Name) == said
    shown.set_mode(Mode.SPLIT)
    shown.pair.set_remedy("Try it.")
    said = picture.text(QAccessible.Text.Name)
    assert "Original 64×36 left of the divider, Lite 128×72 right." in said
    assert said.endswith("There is no result for this frame yet. Try it.")
    shown.pair.set_playing(True)
    shown.timeline.set_step(62)
    assert picture.text(QAccessible.Text.Name) == said, "it says no frame of a film that plays"
    shown.pair.set_playing(False)
    assert "frame 63" in picture.text(QAccessible.Text.Name)


def test_the_words_of_the_ending_come_before_those_of_a_button(shown, qtbot):
    shown.resize(1000, 632)
    shown.finished(_report())
    again = part(shown, "againButton")
    assert again.text()
    title, detail = part(shown, "reportTitle"), part(shown, "reportDetail")
    for width in (652, 490):
        shown.resize(width, 632)
        qtbot.waitUntil(lambda: title.text().endswith("verified"))
        # Whole facts, none cut in its middle.
        qtbot.waitUntil(lambda: "…" not in title.text() + detail.text())
    assert title.whole == "64×36 → 128×72 · 8 s · verified"
    assert not again.text()
    assert again.accessibleName() == "Run again with other settings"


def test_time_and_file_size_stay_in_a_usual_window_next_to_buttons_with_words(shown, qtbot):
    shown.finished(replace(_report(), output_bytes=4_600_000))
    title = part(shown, "reportTitle")
    qtbot.waitUntil(lambda: title.text() == "4.6 MB · 8 s · verified")
    words = [part(shown, f"{name}Button").text() for name in ("report", "compare", "open")]
    assert words == ["Report", "Compare", "Open"]
    shown.resize(900, 632)
    qtbot.waitUntil(lambda: title.text() == "64×36 → 128×72 · 4.6 MB · 8 s · verified")
    assert part(shown, "againButton").text()


def test_failed_checks_are_counted_in_any_window(shown):
    shown.finished(_report(passed=False))
    assert "1 of 13 checks failed" in shown.strip.text
    shown.resize(480, 380)
    assert shown.strip.isVisible()
    shown.stopped()
    assert not shown.strip.isVisible(), "it was made again, and has failed"


def test_another_job_gets_a_clean_stage(shown, media):
    shown.tile_done(_tile())
    shown.finished(_report())
    shown.show_job("b", media, flat(64, 36, BLUE))
    assert _middle(shown) == BLUE
    assert shown.timeline.strip.finished == 0
    assert not shown.figures.isVisible(), "the plan card says the same"
    assert shown.figures.figure("frame").text == "–"
    shown.set_active(True)
    assert shown.figures.isVisible()
    assert shown.canvas.scene.labels == ("Original 64×36", "Result 64×36")


def test_the_tiles_button_hides_the_grid(shown, qtbot):
    shown.tile_done(_tile())
    assert not part(shown, "tilesButton").isVisible()  # a single tile is no grid
    shown.tile_done(replace(_tile(), tiles=2, box=Box(0, 0, 64, 72)))
    assert part(shown, "tilesButton").isVisible()
    qtbot.keyClick(shown.canvas, Qt.Key.Key_T)
    assert not part(shown, "tilesButton").isChecked()
    assert not shown.canvas.scene.are_tiles_shown


def test_nothing_is_clipped_at_any_width(shown):
    shown.tile_done(replace(_tile(), tiles=2, box=Box(0, 0, 64, 72)))
    for width in (360, 480, 652, 1400):
        shown.resize(width, 632)
        for button in shown.bar.findChildren(QPushButton):
            if button.isVisible():
                assert button.width() >= button.sizeHint().width(), (width, button.text())
                right = button.mapTo(shown, button.rect().topRight()).x()
                assert right < shown.width(), (width, button.text())


def test_the_language_changes_while_it_is_open(shown, qapp):
    shown.finished(_report())
    named = [one for one in shown.findChildren(QPushButton) if len(one.text()) > 1]
    english = [button.text() for button in named]
    languages = Languages(qapp)
    languages.use("zh_CN")
    QApplication.processEvents()
    try:
        translated = {text for text in english if tr(text) != text}
        assert translated
        assert not translated & {button.text() for button in named}
        assert shown.canvas.scene.labels[0] == "原片 64×36"
        assert "13" in shown.strip.text
        assert "All" not in shown.strip.text
        assert "的画面，第 101 帧" in shown.canvas.accessibleName()
    finally:
        languages.use("en")
        QApplication.processEvents()
    assert [button.text() for button in named] == english
    assert "All 13" in shown.strip.text
    titles = [one.text() for one in shown.empty.findChildren(QLabel)]
    assert "Drop videos, images or folders" in titles
