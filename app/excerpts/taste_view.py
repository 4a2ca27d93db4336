"""Page that compares presets: scenes of a video, and their samples looped side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QHideEvent, QImage
from PySide6.QtWidgets import QCheckBox, QWidget

from app.bound import bind
from app.i18n import mark, tr
from app.preview.film_clock import clock
from app.widgets.controls import ChoiceBox, FlowLayout
from app.widgets.layouts import LEFT, MIDDLE, TOP, Stretch, column, row
from app.widgets.notice_line import NoticeLine
from app.widgets.page import Page
from app.widgets.parts import bind_text, button, label, named
from app.widgets.picture_box import PictureBox
from app.widgets.plain import Label, caption
from engine.protocol.excerpt import Scene

MOST_PRESETS = 4
KINDS = {
    "dark": mark("Dark"),
    "motion": mark("Motion"),
    "text": mark("Text or edges"),
    "texture": mark("Texture"),
    "flat": mark("Flat area"),
    "": mark("Your choice"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One preset at the place that is looked at; an empty name is the original."""

    name: str
    title: str
    figures: str = ""


class LoopPane(QWidget):
    """A picture that is replaced frame by frame, its name, its figures and a button."""

    taken = Signal(str)  # name of the preset

    def __init__(self, snippet: Snippet, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(f"loop-{snippet.name or 'original'}")
        self.picture = PictureBox()
        use = button(
            "Use this preset",
            "usePreset",
            says=lambda: tr("Use the preset {name}", name=snippet.title),
            on=lambda: self.taken.emit(snippet.name),
        )
        policy = use.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # all pictures are equally high
        use.setSizePolicy(policy)
        title = named(Label(snippet.title), kind="strong")
        figures = named(Label(snippet.figures or " "), kind="secondary")
        column((self.picture, 1), title, figures, (use, 0, LEFT), spacing=4, on=self)
        use.setVisible(bool(snippet.name))


class TasteView(Page):
    """Shows what the controller sets; emits the user's requests."""

    make_requested = Signal()
    stop_requested = Signal()
    add_requested = Signal()  # the frame that the preview shows
    look_changed = Signal()  # samples of another scene are shown
    chosen = Signal()  # other scenes or presets
    taken = Signal(str)  # name of a preset
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(
            "tasteDialog",
            mark("Compare presets"),
            parent,
            size=QSize(1080, 640),
            least=QSize(720, 400),
        )
        self._offered: tuple[Scene | float, ...] = ()
        self._places: dict[float, QCheckBox] = {}
        self._presets: dict[str, QCheckBox] = {}
        self._panes: dict[str, LoopPane] = {}
        self._shown: tuple[Snippet, ...] = ()
        self._count = 0  # snippets that are missing
        self._make = button(self._make_text, "tasteMake", "primary", on=self.make_requested)
        self._stop = button("Stop", "tasteStop", on=self.stop_requested)
        self._progress, self._notice = label(kind="secondary"), NoticeLine()
        self._look = named(ChoiceBox(), "tasteLook")
        self._look.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        self._look.activated.connect(lambda _index: self.look_changed.emit())
        bind_text(self._look, self._look.setAccessibleName, mark("Scene shown"))
        self._place_row, self._preset_row = FlowLayout(spacing=16), FlowLayout(spacing=16)
        self._loops = row(spacing=12)
        self._lay_out()
        self.show_state()
        bind(self, lambda: self.show_places(self._offered))

    def _lay_out(self) -> None:
        title = label("Compare presets", "headline")
        lead = label(
            "Two-second samples from characteristic scenes, processed with each preset and "
            "looped next to the original. Speed and memory are measured on this computer.",
            "secondary",
            wraps=True,
        )
        add = button("Add current frame", "tasteAdd", on=self.add_requested)
        below = self._make, self._stop, self._progress, Stretch(1), self._look
        self.fill(
            title,
            lead,
            label("Scenes", "section"),
            row((self._place_row, 1), (add, 0, TOP)),
            label("Presets (up to four)", "section"),
            self._preset_row,
            row(*below, align=MIDDLE),
            self._notice,
            (self._loops, 1),
            focus=title,
        )

    # Choices

    def show_places(self, places: Sequence[Scene | float]) -> None:
        """Places that can be chosen; those that were left out stay so, new ones are chosen."""
        left_out = {seconds for seconds, box in self._places.items() if not box.isChecked()}
        looked_at = self.looked_at
        self._offered = tuple(places)
        self._place_row.clear()
        self._look.clear()
        self._places = {}
        for place in places:
            kind, seconds = (place.kind, place.seconds) if isinstance(place, Scene) else ("", place)
            title = f"{tr(KINDS[kind])} · {clock(seconds)}"
            box = QCheckBox(title)
            box.setChecked(seconds not in left_out)
            box.toggled.connect(self.chosen)
            self._places[seconds] = box
            self._place_row.addWidget(box)
            self._look.offer(title, seconds)
        self.look_at(looked_at)

    @property
    def looked_at(self) -> float | None:
        """The place whose snippets are shown, s; None where there is none."""
        found: float | None = self._look.currentData()
        return found

    def look_at(self, seconds: float | None) -> None:
        """Show the snippets of another place."""
        self._look.setCurrentIndex(max(0, self._look.findData(seconds)))
        self.look_changed.emit()

    def show_presets(self, titles: Mapping[str, str]) -> None:
        """Presets that can be chosen, by name; the first two to begin with."""
        before = self.presets
        self._preset_row.clear()
        self._presets = {}
        for number, (name, title) in enumerate(titles.items()):
            box = QCheckBox(caption(title))
            box.setObjectName(f"taste-{name}")
            box.setChecked(name in before if before else number < 2)
            box.toggled.connect(self._hold_to_most)
            box.toggled.connect(self.chosen)
            self._presets[name] = box
            self._preset_row.addWidget(box)
        self._hold_to_most()

    def _hold_to_most(self) -> None:
        is_full = len(self.presets) >= MOST_PRESETS
        for box in self._presets.values():
            box.setEnabled(box.isChecked() or not is_full)

    @property
    def places(self) -> tuple[float, ...]:
        """Places that are chosen, s."""
        return tuple(seconds for seconds, one in self._places.items() if one.isChecked())

    @property
    def presets(self) -> tuple[str, ...]:
        """Names of the presets that are chosen."""
        return tuple(name for name, box in self._presets.items() if box.isChecked())

    # Work

    def show_state(
        self, *, count: int = 0, progress: str = "", why_not: str = "", problem: str = ""
    ) -> None:
        """Show the number of snippets to be made, or how that goes on.

        Args:
            count: Snippets that are missing.
            progress: Description of the work that goes on; "" for none.
            why_not: Reason why none can be made; "" where they can.
            problem: Why the last one has failed.
        """
        self._count = count
        self._make.setEnabled(count > 0 and not progress and not why_not)
        self._make.setText(self._make_text())
        self._stop.setVisible(bool(progress))
        self._progress.setText(progress)
        text = problem or why_not
        self._notice.show_message("refusal" if problem else "info", text)
        self._notice.setVisible(bool(text))

    def _make_text(self) -> str:
        count = self._count
        return tr("Create samples ({count})", count=count) if count else tr("Create samples")

    def show_snippets(self, snippets: Sequence[Snippet]) -> None:
        """Show the snippets of the place that is looked at."""
        if tuple(snippets) == self._shown:
            return
        self._shown = tuple(snippets)
        for pane in self._panes.values():
            self._loops.removeWidget(pane)
            pane.hide()
            pane.deleteLater()
        self._panes = {one.name: LoopPane(one) for one in snippets}
        for pane in self._panes.values():
            pane.taken.connect(self.taken)
            self._loops.addWidget(pane, 1)

    def show_images(self, images: Mapping[str, QImage]) -> None:
        """The next frame of each loop."""
        for name, image in images.items():
            if name in self._panes:
                self._panes[name].picture.show_image(image)

    @property
    def picture_size(self) -> QSize:
        """Size of an image, in px of the screen."""
        pane = next(iter(self._panes.values()), None)
        size = pane.picture.size() if pane is not None else QSize(320, 180)
        return size * self.devicePixelRatioF()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nothing plays once the page is closed."""
        self.closed.emit()
        super().hideEvent(event)
