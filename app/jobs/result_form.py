"""Name and folder of the result, always in sight."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.i18n import tr
from app.theme.icons import icon
from app.widgets.controls import ElidedLabel, Themed
from app.widgets.plain import Label, set_tip
from app.widgets.reveal import bring_into_view
from engine.core.plain_text import one_line
from engine.core.windows_paths import NOT_IN_NAMES, shown
from engine.protocol.plan import Plan

_MARGIN = 16  # px at both sides, as the cards below


class ResultForm(Themed, QWidget):
    """Edits name and folder, which start from the plan; text once the film was started."""

    output_chosen = Signal(object)  # Path of the result, None: as the planner names it

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("resultForm")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._output: Path | None = None  # shown: of the plan
        self._is_next_to_source = True
        self._is_named = False  # by the user; else by the planner
        self._label, self._name, self._browse = Label(), QLineEdit(), QToolButton()
        self._name.setObjectName("outputName")
        self._browse.setObjectName("outputFolder")
        self._fixed = ElidedLabel(Qt.TextElideMode.ElideMiddle)
        self._fixed.setObjectName("outputFixed")
        self._refused = ""  # name that was not taken
        self._reason = Label()
        self._reason.setObjectName("outputReason")
        self._reason.setProperty("kind", "problem")
        self._reason.setWordWrap(True)
        self._where = ElidedLabel(Qt.TextElideMode.ElideMiddle)
        self._where.setProperty("kind", "secondary")
        self._where.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        heading = QHBoxLayout()
        heading.setSpacing(12)
        heading.addWidget(self._label)
        heading.addWidget(self._where, 1)
        name = QHBoxLayout()
        name.setSpacing(8)
        name.addWidget(self._name, 1)
        name.addWidget(self._fixed, 1)
        name.addWidget(self._browse)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 8, _MARGIN, 0)
        column.setSpacing(6)
        column.addLayout(heading)
        column.addLayout(name)
        column.addWidget(self._reason)
        self._name.textEdited.connect(lambda: self._refuse(""))
        self._name.editingFinished.connect(self._rename)
        self._browse.clicked.connect(self.choose_folder)
        self.retranslate_ui()

    def show_output(self, plan: Plan | None, chosen: Path | None, can_change: bool) -> None:
        """Show where the result of a plan will lie; nothing while there is no plan.

        Args:
            plan: Names the file.
            chosen: What the user chose: a file, a folder (the planner names the file), or None.
            can_change: Whether the film was not started yet.
        """
        self.setVisible(plan is not None)
        before, self._output = self._output, plan.output if plan is not None else None
        if before != self._output or not can_change:
            self._refuse("")
        if plan is None:
            return
        self._is_named = chosen is not None and chosen != plan.output.parent
        if not self._name.hasFocus():
            self._name.setText(plan.output.name)
            self._name.setCursorPosition(0)  # a long name is seen from its beginning
        self._fixed.setText(one_line(plan.output.name))
        self._fixed.setVisible(not can_change)
        for part in (self._name, self._browse):
            part.setVisible(can_change)
        self._is_next_to_source = plan.output.parent == plan.source.parent
        self._show_where()

    def edit_name(self) -> None:
        """Put the cursor into the name, before its ending: "choose another name"."""
        bring_into_view(self._name, takes_focus=True)
        self._name.setSelection(0, len(Path(self._name.text()).stem))

    def choose_folder(self) -> None:
        """Ask for another folder."""
        output = self._output
        if output is None:
            return
        chosen = QFileDialog.getExistingDirectory(self, tr("Output folder"), shown(output.parent))
        if chosen:
            self.output_chosen.emit(Path(chosen) / output.name if self._is_named else Path(chosen))

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._label.setText(tr("Result"))
        self._name.setPlaceholderText(tr("Named after the source"))
        self._name.setAccessibleName(tr("Output name"))
        self._browse.setIcon(icon("folder"))
        set_tip(self._browse, tr("Choose another folder"))
        self._browse.setAccessibleName(tr("Choose another folder"))
        self._refuse(self._refused)
        self._show_where()

    def _refuse(self, name: str) -> None:
        """Say why a name was not taken; "" takes the line away."""
        self._refused = name
        found = dict.fromkeys(NOT_IN_NAMES.findall(name))
        signs = " ".join(one if one.isprintable() else f"U+{ord(one):04X}" for one in found)
        self._reason.setText(tr("Not applied: names cannot contain {signs}", signs=signs))
        self._reason.setVisible(bool(name))
        self._name.setAccessibleDescription(self._reason.text() if name else "")

    def _show_where(self) -> None:
        is_fixed = self._output is not None and not self._is_next_to_source
        folder = labels.folder(self._output.parent) if self._output is not None else ""
        self._where.setText(folder if is_fixed else tr("Next to the source"))

    def _rename(self) -> None:
        if self._output is None:
            return
        name = self._name.text().strip()
        if name == self._output.name:
            return
        if not name:
            self.output_chosen.emit(None)
        elif not NOT_IN_NAMES.search(name):
            self.output_chosen.emit(self._output.parent / with_ending(name, self._output.suffix))
        else:
            self._name.setText(self._output.name)
            self._refuse(name)


def with_ending(name: str, ending: str) -> str:
    """`name` with the ending of a film where it has none that we write."""
    if Path(name).suffix.lower() in (".mp4", ".mkv", ".mov", ".png", ".tif", ".tiff"):
        return name
    return name + ending
