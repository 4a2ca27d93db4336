"""Zoom and pan: where the pixels of a picture lie on the widget. Plain arithmetic, no widgets."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF

LARGEST_ZOOM = 32.0
STEP = 1.25  # of one notch of the wheel


class Viewport:
    """Maps a picture of `content` px (as seen, pixels square) into a view of logical px.

    `zoom` counts device pixels for one pixel of the picture, so 1.0 is sharp on every screen.
    """

    def __init__(self) -> None:
        self.content = QSizeF(0, 0)
        self.view = QSizeF(1, 1)
        self.ratio = 1.0  # device pixels for one logical pixel
        self.zoom = 1.0
        self.centre = QPointF(0, 0)  # of the view, in pixels of the picture
        self.is_fitted = True

    @property
    def fit_zoom(self) -> float:
        """The largest zoom that shows all of the picture."""
        if self.content.isEmpty():
            return 1.0
        across = self.view.width() / self.content.width()
        down = self.view.height() / self.content.height()
        return max(1e-3, min(across, down) * self.ratio)

    @property
    def scale(self) -> float:
        """Logical px for one pixel of the picture."""
        return self.zoom / self.ratio

    @property
    def target(self) -> QRectF:
        """Place of the whole frame, in logical px, edges on device pixels."""
        left = self.view.width() / 2 - self.centre.x() * self.scale
        top = self.view.height() / 2 - self.centre.y() * self.scale
        right = left + self.content.width() * self.scale
        bottom = top + self.content.height() * self.scale
        edges = (round(edge * self.ratio) / self.ratio for edge in (left, top, right, bottom))
        left, top, right, bottom = edges
        return QRectF(left, top, right - left, bottom - top)

    def set_content(self, content: QSizeF) -> None:
        """Another picture; one of the same shape stays where it is, at the same place."""
        if content == self.content:
            return
        old, self.content = self.content, QSizeF(content)
        if self.is_fitted or old.isEmpty():
            self.fit()
            return
        factor = content.width() / old.width()
        same_shape = abs(old.height() * factor - content.height()) < 0.01 * content.height()
        if not same_shape:
            self.fit()
            return
        self.centre *= factor
        self._set_zoom(self.zoom / factor)

    def set_view(self, view: QSizeF, ratio: float) -> None:
        """The widget has another size or moved to another screen."""
        self.view = QSizeF(max(1.0, view.width()), max(1.0, view.height()))
        self.ratio = ratio
        if self.is_fitted:
            self.fit()
        else:
            self._set_zoom(self.zoom)

    def fit(self) -> None:
        """Show all of the picture, and keep doing so when the view is resized."""
        self.is_fitted = True
        self.zoom = self.fit_zoom
        self.centre = QPointF(self.content.width() / 2, self.content.height() / 2)

    def to_content(self, point: QPointF) -> QPointF:
        """Pixel of the picture at a point of the view."""
        offset = point - QPointF(self.view.width() / 2, self.view.height() / 2)
        return self.centre + offset / self.scale

    def zoom_to(self, zoom: float, anchor: QPointF | None = None) -> None:
        """Zoom so that the pixel at `anchor` (of the view; default its middle) stays there."""
        if anchor is None:  # a point at 0, 0 is false
            anchor = QPointF(self.view.width() / 2, self.view.height() / 2)
        kept = self.to_content(anchor)
        self.is_fitted = False
        self._set_zoom(zoom)
        self.centre += kept - self.to_content(anchor)
        self._keep_inside()

    def pan(self, delta: QPointF) -> None:
        """Move the picture by `delta` logical px."""
        if self.is_fitted:
            return
        self.centre -= delta / self.scale
        self._keep_inside()

    def _set_zoom(self, zoom: float) -> None:
        smallest = min(self.fit_zoom, 1.0) / 2
        self.zoom = min(max(zoom, smallest), max(LARGEST_ZOOM, self.fit_zoom))
        self._keep_inside()

    def _keep_inside(self) -> None:
        """The middle of the view always shows the picture; a picture that fits is centred."""
        width, height = self.content.width(), self.content.height()
        if self.zoom <= self.fit_zoom:
            self.centre = QPointF(width / 2, height / 2)
            return
        x = min(max(self.centre.x(), 0.0), width)
        y = min(max(self.centre.y(), 0.0), height)
        self.centre = QPointF(x, y)
