"""The middle of the window: what a job was, is and becomes. Fed by signals, requests by signals."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtGui import QImage, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QStackedLayout, QStackedWidget, QWidget

from app import labels
from app.actions import Actions
from app.bound import bind
from app.preview import scene
from app.preview.compare_canvas import CompareCanvas
from app.preview.empty_view import EmptyView
from app.preview.figures import FiguresRow, WorkersRow
from app.preview.film import SOURCE
from app.preview.film_clock import FilmClock
from app.preview.frame_pair import FramePair
from app.preview.pair_bar import PairBar
from app.preview.playback import Playback
from app.preview.report_strip import ReportStrip
from app.preview.scene import Mode
from app.preview.timeline import Timeline
from app.preview.timeline_strip import HEIGHT, LOW_HEIGHT
from app.preview.view_bar import ViewBar
from app.widgets.layouts import column, layout_of, set_margins
from app.widgets.parts import named
from engine.core.errors import ErrorInfo
from engine.protocol.events import (
    Picture,
    PreviewReady,
    ResultLost,
    StageProgress,
    TileDone,
    WorkerProgress,
)
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report

_LOW_PX = 430  # height below which all but the picture gives way
_HIGH_PX = 520  # height from which each worker is shown


class PreviewView(QWidget):
    """Shows one job at a time; events of other jobs are not for it and change nothing."""

    frame_requested = Signal(str, float, bool)  # job_id, s, whether with the source
    sample_requested = Signal()

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "previewView")
        self.empty = EmptyView(actions)
        self.canvas, self.bar, self.pair_bar = CompareCanvas(), ViewBar(), PairBar()
        self.timeline, self.figures, self.strip = Timeline(), FiguresRow(), ReportStrip(actions)
        self.playback = Playback(self.canvas, self.timeline, self)
        self.pair = FramePair(self.canvas, self.timeline, self)
        self.workers = WorkersRow()
        self._below = QStackedWidget()
        self._below.addWidget(self.figures)
        self._below.addWidget(self.strip)
        self._work = QWidget()
        self._lay_out()
        self._connect()
        self._forget()
        bind(self, self._show_language)

    def _lay_out(self) -> None:
        self._head = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._head.setSpacing(10)
        self._head.addWidget(self.bar)
        self._head.addWidget(self.pair_bar, 1)
        parts = self._head, (self.canvas, 1), self.timeline, self._below, self.workers
        column(*parts, on=self._work)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self._work)

    def _connect(self) -> None:
        self.empty.sample_requested.connect(self.sample_requested)
        self.bar.mode_chosen.connect(self._mode_chosen)
        self.bar.fit_chosen.connect(self.canvas.fit)
        self.bar.zoom_chosen.connect(self.canvas.zoom_to)
        self.bar.tiles_chosen.connect(self.canvas.show_tiles)
        self.bar.live_chosen.connect(self._follow)
        self.canvas.zoom_changed.connect(self.bar.set_zoom)
        self.canvas.tiles_toggled.connect(self.bar.toggle_tiles)
        self.timeline.seconds_chosen.connect(self._scrubbed)
        self.pair.requested.connect(self.frame_requested)
        self.pair.changed.connect(self._pair_changed)
        self.pair.film_lost.connect(self.pair_bar.show_problem)
        self.pair_bar.chosen.connect(self.pair.choose)
        self.strip.compare_clicked.connect(self._compare)
        self.playback.began.connect(self._leave_live)
        self.playback.stopped.connect(self.pair.ask_soon)  # the whole picture of the frame
        self.playback.pictures_changed.connect(self.pair.show)
        self.playback.player.playing_changed.connect(self.pair.set_playing)

    def _forget(self) -> None:
        self._job_id = ""
        self._media: MediaInfo | None = None
        self._plan: Plan | None = None
        self._film: FilmClock | None = None
        self._is_active = self._is_running = False
        self._is_followed = self._mode_is_users = False
        self._is_opened = self._sweeps = False  # the split, by a first look
        self._counts_written = False  # progress of "write" counts, once there was one

    # What the window shows

    @property
    def job_id(self) -> str:
        """The job that is shown; "" for none."""
        return self._job_id

    @property
    def is_still(self) -> bool:
        """Whether the shown file is one image."""
        return self._film is not None and self._film.steps == 1

    def show_empty(self, reason: Callable[[], str] | None = None) -> None:
        """Show no job: an invitation, or why the selected file has no picture."""
        self._forget()
        self.empty.explain(reason)
        self.playback.set_job("", None)
        self.pair.set_job("", None)
        self._pages.setCurrentWidget(self.empty)

    def set_drop_hovered(self, is_hovered: bool) -> None:
        """Files are being dragged over the window, or no longer."""
        self.empty.panel.set_hovered(is_hovered)

    def show_job(self, job_id: str, media: MediaInfo, picture: Picture | None) -> None:
        """Show a job from its beginning; the one that is shown already stays as it is."""
        if job_id == self._job_id and media == self._media:
            return
        self._forget()
        self._job_id, self._media = job_id, media
        self.playback.set_job(job_id, media)
        self._film = FilmClock.of(media)
        self.timeline.set_film(self._film, has_sound=bool(media.audio_streams))
        self.pair.set_job(job_id, media)
        self.pair_bar.show_problem(None)
        self.timeline.set_finished(0, is_running=False)
        self.timeline.setVisible(not self.is_still)
        self.figures.clear()
        self._show_below(self.figures)
        self.canvas.scene.tile_map.clear()
        self._stop()
        small = QImage() if picture is None else scene.to_image(picture)
        self.set_mode(Mode.FIRST)
        self.pair.show(small, QImage())
        self.canvas.fit()
        had_focus = self.empty.isAncestorOf(self.focusWidget() or self)
        self._pages.setCurrentWidget(self._work)
        if had_focus:  # its page has just been hidden; keys now belong to the picture
            self.canvas.setFocus()
        self.pair.ask_soon()  # the picture of the queue is a small one

    def show_plan(self, job_id: str, plan: Plan) -> None:
        """Show the plan: size of the result, name of the model, cropped parts."""
        if job_id != self._job_id or self._film is None:
            return
        self._plan = plan
        self.pair.set_plan(plan)
        self.figures.show_plan(plan)

    def set_active(self, is_active: bool) -> None:
        """Give figures their place while the shown job is in work; else its plan says the same."""
        self._is_active = is_active
        self._fit_below()

    def _pair_changed(self) -> None:
        """Other videos are compared, or can be."""
        self.bar.show_letters(not self.pair.is_usual)
        self.pair_bar.show_films(self.pair.films, self.pair.shown)
        self._give_way()
        self.playback.set_pair(self.pair.shown)

    def tile_done(self, event: TileDone) -> None:
        """A tile of the frame in work."""
        if event.job_id != self._job_id or self._media is None:
            return
        self._run()
        self.bar.offer_tiles(event.tiles > 1)
        awaits_pair = event.tiles == 1 and not self.pair.images[0].isNull()
        if not awaits_pair and not self._mode_is_users and self.canvas.mode is Mode.FIRST:
            self.set_mode(Mode.SECOND)
        if event.tiles > 1 or event.picture is not None:
            self._add_tile(event)
        if self._is_followed:
            self.timeline.set_step(self.timeline.strip.span[0] + event.frame)

    def _add_tile(self, event: TileDone) -> None:
        image = None if event.picture is None else scene.to_image(event.picture)
        tile_map = self.canvas.scene.tile_map
        changed = tile_map.add(event.frame, event.tile, event.tiles, event.box, event.canvas, image)
        for box in changed:
            self.canvas.tile_changed(box)

    def preview_ready(self, event: PreviewReady) -> None:
        """The frame that was asked for, or the one in work with its source."""
        if self._film is None or self.playback.is_playing:
            return
        if event.job_id == self._job_id and event.result is not None:
            self.strip.show_lost(None)
        if not self._is_followed:
            is_shown = self.pair.take(event)
        else:
            is_shown = event.job_id == self._job_id and event.result is not None
            if is_shown:
                self.pair.show_frame(event)
        has_no_source = event.source is None and self.pair.is_usual
        if is_shown and not self._mode_is_users:
            if has_no_source:
                self.set_mode(Mode.SECOND)  # decoded latents have gone with the job
            elif self._is_followed and self.canvas.mode is Mode.FIRST:
                self.set_mode(Mode.SPLIT)
        has_look = is_shown and self.pair.has_look and event.result is not None
        if has_look and self.canvas.mode is Mode.FIRST and not self._mode_is_users:
            self._open_split()

    def show_look(self, plan: Plan | None) -> None:
        """Plan of the first look at the frame at the playhead; None where there is none.

        The split opens when its picture is there, unless the user has chosen a view, and closes
        where the playhead leaves its frame.
        """
        self.pair.set_look(plan)
        if plan is None and self._is_opened:
            self._is_opened = False
            if not self._mode_is_users:
                self.set_mode(Mode.FIRST)

    def await_look(self) -> None:
        """A first look was made a moment ago: the split opens with one sweep."""
        self._sweeps = True
        self.pair.ask_now()

    def keep_split(self) -> None:
        """Show both videos, wherever the playhead is: the user has asked for a result."""
        self._is_opened = False
        if self.canvas.mode is Mode.FIRST:
            self.set_mode(Mode.SPLIT)

    def _open_split(self) -> None:
        self._is_opened = True
        self.set_mode(Mode.SPLIT)
        if self._sweeps:
            self._sweeps = False
            self.canvas.sweep()

    def result_lost(self, event: ResultLost) -> None:
        """A finished result cannot be shown any more."""
        if self._media is not None:
            self.pair.lose(event.job_id, event.error)
        if event.job_id == self._job_id:
            self.strip.show_lost(event.error)

    def ask_again(self) -> None:
        """Ask for the frame of the job's own result: it may be gone, or back."""
        self.pair.choose(SOURCE, self._job_id)

    def progress(self, event: StageProgress) -> None:
        """Show progress and speed."""
        if event.job_id != self._job_id:
            return
        self.figures.show_progress(event.frames_per_second, event.seconds_left)
        if event.stage not in ("upscale", "write"):
            return
        self._run()
        if event.stage == "write":
            self._counts_written = True
        elif self._counts_written:
            return
        self.timeline.set_finished(event.done, is_running=True)
        if event.stage == "write":
            self.playback.set_result(is_published=False)

    def worker_progress(self, event: WorkerProgress) -> None:
        """Show progress and speed of a worker of the shown job."""
        if event.job_id == self._job_id and self._is_running:
            self.workers.show_worker(event)
            self._fit_below()

    def finished(self, report: Report, lost: ErrorInfo | None = None) -> None:
        """The shown job is done: compare. `lost` is why its result is gone."""
        if self._film is None:
            return
        self._stop()
        self.pair.is_finished = True
        self.playback.set_result(is_published=True)
        first, stop = self.timeline.strip.span
        self.timeline.set_finished(stop - first, is_running=False)
        sizes = ""
        if self._media is not None and self._plan is not None:
            sizes = labels.sizes(self._media.video.seen_size, self._plan.picture.seen_size)
        self.strip.show_report(report, sizes, is_still=self.is_still)
        self.strip.show_lost(lost)
        self._show_below(self.strip)
        if not self._mode_is_users or self.canvas.mode in (Mode.FIRST, Mode.SECOND):
            self.set_mode(Mode.SPLIT)
        if self._film.counts_frames:
            self.timeline.set_step(first + (stop - first) // 3)  # beginnings are often black
        self.pair.ask_now()

    def stopped(self) -> None:
        """The shown job failed or was cancelled: nothing moves any more."""
        self._stop()
        self.figures.stop()
        self._is_active = False
        self._show_below(self.figures)

    # Frames

    def _run(self) -> None:
        """The first sign of a running job: follow it."""
        if self._is_running:
            return
        self._is_active = self._is_running = True
        self.pair.is_finished = False
        self._show_below(self.figures)
        self._follow()

    def _stop(self) -> None:
        self._is_running = self._is_followed = False
        self.workers.clear()
        self.timeline.set_finished(self.timeline.strip.finished, is_running=False)
        self.canvas.set_live(False)
        self.bar.offer_follow(False)
        self.bar.offer_tiles(False)

    def _follow(self) -> None:
        self.playback.stop()
        self.pair.stop_asking()
        self._is_followed = True
        self.canvas.set_live(True)
        self.bar.offer_follow(False)

    def _scrubbed(self, _seconds: float) -> None:
        self._leave_live()
        self.pair.ask_soon()

    def _leave_live(self) -> None:
        if self._is_running and self._is_followed:
            self._is_followed = False
            self.canvas.set_live(False)
            self.bar.offer_follow(True)
        self.pair.stop_asking()

    # View

    def set_mode(self, mode: Mode) -> None:
        """Compare in another way."""
        self.bar.set_mode(mode)
        self.canvas.set_mode(mode)
        self.pair.refresh_texts()

    def _mode_chosen(self, key: str) -> None:
        self._mode_is_users = True
        self.set_mode(Mode(key))
        self.playback.refresh()

    def play(self) -> None:
        """Play what is shown, or pause it; the keyboard goes on there."""
        self.canvas.setFocus()
        self.playback.toggle()

    def _compare(self) -> None:
        """Show both videos together and play them."""
        if self.canvas.mode in (Mode.FIRST, Mode.SECOND):
            self._mode_chosen(Mode.SPLIT.value)
        self.canvas.setFocus()
        if not self.timeline.isHidden() and not self.playback.is_playing:
            self.playback.toggle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A low window keeps its height for the picture."""
        super().resizeEvent(event)
        self._fit_below()
        self._give_way()

    def _give_way(self) -> None:
        """Shrink gaps and the timeline in a low window; both bars then share a line."""
        is_low = self.height() < _LOW_PX
        gap = 6 if is_low else 10
        layout_of(self._work).setSpacing(gap)
        set_margins(layout_of(self._work), (14, gap + 2))
        self.timeline.strip.setMaximumHeight(LOW_HEIGHT if is_low else HEIGHT)
        is_shared = is_low and self.pair_bar.has_choice
        directions = QBoxLayout.Direction
        self._head.setDirection(directions.LeftToRight if is_shared else directions.TopToBottom)
        self.bar.set_short(is_shared)

    def _show_below(self, widget: QWidget) -> None:
        """Figures or the report; how a job ended is worth its height in any window."""
        self._below.setCurrentWidget(widget)
        self._fit_below()

    def _fit_below(self) -> None:
        is_report = self._below.currentWidget() is self.strip
        self._below.setVisible(is_report or (self._is_active and self.height() >= _LOW_PX))
        self.workers.setVisible(self.workers.has_some and self.height() >= _HIGH_PX)

    def _show_language(self) -> None:
        """The labels of the images are made here."""
        if self._media is not None:
            self.pair.refresh()
            self._pair_changed()
