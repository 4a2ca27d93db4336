"""Thumbnails and loudness of a video as one picture, painted once for each size and theme."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPixmap

from app.theme import tokens

_SOUND_SHARE = 0.3  # of the height, where there is sound and room
_SOUND_FROM = 40  # px of height from which loudness is shown
_BAR = 4  # px from one bar of loudness to the next, at least
_SOFT = 0.6  # exponent: quiet passages are seen, too


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """Contents of a timeline; () for parts that a video does not have, or that are unknown yet."""

    seconds: float  # length of the video
    thumbnails: tuple[tuple[float, QImage], ...] = ()  # time, s
    loudness: tuple[float, ...] = ()  # largest sample of each of n equally long parts, 0 to 1
    cuts: tuple[float, ...] = ()  # s


class FilmStrip:
    """Paints an overview into any width: as many thumbnails side by side as have room.

    Memory: one picture of the strip's size.
    """

    def __init__(self) -> None:
        self._overview: Overview | None = None
        self._painted: tuple[object, QPixmap] | None = None

    @property
    def cuts(self) -> tuple[float, ...]:
        """Times where a shot begins after the first, s."""
        return self._overview.cuts if self._overview is not None else ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to paint."""
        one = self._overview
        return one is None or not (one.thumbnails or one.loudness)

    def show(self, overview: Overview | None) -> None:
        """Take another overview; None for none."""
        self._overview = overview

    def pixmap(self, size: QSizeF, ratio: float) -> QPixmap:
        """The strip in a size in px, for a screen with n device pixels each."""
        theme, overview = tokens.current(), self._overview
        assert overview is not None
        key = overview, size.toSize(), ratio, theme.name, theme.background
        if self._painted is None or self._painted[0] != key:
            self._painted = key, self._paint(overview, size, ratio)
        return self._painted[1]

    def _paint(self, overview: Overview, size: QSizeF, ratio: float) -> QPixmap:
        pixmap = QPixmap((size * ratio).toSize())
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(QColor(tokens.current().surface_2))
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        film = QRectF(0, 0, size.width(), size.height())
        if overview.loudness and (size.height() >= _SOUND_FROM or not overview.thumbnails):
            share = _SOUND_SHARE if overview.thumbnails else 1.0
            sound = QRectF(film)
            sound.setTop(round(film.height() * (1 - share)))
            film.setBottom(sound.top())
            _paint_sound(painter, sound, overview.loudness)
        if overview.thumbnails:
            _paint_film(painter, film, overview, ratio)
        painter.end()
        return pixmap


def _paint_film(painter: QPainter, area: QRectF, overview: Overview, ratio: float) -> None:
    """Thumbnails of equal width, each the nearest one to the middle of its place."""
    first = overview.thumbnails[0][1]
    aspect = first.width() / max(1, first.height())
    count = max(1, round(area.width() / max(1.0, area.height() * aspect)))
    wide = area.width() / count
    for number in range(count):
        middle = (number + 0.5) / count * overview.seconds
        image = min(overview.thumbnails, key=lambda one: abs(one[0] - middle))[1]
        left = round(number * wide)
        place = QRectF(left, area.top(), round((number + 1) * wide) - left, area.height())
        _paint_filling(painter, place, image, ratio)


def _paint_filling(painter: QPainter, place: QRectF, image: QImage, ratio: float) -> None:
    """An image that fills a place, cut at two edges; averaged, as painters only interpolate."""
    fill = Qt.AspectRatioMode.KeepAspectRatioByExpanding
    smooth = Qt.TransformationMode.SmoothTransformation
    size = (place.size() * ratio).toSize()
    scaled = image.scaled(size, fill, smooth)
    part = QRectF(
        (scaled.width() - size.width()) // 2,
        (scaled.height() - size.height()) // 2,
        size.width(),
        size.height(),
    )
    painter.drawImage(place, scaled, part)


def _paint_sound(painter: QPainter, area: QRectF, loudness: tuple[float, ...]) -> None:
    """Bars from the lower edge up."""
    theme = tokens.current()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(tokens.mixed(theme.text_2, theme.surface_2, 0.75)))
    count = max(1, min(len(loudness), int(area.width() // _BAR)))
    wide = area.width() / count
    for bar in range(count):
        first = bar * len(loudness) // count
        after = max(first + 1, (bar + 1) * len(loudness) // count)
        height = max(1.0, max(loudness[first:after]) ** _SOFT * (area.height() - 2))
        painter.drawRect(QRectF(bar * wide, area.bottom() - height, max(1.0, wide - 1.5), height))
