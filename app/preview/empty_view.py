"""Preview without a picture: an invitation, or why the selected file cannot be shown."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.actions import Actions
from app.bound import bind
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.layouts import CENTRE, Stretch, column, layout_of, row, set_margins
from app.widgets.parts import button, label, named

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
    """The drop panel in the middle, and that it works without a GPU; or a sentence alone."""

    sample_requested = Signal()

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "emptyView")
        self.panel = DropPanel()
        self.panel.clicked.connect(actions["add_files"].trigger)
        self._icon = label(align=CENTRE)
        bind(
            self._icon,
            lambda: self._icon.setPixmap(pixmap("film", tokens.current().accent, _ICON_PX)),
            theme=True,
        )
        self._honest = label(
            "The built-in model works right away: no GPU, no download.",
            "secondary",
            wraps=True,
            align=CENTRE,
        )
        add = button("Add files", "emptyAddButton", "primary", on=actions["add_files"].trigger)
        sample = button(
            "Try the sample clip",
            "emptySampleButton",
            "large",
            tip="Upscales a short sample video with audio",
            on=self.sample_requested,
        )
        column(
            self._icon,
            label("Drop videos, images or folders", "headline", wraps=True, align=CENTRE),
            label(lambda: _FORMATS, "secondary", align=CENTRE),
            16,
            row(Stretch(1), add, sample, Stretch(1), spacing=12),
            spacing=8,
            on=self.panel,
        )
        self._reason: Callable[[], str] | None = None
        self._sentence = label(name="whyNoPicture", wraps=True, align=CENTRE)
        parts = self.panel, self._honest, self._sentence
        for part in parts:
            part.setMaximumWidth(_WIDTH)
        middle = column(Stretch(4), *parts, Stretch(5), spacing=16)
        row(Stretch(1), (middle, 1000), Stretch(1), margins=16, on=self)
        bind(self, self._show)

    def explain(self, reason: Callable[[], str] | None) -> None:
        """Show why a file has no picture; None for the invitation."""
        self._reason = reason
        if reason is not None and self.panel.isAncestorOf(self.focusWidget() or self):
            self._sentence.setFocus()  # its button is hidden; the picture that follows gets it
        self._show()

    def _show(self) -> None:
        self._sentence.setText(self._reason() if self._reason is not None else "")
        self._sentence.setVisible(self._reason is not None)
        self.panel.setVisible(self._reason is None)
        self._honest.setVisible(self._reason is None and self.height() >= _LOWEST)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Texts and buttons come before room around them."""
        super().resizeEvent(event)
        is_low = self.height() < _LOW
        self._icon.setVisible(not is_low)
        self._show()
        edge = 12 if is_low else 36
        set_margins(layout_of(self.panel), (24, edge))

    def sizeHint(self) -> QSize:
        """Room around the panel."""
        return QSize(720, 480)
