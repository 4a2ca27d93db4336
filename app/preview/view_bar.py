"""The row above the picture: what is compared, how large, with tiles or without."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLayout, QPushButton, QWidget

from app.i18n import tr
from app.preview.scene import Mode
from app.theme.fonts import interface_font
from app.theme.icons import icon
from app.widgets.controls import ChoiceBox, SegmentedControl
from app.widgets.plain import Label, set_tip


class ViewBar(QWidget):
    """View switch, zoom and the tiles toggle; gives way in three steps where room is short."""

    mode_chosen = Signal(str)  # a Mode
    fit_chosen = Signal()
    zoom_chosen = Signal(float)
    tiles_chosen = Signal(bool)
    live_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("viewBar")
        self._segments = SegmentedControl([str(mode.value) for mode in Mode])
        self._list = ChoiceBox()  # the same choice where the segments do not fit
        self._list.setMinimumContentsLength(0)
        self._list.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        for mode in Mode:
            self._list.offer(str(mode.value), str(mode.value))
        self._is_lettered = self._is_short = False
        self._held: list[QWidget] = []
        self._whole, self._fit = QPushButton(), QPushButton()
        self._live, self._tiles = QPushButton(), QPushButton()
        self._zoom = Label()
        self._zoom.setProperty("kind", "secondary")
        names = {"zoomWhole": self._whole, "zoomFit": self._fit}
        names |= {"liveButton": self._live, "tilesButton": self._tiles}
        for name, button in names.items():
            button.setObjectName(name)
        self._tiles.setCheckable(True)
        self._tiles.setChecked(True)
        for button in (*names.values(), *map(self._segments.button, map(str, Mode))):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the picture
        self._live.hide()
        self._tiles.hide()
        self._lay_out()
        self._connect()
        self.retranslate()

    def _lay_out(self) -> None:
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        for widget in (self._segments, self._list, self._fit, self._whole, self._zoom):
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        row.addWidget(self._live, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._tiles, 0, Qt.AlignmentFlag.AlignVCenter)

    def _connect(self) -> None:
        self._segments.chosen.connect(self._choose)
        self._list.activated.connect(lambda index: self._choose(self._list.itemData(index)))
        self._fit.clicked.connect(self.fit_chosen)
        self._whole.clicked.connect(lambda: self.zoom_chosen.emit(1.0))
        self._tiles.toggled.connect(self.tiles_chosen)
        self._tiles.toggled.connect(self.retranslate)
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
        """Name the films A and B instead of original and result."""
        if are_shown != self._is_lettered:
            self._is_lettered = are_shown
            self.retranslate()

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
        self._row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)

    def make_room(self) -> None:
        """Look again at what has room."""
        self._give_way()
        self.updateGeometry()

    def toggle_tiles(self) -> None:
        """As a click on the button."""
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
        """As high as its controls; any width will do."""
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

    # Language and theme

    def changeEvent(self, event: QEvent) -> None:
        """Another language or theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.PaletteChange):
            self.retranslate()

    def retranslate(self) -> None:
        """All texts and icons again."""
        labels, tips = _labels(self._is_lettered), _tips(self._is_lettered)
        self._segments.set_labels({str(mode.value): text for mode, text in labels.items()})
        self._segments.set_tips({str(mode.value): text for mode, text in tips.items()})
        self._widen_segments()
        self._segments.setAccessibleName(tr("View"))
        self._list.setAccessibleName(tr("View"))
        for index, text in enumerate(labels.values()):
            self._list.setItemText(index, text)
        self._rebuild_buttons()
        self._give_way()

    def _widen_segments(self) -> None:
        """Room for the selected segment's bold text, so that choosing moves nothing."""
        bold = QFontMetrics(interface_font(weight=QFont.Weight.DemiBold))
        for mode in Mode:
            button = self._segments.button(str(mode.value))
            button.setMinimumWidth(bold.horizontalAdvance(button.text()) + 22)

    def _rebuild_buttons(self) -> None:
        self._fit.setText(tr("Fit"))
        set_tip(self._fit, tr("Show the whole image (0)"))
        self._whole.setText("100 %")
        set_tip(self._whole, tr("One result pixel per screen pixel (1)"))
        self._live.setText(tr("Follow"))
        set_tip(self._live, tr("Back to the frame being processed"))
        self._tiles.setAccessibleName(tr("Tiles"))
        set_tip(self._tiles, tr("Show which tiles of the frame are finished (T)"))
        self._tiles.setIcon(icon("tiles", size=16))


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
