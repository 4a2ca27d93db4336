"""Bars and rings that show a part of a whole."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import tokens
from app.widgets.layouts import row
from app.widgets.parts import label

_LEAST_SEEN = 0.05  # of a ring


class ShareBar(QWidget):
    """A bar: our part, others' part, and an amber tick at a limit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ours = self._others = 0.0
        self._tick: float | None = None
        self._is_over = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_shares(
        self,
        ours: float,
        others: float = 0.0,
        *,
        tick: float | None = None,
        is_over: bool = False,
    ) -> None:
        """Parts of the whole, 0 to 1; `is_over` draws our part as too much."""
        self._ours, self._others = min(1.0, ours), others
        self._tick, self._is_over = tick, is_over
        self.update()

    def sizeHint(self) -> QSize:
        """A thin line with room for the tick."""
        return QSize(80, 14)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw groove, parts and tick."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        bar = QRectF(0, (self.height() - 6) / 2, self.width(), 6)
        painter.setBrush(QColor(theme.surface_3))
        painter.drawRoundedRect(bar, 3, 3)
        both = min(1.0, self._ours + self._others)
        _part(painter, bar, both, theme.others)
        _part(painter, bar, self._ours, theme.error if self._is_over else theme.accent)
        if self._tick is not None:
            x = min(self.width() - 2.0, self.width() * self._tick)
            painter.setBrush(QColor(theme.warning))
            painter.drawRect(QRectF(x, 0, 2, self.height()))


class ProgressLine(QWidget):
    """A bar and, after it, the figures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar, self._figures = ShareBar(), label(kind="secondary")
        row((self._bar, 1), self._figures, spacing=12, on=self)

    def show_progress(self, share: float, figures: str) -> None:
        """Finished part, 0 to 1, and figures."""
        self._bar.set_shares(share)
        self._figures.setText(figures)
        self._bar.setAccessibleName(figures)


class ShareRing(QWidget):
    """A meter as a ring: our part in accent, others in grey, an amber tick at the plan's peak.

    What did not fit is red and ends where the ring does, however little it is.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ours = self._others = self._spilled = 0.0
        self._tick: float | None = None
        self.setFixedSize(34, 34)

    def set_shares(
        self, ours: float, others: float, *, spilled: float = 0.0, tick: float | None = None
    ) -> None:
        """Parts of the whole, 0 to 1; `spilled` is our part outside of it."""
        self._ours, self._others, self._tick = ours, others, tick
        self._spilled = min(1.0, max(_LEAST_SEEN, spilled)) if spilled > 0 else 0.0
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the ring, clockwise from the top."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(4, 4, self.width() - 8, self.height() - 8)
        arcs = [
            (0.0, 1.0, theme.surface_3),
            (self._ours, self._others, theme.others),
            (0.0, self._ours, theme.accent),
            (1.0 - self._spilled, self._spilled, theme.error),
        ]
        if self._tick is not None:
            arcs.append((self._tick - 0.01, 0.02, theme.warning))
        for start, share, colour in arcs:
            if share <= 0:
                continue
            pen = QPen(QColor(colour), 5)
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            painter.drawArc(
                ring, round(16 * (90 - 360 * start)), round(-16 * 360 * min(1.0, share))
            )


def _part(painter: QPainter, bar: QRectF, share: float, colour: str) -> None:
    if share <= 0:
        return
    part = QRectF(bar)
    part.setWidth(max(6.0, bar.width() * share))
    painter.setBrush(QColor(colour))
    painter.drawRoundedRect(part, 3, 3)
