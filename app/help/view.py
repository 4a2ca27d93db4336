"""The page of F1: first steps, the manual, keys, and what the program is under which licences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app import desktop, labels
from app.actions import SPECS
from app.i18n import current_language, mark, tr
from app.preview import compare_canvas, playback
from app.widgets.controls import SegmentedControl, Translated
from app.widgets.plain import Label
from engine import __version__
from engine.core import paths

PAGES = {"keys": mark("Keyboard shortcuts"), "about": mark("About Upreel")}
_COLLECTED = "THIRD_PARTY_LICENCES.txt"  # made when the program is packed

Key = tuple[str, str]  # as the system writes it, what it does


def groups() -> dict[str, list[Key]]:
    """All keys of the window by heading, from where they are defined."""
    return {
        tr("General"): [
            (_shown(spec.shortcuts[:1]), tr(spec.text)) for spec in SPECS.values() if spec.shortcuts
        ],
        tr("Playback and trimming"): [(_shown(keys), tr(text)) for keys, text in playback.KEYS],
        tr("Preview"): [(_shown(keys), tr(text)) for keys, text in compare_canvas.KEYS],
    }


def licences() -> str:
    """All texts as one, or where they are: they are collected when the program is packed."""
    collected = paths.resource("licences", _COLLECTED)
    if collected.is_file():
        return collected.read_text("utf-8")
    return tr(
        "This copy runs from source. Its licence is in LICENSE, the licences of the packages it "
        "uses are listed in THIRD_PARTY_NOTICES.md, and the texts of the GPL and LGPL are in "
        "{folder}. The packaged program shows all of them on this page.",
        folder=labels.folder(collected.parent),
    )


def manual() -> Path:
    """The manual in the language of the window; `tools.manual` makes it."""
    return paths.resource("manual", current_language(), "index.html")


class HelpView(Translated, QDialog):
    """Two pages, one shown at a time."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("helpView")
        self.resize(620, 640)
        self._switch = SegmentedControl(list(PAGES))
        self._pages = QStackedWidget()
        self._keys = QScrollArea()
        self._keys.setObjectName("helpKeys")
        self._keys.setWidgetResizable(True)
        self._about = Label()
        self._about.setWordWrap(True)
        self._licences = QPlainTextEdit()
        self._licences.setObjectName("licences")
        self._licences.setReadOnly(True)
        self._licences.setTabChangesFocus(True)
        self._manual, self._close = QPushButton(), QPushButton()
        self._manual.setObjectName("openManual")
        self._close.setObjectName("closeHelp")
        self._lay_out()
        self._switch.chosen.connect(self.show_page)
        self._manual.clicked.connect(lambda: desktop.open_file(manual()))
        self._close.clicked.connect(self.close)
        for keys in SPECS["help"].shortcuts:  # what opens it closes it, as Escape does
            QShortcut(QKeySequence(keys), self, self.close)
        self.show_page("keys")
        self.retranslate_ui()

    def show_page(self, page: str) -> None:
        """Show one of `PAGES`."""
        self._switch.set_current(page)
        self._pages.setCurrentIndex(list(PAGES).index(page))

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("Help"))
        self._switch.set_labels({page: tr(text) for page, text in PAGES.items()})
        self._switch.setAccessibleName(tr("Help"))
        self._keys.setAccessibleName(tr("Keyboard shortcuts"))
        self._keys.setWidget(_table())
        version = tr("You have Upreel {version}.", version=__version__)
        terms = tr(
            "Upreel's own code, artwork and Lite weights are licensed under the Apache License "
            "2.0. Because of the encoders it contains, the packaged program as a whole may be "
            "redistributed under the GNU General Public License 3."
        )
        self._about.setText(f"{version} {terms}")
        self._licences.setAccessibleName(tr("Licences"))
        self._licences.setPlainText(licences())
        self._manual.setText(tr("Open manual"))
        self._close.setText(tr("Close"))

    def _lay_out(self) -> None:
        about = QWidget()
        column = QVBoxLayout(about)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(self._about)
        column.addWidget(self._licences, 1)
        self._pages.addWidget(self._keys)
        self._pages.addWidget(about)
        buttons = QHBoxLayout()
        buttons.addWidget(self._manual)
        buttons.addStretch(1)
        buttons.addWidget(self._close)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(20, 16, 20, 16)
        whole.setSpacing(12)
        whole.addWidget(self._switch)
        whole.addWidget(self._pages, 1)
        whole.addLayout(buttons)
        self._keys.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab


def _table() -> QWidget:
    """First steps, then a line for each key."""
    table = QWidget()
    table.setObjectName("scrolled")
    grid = QGridLayout(table)
    grid.setContentsMargins(0, 0, 12, 0)
    grid.setHorizontalSpacing(24)
    grid.setVerticalSpacing(8)
    grid.setColumnStretch(1, 1)
    first = Label(
        tr(
            "Drop a video, choose the output, check the plan, press Start. The source file is "
            "never changed, and removing a video from the queue can be undone."
        )
    )
    first.setWordWrap(True)
    grid.addWidget(first, 0, 0, 1, 2)
    for row, (is_heading, left, right) in enumerate(_rows(), start=1):
        label = Label(left)
        label.setProperty("kind", "section" if is_heading else "strong")
        grid.addWidget(label, row, 0, 1, 2 if is_heading else 1)
        if not is_heading:
            grid.addWidget(Label(right), row, 1)
    grid.setRowStretch(grid.rowCount(), 1)
    return table


def _rows() -> Iterator[tuple[bool, str, str]]:
    for heading, keys in groups().items():
        yield True, heading, ""
        for key, text in keys:
            yield False, key, text


def _shown(keys: tuple[str, ...]) -> str:
    return ", ".join(
        QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for key in keys
    )
