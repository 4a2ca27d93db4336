"""Parts of a video that are made to look at: a frame, some seconds, samples of several presets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QImage

from app import engine_messages
from app.bound import bind
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
from app.excerpts.taste_view import Snippet, TasteView
from app.i18n import tr
from app.jobs.preset_form import chosen_by, title_of
from app.main_window import MainWindow
from app.preview.playback import opener
from app.preview.player import Frame, Opener, Player
from app.preview.try_bar import SECONDS, TryBar
from app.state.excerpts_model import ExcerptsModel
from app.state.job_row import JobRow, JobState
from app.state.listings import PresetsModel
from app.state.queue_model import QueueModel
from app.state.tasks_model import TasksModel
from engine.core.geometry import Size
from engine.core.units import memory_text
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt, Scene, for_look
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings

_REST_MS = 200  # without a change of what is selected and shown, before a first look
_DARK = 24  # of 255, lightness of a pixel in which nothing can be seen
_SAMPLE_S = 2.0  # of each preset
_ORIGINAL = ""
_CAN_BE_TRIED = (JobState.WAITING, JobState.FAILED, JobState.CANCELLED)


class ExcerptsController(QObject):
    """Shows for the selected video what can be tried, and what was."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        hub: EventHub,
        tasks: TasksModel,
    ) -> None:
        super().__init__(window)
        self.window, self.controller = window, controller
        self._queue = queue
        self._looking: tuple[str, JobSettings, float] | None = None  # job_id, choices, s
        self._is_stopping = False
        self._looked: dict[str, JobSettings] = {}  # choices of the last look, by job_id
        self._lit: set[str] = set()  # jobs whose black beginning was left
        self.rest = QTimer(self, interval=_REST_MS, singleShot=True)
        self.rest.timeout.connect(self._look)
        hub.subscribe(events.PreviewReady, self._after_picture)
        for ended in (events.TaskDone, events.TaskFailed, events.TaskStopped):
            hub.subscribe(ended, self._look_ended)
        model = self.model = ExcerptsModel(hub, tasks, self)
        self._view = window.preview
        self.bar = TryBar(self._view.canvas)
        self._view.bar.hold(self.bar.line)
        self.bar.line_changed.connect(self._view.bar.make_room)
        self.bar.wanted.connect(self._make)
        window.actions_["try_frame"].triggered.connect(lambda: self.bar.press(0.0))
        window.actions_["try_seconds"].triggered.connect(lambda: self.bar.press(SECONDS))
        self.bar.stop_clicked.connect(self.stop)
        self.bar.problem_closed.connect(self._forget_problem)
        model.added.connect(self._show_made)
        model.progressed.connect(self.refresh)
        model.changed.connect(self.refresh)
        queue.job_changed.connect(self.refresh)
        self._view.timeline.strip.valueChanged.connect(self.refresh)

    def refresh(self, *_: object) -> None:
        """Look at video and task again."""
        row, task = self.window.selected, self.model.task
        self._show_look(row)
        if row is None or not _can_be_tried(row):
            self.bar.withdraw()
            self._view.pair.set_remedy("")
            return
        excerpt = self.model.at(row, self._view.timeline.seconds_to_ask)
        self._view.playback.set_excerpt(excerpt.plan if excerpt is not None else None)
        is_own = task is not None and task.subject == row.job_id
        if task is not None and task.runs and is_own:
            self.bar.show_progress(int(task.done), int(task.total))
            self._view.pair.set_remedy("")
            return
        why_not = self.why_not(row)
        self.bar.offer(
            is_still=self._view.is_still,
            has_result=excerpt is not None,
            why_not=why_not,
            problem=self.problem(row),
        )
        self._view.pair.set_remedy(why_not or tr('"Try this frame" renders it now.'))

    def problem(self, row: JobRow) -> str:
        """Why the last try of a video has failed; "" where it has not."""
        task = self.model.task
        if task is None or task.error is None or task.subject != row.job_id:
            return ""
        sentences = engine_messages.text(task.error), engine_messages.hint(task.error)
        return " ".join(filter(None, sentences))

    def why_not(self, row: JobRow) -> str:
        """Reason why a video cannot be tried now; "" where it can."""
        if self._queue.active is not None:
            return tr("A video is being processed. Try this one when it is finished.")
        task = self.model.task
        if task is not None and task.runs and task.subject != row.job_id:
            return tr("A part of another video is being processed.")
        if row.is_refused or (row.plan is not None and not row.plan.fits):
            return tr("This video cannot be processed as planned.")
        return ""

    def _make(self, seconds: float) -> None:
        row = self.window.selected
        if row is None:
            return
        self._view.keep_split()
        self.model.begin(row.job_id)
        start = self._view.timeline.seconds_to_ask
        self.controller.send(commands.MakeExcerpt(job_id=row.job_id, start=start, seconds=seconds))

    def stop(self) -> None:
        """Stop what is being made."""
        self.controller.send(commands.StopTask(kind=self.model.kind))

    def _forget_problem(self) -> None:
        if self.model.task is not None:
            self.model.tasks.dismiss(self.model.kind, self.model.task.subject)

    def _show_made(self, job_id: str) -> None:
        if job_id == self._view.job_id:
            self.refresh()
            if self._view.pair.has_look:
                self._view.await_look()
            else:
                self._view.pair.ask_now()

    # A first look: a frame that is made unasked, while nothing else computes

    def _show_look(self, row: JobRow | None) -> None:
        """Show the look at the frame of the playhead; stop one whose frame is not seen any more."""
        seconds = self._view.timeline.seconds_to_ask
        look = self._looking
        if look is not None and (row is None or look != _look_of(row, seconds)):
            if not self._is_stopping:
                self.controller.send(commands.StopTask(kind=TaskKind.LOOK, subject=look[0]))
            self._is_stopping = True
        if row is None or row.job_id != self._view.job_id:
            return
        made = None
        has_own = row.state.is_active or row.state is JobState.DONE
        if not has_own and self.model.at(row, seconds) is None:
            made = self.model.look_at(row, seconds)
        self._view.show_look(made.plan if made is not None else None)
        if self._can_look(row):
            self.rest.start()

    @property
    def is_looking(self) -> bool:
        """Whether a first look is being made, or is about to."""
        return self._looking is not None or self.rest.isActive()

    def _can_look(self, row: JobRow) -> bool:
        """Whether a look at a video would show what was not seen yet, and disturbs nothing."""
        is_busy = self._queue.active is not None or self.model.is_running or self._looking
        is_planned = row.state is JobState.WAITING and _can_be_tried(row) and not row.awaits_plan
        is_new = self._looked.get(row.job_id) != for_look(row.settings)
        is_seen = row.job_id == self._view.job_id and self._view.pair.is_answered
        is_upscaled = row.plan is not None and row.plan.work.model != "none"
        return is_planned and is_new and is_seen and is_upscaled and not is_busy

    def _after_picture(self, event: events.PreviewReady) -> None:
        """The picture comes first, then the look; where a video begins black, at a later frame."""
        row = self.window.selected
        if row is None or event.job_id != row.job_id or not self._can_look(row):
            return
        is_first, strip = row.job_id not in self._lit, self._view.timeline.strip
        self._lit.add(row.job_id)
        quarter = strip.maximum() // 4  # of the video, where the image of the queue is from
        if is_first and quarter and not strip.value() and is_black(self._view.pair.images[0]):
            self._view.timeline.set_step(quarter)
            self._view.pair.ask_now()
        else:
            self.rest.start()

    def _look(self) -> None:
        row = self.window.selected
        if row is None or not self._can_look(row):
            return
        self._looking = _look_of(row, self._view.timeline.seconds_to_ask)
        self.controller.send(commands.MakeLook(job_id=row.job_id, start=self._looking[2]))

    def _look_ended(self, event: events.TaskEvent) -> None:
        if event.kind is not TaskKind.LOOK or self._looking is None:
            return
        job_id, settings, _ = self._looking
        if not isinstance(event, events.TaskStopped):  # one that failed is not tried again
            self._looked[job_id] = settings
        self._looking, self._is_stopping = None, False
        self.refresh()


