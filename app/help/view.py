"""The page of F1: first steps, the manual, keys, and what the program is under which licences."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QPlainTextEdit, QScrollArea, QStackedWidget, QWidget

from app import desktop, labels
from app.actions import SPECS
from app.bound import bind
from app.i18n import current_language, mark, tr
from app.preview import compare_canvas, playback
from app.widgets import tab_stop
from app.widgets.controls import SegmentedControl
from app.widgets.layouts import Stretch, column, grid, row
from app.widgets.page import Page
from app.widgets.parts import bind_text, button, label, named
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
        tr("Moving in the window"): [(_shown(keys), tr(text)) for keys, text in tab_stop.KEYS],
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


class HelpView(Page):
    """Two pages, one shown at a time."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("helpView", SPECS["help"].text, parent, size=QSize(620, 640))
        self._switch = SegmentedControl(list(PAGES))
        bind_text(self._switch, self._switch.setAccessibleName, SPECS["help"].text)
        self._pages = QStackedWidget()
        self._keys = named(QScrollArea(), "helpKeys")
        self._keys.setWidgetResizable(True)
        bind_text(self._keys, self._keys.setAccessibleName, PAGES["keys"])
        self._licences = named(QPlainTextEdit(), "licences")
        self._licences.setReadOnly(True)
        self._licences.setTabChangesFocus(True)
        bind_text(self._licences, self._licences.setAccessibleName, mark("Licences"))
        bind_text(self._licences, self._licences.setPlainText, licences)
        self._lay_out()
        self._switch.chosen.connect(self.show_page)
        for keys in SPECS["help"].shortcuts:  # what opens it closes it, as Escape does
            QShortcut(QKeySequence(keys), self, self.close)
        self.show_page("keys")
        bind(self, self._show_texts)

    def show_page(self, page: str) -> None:
        """Show one of `PAGES`."""
        self._switch.set_current(page)
        self._pages.setCurrentIndex(list(PAGES).index(page))

    def _show_texts(self) -> None:
        self._switch.set_labels({page: tr(text) for page, text in PAGES.items()})
        self._keys.setWidget(_table())

    def _lay_out(self) -> None:
        about = QWidget()
        column(label(_about, wraps=True), (self._licences, 1), spacing=12, on=about)
        self._pages.addWidget(self._keys)
        self._pages.addWidget(about)
        buttons = row(
            button("Open manual", "openManual", on=lambda: desktop.open_file(manual())),
            Stretch(1),
            button("Close", "closeHelp", on=self.close),
        )
        self.fill(self._switch, (self._pages, 1), buttons, spacing=12, focus=self._keys)


def _about() -> str:
    version = tr("You have Upreel {version}.", version=__version__)
    terms = tr(
        "Upreel's own code, artwork and Lite weights are licensed under the Apache License "
        "2.0. Because of the encoders it contains, the packaged program as a whole may be "
        "redistributed under the GNU General Public License 3."
    )
    return f"{version} {terms}"


def _table() -> QWidget:
    """First steps, then a line for each key."""
    table = named(QWidget(), "scrolled")
    cells = grid(spacing=(24, 8), margins=(0, 0, 12, 0), wide=(1,), on=table)
    first = Label(
        tr(
            "Drop a video, choose the output, check the plan, press Start. The source file is "
            "never changed, and removing a video from the queue can be undone."
        )
    )
    first.setWordWrap(True)
    cells.addWidget(first, 0, 0, 1, 2)
    for heading, keys in groups().items():
        cells.addWidget(named(Label(heading), kind="section"), cells.rowCount(), 0, 1, 2)
        for key, text in keys:
            line = cells.rowCount()
            cells.addWidget(named(Label(key), kind="strong"), line, 0)
            cells.addWidget(Label(text), line, 1)
    cells.setRowStretch(cells.rowCount(), 1)
    return table


def _shown(keys: tuple[str, ...]) -> str:
    return ", ".join(
        QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for key in keys
    )
