"""Name and folder of the result, always in sight."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget

from app import labels
from app.bound import bind
from app.i18n import tr
from app.widgets.layouts import MIDDLE, RIGHT, column, row
from app.widgets.parts import bind_text, elided, icon_button, label, named
from app.widgets.reveal import bring_into_view
from engine.core.paths import NOT_IN_NAMES, shown
from engine.core.plain_text import one_line
from engine.protocol.plan import Plan
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS

_ENDINGS = {*VIDEO_FORMATS.values(), *IMAGE_FORMATS.values(), ".tiff"}
_MARGIN = 16  # px at both sides, as the cards below


class ResultForm(QWidget):
    """Edits name and folder, which start from the plan; text once the video was started."""

    output_chosen = Signal(object)  # Path of the result, None: as the planner names it

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "resultForm", has_ground=True)
        self._output: Path | None = None  # shown: of the plan
        self._shown = ""  # name of the result
        self._is_next_to_source = True
        self._is_named = False  # by the user; else by the planner
        self._name = named(QLineEdit(), "outputName")
        bind_text(self._name, self._name.setPlaceholderText, "Named after the source")
        bind_text(self._name, self._name.setAccessibleName, "Output name")
        self._browse = icon_button(
            "folder", "Choose another folder", "outputFolder", on=self.choose_folder
        )
        middle = Qt.TextElideMode.ElideMiddle
        self._fixed = elided(name="outputFixed", mode=middle)
        self._refused = ""  # name that was not taken
        self._reason = label(kind="problem", name="outputReason", wraps=True)
        self._where = elided(kind="secondary", mode=middle, align=RIGHT | MIDDLE)
        column(
            row(label("Result"), (self._where, 1), spacing=12),
            row((self._name, 1), (self._fixed, 1), self._browse, spacing=8),
            self._reason,
            spacing=6,
            margins=(_MARGIN, 8, _MARGIN, 0),
            on=self,
        )
        self._name.textEdited.connect(lambda: self._refuse(""))
        self._name.editingFinished.connect(self._rename)
        bind(self, lambda: self._refuse(self._refused))
        bind(self, self._show_where)

    def show_output(
        self, plan: Plan | None, chosen: Path | None, can_change: bool, *, is_old: bool = False
    ) -> None:
        """Show where the result of a plan will lie; nothing while there is no plan.

        Args:
            plan: Names the file.
            chosen: Choice of the user: a file, a folder (the planner names the file), or None.
            can_change: Whether the video was not started yet.
            is_old: Whether the plan is for other settings: it gives the folder, but no name.
        """
        self.setVisible(plan is not None)
        before, self._output = self._output, plan.output if plan is not None else None
        if before != self._output or not can_change:
            self._refuse("")
        if plan is None:
            return
        self._is_named = chosen is not None and chosen != plan.output.parent
        self._shown = plan.output.name
        if is_old:
            self._shown = ""
            if chosen is not None and chosen.suffix.lower() in _ENDINGS:  # else it is a folder
                self._shown = chosen.name
        is_being_typed = self._name.hasFocus() and self._name.isModified()
        if not is_being_typed and self._name.text() != self._shown:
            self._name.setText(self._shown)
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
        self._name.setModified(False)  # the plan answers with the name of the result
        if name == self._shown:
            return
        if not name:
            self.output_chosen.emit(None)
        elif not NOT_IN_NAMES.search(name):
            self.output_chosen.emit(self._output.parent / with_ending(name, self._output.suffix))
        else:
            self._name.setText(self._shown)
            self._refuse(name)


def with_ending(name: str, ending: str) -> str:
    """`name` with the ending of a video where it has none that we write."""
    return name if Path(name).suffix.lower() in _ENDINGS else name + ending


def renamed(output: Path, container: str, is_image: bool) -> Path | None:
    """The user's choice of a result after the choice of another format; a folder stays.

    Args:
        output: A file, the folder of numbered images, or a folder that the planner names a file in.
        container: Value of the setting.
        is_image: Whether the source is a single image, which has no folder.

    Returns:
        None where the planner has to name the result.
    """
    is_named = output.suffix.lower() in _ENDINGS
    if container == "auto" or output.is_dir():
        return output if is_named or output.is_dir() else None
    stem = output.stem if is_named else output.name
    own = IMAGE_FORMATS if is_image else {}
    return output.with_name(stem + {**VIDEO_FORMATS, **own}.get(container, ""))
