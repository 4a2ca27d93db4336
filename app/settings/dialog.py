"""Settings of the program, which apply to every video on this machine; built from the schema."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.bound import bind
from app.engine_messages import setting_text
from app.i18n import tr
from app.installs.installable import problem
from app.settings.editors import Editor, LineEditor, SwitchEditor, make_editor, title_of
from app.state.listings import DiagnosticsModel
from app.widgets.layouts import MIDDLE, Stretch, column, layout_of, row
from app.widgets.notice_line import PageLine
from app.widgets.page import Page
from app.widgets.parts import button, label, named, rule, scroll_area
from engine.settings import schema
from engine.settings.schema import EngineSettings, with_values

_EDITOR_WIDTH, _LONG_WIDTH, _MOST_HEIGHT = 130, 240, 640  # px


class SettingsDialog(Page):
    """A row for each setting, its description below its name; emits each change at once."""

    changed = Signal(EngineSettings)

    def __init__(self, settings: EngineSettings, parent: QWidget | None = None) -> None:
        super().__init__("settingsDialog", "Settings", parent, least=QSize(860, 0))
        self.settings = settings
        self._default = button(
            "Restore defaults", "defaultSettings", on=lambda: self.take(EngineSettings())
        )
        self.editors: dict[str, Editor] = {}
        self._lay_out()
        self._show_values()

    def add_part(self, part: QWidget) -> None:
        """Add a row below the settings, about another part of the program."""
        if not self._parts.count():
            self._parts.addWidget(rule())
        self._parts.addWidget(part)

    def showEvent(self, event: QShowEvent) -> None:
        """Fonts are known now: as high as all rows, where a low screen has room for that."""
        super().showEvent(event)
        rest = self.height() - self._scroll.height()
        needed = layout_of(self._body).totalHeightForWidth(self._scroll.width())
        self.resize_on_screen(QSize(self.width(), min(rest + needed, _MOST_HEIGHT)))

    def _edit(self, name: str, value: object) -> None:
        self.take(with_values(self.settings, {name: value}))

    def take(self, settings: EngineSettings) -> None:
        """Show other settings, and emit that they have changed."""
        if settings != self.settings:
            self.settings = settings
            self._show_values()
            self.changed.emit(settings)

    def _show_values(self) -> None:
        for name, editor in self.editors.items():
            editor.set_value(getattr(self.settings, name))
        self._default.setEnabled(self.settings != EngineSettings())

    def _lay_out(self) -> None:
        title = label("Settings", "headline")
        foot = label(
            "These settings apply to all videos. A running job keeps the settings it started with.",
            "secondary",
            wraps=True,
        )
        close = button("Close", "closeSettings", on=self.close)
        close.setDefault(True)
        self._body = named(QWidget(), "scrolled")
        self._parts = column(spacing=10)
        column(
            column(*map(self._row, schema.describe(EngineSettings)), spacing=10),
            foot,
            self._parts,
            Stretch(1),
            spacing=12,
            margins=(0, 0, 8, 0),
            on=self._body,
        )
        self._scroll = scroll_area(self._body)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it follows the controls in it
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        buttons = row(self._default, Stretch(1), close)
        self.fill(title, (self._scroll, 1), buttons, spacing=12, focus=title)

    def _row(self, name: str) -> QHBoxLayout:
        editor = self.editors[name] = make_editor(name)
        editor.changed.connect(self._edit)
        is_long = schema.about(name).kind in ("command", "folder", "pattern")
        usual = editor.sizeHint().width() if isinstance(editor, SwitchEditor) else _EDITOR_WIDTH
        editor.setFixedWidth(_LONG_WIDTH if is_long else usual)
        about = label(lambda: setting_text(name), "secondary", wraps=True)
        reason = [editor.reason] if isinstance(editor, LineEditor) else []
        texts = column(title_of(name, editor.control), about, *reason, spacing=2)
        return row((texts, 1), (editor, 0, MIDDLE), spacing=24)


class DiagnosticsLine(PageLine):
    """Description of the archive, and how it went."""

    def __init__(self, model: DiagnosticsModel, parent: QWidget | None = None) -> None:
        self._model = model
        super().__init__("diagnostic", parent, title="Report a problem", text="Create archive …")
        model.changed.connect(self._show)
        bind(self, self._show)

    def _show(self) -> None:
        self.button.setEnabled(not self._model.is_running)
        self.explanation.setText(self._text())

    def _text(self) -> str:
        model = self._model
        if model.is_running:
            return tr("Checking your hardware …")
        if model.error is not None:
            return " ".join(problem(model.error))
        if model.written:
            return tr("Saved: {name}", name=Path(model.written).name)
        return tr(
            "Logs, self-test, settings and plans in one file, without names of videos and "
            "folders. Nothing is sent."
        )
