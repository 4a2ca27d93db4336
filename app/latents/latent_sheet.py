"""Choices for a .latent file before it is added: both readings side by side, rate, result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage, QMouseEvent, QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QRadioButton,
    QSizePolicy,
    QWidget,
)

from app import labels
from app.bound import bind
from app.engine_messages import setting_title
from app.i18n import mark, tr
from app.installs.installable import problem, progress
from app.installs.model_labels import model_title, size
from app.settings.editors import make_editor
from app.state.job_row import image_of
from app.state.model_files_model import Package
from app.state.tasks_model import TaskState
from app.widgets.compact_scroll import CompactScroll
from app.widgets.controls import Switch
from app.widgets.layouts import MIDDLE, STRETCH, Stretch, column, grid, layout_of, row
from app.widgets.notice_line import NoticeLine
from app.widgets.page import Page
from app.widgets.parts import button, elided, label, named, set_kind
from app.widgets.picture_box import PictureBox
from app.widgets.plain import set_tip
from engine.core.errors import ErrorInfo, WeightsMissing
from engine.protocol.events import LatentRead, LatentShown, Picture
from engine.protocol.media import Reading

READINGS: dict[Reading, tuple[str, str]] = {
    "raw": (mark("As they are"), mark("As ComfyUI itself saves them")),
    "normalised": (mark("Normalised"), mark("As WanVideoWrapper saves them")),
}
_SURE: dict[Reading, str] = {
    "raw": mark('The values are distributed like ComfyUI\'s own, so "As they are" is selected.'),
    "normalised": mark(
        'The values are distributed like normalised ones, so "Normalised" is selected.'
    ),
}
_WIDTH = 760  # px


def is_missing(error: ErrorInfo | None) -> bool:
    """Whether a file of the catalogue is all that is missing."""
    return error is not None and error.code == WeightsMissing.code


class ReadingCard(QFrame):
    """One reading: its image, and a radio button below it; a click anywhere selects it."""

    def __init__(self, reading: Reading, group: QButtonGroup) -> None:
        super().__init__()
        self.setProperty("kind", "card")
        self.image, self.button = PictureBox(), QRadioButton()
        self.button.setObjectName(f"reading-{reading}")
        self._meaning = label(kind="secondary")
        group.addButton(self.button)
        self.button.toggled.connect(
            lambda is_chosen: set_kind(self, "chosen-card" if is_chosen else "card")
        )
        self.image.setMinimumSize(220, 120)
        column((self.image, 1), self.button, self._meaning, spacing=4, margins=10, on=self)
        self._meaning.setIndent(24)

    def set_texts(self, title: str, meaning: str) -> None:
        """Show these texts; screen readers read both."""
        self.button.setText(title)
        self.button.setAccessibleDescription(meaning)
        self._meaning.setText(meaning)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the reading."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.button.click()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Choices of the user for a file of latents."""

    reading: Reading
    rate: float  # frames/s
    vae: str  # file of the user's own; "" for the published one
    upscales: bool
    is_for_all: bool  # also for the other files that came with it


