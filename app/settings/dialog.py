"""Settings of the program, which apply to every film on this machine; built from the schema."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.engine_messages import setting_text, setting_title
from app.i18n import tr
from app.settings.editors import Editor, LineEditor, SwitchEditor, make_editor
from app.widgets.controls import Translated
from app.widgets.layouts import layout_of
from app.widgets.plain import Label
from app.window_place import resize_on_screen
from engine.settings import schema
from engine.settings.schema import EngineSettings, with_values

_EDITOR_WIDTH, _LONG_WIDTH, _MOST_HEIGHT = 130, 240, 640  # px


class SettingsDialog(Translated, QDialog):
    """A row for each setting, its description below its name; emits each change at once."""

    changed = Signal(EngineSettings)

    def __init__(self, settings: EngineSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("settingsDialog")
        self.setMinimumWidth(860)
        self.settings = settings
        self._title, self._foot = Label(), Label()
        self._title.setProperty("kind", "headline")
        self._foot.setProperty("kind", "secondary")
        self._foot.setWordWrap(True)
        self._close, self._default = QPushButton(), QPushButton()
        self._close.setObjectName("closeSettings")
        self._default.setObjectName("defaultSettings")
        self._close.setDefault(True)
        self.editors: dict[str, Editor] = {}
        self._labels: dict[str, tuple[Label, Label]] = {}
        self._lay_out()
        self._close.clicked.connect(self.close)
        self._default.clicked.connect(lambda: self.take(EngineSettings()))
        self._show_values()
        self.retranslate_ui()

    def add_part(self, part: QWidget) -> None:
        """Add a row below the settings, about another part of the program."""
        if not self._parts.count():
            rule = QFrame()
            rule.setProperty("kind", "rule")
            self._parts.addWidget(rule)
        self._parts.addWidget(part)

    def showEvent(self, event: QShowEvent) -> None:
        """Fonts are known now: as high as all rows, where a low screen has room for that."""
        super().showEvent(event)
        rest = self.height() - self._scroll.height()
        needed = layout_of(self._body).totalHeightForWidth(self._scroll.width())
        resize_on_screen(self, QSize(self.width(), min(rest + needed, _MOST_HEIGHT)))

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("Settings"))
        self._title.setText(tr("Settings"))
        self._foot.setText(
            tr(
                "These settings apply to all videos. A running job keeps the settings it started "
                "with."
            )
        )
        self._default.setText(tr("Restore defaults"))
        self._close.setText(tr("Close"))
        for name, (label, description) in self._labels.items():
            label.setText(setting_title(name))
            description.setText(setting_text(name))
            self.editors[name].retranslate_ui()

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
        rows = QVBoxLayout()
        rows.setSpacing(10)
        for name in schema.describe(EngineSettings):
            rows.addLayout(self._row(name))
        buttons = QHBoxLayout()
        buttons.addWidget(self._default)
        buttons.addStretch(1)
        buttons.addWidget(self._close)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(12)
        self._body = QWidget()
        self._body.setObjectName("scrolled")
        within = QVBoxLayout(self._body)
        within.setContentsMargins(0, 0, 8, 0)
        within.setSpacing(12)
        within.addLayout(rows)
        within.addWidget(self._foot)
        self._parts = QVBoxLayout()
        self._parts.setSpacing(10)
        within.addLayout(self._parts)
        within.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it follows the controls in it
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self._body)
        column.addWidget(self._title)
        column.addWidget(self._scroll, 1)
        column.addLayout(buttons)
        self._title.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._title.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before Tab is pressed

    def _row(self, name: str) -> QHBoxLayout:
        editor = self.editors[name] = make_editor(name)
        editor.changed.connect(self._edit)
        is_long = schema.about(name).kind in ("command", "folder", "pattern")
        usual = editor.sizeHint().width() if isinstance(editor, SwitchEditor) else _EDITOR_WIDTH
        editor.setFixedWidth(_LONG_WIDTH if is_long else usual)
        label, description = Label(), Label()
        label.setBuddy(editor.control)
        description.setProperty("kind", "secondary")
        description.setWordWrap(True)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(label)
        texts.addWidget(description)
        if isinstance(editor, LineEditor):
            texts.addWidget(editor.reason)
        self._labels[name] = (label, description)
        row = QHBoxLayout()
        row.setSpacing(24)
        row.addLayout(texts, 1)
        row.addWidget(editor, 0, Qt.AlignmentFlag.AlignVCenter)
        return row
