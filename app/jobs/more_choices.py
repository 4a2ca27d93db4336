"""Every setting that is not shown above, folded away; built from the schema."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n import mark, tr
from app.settings.editors import Editor, make_editor
from app.settings.names import name_of
from app.theme.icons import icon
from app.widgets.translation import Themed
from engine.settings import schema

_GROUPS = {
    mark("Picture"): (
        "precision",
        "seed",
        "colour",
        "padding",
        "input_noise",
        "latent_noise",
        "noise_order",
    ),
    mark("Clips and cuts"): (
        "shots",
        "shot_sensitivity",
        "clip_frames",
        "join",
        "join_frames",
    ),
    mark("Memory and speed"): (
        "blocks_on_device",
        "encode_tile",
        "decode_tile",
        "vae_precision",
        "attention",
        "products",
    ),
    mark("Own files of the model"): ("dit", "vae", "text_embedding"),
    mark("Latents"): ("latents", "latent_rate", "latent_vae"),
    mark("Film"): ("start", "stop", "accept_damaged"),
    mark("File"): ("encoder", "speed", "bit_depth", "chroma", "overwrite"),
    mark("Computing"): ("device", "tile", "overlap", "segment_seconds", "switches"),
}
_REST = mark("Others")
_EDITOR_WIDTH = 160


class MoreChoices(Themed, QWidget):
    """A fold: a button, and below it one row per setting."""

    changed = Signal(str, object)  # name, value

    def __init__(self, shown_above: Iterable[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._button = QPushButton()
        self._button.setObjectName("moreChoices")
        self._button.setProperty("kind", "fold")
        self._button.setCheckable(True)
        self._body = QWidget()
        self.editors: dict[str, Editor] = {}
        self._headings: dict[str, QLabel] = {}
        self._labels: dict[str, QLabel] = {}
        self._fill(set(shown_above))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._button)
        column.addWidget(self._body)
        self._body.setVisible(False)
        self._button.toggled.connect(self._unfold)
        self.retranslate_ui()

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job."""
        for name, editor in self.editors.items():
            editor.set_value(getattr(settings, name))

    def show_families(self, families: set[str]) -> None:
        """Show only what the families of model and source look at, and what all do."""
        about = schema.describe(schema.JobSettings)
        for heading, names in self._groups.items():
            shown = [
                name
                for name in names
                if not about[name].families or families.intersection(about[name].families)
            ]
            self._headings[heading].setVisible(bool(shown))
            for name in names:
                self.editors[name].setVisible(name in shown)
                self._labels[name].setVisible(name in shown)

    def unfold(self) -> None:
        """Show the rows."""
        self._button.setChecked(True)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._button.setText(tr("More choices"))
        self._button.setIcon(
            icon("chevron-up" if self._button.isChecked() else "chevron-down", size=16)
        )
        for source, heading in self._headings.items():
            heading.setText(tr(source))
        for name, label in self._labels.items():
            label.setText(name_of(name))
            self.editors[name].retranslate_ui()

    def _unfold(self, is_open: bool) -> None:
        self._body.setVisible(is_open)
        self.retranslate_ui()

    def _fill(self, shown_above: set[str]) -> None:
        grid = QGridLayout(self._body)
        grid.setContentsMargins(0, 0, 0, 4)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(0, 1)
        self._groups = groups(shown_above)
        for heading, names in self._groups.items():
            self._headings[heading] = QLabel()
            self._headings[heading].setProperty("kind", "section")
            grid.addWidget(self._headings[heading], grid.rowCount(), 0, 1, 2)
            for name in names:
                self._add_row(grid, name)

    def _add_row(self, grid: QGridLayout, name: str) -> None:
        editor = make_editor(name)
        editor.changed.connect(self.changed)
        editor.setFixedWidth(_EDITOR_WIDTH)
        label = QLabel()
        label.setBuddy(editor.control)
        at = grid.rowCount()
        grid.addWidget(label, at, 0)
        grid.addWidget(editor, at, 1, Qt.AlignmentFlag.AlignRight)
        self.editors[name], self._labels[name] = editor, label


def groups(shown_above: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Every setting of a job that is not shown above, once, under a heading."""
    hidden = set(shown_above)
    names = [name for name in schema.describe(schema.JobSettings) if name not in hidden]
    result = {
        heading: tuple(name for name in members if name in names)
        for heading, members in _GROUPS.items()
    }
    known = {name for members in _GROUPS.values() for name in members}
    result[_REST] = tuple(name for name in names if name not in known)
    return {heading: members for heading, members in result.items() if members}