def _look_of(row: JobRow, seconds: float) -> tuple[str, JobSettings, float]:
    return row.job_id, for_look(row.settings), seconds


def is_black(image: QImage) -> bool:
    """Whether nothing can be seen in an image."""
    small = image.scaled(8, 8, mode=Qt.TransformationMode.SmoothTransformation)
    pixels = (small.pixelColor(x, y) for x in range(8) for y in range(8))
    return all(pixel.lightness() < _DARK for pixel in pixels)


def _can_be_tried(row: JobRow) -> bool:
    has_pictures = row.media is not None and not row.media.holds_latents
    return has_pictures and row.plan is not None and row.state in _CAN_BE_TRIED


class TasteController(QObject):
    """Joins page, presets, excerpts and engine; the page is about the video that was selected."""

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
            bind(view, self._show_presets)
            self._player.shown.connect(lambda _seconds, images: view.show_images(images))
            self._player.ended.connect(self._play)
        return self._view

    def open(self) -> None:
        """Show the page for the selected video; its places are looked for once."""
        row = self._window.selected
        if row is None:
            return
        if self._row is None or row.job_id != self._row.job_id:
            self._row, self._places = row, []
            self.view.show_places([])
            self._model.begin(row.job_id)
            self._controller.send(commands.FindScenes(job_id=row.job_id))
        self.view.bring_up()
        self._show()

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
        """Adds the frame in the preview, where that still shows the video."""
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
        return chosen_by(self._preset(name), self._row.settings)

    # Making

    def _missing(self) -> list[tuple[float, JobSettings]]:
        """Samples that are chosen and not made yet; presets that are the same here count once."""
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
                job_id=self._row.job_id, start=seconds, seconds=_SAMPLE_S, settings=settings
            )
        )

    def _go_on(self, event: events.TaskDone) -> None:
        if event.kind is self._model.kind:
            self._make_next()

    def _give_up(self, event: events.TaskEvent) -> None:
        if event.kind is self._model.kind:
            self._wanted = []

    def _take(self, name: str) -> None:
        """The preset becomes the video's; the page closes."""
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
    """A video that ends at a time."""

    def frames(start_s: float) -> Iterator[Frame]:
        yield from takewhile(lambda frame: frame.seconds < stop_s, opened(start_s))

    return frames


def _snippet(name: str, title: str, excerpt: Excerpt) -> Snippet:
    speed, memory = excerpt.frames_per_second, excerpt.device_bytes
    figures = [tr("{value} fps", value=f"{speed:.1f}")] if speed else []
    figures += [memory_text(memory)] if memory else []
    return Snippet(name=name, title=title, figures=" · ".join(figures))
