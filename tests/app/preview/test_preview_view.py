"""The stage from the first job to the last report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, Qt, QTranslator
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.preview.preview_view import PreviewView
from app.preview.scene import Mode
from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.qss import style_sheet
from engine.core.errors import DiskFull
from engine.core.geometry import Box, Size
from engine.core.messages import message
from engine.protocol.events import (
    Picture,
    PreviewReady,
    StageProgress,
    Telemetry,
    TileDone,
)
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check, Report

Flat = Callable[..., Picture]
RED, BLUE, GREEN = (200, 40, 40), (40, 40, 200), (40, 200, 40)


@pytest.fixture
def stage(qtbot: QtBot) -> PreviewView:
    """As wide as in the smallest window."""
    stage = PreviewView()
    stage.setFont(interface_font())
    stage.setStyleSheet(style_sheet(tokens.DARK))
    qtbot.addWidget(stage)
    stage.resize(652, 632)
    stage.show()
    return stage


@pytest.fixture
def shown(stage: PreviewView, media: MediaInfo, plan: Plan, flat: Flat) -> PreviewView:
    """With a job that waits."""
    stage.show_job("a", media, flat(64, 36, RED))
    stage.show_plan("a", plan)
    return stage


def _progress(done: int, stage: str = "write") -> StageProgress:
    return StageProgress(
        job_id="a", stage=stage, done=done, total=150, frames_per_second=20.0, seconds_left=65.0
    )


def _tile(flat: Flat, frame: int = 10, *, job_id: str = "a") -> TileDone:
    return TileDone(
        job_id=job_id,
        frame=frame,
        tile=0,
        tiles=1,
        box=Box(0, 0, 128, 72),
        canvas=Size(128, 72),
        picture=flat(64, 36, GREEN),
    )


def _preview(flat: Flat, *, seconds: float = 4.0) -> PreviewReady:
    return PreviewReady(
        job_id="a",
        frame=50,
        seconds=seconds,
        source=flat(64, 36, RED),
        result=flat(128, 72, BLUE),
    )


def _report(*, passed: bool = True) -> Report:
    kept = message("check.size.kept", result="128x72", source="64x36")
    checks = [Check(code="size", passed=True, message=kept) for _ in range(12)]
    count = message("check.frame-count.different", before=150, after=149)
    checks.append(Check(code="frame-count", passed=passed, message=count))
    return Report(
        source=Path("film.mp4"),
        output=Path("film_x2.mp4"),
        checks=tuple(checks),
        frames_out=150,
        seconds=7.5,
        peak_bytes=910_000_000,
    )


def _button(stage: PreviewView, name: str) -> QPushButton:
    button = stage.findChild(QPushButton, name)
    assert button is not None
    return button


def _middle(stage: PreviewView, x: float = 0.25) -> tuple[int, ...]:
    image = stage.canvas.grab().toImage()
    return image.pixelColor(round(image.width() * x), image.height() * 2 // 3).getRgb()[:3]


def test_the_empty_stage_invites(stage: PreviewView, qtbot: QtBot) -> None:
    stage.show_empty()
    assert stage.empty.isVisible()
    with qtbot.waitSignal(stage.files_requested):
        qtbot.mouseClick(_button(stage, "emptyAddButton"), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(stage.sample_requested):
        qtbot.mouseClick(_button(stage, "emptySampleButton"), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(stage.files_requested):
        qtbot.mouseClick(stage.empty.panel, Qt.MouseButton.LeftButton)


def test_a_new_job_shows_its_picture_and_asks_for_a_larger_one(
    stage: PreviewView, media: MediaInfo, flat: Flat, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(stage.frame_requested, timeout=1000) as asked:
        stage.show_job("a", media, flat(64, 36, RED))
        assert _middle(stage) == RED
    assert asked.args[0] == "a"
    assert asked.args[1] == pytest.approx(0.01)
    assert stage.canvas.mode is Mode.ORIGINAL


def test_the_names_of_both_pictures_tell_their_sizes(shown: PreviewView) -> None:
    assert shown.canvas.scene.labels == ("Original 64×36", "Lite 128×72")


def test_a_reduced_preview_says_so(shown: PreviewView, flat: Flat) -> None:
    shown.tile_done(_tile(flat))
    shown.preview_ready(replace(_preview(flat), result=flat(96, 54, BLUE)))
    assert shown.canvas.scene.labels[1] == "Lite 128×72, shown at 96×54"


def test_tiles_of_a_running_job_fill_the_picture(shown: PreviewView, flat: Flat) -> None:
    left = replace(_tile(flat), tiles=2, box=Box(0, 0, 64, 72))
    shown.tile_done(left)
    assert shown.canvas.mode is Mode.RESULT
    assert _middle(shown, 0.25) == GREEN
    assert _middle(shown, 0.75)[0] < RED[0]  # dimmed until its tile comes
    assert shown.timeline.strip.value() == 60  # frame 10 of what is kept from 2 s on


def test_tiles_of_another_job_change_nothing(shown: PreviewView, flat: Flat) -> None:
    shown.tile_done(_tile(flat, job_id="b"))
    assert shown.canvas.mode is Mode.ORIGINAL
    assert _middle(shown) == RED


def test_an_upright_film_is_shown_upright(stage: PreviewView, media: MediaInfo, flat: Flat) -> None:
    upright = replace(media, video=replace(media.video, rotation=90))
    stage.show_job("a", upright, flat(36, 64, RED))  # pictures come as they are seen
    assert stage.canvas.scene.labels[0] == "Original 36×64"
    target = stage.canvas.scene.viewport.target
    assert target.height() > target.width()


def test_the_pair_of_the_frame_in_work_is_split(shown: PreviewView, flat: Flat) -> None:
    shown.tile_done(_tile(flat))
    assert shown.canvas.mode is Mode.SPLIT
    assert _middle(shown, 0.75) == GREEN  # the small picture of the tile, until the pair comes
    shown.preview_ready(_preview(flat))
    assert (_middle(shown, 0.25), _middle(shown, 0.75)) == (RED, BLUE)
    shown.tile_done(_tile(flat, frame=11))
    assert _middle(shown, 0.75) == BLUE


def test_a_frame_that_nobody_asked_for_is_not_shown(shown: PreviewView, flat: Flat) -> None:
    small = PreviewReady(job_id="a", frame=62, seconds=2.5, source=flat(32, 18, GREEN))
    shown.preview_ready(small)
    assert _middle(shown) == RED


def test_what_is_cut_off_has_no_result(shown: PreviewView, flat: Flat, qtbot: QtBot) -> None:
    shown.finished(_report())
    qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_Home)
    with qtbot.waitSignal(shown.frame_requested, timeout=1000) as asked:
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_PageUp)
    shown.preview_ready(_preview(flat, seconds=asked.args[1]))
    assert _middle(shown, 0.75) != BLUE
    assert shown.canvas.scene.no_result_text == "This part of the film is cut off."


def test_progress_fills_timeline_and_figures(shown: PreviewView) -> None:
    shown.progress(_progress(90, "upscale"))
    assert shown.timeline.strip.finished == 90
    shown.progress(_progress(60))
    shown.progress(_progress(95, "upscale"))  # frames on their way to the file do not count
    assert shown.timeline.strip.finished == 60
    texts = {name: shown.figures.figure(name).text for name in ("speed", "left", "frame")}
    assert texts == {"speed": "20.0 frames/s", "left": "1 min 05 s", "frame": "50 ms"}


def test_the_peak_of_memory_stands_beside_the_plan(shown: PreviewView) -> None:
    assert shown.figures.figure("memory").text == "1.3 GB planned"
    shown.progress(_progress(1))
    for megabytes in (500, 900, 700):
        shown.telemetry(
            Telemetry(
                gpu=None,
                ram_total_mb=16000,
                ram_ours_mb=megabytes,
                ram_others_mb=0,
                cpu_percent=90.0,
            )
        )
    assert shown.figures.figure("memory").text == "900 MB of 1.3 GB"


def test_looking_elsewhere_does_not_stop_the_job_and_leads_back(
    shown: PreviewView, flat: Flat, qtbot: QtBot
) -> None:
    shown.tile_done(_tile(flat))
    follow = _button(shown, "liveButton")
    assert not follow.isVisible()
    with qtbot.waitSignal(shown.frame_requested, timeout=1000) as asked:
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_PageDown)
    answer = replace(_preview(flat, seconds=asked.args[1]), source=flat(64, 36, GREEN))
    shown.preview_ready(answer)
    assert _middle(shown) == GREEN
    shown.tile_done(_tile(flat, frame=11))
    shown.preview_ready(_preview(flat, seconds=7.0))
    assert _middle(shown) == GREEN
    qtbot.mouseClick(follow, Qt.MouseButton.LeftButton)
    shown.preview_ready(_preview(flat, seconds=7.5))
    assert _middle(shown) == RED
    assert not follow.isVisible()


def test_scrubbing_asks_only_for_the_last_frame(shown: PreviewView, qtbot: QtBot) -> None:
    asked: list[float] = []
    shown.frame_requested.connect(lambda _job, seconds: asked.append(seconds))
    for _ in range(20):
        qtbot.keyClick(shown.timeline.strip, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: bool(asked), timeout=1000)
    assert asked == pytest.approx([20.25 / 25])


def test_a_finished_job_is_compared(shown: PreviewView, flat: Flat, qtbot: QtBot) -> None:
    shown.tile_done(_tile(flat))
    with qtbot.waitSignal(shown.frame_requested) as asked:
        shown.finished(_report())
    assert 2.0 < asked.args[1] < 8.0
    shown.preview_ready(_preview(flat, seconds=asked.args[1]))
    assert shown.canvas.mode is Mode.SPLIT
    assert (_middle(shown, 0.25), _middle(shown, 0.75)) == (RED, BLUE)
    assert "all 13 checks passed" in shown.strip.text
    assert "20.0 frames/s" in shown.strip.text
    for name, signal in (
        ("openButton", shown.open_requested),
        ("folderButton", shown.folder_requested),
        ("reportButton", shown.report_requested),
    ):
        with qtbot.waitSignal(signal) as heard:
            qtbot.mouseClick(_button(shown, name), Qt.MouseButton.LeftButton)
        assert heard.args == ["a"]


def test_a_missing_result_is_explained(shown: PreviewView, flat: Flat, qtbot: QtBot) -> None:
    scene = shown.canvas.scene
    shown.timeline.set_step(0)
    assert scene.no_result_text == "This part of the film is cut off."
    shown.timeline.set_step(60)
    assert scene.no_result_text == "There is no result of this frame yet."
    shown.progress(_progress(90))
    shown.timeline.set_step(61)
    assert scene.no_result_text.startswith("This frame is finished.")
    shown.finished(_report())
    assert scene.no_result_text == "Reading this frame …"


def test_a_failed_check_is_named(shown: PreviewView) -> None:
    shown.finished(_report(passed=False))
    assert "1 of 13 checks failed" in shown.strip.text
    assert "Number of frames: 150 frames in, 149 out" in shown.strip.text


def test_an_error_shows_message_and_hint_in_any_window(shown: PreviewView) -> None:
    shown.resize(480, 380)
    error = DiskFull("folder", folder="/films")
    shown.failed(error.info())
    assert shown.strip.isVisible()
    assert shown.strip.text == f"The disk is full\n{error.message} {error.hint}"
    assert not _button(shown, "openButton").isVisible()


def test_a_chosen_view_is_kept_when_the_job_runs(
    shown: PreviewView, flat: Flat, qtbot: QtBot
) -> None:
    side = _button(shown, "segment-side-by-side")
    qtbot.mouseClick(side, Qt.MouseButton.LeftButton)
    shown.tile_done(_tile(flat))
    assert shown.canvas.mode is Mode.SIDE
    shown.finished(_report())
    assert shown.canvas.mode is Mode.SIDE


def test_another_job_starts_with_a_clean_stage(
    shown: PreviewView, media: MediaInfo, flat: Flat
) -> None:
    shown.tile_done(_tile(flat))
    shown.finished(_report())
    shown.show_job("b", media, flat(64, 36, BLUE))
    assert _middle(shown) == BLUE
    assert shown.timeline.strip.finished == 0
    assert shown.figures.isVisible()
    assert shown.figures.figure("speed").text == "–"
    assert shown.canvas.scene.labels == ("Original 64×36", "Result 64×36")


def test_the_tiles_button_hides_the_grid(shown: PreviewView, flat: Flat, qtbot: QtBot) -> None:
    shown.tile_done(_tile(flat))
    assert not _button(shown, "tilesButton").isVisible()  # a single tile is no grid
    shown.tile_done(replace(_tile(flat), tiles=2, box=Box(0, 0, 64, 72)))
    assert _button(shown, "tilesButton").isVisible()
    qtbot.keyClick(shown.canvas, Qt.Key.Key_T)
    assert not _button(shown, "tilesButton").isChecked()
    assert not shown.canvas.scene.are_tiles_shown


@pytest.mark.parametrize("width", [360, 420, 480, 652, 812, 1400])
def test_nothing_is_clipped_at_any_width(shown: PreviewView, flat: Flat, width: int) -> None:
    shown.tile_done(replace(_tile(flat), tiles=2, box=Box(0, 0, 64, 72)))
    shown.resize(width, 632)
    for button in shown.bar.findChildren(QPushButton):
        if button.isVisible():
            assert button.width() >= button.sizeHint().width(), button.text()
            right = button.mapTo(shown, button.rect().topRight()).x()
            assert right < shown.width(), button.text()


class _Shouting(QTranslator):
    """A language in which everything is the English text in capitals."""

    def isEmpty(self) -> bool:
        return False

    def translate(
        self, _context: str, source: str, _disambiguation: str | None = None, _n: int = -1
    ) -> str:
        parts = source.replace("{", "\0{").replace("}", "}\0").split("\0")
        return "".join(part if part.startswith("{") else part.upper() for part in parts)


def test_the_language_changes_while_it_is_open(shown: PreviewView, flat: Flat) -> None:
    shown.finished(_report())
    shouting = _Shouting()
    QCoreApplication.installTranslator(shouting)
    QCoreApplication.processEvents()
    try:
        texts = [w.text() for w in shown.findChildren(QPushButton) if len(w.text()) > 1]
        assert texts
        assert [text for text in texts if text != text.upper()] == []
        assert shown.canvas.scene.labels[0] == "ORIGINAL 64×36"
        assert shown.strip.text.startswith("DONE: ALL 13")
        assert shown.canvas.accessibleName() == "PICTURE"
    finally:
        QCoreApplication.removeTranslator(shouting)
        QCoreApplication.processEvents()
    assert shown.strip.text.startswith("Done: all 13")
    headline = next(w for w in shown.empty.findChildren(QLabel) if w.text().startswith("Drop"))
    assert headline.text() == "Drop films, pictures or folders"
