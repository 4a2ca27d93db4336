"""Choices for a .latent file before it is added: both readings side by side, rate, result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.engine_messages import setting_title
from app.i18n import tr
from app.installs.model_labels import problem, progress, size
from app.latents import readings_form
from app.latents.readings_form import RateForm, ReadingsForm
from app.settings.editors import make_editor
from app.state.model_files_model import Package
from app.state.tasks_model import TaskState
from app.widgets.compact_scroll import CompactScroll
from app.widgets.controls import ElidedLabel, Switch, Themed
from app.widgets.layouts import layout_of
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label, set_tip
from app.window_place import resize_on_screen
from engine.core.errors import ErrorInfo, WeightsMissing
from engine.protocol.events import LatentRead, LatentShown, Picture
from engine.protocol.media import Reading


def is_missing(error: ErrorInfo | None) -> bool:
    """Whether a file of the catalogue is all that is missing."""
    return error is not None and error.code == WeightsMissing.code


class ProblemCard(QFrame):
    """The error, and for a missing file the button that downloads it."""

    get_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("latentTrouble")
        self._line, self._get = NoticeLine(), QPushButton()
        self._get.setObjectName("getLatentVae")
        self._get.setAutoDefault(False)
        self._get.clicked.connect(self.get_requested)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 12, 14, 12)
        row.setSpacing(12)
        row.addWidget(self._line, 1)
        row.addWidget(self._get, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.show_trouble(None, None, None)

    def show_trouble(
        self, error: ErrorInfo | None, package: Package | None, task: TaskState | None
    ) -> None:
        """Show what is wrong, and what is done about it.

        Args:
            error: Of the engine; None hides the card.
            package: The missing file; None where it is not known.
            task: What is done to that; None while it rests.
        """
        self.setVisible(error is not None)
        if error is None:
            return
        failed = task.error if task is not None else None
        title, text = problem(failed or error)
        if task is not None and task.runs:
            text = tr("Queued") if task.waits else progress(task)
        elif package is not None and failed is None:  # the button has the rest
            text = f"{package.main.filename} · {size(package.main)}"
        is_ours = is_missing(error) and failed is None
        self._line.show_message("warning" if is_ours else "refusal", title, text)
        self._get.setVisible(is_missing(error) and (task is None or failed is not None))
        self._get.setText(tr("Download model") if failed is None else tr("Try again"))


_WIDTH = 760


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the user has chosen for a file of latents."""

    reading: Reading
    rate: float  # frames/s
    vae: str  # file of the user's own; "" for the published one
    upscales: bool
    is_for_all: bool  # also for the other files that came with it