class LatentSheet(Page):
    """Shows one file at a time; fed by events of the engine, asks by signals.

    Attributes:
        path: The file that is shown.
        read: Its header; None while unknown, or where it cannot be used.
        vae: The VAE of the user's own that it is shown with; "" for the published one.
        rate: Frames a second; 0 while no file was read.
    """

    decided = Signal(Decision)
    vae_chosen = Signal(str)  # file of the user's own; "" for the published one
    get_requested = Signal()
    next_requested = Signal()  # the file cannot be used, and that was read

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("latentSheet", mark("Latents"), parent, least=QSize(_WIDTH, 0))
        self._form = (False, False)  # usable, in trouble
        self._forget(Path(), (1, 1))
        self._make_parts()
        self._lay_out()
        self._cards["raw"].button.setChecked(True)
        bind(self, self._show, theme=True)

    @property
    def reading(self) -> Reading:
        """The selected one."""
        return next(name for name, card in self._cards.items() if card.button.isChecked())

    def picture(self) -> Picture | None:
        """The picture of the selected reading."""
        return self._picture_of(self.reading)

    def show_file(self, path: Path, *, place: tuple[int, int] = (1, 1)) -> None:
        """Show a file that was not read yet.

        Args:
            path: The file.
            place: Its number and that of all files that came together.
        """
        self._forget(path, place)
        self._vae.set_value("")
        self._for_all.setChecked(False)
        self._show()

    def _forget(self, path: Path, place: tuple[int, int]) -> None:
        self.path, self._place, self.vae, self.rate = path, place, "", 0.0
        self.read: LatentRead | None = None
        self._shown: LatentShown | None = None
        self._error: ErrorInfo | None = None
        self._package: Package | None = None  # that is missing
        self._task: TaskState | None = None

    def show_read(self, read: LatentRead) -> None:
        """Show the header of the file; its pictures follow."""
        is_first = self.read is None
        self.read, self._shown, self._error = read, None, None
        self.rate = float(read.frame_rate) if is_first else self.rate
        self._show()
        if is_first:  # the user goes on from the guess
            self._cards[read.guess].button.setChecked(True)
            self._cards[read.guess].button.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_pictures(self, shown: LatentShown) -> None:
        """Show both readings."""
        self._shown, self._error = shown, None
        self._show()

    def show_refusal(self, error: ErrorInfo, package: Package | None = None) -> None:
        """Show why the file cannot be used, or why there are no pictures yet.

        Args:
            error: Error of the engine.
            package: The file of the catalogue that is missing.
        """
        self._error, self._package = error, package
        self._show()
        if self._is_stuck:
            self._upscale.setFocus(Qt.FocusReason.OtherFocusReason)

    def look_again(self) -> None:
        """Wait for the file, which is read again with another VAE, or with one that has come."""
        self._shown = self._error = self._task = None
        self._show()

    def show_task(self, task: TaskState | None) -> None:
        """Show the download of the missing file, or its failure; None for none."""
        self._task = task
        self._show()

    # Showing

    def _show(self) -> None:
        """Show everything that depends on what is known, in the current language."""
        read, is_usable = self.read, self.read is not None or not self._is_stuck
        at, count = self._place
        self._name.setText(self.path.name)
        self._count.setText(tr("{number} of {count}", number=at, count=count))
        self._count.setVisible(count > 1)
        self._facts.setText(_facts(read) if read else tr("Reading the file"))
        self._facts.setVisible(is_usable)
        self._choices.setVisible(is_usable)
        self._show_readings()
        for part in (self._rate_label, self._rate, self._length):  # an image has none
            part.setVisible(read is None or read.frames > 1)
        self._rate.set_value(self.rate)
        length = labels.duration(read.frames / self.rate) if read is not None else ""
        self._length.setText(f"→ {length}" if length else "")
        self._show_trouble()
        self._show_buttons(is_usable)
        form = is_usable, self._error is not None
        if form != self._form:  # else the user's own height stays
            self._form = form
            self._fit_height()

    def _show_readings(self) -> None:
        instead = tr("Decoding one image …")
        if self._error is not None:
            instead = tr("The image is shown once the VAE is available.")
        for reading, card in self._cards.items():
            card.set_texts(*map(tr, READINGS[reading]))
            picture = self._picture_of(reading)
            card.image.show_image(image_of(picture) if picture else QImage(), instead)
            card.setEnabled(self.read is not None)
        self._part.setVisible(self._shown is not None and not self._shown.is_whole)
        self._guess.setVisible(self.read is not None)
        if self.read is not None and self.read.is_sure:
            self._guess.show_message("info", tr(_SURE[self.read.guess]))
        else:
            words = tr("The values fit both. Choose the image that looks right.")
            self._guess.show_message("warning", words)

    def _picture_of(self, reading: Reading) -> Picture | None:
        if self._shown is None:
            return None
        return self._shown.raw if reading == "raw" else self._shown.normalised

    def _show_trouble(self) -> None:
        """Show what is wrong, and what is done about it."""
        error, task = self._error, self._task
        self._trouble.setVisible(error is not None)
        if error is None:
            return
        failed = task.error if task is not None else None
        title, text = problem(failed or error)
        if task is not None and task.runs:
            text = tr("Queued") if task.waits else progress(task)
        elif self._package is not None and failed is None:  # the button has the rest
            text = f"{self._package.main.filename} · {size(self._package.main)}"
        is_ours = is_missing(error) and failed is None
        self._trouble_line.show_message("warning" if is_ours else "refusal", title, text)
        self._get.setVisible(is_missing(error) and (task is None or failed is not None))
        self._get.setText(tr("Download model") if failed is None else tr("Try again"))

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
        self._add.setEnabled(self.read is not None and not self._is_stuck)
        if self._is_stuck:
            text, tip = tr("Next file") if left else tr("Close"), ""
        else:
            text = tr("Add and upscale")
            tip = tr("Decodes, then upscales with your usual settings")
        self._upscale.setText(text)
        set_tip(self._upscale, tip)
        self._upscale.setEnabled(self.read is not None or self._is_stuck)

    def showEvent(self, event: QShowEvent) -> None:
        """Fonts are known now."""
        super().showEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        layout_of(self).activate()
        self.resize_on_screen(QSize(max(_WIDTH, self.width()), self.sizeHint().height()))

    # Deciding

    def _go_on(self) -> None:
        if self._is_stuck:
            self.next_requested.emit()
        else:
            self._decide(upscales=True)

    def _decide(self, *, upscales: bool) -> None:
        self.decided.emit(
            Decision(
                reading=self.reading,
                rate=self.rate,
                vae=self.vae,
                upscales=upscales,
                is_for_all=self._for_all.isChecked(),
            )
        )

    def _choose_rate(self, _name: str, rate: float) -> None:
        usual = float(self.read.frame_rate) if self.read is not None else 0.0
        self.rate = rate or usual
        self._show()

    def _choose_vae(self, _name: str, file: str) -> None:
        self.vae = file
        self.look_again()
        self.vae_chosen.emit(file)

    # Layout

    def _make_parts(self) -> None:
        self._name = elided(kind="headline")
        self._facts, self._count = label(kind="secondary"), label(kind="secondary")
        group = QButtonGroup(self)
        self._cards = {reading: ReadingCard(reading, group) for reading in READINGS}
        self._part = label("Only the centre of the first frame is shown.", "secondary")
        self._guess = NoticeLine()
        policy = self._guess.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # nothing jumps when the file was read
        self._guess.setSizePolicy(policy)
        self._rate, self._length = make_editor("latent_rate"), label(kind="secondary")
        self._rate_label = label(lambda: setting_title("latent_rate"))
        self._rate.setFixedWidth(128)
        self._rate.changed.connect(self._choose_rate)
        self._vae = make_editor("latent_vae")
        self._vae.changed.connect(self._choose_vae)
        self._trouble, self._trouble_line = named(QFrame(), "latentTrouble", "card"), NoticeLine()
        self._trouble.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._get = button(name="getLatentVae", on=self.get_requested, auto_default=False)
        self._for_all = named(Switch(), "latentForAll")
        self._cancel = button("Cancel", kind="large", on=self.reject, auto_default=False)
        self._add = button(
            "Add to queue",
            "latentAdd",
            "large",
            tip="Decodes only, keeps the size",
            on=lambda: self._decide(upscales=False),
            auto_default=False,
        )
        self._upscale = button(name="latentUpscale", kind="primary", on=self._go_on)
        self._upscale.setDefault(True)

    def _lay_out(self) -> None:
        vae_label = label(lambda: setting_title("latent_vae"))
        vae_label.setBuddy(self._vae.control)
        rate = row(self._rate, (self._length, 1), spacing=8)
        rest = grid(spacing=(16, 8), wide=(1,))
        rest.addWidget(self._rate_label, 0, 0)
        rest.addLayout(rate, 0, 1)
        rest.addWidget(vae_label, 1, 0)
        rest.addWidget(self._vae, 1, 1)
        choices = QWidget()
        column(
            label("Which image looks right?", "section"),
            (row(*self._cards.values(), spacing=12), 1),
            self._part,
            self._guess,
            4,
            rest,
            spacing=8,
            margins=(0, 8, 0, 0),
            on=choices,
        )
        self._choices = CompactScroll(choices)
        self._choices.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        parts = (self._trouble_line, 1), (self._get, 0, MIDDLE)
        row(*parts, spacing=12, margins=(14, 12), on=self._trouble)
        buttons = (self._for_all, Stretch(1), self._cancel, self._add, self._upscale)
        self.fill(
            row((self._name, 1), (self._count, 0, Qt.AlignmentFlag.AlignBottom)),
            self._facts,
            (self._choices, 1),
            self._trouble,
            STRETCH,  # where the choices are hidden
            4,
            row(*buttons, spacing=8),
            spacing=8,
        )


def _facts(read: LatentRead) -> str:
    """Model, channels, size and frames in one line."""
    parts = [
        model_title(read.model),
        tr("{count} channels", count=read.channels),
        labels.size(read.size),
        tr("{count} {count:frame|frames}", count=read.frames)
        if read.frames > 1
        else tr("one image"),
    ]
    return " · ".join(parts)
