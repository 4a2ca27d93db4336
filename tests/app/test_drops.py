"""Files that are dragged from other programs over the window and its dialogs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox, QWidget

from app.installs.updates_page import UpdatesPage
from app.jobs.report_dialog import ReportDialog
from app.latents.latent_sheet import LatentSheet
from tests.app.conftest import Bench, dropped
from tests.app.plan.test_plan_card import plan
from tests.helpers.fakes import make_report

COPY, MOVE = Qt.DropAction.CopyAction, Qt.DropAction.MoveAction


def page(name: str) -> Callable[[Bench], QWidget]:
    """Opens a page of the window."""

    def opened(bench: Bench) -> QWidget:
        bench.do(name)
        return QApplication.activeWindow() or bench.window

    return opened


def made(kind: Callable[[Bench], QWidget]) -> Callable[[Bench], QWidget]:
    """Opens a dialog that the window does not open by itself here."""

    def opened(bench: Bench) -> QWidget:
        dialog = kind(bench)
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()
        return dialog

    return opened


WINDOWS = {
    "window": lambda bench: bench.window,
    **{name: page(name) for name in ("models", "bench", "settings", "help", "runtime")},
    "presets": made(lambda bench: bench.program.taste.view),
    "report": made(lambda bench: ReportDialog(make_report(plan()), bench.window)),
    "update": made(lambda bench: UpdatesPage(bench.program.update_model, bench.window)),
    "latents": made(lambda bench: LatentSheet(bench.window)),
    "question": made(lambda bench: QMessageBox(bench.window)),
}


def drag(window: QWidget, film: Path, at: QPoint) -> list[QDropEvent]:
    """Drag a file over a place of a window and drop it, as with Shift held, where Move is meant."""
    mime = dropped(film)
    about = COPY | MOVE, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
    events = [
        QDragEnterEvent(at, *about),
        QDragMoveEvent(at, *about),
        QDropEvent(QPointF(at), *about),
    ]
    for event in events:
        event.setDropAction(MOVE)
        QApplication.sendEvent(window.windowHandle(), event)
    return events


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "dropped.mkv"
    path.write_bytes(b"")
    return path


def test_films_are_taken_wherever_they_are_dropped_and_only_copied(
    bench: Bench, film: Path
) -> None:
    for name, opened in WINDOWS.items():
        window = opened(bench)
        assert window.isVisible(), name
        assert name == "window" or window is not bench.window, name
        for event in drag(window, film, window.rect().center()):
            answer = event.isAccepted(), event.dropAction()  # pytest cannot describe an event
            assert answer == (True, COPY), name
        bench.hear()
        assert [row.source.name for row in bench.program.queue.rows] == ["dropped.mkv"], name
        if window is not bench.window:
            window.close()
        bench.do("remove")
        assert not bench.program.queue.rows


def test_a_text_field_leaves_files_to_the_window(bench: Bench, film: Path) -> None:
    window = WINDOWS["settings"](bench)
    field = next(one for one in window.findChildren(QLineEdit) if one.isVisible())
    before = field.text()
    events = drag(window, film, field.mapTo(window, field.rect().center()))
    assert {event.dropAction() for event in events} == {COPY}
    bench.hear()
    assert field.text() == before
    assert bench.program.queue.rows
    window.close()


def test_the_window_shows_that_it_takes_them_until_they_are_gone(bench: Bench, film: Path) -> None:
    about = COPY, dropped(film), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    view = bench.window.queue_column.view.viewport()
    over_cards = view.mapTo(bench.window, view.rect().center())
    for leave in (QDragLeaveEvent(), QDropEvent(QPointF(over_cards), *about)):
        QApplication.sendEvent(bench.window.windowHandle(), QDragEnterEvent(over_cards, *about))
        assert bench.find("dropOverlay").isVisible()
        QApplication.sendEvent(bench.window.windowHandle(), leave)
        assert not bench.find("dropOverlay").isVisible()
