"""How latents are meant: the reading of their values, and the frame rate."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFont, QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import setting_title
from app.i18n import mark, tr
from app.installs.model_labels import model_title
from app.settings.editors import make_editor
from app.state.job_row import image_of
from app.theme import tokens
from app.theme.fonts import interface_font
from app.widgets.controls import SegmentedControl, Translated
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label
from engine.protocol.events import LatentRead, LatentShown
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


def facts(read: LatentRead) -> str:
    """Model, channels, size and frames in one line."""
    parts = [
        model_title(read.model),
        tr("{count} channels", count=read.channels),
        labels.size(read.size),
        tr("{count} frames", count=read.frames) if read.frames > 1 else tr("one image"),
    ]
    return " · ".join(parts)


def guess(read: LatentRead) -> tuple[str, str]:
    """How serious it is, and what was chosen beforehand and why."""
    if read.is_sure:
        return "info", tr(_SURE[read.guess])
    return "warning", tr("The values fit both. Choose the image that looks right.")


_RATES = ("16", "24")  # frames/s, of Wan 2.1 and Wan 2.2 5B
_OTHER = "other"
_NAME = "latent_rate"


class RateForm(Translated, QWidget):
    """Two rates and a field for others, and how long the film becomes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._read: LatentRead | None = None
        self._rate = 0.0
        self._row = SegmentedControl([*_RATES, _OTHER])
        self._row.setObjectName("latentRate")
        self._row.setFixedWidth(210)
        self._field = make_editor(_NAME)
        self._field.setFixedWidth(128)
        self._explanation = Label()
        self._explanation.setProperty("kind", "secondary")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._row)
        row.addWidget(self._field)
        row.addWidget(self._explanation, 1)
        self._row.chosen.connect(self._choose)
        self._field.changed.connect(lambda _name, rate: self._take(rate))
        self.retranslate_ui()

    @property
    def rate(self) -> float:
        """Frames a second; 0 while no file was read."""
        return self._rate

    def show_read(self, read: LatentRead) -> None:
        """Another file: begin with what its model was made for."""
        self._read, self._rate = read, float(read.frame_rate)
        key = f"{self._rate:g}"
        self._row.set_current(key if key in _RATES else _OTHER)
        self._show()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._row.set_labels({_OTHER: tr("Custom")})
        self._row.set_tips({"16": "Wan 2.1", "24": "Wan 2.2 5B"})
        self._row.setAccessibleName(setting_title(_NAME))
        self._show()

    def _choose(self, key: str) -> None:
        if key != _OTHER:
            self._rate = float(key)
        self._show()
        if key == _OTHER:
            self._field.setFocus()

    def _take(self, rate: float) -> None:
        made_for = float(self._read.frame_rate) if self._read is not None else 0.0
        self._rate = rate or made_for
        self._show()

    def _show(self) -> None:
        self._field.setVisible(self._row.current == _OTHER)
        self._field.set_value(self._rate)
        if self._read is None or not self._rate:
            self._explanation.setText(tr("fps"))
            return
        length = labels.duration(self._read.frames / self._rate)
        is_short = self._row.current == _OTHER  # the field has the unit
        self._explanation.setText(f"→ {length}" if is_short else f"{tr('fps')} → {length}")


_PADDING = 10
_TEXTS = 48  # px, height of the two lines
_MARK = 9.0  # px, radius
_PICTURE, _LEAST_PICTURE = 190, 120  # px, height
_BY_KEY = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)


