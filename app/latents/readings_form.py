"""Both readings side by side, and which one was taken beforehand and why."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n import tr
from app.latents import latent_labels
from app.latents.reading_card import ReadingCard
from app.state.job_row import image_of
from app.widgets.notice_line import NoticeLine
from app.widgets.translation import Translated
from engine.protocol.events import LatentRead, LatentShown
from engine.protocol.media import Reading

_READINGS: tuple[Reading, ...] = ("raw", "normalised")


class ReadingsForm(Translated, QWidget):
    """Two large radio buttons with pictures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._read: LatentRead | None = None
        self._shown: LatentShown | None = None
        self._is_decoding = True
        self._question, self._part = QLabel(), QLabel()
        self._guess = NoticeLine()
        self._cards = {reading: ReadingCard() for reading in _READINGS}
        self._lay_out()
        self.retranslate_ui()

    @property
    def reading(self) -> Reading:
        """The one that is taken."""
        return next(name for name in _READINGS if self._cards[name].isChecked())

    def take(self, reading: Reading) -> None:
        """Take one for the user, who goes on from there."""
        self._cards[reading].setChecked(True)
        self._cards[reading].setFocus(Qt.FocusReason.OtherFocusReason)

    def show_latent(
        self, read: LatentRead | None, shown: LatentShown | None, *, is_decoding: bool
    ) -> None:
        """Show what is known of a file.

        Args:
            read: What it says of itself.
            shown: Its pictures.
            is_decoding: Whether those are on their way.
        """
        self._read, self._shown, self._is_decoding = read, shown, is_decoding
        self._guess.setVisible(read is not None)
        if read is not None:
            self._guess.say(*latent_labels.guess(read))
        self._part.setVisible(shown is not None and not shown.is_whole)
        pictures = {} if shown is None else {"raw": shown.raw, "normalised": shown.normalised}
        instead = tr("Its picture is shown once the VAE can be used.")
        if is_decoding:
            instead = tr("Decoding one picture …")
        for reading, card in self._cards.items():
            picture = pictures.get(reading)
            card.set_picture(QImage() if picture is None else image_of(picture), instead)
            card.setEnabled(read is not None)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._question.setText(tr("Which picture looks right?"))
        self._part.setText(tr("Only the middle of the first picture is shown."))
        for reading, card in self._cards.items():
            title, second_line = latent_labels.READINGS[reading]
            card.set_texts(tr(title), tr(second_line))
        self.show_latent(self._read, self._shown, is_decoding=self._is_decoding)

    def _lay_out(self) -> None:
        self._question.setProperty("kind", "section")
        self._part.setProperty("kind", "secondary")
        group = QButtonGroup(self)
        pair = QHBoxLayout()
        pair.setSpacing(12)
        for reading, card in self._cards.items():
            card.setObjectName(f"reading-{reading}")
            group.addButton(card)
            pair.addWidget(card)
        self._cards["raw"].setChecked(True)
        policy = self._guess.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # nothing jumps when the file was read
        self._guess.setSizePolicy(policy)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._question)
        column.addLayout(pair, 1)
        column.addWidget(self._part)
        column.addWidget(self._guess)