class LatentSheet(Themed, QDialog):
    """Shows one file at a time; fed by events of the engine, asks by signals."""

    decided = Signal(Decision)
    vae_chosen = Signal(str)  # file of the user's own; "" for the published one
    get_requested = Signal()
    next_requested = Signal()  # the file cannot be used, and that was read

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("latentSheet")
        self.setMinimumWidth(_WIDTH)
        self._name, self._facts, self._count = ElidedLabel(), Label(), Label()
        self._readings, self._trouble = ReadingsForm(), ProblemCard()
        self._rate_label, self._vae_label = Label(), Label()
        self.rate, self._vae = RateForm(), make_editor("latent_vae")
        self._for_all = Switch()
        self._cancel, self._add, self._upscale = QPushButton(), QPushButton(), QPushButton()
        choices = QWidget()
        self._choices = CompactScroll(choices)
        self._choices.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._form = (False, False)  # usable, in trouble
        self._forget(Path(), (1, 1))
        self._lay_out()
        self._connect()
        self.retranslate_ui()

    @property
    def path(self) -> Path:
        """The file that is shown."""
        return self._path

    @property
    def read(self) -> LatentRead | None:
        """Its header; None while unknown, or where it cannot be used."""
        return self._read

    @property
    def vae(self) -> str:
        """The VAE of the user's own that it is shown with."""
        return self._vae_file

    @property
    def reading(self) -> Reading:
        """The selected one."""
        return self._readings.reading

    @property
    def is_missing_vae(self) -> bool:
        """Whether a file of the catalogue is all that is missing."""
        return is_missing(self._error)

    def picture(self) -> Picture | None:
        """The picture of the selected reading."""
        if self._shown is None:
            return None
        return self._shown.raw if self.reading == "raw" else self._shown.normalised

    def show_file(self, path: Path, *, place: tuple[int, int] = (1, 1)) -> None:
        """A file that was not read yet; `place` is which one of how many that came together."""
        self._forget(path, place)
        self._vae.set_value("")
        self._for_all.setChecked(False)
        self._show()

    def _forget(self, path: Path, place: tuple[int, int]) -> None:
        self._path, self._place, self._vae_file = path, place, ""
        self._read: LatentRead | None = None
        self._shown: LatentShown | None = None
        self._error: ErrorInfo | None = None
        self._package: Package | None = None  # that is missing
        self._task: TaskState | None = None

    def show_read(self, read: LatentRead) -> None:
        """Show the header of the file; its pictures follow."""
        is_first = self._read is None
        self._read, self._shown, self._error = read, None, None
        self._show()
        if is_first:
            self.rate.show_read(read)
            self._readings.take(read.guess)

    def show_pictures(self, shown: LatentShown) -> None:
        """Both readings."""
        self._shown, self._error = shown, None
        self._show()

    def show_refusal(self, error: ErrorInfo, package: Package | None = None) -> None:
        """Why the file cannot be used, or why there are no pictures yet.

        Args:
            error: Of the engine.
            package: The file of the catalogue that is missing.
        """
        self._error, self._package = error, package
        self._show()
        if self._is_stuck:
            self._upscale.setFocus(Qt.FocusReason.OtherFocusReason)

    def look_again(self) -> None:
        """The same file is read again: another VAE, or one that has come."""
        self._shown = self._error = self._task = None
        self._show()

    def show_task(self, task: TaskState | None) -> None:
        """How far the missing file is, or what its download ended with; None while it rests."""
        self._task = task
        self._trouble.show_trouble(self._error, self._package, self._task)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._rate_label.setText(setting_title("latent_rate"))
        self._vae_label.setText(setting_title("latent_vae"))
        self._cancel.setText(tr("Cancel"))
        self._add.setText(tr("Add to queue"))
        set_tip(self._add, tr("Decodes only, keeps the size"))
        self._show()

    # Showing

    def _show(self) -> None:
        """Everything that depends on what is known."""
        is_usable = self._read is not None or not self._is_stuck
        at, count = self._place
        self.setWindowTitle(tr("Latents"))
        self._name.setText(self._path.name)
        self._count.setText(tr("{number} of {count}", number=at, count=count))
        self._count.setVisible(count > 1)
        self._facts.setText(
            readings_form.facts(self._read) if self._read else tr("Reading the file")
        )
        self._facts.setVisible(is_usable)
        self._choices.setVisible(is_usable)
        for part in (self._rate_label, self.rate):  # a single picture has none
            part.setVisible(self._read is None or self._read.frames > 1)
        self._readings.show_latent(self._read, self._shown, is_decoding=self._error is None)
        self._trouble.show_trouble(self._error, self._package, self._task)
        self._show_buttons(is_usable)
        self._fit((is_usable, self._error is not None))

    def _fit(self, form: tuple[bool, bool]) -> None:
        """As high as what is shown; the user's own height stays until something else is shown."""
        if form != self._form:
            self._form = form
            layout_of(self).activate()
            resize_on_screen(self, QSize(max(_WIDTH, self.width()), self.sizeHint().height()))

    @property
    def _is_stuck(self) -> bool:
        """Whether nothing can be done with the file as it is."""
        return self._error is not None and not is_missing(self._error)

    def _show_buttons(self, is_usable: bool) -> None:
        """Show the buttons that apply; a file that cannot be used can only be skipped."""
        at, count = self._place
        left = count - at
        self._for_all.setVisible(is_usable and left > 0)
        self._for_all.setText(tr("Apply to all remaining files ({count})", count=left))
        self._cancel.setVisible(is_usable or left > 0)
        self._add.setVisible(is_usable)
        self._add.setEnabled(self._read is not None and not self._is_stuck)
        if self._is_stuck:
            text, tip = tr("Next file") if left else tr("Close"), ""
        else:
            text = tr("Add and upscale")
            tip = tr("Decodes, then upscales with your usual settings")
        self._upscale.setText(text)
        set_tip(self._upscale, tip)
        self._upscale.setEnabled(self._read is not None or self._is_stuck)

    # Deciding

    def _connect(self) -> None:
        self._cancel.clicked.connect(self.reject)
        self._add.clicked.connect(lambda: self._decide(upscales=False))
        self._upscale.clicked.connect(self._go_on)
        self._trouble.get_requested.connect(self.get_requested)
        self._vae.changed.connect(self._choose_vae)

    def _go_on(self) -> None:
        if self._is_stuck:
            self.next_requested.emit()
        else:
            self._decide(upscales=True)

    def _decide(self, *, upscales: bool) -> None:
        self.decided.emit(
            Decision(
                reading=self.reading,
                rate=self.rate.rate,
                vae=self._vae_file,
                upscales=upscales,
                is_for_all=self._for_all.isChecked(),
            )
        )

    def _choose_vae(self, _name: str, file: str) -> None:
        self._vae_file = file
        self.look_again()
        self.vae_chosen.emit(file)

    # Layout

    def _lay_out(self) -> None:
        self._name.setProperty("kind", "headline")
        for label in (self._facts, self._count):
            label.setProperty("kind", "secondary")
        for name, part in (("latentAdd", self._add), ("latentUpscale", self._upscale)):
            part.setObjectName(name)
        self._for_all.setObjectName("latentForAll")
        self._upscale.setProperty("kind", "primary")
        self._upscale.setDefault(True)
        for part in (self._cancel, self._add):
            part.setProperty("kind", "large")
            part.setAutoDefault(False)
        head = QHBoxLayout()
        head.addWidget(self._name, 1)
        head.addWidget(self._count, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self._facts)
        column.addWidget(self._choices, 1)
        column.addWidget(self._trouble)
        column.addStretch()  # where the choices are hidden
        column.addSpacing(4)
        column.addLayout(self._make_buttons())
        self._lay_out_choices()

    def _lay_out_choices(self) -> None:
        rest = QGridLayout()
        rest.setHorizontalSpacing(16)
        rest.setVerticalSpacing(8)
        rest.setColumnStretch(1, 1)
        for at, (label, part) in enumerate(
            ((self._rate_label, self.rate), (self._vae_label, self._vae))
        ):
            rest.addWidget(label, at, 0)
            rest.addWidget(part, at, 1)
        self._vae_label.setBuddy(self._vae.control)
        inside = QVBoxLayout(self._choices.body)
        inside.setContentsMargins(0, 8, 0, 0)
        inside.setSpacing(8)
        inside.addWidget(self._readings, 1)
        inside.addSpacing(4)
        inside.addLayout(rest)

    def _make_buttons(self) -> QHBoxLayout:
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self._for_all)
        buttons.addStretch(1)
        for part in (self._cancel, self._add, self._upscale):
            buttons.addWidget(part)
        return buttons
