"""The taste test: snippets of a film in several presets, made one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.controllers.excerpts import ExcerptsController
from app.excerpts.taste_view import Snippet, TasteView
from app.i18n import tr
from app.jobs.preset_form import title_of
from app.preview.playback import opener
from app.preview.player import Frame, Opener, Player
from app.state.job_row import JobRow
from app.state.listings import PresetsModel
from engine.core.geometry import Size
from engine.core.units import memory_text
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt, Scene
from engine.settings.presets import Preset, applied
from engine.settings.schema import JobSettings

SECONDS = 2.0
_ORIGINAL = ""


class TasteController(QObject):
    """Joins page, presets, excerpts and engine; the page is about the film that was selected."""

    def __init__(self, excerpts: ExcerptsController, presets: PresetsModel, hub: EventHub) -> None:
        super().__init__(excerpts)
        self._window, self._controller = excerpts.window, excerpts.controller
        self._excerpts, self._model, self._presets = excerpts, excerpts.model, presets
        self._view: TasteView | None = None
        self._row: JobRow | None = None
        self._places: list[Scene | float] = []
        self._wanted: list[tuple[float, JobSettings]] = []  # that are still to be made
        self._player = Player(self)
        self._looped: dict[str, Excerpt] = {}  # what is played, by preset
        excerpts.bar.compare_clicked.connect(self.open)
        hub.subscribe(events.ScenesFound, self._take_scenes)
        hub.subscribe(events.TaskDone, self._go_on)
        for ended in (events.TaskFailed, events.TaskStopped):
            hub.subscribe(ended, self._give_up)
        self._model.changed.connect(self._show)
        self._model.added.connect(self._show)
        self._model.progressed.connect(self._show)
        presets.changed.connect(self._show_presets)

    @property
    def view(self) -> TasteView:
        """The page; made when the user first opens it."""
        if self._view is None:
            view = self._view = TasteView(self._window)
            view.make_requested.connect(self._make)
            view.stop_requested.connect(self._excerpts.stop)
            view.add_requested.connect(self._add_place)
            view.chosen.connect(self._show)
            view.look_changed.connect(self._show_loops)
            view.taken.connect(self._take)
            view.closed.connect(self._halt)
            view.retranslated.connect(self._show_presets)
            self._player.shown.connect(lambda _seconds, images: view.show_images(images))
            self._player.ended.connect(self._play)
        return self._view

    def open(self) -> None:
        """Show the page for the selected film; its places are looked for once."""
        row = self._window.selected
        if row is None:
            return
        if self._row is None or row.job_id != self._row.job_id:
            self._row, self._places = row, []
            self.view.show_places([])
            self._model.begin(row.job_id)
            self._controller.send(commands.FindScenes(job_id=row.job_id))
        self.view.bring_up()
        self._show_presets()

    # Places and presets

    def _take_scenes(self, event: events.ScenesFound) -> None:
        if self._row is None or event.job_id != self._row.job_id:
            return
        self._places = [*event.scenes, *(p for p in self._places if not isinstance(p, Scene))]
        if not self._places:
            self._places = [0.0]
        self.view.show_places(self._places)
        self._show()

    def _add_place(self) -> None:
        """The frame on the stage, where that still shows the film."""
        if self._row is None or self._window.preview.job_id != self._row.job_id:
            return
        seconds = round(self._window.preview.timeline.seconds_to_ask, 3)
        known = [one.seconds if isinstance(one, Scene) else one for one in self._places]
        if seconds not in known:
            self._places.append(seconds)
            self.view.show_places(self._places)
        self.view.look_at(seconds)
        self._show()

    def _show_presets(self) -> None:
        if self._view is not None:
            self._view.show_presets({one.name: title_of(one) for one in self._presets.presets})
            self._show()

    def _preset(self, name: str) -> Preset:
        return next(one for one in self._presets.presets if one.name == name)

    def _settings(self, name: str) -> JobSettings:
        assert self._row is not None
        return applied(self._preset(name), self._row.settings)

    # Making

    def _missing(self) -> list[tuple[float, JobSettings]]:
        """What is chosen and not made yet; presets that are the same here count once."""
        view, row, found = self._view, self._row, []
        if view is None or row is None:
            return []
        for seconds in view.places:
            for settings in dict.fromkeys(map(self._settings, view.presets)):
                if self._model.of(row.job_id, settings, seconds) is None:
                    found.append((seconds, settings))
        return found

    def _make(self) -> None:
        self._wanted = self._missing()
        self._make_next()

    def _make_next(self) -> None:
        if self._row is None or not self._wanted:
            return
        seconds, settings = self._wanted.pop(0)
        self._model.begin(self._row.job_id)
        self._controller.send(
            commands.MakeExcerpt(
                job_id=self._row.job_id, start=seconds, seconds=SECONDS, settings=settings
            )
        )

    def _go_on(self, event: events.TaskDone) -> None:
        if event.kind is self._model.kind:
            self._make_next()

    def _give_up(self, event: events.TaskEvent) -> None:
        if event.kind is self._model.kind:
            self._wanted = []

    def _take(self, name: str) -> None:
        """The preset becomes the film's; the page closes."""
        if self._row is not None and self._window.selected is not self._row:
            self._window.queue_column.view.select(self._row.job_id)
        self._window.choices.choose(dict(self._preset(name).changes))
        self.view.close()

    # Showing

    def _show(self, *_: object) -> None:
        view, row = self._view, self._row
        if view is None or row is None:
            return
        missing, progress = len(self._missing()), ""
        if self._model.is_running:
            left = len(self._wanted) + 1
            progress = tr("Looking for scenes …") if not self._places else ""
            progress = progress or tr("{count} left", count=left)
        view.show_state(
            count=missing,
            progress=progress,
            why_not=self._excerpts.why_not(row),
            problem=self._excerpts.problem(row),
        )
        self._show_loops()

    def _show_loops(self) -> None:
        """The snippets of the place that is looked at, begun again where there are others."""
        view, row = self._view, self._row
        if view is None or row is None or view.looked_at is None or view.isHidden():
            return
        found = {
            name: excerpt
            for name in view.presets
            if (excerpt := self._model.of(row.job_id, self._settings(name), view.looked_at))
        }
        snippets = [_snippet(name, title_of(self._preset(name)), found[name]) for name in found]
        original = Snippet(name=_ORIGINAL, title=tr("Original"))
        view.show_snippets([original, *snippets] if snippets else [])
        if found != self._looped:
            self._looped = found
            self._play()

    def _halt(self) -> None:
        self._player.stop()
        self._looped = {}

    def _play(self) -> None:
        self._player.stop()
        row = self._row
        if not self._looped or row is None or row.media is None or row.plan is None:
            return
        films: dict[str, Opener] = {
            name: opener(row.job_id, row.media, excerpt.plan, "result")
            for name, excerpt in self._looped.items()
        }
        plan = next(iter(self._looped.values())).plan
        source = opener(row.job_id, row.media, row.plan, "source")
        films[_ORIGINAL] = _until(source, float(plan.stop or 0))
        size = self.view.picture_size
        box = Size(max(1, size.width()), max(1, size.height()))
        self._player.play(films, float(plan.start or 0), 1.0, box)


def _until(opened: Opener, stop_s: float) -> Opener:
    """A film that ends at a time."""

    def frames(start_s: float) -> Iterator[Frame]:
        yield from takewhile(lambda frame: frame.seconds < stop_s, opened(start_s))

    return frames


def _snippet(name: str, title: str, excerpt: Excerpt) -> Snippet:
    speed, memory = excerpt.frames_per_second, excerpt.device_bytes
    figures = [tr("{value} fps", value=f"{speed:.1f}")] if speed else []
    figures += [memory_text(memory)] if memory else []
    return Snippet(name=name, title=title, figures=" · ".join(figures))