class ReadingCard(QAbstractButton):
    """A large radio button with a picture; in a QButtonGroup the arrow keys move along them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._second_line = self._instead = ""
        self._picture = QImage()
        self._has_ring = False  # none before the keyboard is used
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def has_picture(self) -> bool:
        """Whether there is something to look at."""
        return not self._picture.isNull()

    @property
    def instead(self) -> str:
        """Text in the place of the picture."""
        return self._instead

    def set_texts(self, title: str, second_line: str) -> None:
        """New texts; both are read out by screen readers."""
        self.setText(title)
        self._second_line = second_line
        self.setAccessibleName(title)
        self.setAccessibleDescription(second_line)
        self.update()

    def set_picture(self, picture: QImage, instead: str = "") -> None:
        """A picture, or a null one and why there is none."""
        self._picture, self._instead = picture, instead
        self.update()

    def sizeHint(self) -> QSize:
        """Room for a film's picture and two lines."""
        return QSize(336, 2 * _PADDING + _PICTURE + _TEXTS)

    def minimumSizeHint(self) -> QSize:
        """A picture too small to judge is of no use."""
        return QSize(240, 2 * _PADDING + _LEAST_PICTURE + _TEXTS)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show a ring where the keyboard brought the focus."""
        self._has_ring = event.reason() in _BY_KEY
        super().focusInEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Frame, picture, mark, texts."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        is_hovered = self.underMouse() and self.isEnabled()
        painter.setBrush(QColor(theme.hovered if is_hovered else theme.surface_2))
        width = 2.0 if self.isChecked() else 1.0
        painter.setPen(QPen(QColor(theme.accent if self.isChecked() else theme.line), width))
        inset = width / 2
        frame = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
        painter.drawRoundedRect(frame, tokens.CARD_RADIUS, tokens.CARD_RADIUS)
        if self.hasFocus() and self._has_ring:
            self._paint_focus(painter, frame)
        inner = QRectF(self.rect()).adjusted(_PADDING, _PADDING, -_PADDING, -_PADDING)
        self._paint_picture(painter, inner.adjusted(0, 0, 0, -_TEXTS))
        self._paint_texts(painter, inner)

    def _paint_focus(self, painter: QPainter, frame: QRectF) -> None:
        """A ring inside the frame: selected and focused look different."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens.current().text_1), 1.5))
        radius = tokens.CARD_RADIUS - 3
        painter.drawRoundedRect(frame.adjusted(3, 3, -3, -3), radius, radius)

    def _paint_picture(self, painter: QPainter, room: QRectF) -> None:
        theme = tokens.current()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.surface_3))
        if self._picture.isNull():
            painter.drawRoundedRect(room, 4, 4)
            painter.setPen(QColor(theme.text_2))
            painter.setFont(interface_font(tokens.SMALL_PX))
            wrapped = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(room.adjusted(12, 0, -12, 0), wrapped, self._instead)
            return
        size = self._picture.size().toSizeF()
        size.scale(room.size(), Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF(QPointF(0, 0), size)
        place.moveCenter(room.center())
        painter.drawImage(place, self._picture)

    def _paint_texts(self, painter: QPainter, inner: QRectF) -> None:
        theme = tokens.current()
        top = inner.bottom() - _TEXTS + 10
        centre = QPointF(inner.left() + _MARK + 2, top + 10)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        mark = theme.accent if self.isChecked() else theme.text_2
        painter.setPen(QPen(QColor(mark), 1.5))
        painter.drawEllipse(centre, _MARK - 1, _MARK - 1)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.accent))
            painter.drawEllipse(centre, _MARK - 4.5, _MARK - 4.5)
        left = inner.left() + 2 * _MARK + 12
        room = QRectF(left, top, inner.right() - left, 20)
        self._line(painter, room, self.text(), is_title=True)
        self._line(painter, room.translated(0, 19), self._second_line, is_title=False)

    def _line(self, painter: QPainter, room: QRectF, text: str, *, is_title: bool) -> None:
        theme = tokens.current()
        weight = QFont.Weight.DemiBold if is_title else QFont.Weight.Normal
        painter.setFont(interface_font(tokens.BODY_PX if is_title else tokens.SMALL_PX, weight))
        painter.setPen(QColor(theme.text_1 if is_title else theme.text_2))
        elide = Qt.TextElideMode.ElideRight
        shown = painter.fontMetrics().elidedText(text, elide, int(room.width()))
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter), shown)


_READINGS: tuple[Reading, ...] = ("raw", "normalised")


class ReadingsForm(Translated, QWidget):
    """Two large radio buttons with pictures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._read: LatentRead | None = None
        self._shown: LatentShown | None = None
        self._is_decoding = True
        self._question, self._part = Label(), Label()
        self._guess = NoticeLine()
        self._cards = {reading: ReadingCard() for reading in _READINGS}
        self._lay_out()
        self.retranslate_ui()

    @property
    def reading(self) -> Reading:
        """The selected one."""
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
            read: Its header.
            shown: Its pictures.
            is_decoding: Whether those are on their way.
        """
        self._read, self._shown, self._is_decoding = read, shown, is_decoding
        self._guess.setVisible(read is not None)
        if read is not None:
            self._guess.show_message(*guess(read))
        self._part.setVisible(shown is not None and not shown.is_whole)
        pictures = {} if shown is None else {"raw": shown.raw, "normalised": shown.normalised}
        instead = tr("The image is shown once the VAE is available.")
        if is_decoding:
            instead = tr("Decoding one image …")
        for reading, card in self._cards.items():
            picture = pictures.get(reading)
            card.set_picture(QImage() if picture is None else image_of(picture), instead)
            card.setEnabled(read is not None)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._question.setText(tr("Which image looks right?"))
        self._part.setText(tr("Only the centre of the first frame is shown."))
        for reading, card in self._cards.items():
            title, second_line = READINGS[reading]
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
