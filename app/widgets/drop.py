"""Targets of dropped files: the field in the queue, and the cover of the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QChildEvent, QEvent, QMimeData, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QDragLeaveEvent,
    QDropEvent,
    QFont,
    QPainter,
    QPaintEvent,
    QPen,
    QWindow,
)
from PySide6.QtWidgets import QAbstractButton, QDialog, QSizePolicy, QWidget

from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.icons import pixmap


class DropZone(QAbstractButton):
    """Title and a second line. `DropTarget` takes drops; this only shows where."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._second_line = ""
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_texts(self, title: str, second_line: str) -> None:
        """New texts; both are read out by screen readers."""
        self.setText(title)
        self._second_line = second_line
        self.setAccessibleName(title)
        self.setAccessibleDescription(second_line)
        self.update()

    def sizeHint(self) -> QSize:
        """Room for the texts."""
        return QSize(240, 76)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw border and texts."""
        theme = tokens.current()
        active = self.underMouse() or self.hasFocus() or self.isDown()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        border = QPen(
            QColor(theme.accent if active else tokens.mixed(theme.text_2, theme.line, 0.3))
        )
        border.setWidthF(2.0 if self.hasFocus() else 1.25)
        border.setDashPattern([4, 3])
        painter.setPen(border)
        painter.setBrush(QColor(theme.dropped_on) if active else Qt.BrushStyle.NoBrush)
        radius = tokens.CARD_RADIUS - 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), radius, radius)
        top = self.rect().center().y() - 20
        title_font = interface_font(tokens.BODY_PX, QFont.Weight.DemiBold)
        self._line(painter, title_font, theme.text_1, top, self.text())
        second_font = interface_font(tokens.SMALL_PX)
        self._line(painter, second_font, theme.text_2, top + 20, self._second_line)

    def _line(self, painter: QPainter, font: QFont, colour: str, top: int, text: str) -> None:
        painter.setFont(font)
        painter.setPen(QColor(colour))
        metrics = painter.fontMetrics()
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, self.width() - 24)
        place = self.rect().adjusted(12, 0, -12, 0)
        place.setTop(top)
        place.setHeight(metrics.height())
        painter.drawText(place, int(Qt.AlignmentFlag.AlignHCenter), shown)


def local_paths(mime: QMimeData) -> list[Path]:
    """Files and folders of a drag; what lies on other machines is left alone."""
    return [Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()]


class DropTarget(QObject):
    """Takes files that are dragged over a window or one of its dialogs, always as Copy.

    After a Move, which Explorer proposes with Shift, the program they come from deletes them.
    Drags are answered before any control sees them: a text field would take the name of a file,
    and a Move.
    """

    hovered = Signal(list)  # paths; none once they are gone
    dropped = Signal(QMimeData)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._watch(window)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Find dialogs and answer drags; everything else goes its way."""
        if isinstance(watched, QWindow):
            return self._answer(event)
        if event.type() is QEvent.Type.Show and isinstance(watched, QWidget):
            watched.windowHandle().installEventFilter(self)
        elif event.type() is QEvent.Type.ChildPolished and isinstance(event, QChildEvent):
            child = event.child()
            if isinstance(child, QDialog):
                self._watch(child)
        return False

    def _watch(self, window: QWidget) -> None:
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def _answer(self, event: QEvent) -> bool:
        """Whether it was a drag of files, which is answered by that."""
        if isinstance(event, QDragLeaveEvent):
            self.hovered.emit([])
            return False
        if not isinstance(event, QDropEvent):  # a drag that enters or moves is one, too
            return False
        paths = local_paths(event.mimeData())
        if not paths:
            return False
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        if event.type() is QEvent.Type.DragEnter:
            self.hovered.emit(paths)
        elif event.type() is QEvent.Type.Drop:
            self.hovered.emit([])
            self.dropped.emit(event.mimeData())
        return True


class DropOverlay(QWidget):
    """Covers its parent and says what a drop does; takes no events: the window gets the drop."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("dropOverlay")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setVisible(False)
        self._title = self._second_line = ""
        parent.installEventFilter(self)

    def open_up(self, title: str, second_line: str) -> None:
        """Cover the window, with two lines of text."""
        self._title, self._second_line = title, second_line
        self.setAccessibleName(f"{title}. {second_line}" if second_line else title)
        parent = self.parentWidget()
        if parent is not None:
            self.setGeometry(parent.rect())
        self.raise_()
        self.show()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            parent = self.parentWidget()
            if parent is not None:
                self.setGeometry(parent.rect())
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Dim what lies below; a frame and a text in the middle."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(theme.background)
        veil.setAlphaF(0.9)
        painter.fillRect(self.rect(), veil)
        fill = QColor(theme.accent)
        fill.setAlphaF(0.08)
        pen = QPen(QColor(theme.accent), 2)
        pen.setDashPattern([5, 4])
        painter.setPen(pen)
        painter.setBrush(fill)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(20, 20, -20, -20), 20, 20)
        centre = self.rect().center()
        painter.drawPixmap(centre.x() - 32, centre.y() - 84, pixmap("add", theme.accent, 64))
        painter.setPen(QColor(theme.text_1))
        painter.setFont(interface_font(26, QFont.Weight.DemiBold))
        place = self.rect().adjusted(48, 0, -48, 0)
        place.setTop(centre.y())
        above = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        flags = above | int(Qt.TextFlag.TextWordWrap)
        painter.drawText(place, flags, self._title)
        used = painter.boundingRect(place, flags, self._title)
        painter.setPen(QColor(theme.text_2))
        painter.setFont(interface_font(15))
        place.setTop(used.bottom() + 10)
        painter.drawText(place, flags, self._second_line)
