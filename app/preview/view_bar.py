"""The row above the picture: what is compared, how large, with tiles or without."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QLayout, QWidget

from app.bound import bind
from app.i18n import tr
from app.preview.scene import Mode
from app.theme.fonts import interface_font
from app.widgets.controls import ChoiceBox, SegmentedControl
from app.widgets.layouts import MIDDLE, Stretch, row
from app.widgets.parts import bind_text, button, label, named
from app.widgets.tab_stop import TabStop


class ViewBar(QWidget):
    """View switch, zoom and the tiles toggle; gives way in three steps where room is short."""

    mode_chosen = Signal(str)  # a Mode
    fit_chosen = Signal()
    zoom_chosen = Signal(float)
    tiles_chosen = Signal(bool)
    live_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "viewBar")
        tab = Qt.FocusPolicy.TabFocus  # a click leaves the keys to the image
        self._segments = SegmentedControl([str(mode.value) for mode in Mode], in_bar=True)
        for mode in Mode:
            self._segments.button(str(mode.value)).setFocusPolicy(tab)
        self._list = ChoiceBox()  # the same choice where the segments do not fit
        self._list.setMinimumContentsLength(0)
        self._list.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        for mode in Mode:
            self._list.offer(str(mode.value), str(mode.value))
        for choice in (self._segments, self._list):
            bind_text(choice, choice.setAccessibleName, "View")
        self._is_lettered = self._is_short = False
        self._held: list[QWidget] = []
        self._whole = button(
            lambda: "100 %", "zoomWhole", tip="One result pixel per screen pixel (1)", focus=tab
        )
        self._fit = button("Fit", "zoomFit", tip="Show the whole image (0)", focus=tab)
        self._live = button(
            "Follow", "liveButton", tip="Back to the frame being processed", focus=tab
        )
        self._tiles = button(
            name="tilesButton",
            icon="tiles",
            tip="Show which tiles of the frame are finished (T)",
            says="Tiles",
            focus=tab,
        )
        self._tiles.setCheckable(True)
        self._tiles.setChecked(True)
        self._zoom = label(kind="secondary")
        self._live.hide()
        self._tiles.hide()
        left = self._segments, self._list, self._fit, self._whole, self._zoom
        right = self._live, self._tiles
        self._row = row(*left, Stretch(1), *right, spacing=8, align=MIDDLE, on=self)
        bar = self._list, self._fit, self._whole, *right
        TabStop(self, (*self._segments.buttons, *bar))
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self._connect()
        bind(self, self._show)

    def _connect(self) -> None:
        self._segments.chosen.connect(self._choose)
        self._list.activated.connect(lambda index: self._choose(self._list.itemData(index)))
        self._fit.clicked.connect(self.fit_chosen)
        self._whole.clicked.connect(lambda: self.zoom_chosen.emit(1.0))
        self._tiles.toggled.connect(self.tiles_chosen)
        self._tiles.toggled.connect(self._give_way)
        self._live.clicked.connect(self.live_chosen)

    def _choose(self, key: str) -> None:
        self.set_mode(Mode(key))
        self.mode_chosen.emit(key)

    def set_mode(self, mode: Mode) -> None:
        """Show which view is on."""
        self._segments.set_current(str(mode.value))
        self._list.setCurrentIndex(list(Mode).index(mode))

    def set_zoom(self, zoom: float) -> None:
        """Show how large the picture is."""
        self._zoom.setText(f"{zoom * 100:.0f} %")

    def show_letters(self, are_shown: bool) -> None:
        """Name the videos A and B instead of original and result."""
        if are_shown != self._is_lettered:
            self._is_lettered = are_shown
            self._show()

    def set_short(self, is_short: bool) -> None:
        """Show the drop-down list alone, where another bar shares the line."""
        if is_short != self._is_short:
            self._is_short = is_short
            for button in (self._fit, self._whole):
                button.setVisible(not is_short)
            self.make_room()

    def hold(self, widget: QWidget) -> None:
        """Put something of others at the right end; `make_room` follows each change of it."""
        self._held.append(widget)
        self._row.addWidget(widget, 0, MIDDLE)

    def make_room(self) -> None:
        """Look again at what has room."""
        self._give_way()
        self.updateGeometry()

    def toggle_tiles(self) -> None:
        """Click the button."""
        self._tiles.toggle()

    def offer_tiles(self, is_offered: bool) -> None:
        """Frames of a single tile have no grid to show."""
        if self._tiles.isHidden() == is_offered:
            self._tiles.setVisible(is_offered)
            self._give_way()

    def offer_follow(self, is_offered: bool) -> None:
        """The way back from a chosen frame to the one in work."""
        self._live.setVisible(is_offered)
        self._give_way()

    # Room

    def sizeHint(self) -> QSize:
        """Height of its controls; any width will do."""
        shown = [one for one in (self._list, *self._held) if not one.isHidden()]
        wide = sum(one.sizeHint().width() + 8 for one in shown) - 8 if self._is_short else 400
        return QSize(wide, max(self._segments.sizeHint().height(), self._fit.sizeHint().height()))

    def minimumSizeHint(self) -> QSize:
        """The drop-down list and three small buttons; alone, the list."""
        hint = self.sizeHint()
        return QSize(min(360, hint.width()), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find out what fits."""
        super().resizeEvent(event)
        self._give_way()

    def _give_way(self) -> None:
        """Zoom figure goes first, then the text of the toggle, then segments become a list."""
        if self._is_short:
            self._show_list(True)
            self._zoom.hide()
            return
        needed = 8 * 4
        needed += sum(w.sizeHint().width() for w in (self._segments, self._fit, self._whole))
        needed += 56  # the zoom figure at its widest
        tick = " ✓" if self._tiles.isChecked() else ""
        self._tiles.setText(tr("Tiles") + tick)
        extra = [one for one in (self._tiles, self._live, *self._held) if not one.isHidden()]
        needed += sum(one.sizeHint().width() + 8 for one in extra)
        short = needed - self.width()
        self._zoom.setVisible(short <= 0)
        short -= 64
        if short > 0 and not self._tiles.isHidden():
            wide = self._tiles.sizeHint().width()
            self._tiles.setText(tick.strip())
            short -= wide - self._tiles.sizeHint().width()
        self._show_list(short > 0)

    def _show_list(self, is_list: bool) -> None:
        self._segments.setVisible(not is_list)
        self._list.setVisible(is_list)

    # Language

    def _show(self) -> None:
        labels, tips = _labels(self._is_lettered), _tips(self._is_lettered)
        self._segments.set_labels({str(mode.value): text for mode, text in labels.items()})
        self._segments.set_tips({str(mode.value): text for mode, text in tips.items()})
        # Room for the selected segment's bold text, so that choosing moves nothing.
        bold = QFontMetrics(interface_font(weight=QFont.Weight.DemiBold))
        for mode in Mode:
            segment = self._segments.button(str(mode.value))
            segment.setMinimumWidth(bold.horizontalAdvance(segment.text()) + 22)
        for index, text in enumerate(labels.values()):
            self._list.setItemText(index, text)
        self._give_way()


def _labels(are_letters: bool) -> dict[Mode, str]:
    return {
        Mode.FIRST: "A" if are_letters else tr("Original"),
        Mode.SECOND: "B" if are_letters else tr("Result"),
        Mode.SPLIT: tr("Split"),
        Mode.SIDE: tr("Side by side"),
        Mode.DIFFERENCE: tr("Difference"),
    }


def _tips(are_letters: bool) -> dict[Mode, str]:
    usual = {
        Mode.FIRST: tr("The source, at the size of the result"),
        Mode.SECOND: tr("The result; while a job runs, the frame being processed"),
        Mode.SPLIT: tr("Source left of the divider, result right of it; drag anywhere"),
    }
    lettered = {
        Mode.FIRST: tr("Video {letter}", letter="A"),
        Mode.SECOND: tr("Video {letter}", letter="B"),
        Mode.SPLIT: tr("A left of the divider, B right of it; drag anywhere"),
    }
    return (lettered if are_letters else usual) | {
        Mode.SIDE: tr("Both images, moved and zoomed together"),
        Mode.DIFFERENCE: tr("Changes, amplified; black means unchanged"),
    }
