"""The film as a timeline: position, finished part and cut-off ends; frames to times and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractSlider, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n import tr
from app.theme import tokens
from app.widgets.controls import ElidedLabel
from engine.protocol.media import MediaInfo

_THIN_SPACE = "\u202f"  # narrow and never broken: groups digits in every language
_ROUNDED = Fraction(6, 10_000)  # s; some containers keep whole milliseconds only
_UNCOUNTED = Fraction(1000)  # steps/s where a film has no steady rate


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmClock:
    """Length of a film in steps: frames where they can be counted, else milliseconds."""

    steps: int
    rate: Fraction  # steps/s
    counts_frames: bool

    @classmethod
    def of(cls, media: MediaInfo) -> FilmClock:
        """The clock of a file; stills have one step."""
        video = media.video
        if media.kind == "image":
            return cls(steps=1, rate=Fraction(1), counts_frames=True)
        rate = video.frame_rate or Fraction(0)
        if video.frame_count and not rate and video.duration:
            rate = video.frame_count / video.duration
        if rate > 0:
            count = video.frame_count or round((video.duration or 0) * rate)
            return cls(steps=max(1, count), rate=rate, counts_frames=True)
        steps = round((video.duration or 0) * _UNCOUNTED)
        return cls(steps=max(1, steps), rate=_UNCOUNTED, counts_frames=False)

    @property
    def seconds(self) -> float:
        """Length of the film."""
        return float(self.steps / self.rate)

    def step_at(self, seconds: float | Fraction) -> int:
        """The step that is shown at a time, inside the film."""
        step = int((Fraction(seconds) + _ROUNDED) * self.rate)
        return min(max(step, 0), self.steps - 1)

    def first_step_from(self, seconds: float) -> int:
        """The first step that begins at a time or later; the number of steps after the end."""
        step = math.ceil((Fraction(seconds) - _ROUNDED) * self.rate)
        return min(max(step, 0), self.steps)

    def seconds_of(self, step: int) -> float:
        """When a step begins."""
        return float(step / self.rate)

    def seconds_to_ask(self, step: int) -> float:
        """A time well inside a step: rounding it to a frame gives this one."""
        inside = Fraction(1, 4) if self.counts_frames and self.steps > 1 else Fraction(0)
        return float((step + inside) / self.rate)


def grouped(number: int) -> str:
    """A whole number with its digits in groups of three: "1 204"."""
    return f"{number:,}".replace(",", _THIN_SPACE)


def clock(seconds: float) -> str:
    """A moment in a film in hundredths: "00:00:50.21"."""
    hundredths = int(seconds * 100 + 1e-6)  # never shows a time that has not come yet
    minutes, hundredths = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{hundredths // 100:02d}.{hundredths % 100:02d}"


_MARGIN = 6  # px left and right of the strip, room for handles and playhead


class TimelineStrip(QAbstractSlider):
    """A slider over the steps of a film; emits what the user chose, never what was set."""

    step_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("timelineStrip")
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._steps_a_second = 25
        self._span = (0, 1)  # first step that is kept, first one after
        self._finished = 0  # steps from the beginning of the span

    def set_film(self, film: FilmClock) -> None:
        """Another film; nothing is finished, nothing cut off."""
        self._steps_a_second = max(1, round(film.rate))
        self._span, self._finished = (0, film.steps), 0
        self.setRange(0, film.steps - 1)
        self.setSingleStep(1 if film.counts_frames else 40)
        self.setPageStep(self._steps_a_second)
        self.setValue(0)
        self.update()

    def set_span(self, start: int, stop: int) -> None:
        """What of the film is kept."""
        self._span = (max(0, start), min(max(start + 1, stop), self.maximum() + 1))
        self.update()

    @property
    def span(self) -> tuple[int, int]:
        """First step that is kept, first one after."""
        return self._span

    def is_kept(self, step: int) -> bool:
        """True when a step is part of the result."""
        return self._span[0] <= step < self._span[1]

    @property
    def is_trimmed(self) -> bool:
        """True when a part of the film is left out."""
        return self._span != (0, self.maximum() + 1)

    @property
    def finished(self) -> int:
        """Steps of the span that are done."""
        return self._finished

    def set_finished(self, steps: int) -> None:
        """How far the result is, counted from the beginning of the span."""
        steps = min(max(steps, 0), self._span[1] - self._span[0])
        if steps != self._finished:
            self._finished = steps
            self.update()

    # Geometry

    def sizeHint(self) -> QSize:
        """A strip one can hit."""
        return QSize(400, 36)

    def minimumSizeHint(self) -> QSize:
        """Still a strip."""
        return QSize(120, 28)

    def _track(self) -> QRectF:
        return QRectF(self.rect()).adjusted(_MARGIN, 2, -_MARGIN, -2)

    def x_of(self, step: float) -> float:
        """Where a step begins, in px."""
        track = self._track()
        return track.left() + track.width() * step / (self.maximum() + 1)

    def step_at(self, x: float) -> int:
        """The step below a point."""
        track = self._track()
        step = int((x - track.left()) / max(1.0, track.width()) * (self.maximum() + 1))
        return min(max(step, 0), self.maximum())

    # Mouse and keyboard

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go there."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._choose(self.step_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scrub."""
        if self.isSliderDown():
            self._choose(self.step_at(event.position().x()))

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        """Let go."""
        self.setSliderDown(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Frames by arrows, seconds by page keys, ends by Home and End."""
        steps = {
            Qt.Key.Key_Left: -self.singleStep(),
            Qt.Key.Key_Right: self.singleStep(),
            Qt.Key.Key_PageUp: -self.pageStep(),
            Qt.Key.Key_PageDown: self.pageStep(),
        }
        key = Qt.Key(event.key())
        if key in steps:
            self._choose(self.value() + steps[key])
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._choose(self._span[0] if key == Qt.Key.Key_Home else self._span[1] - 1)
        else:
            super().keyPressEvent(event)

    def _choose(self, step: int) -> None:
        step = min(max(step, 0), self.maximum())
        if step != self.value() or self.isSliderDown():
            self.setValue(step)
            self.step_chosen.emit(step)

    # Painting

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Track, finished part, handles, playhead, focus ring."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        track = self._track()
        kept = QRectF(track)
        kept.setLeft(self.x_of(self._span[0]))
        kept.setRight(self.x_of(self._span[1]))
        done = QRectF(kept)
        done.setRight(self.x_of(self._span[0] + self._finished))
        empty = tokens.mixed(theme.surface_3, theme.surface_2, 0.35)
        filled = tokens.mixed(theme.accent, theme.surface_2, 0.45 if theme.is_dark else 0.55)
        for rect, colour in ((track, empty), (kept, theme.surface_3), (done, filled)):
            if rect.width() > 0:
                painter.setBrush(QColor(colour))
                painter.drawRoundedRect(rect, 4, 4)
        if self.is_trimmed:
            self._paint_handles(painter, kept, QColor(theme.text_1))
        self._paint_playhead(painter, track, QColor(theme.text_1))
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    @staticmethod
    def _paint_handles(painter: QPainter, kept: QRectF, colour: QColor) -> None:
        painter.setBrush(colour)
        for x in (kept.left() - 5, kept.right()):
            painter.drawRoundedRect(QRectF(x, kept.top(), 5, kept.height()), 2, 2)

    def _paint_playhead(self, painter: QPainter, track: QRectF, colour: QColor) -> None:
        x = round(self.x_of(self.value() + 0.5))
        painter.setBrush(colour)
        painter.drawRect(QRectF(x - 1, track.top() - 2, 2, track.height() + 4))
        painter.drawEllipse(QPointF(x, track.top()), 4, 4)


class Timeline(QFrame):
    """The slider with its meaning as text and figures above it."""

    seconds_chosen = Signal(float)  # s of the source, well inside a frame

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("timeline")
        self.setProperty("kind", "card")
        self._film: FilmClock | None = None
        self._is_running = False
        self._trim_seconds = (0.0, 0.0)
        self.strip = TimelineStrip()
        self.strip.step_chosen.connect(self._chosen)
        self.strip.valueChanged.connect(self._show_position)
        self._title, self._trim, self._position = QLabel(), ElidedLabel(), QLabel()
        for label in (self._title, self._trim):
            label.setProperty("kind", "secondary")
        self._position.setObjectName("positionLabel")
        self._trim.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self._title)
        head.addWidget(self._trim, 1)
        head.addWidget(self._position)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 10)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self.strip)
        self.retranslate()

    def set_film(self, film: FilmClock) -> None:
        """Another film."""
        self._film = film
        self._trim_seconds = (0.0, film.seconds)
        self.strip.set_film(film)
        self.retranslate()

    def set_trim(self, start: float | None, stop: float | None) -> None:
        """What of the film is kept, in seconds; frames from `start` on that come before `stop`."""
        if self._film is None:
            return
        self._trim_seconds = (start or 0.0, self._film.seconds if stop is None else stop)
        self.strip.set_span(*(self._film.first_step_from(edge) for edge in self._trim_seconds))
        self.retranslate()

    def set_finished(self, steps: int, *, is_running: bool) -> None:
        """How far the result is."""
        self.strip.set_finished(steps)
        if is_running != self._is_running:
            self._is_running = is_running
            self._title.setText(self._title_text())

    def set_step(self, step: int) -> None:
        """Move the playhead without a signal."""
        if not self.strip.isSliderDown():
            self.strip.setValue(step)

    @property
    def seconds_to_ask(self) -> float:
        """A time well inside the frame at the playhead."""
        return self._film.seconds_to_ask(self.strip.value()) if self._film else 0.0

    def _chosen(self, _step: int) -> None:
        self.seconds_chosen.emit(self.seconds_to_ask)

    def _show_position(self) -> None:
        if self._film is None:
            return
        step = self.strip.value()
        text = clock(self._film.seconds_of(step))
        if self._film.counts_frames:
            text = f"{grouped(step + 1)} / {grouped(self._film.steps)} · {text}"
        self._position.setText(text)

    def _title_text(self) -> str:
        if self._is_running:
            return tr("Timeline: green is finished")
        return tr("Timeline")

    def changeEvent(self, event: QEvent) -> None:
        """Another language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate()

    def retranslate(self) -> None:
        """All texts in the current language."""
        self._title.setText(self._title_text())
        self.strip.setAccessibleName(tr("Timeline"))
        self.strip.setToolTip(
            tr("Click or drag to look at a frame. Arrow keys: a frame; page keys: a second.")
        )
        trim = ""
        if self._film is not None and self.strip.is_trimmed:
            start, stop = (clock(edge) for edge in self._trim_seconds)
            trim = tr("In {start} · Out {stop}", start=start, stop=stop)
        self._trim.setText(trim)
        self._show_position()
