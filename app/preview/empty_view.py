"""What the preview shows before there is a job: an invitation."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.actions import Actions
from app.i18n import tr
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.layouts import layout_of
from app.widgets.plain import Label, set_tip

_FORMATS = "MKV, MP4, MOV, AVI, WebM, PNG, TIFF, .latent …"
_ICON_PX = 44
_WIDTH = 560
_LOW, _LOWEST = 330, 230  # px of height below which the icon goes, and the last sentence


class DropPanel(QFrame):
    """A dashed panel that looks like a place to put things; a click on it opens the dialog."""

    clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("dropPanel")
        self._is_hovered = False

    def set_hovered(self, is_hovered: bool) -> None:
        """Whether files are being dragged over the window."""
        self._is_hovered = is_hovered
        self.update()

    @property
    def is_hovered(self) -> bool:
        """True while files are being dragged over the window."""
        return self._is_hovered

    def paintEvent(self, _event: QPaintEvent) -> None:
        """The dashed frame; solid and accented while files hover."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        if self._is_hovered:
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.setBrush(QColor(theme.dropped_on))
        else:
            edge = tokens.mixed(theme.text_2, theme.line, 0.35)
            painter.setPen(QPen(QColor(edge), 1.5, Qt.PenStyle.CustomDashLine))
            pen = painter.pen()
            pen.setDashPattern([4, 4])
            painter.setPen(pen)
            painter.setBrush(QColor(theme.surface_1))
        painter.drawRoundedRect(rect, tokens.CARD_RADIUS, tokens.CARD_RADIUS)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The panel is as good as its button."""
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(
            event.position().toPoint()
        ):
            self.clicked.emit()


class EmptyView(QWidget):
    """The drop panel in the middle, and that it works without a GPU."""

    sample_requested = Signal()

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("emptyView")
        self.panel = DropPanel()
        self.panel.clicked.connect(actions["add_files"].trigger)
        self._icon, self._title, self._formats = Label(), Label(), Label(_FORMATS)
        self._title.setProperty("kind", "headline")
        self._formats.setProperty("kind", "secondary")
        self._honest = Label()
        self._honest.setProperty("kind", "secondary")
        for label in (self._icon, self._title, self._formats, self._honest):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        for label in (self._title, self._honest):
            label.setWordWrap(True)
        self._add, self._sample = QPushButton(), QPushButton()
        self._add.setObjectName("emptyAddButton")
        self._add.setProperty("kind", "primary")
        self._sample.setObjectName("emptySampleButton")
        self._sample.setProperty("kind", "large")
        self._add.clicked.connect(actions["add_files"].trigger)
        self._sample.clicked.connect(self.sample_requested)
        self._lay_out()
        self.retranslate()

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(12)
        buttons.addStretch(1)
        buttons.addWidget(self._add)
        buttons.addWidget(self._sample)
        buttons.addStretch(1)
        inside = QVBoxLayout(self.panel)
        inside.setSpacing(8)
        inside.addWidget(self._icon)
        inside.addWidget(self._title)
        inside.addWidget(self._formats)
        inside.addSpacing(16)
        inside.addLayout(buttons)
        self.panel.setMaximumWidth(_WIDTH)
        self._honest.setMaximumWidth(_WIDTH)
        middle = QVBoxLayout()
        middle.setSpacing(16)
        middle.addStretch(4)
        middle.addWidget(self.panel)
        middle.addWidget(self._honest)
        middle.addStretch(5)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 16, 16, 16)
        row.addStretch(1)
        row.addLayout(middle, 1000)
        row.addStretch(1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Texts and buttons come before room around them."""
        super().resizeEvent(event)
        is_low = self.height() < _LOW
        self._icon.setVisible(not is_low)
        self._honest.setVisible(self.height() >= _LOWEST)
        edge = 12 if is_low else 36
        layout_of(self.panel).setContentsMargins(24, edge, 24, edge)

    def sizeHint(self) -> QSize:
        """Room around the panel."""
        return QSize(720, 480)

    def changeEvent(self, event: QEvent) -> None:
        """Another language or theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.PaletteChange):
            self.retranslate()

    def retranslate(self) -> None:
        """All texts and the icon again."""
        self._icon.setPixmap(pixmap("film", tokens.current().accent, _ICON_PX))
        self._title.setText(tr("Drop videos, images or folders"))
        self._add.setText(tr("Add files"))
        self._sample.setText(tr("Try the sample clip"))
        set_tip(self._sample, tr("Upscales a short sample video with audio"))
        self._honest.setText(tr("The built-in model works right away: no GPU, no download."))
