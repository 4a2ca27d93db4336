"""The middle of the window: what a job was, is and becomes. Fed by signals, requests by signals."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSizeF, QTimer, Signal
from PySide6.QtGui import QImage, QResizeEvent
from PySide6.QtWidgets import QStackedLayout, QStackedWidget, QVBoxLayout, QWidget

from app.i18n import tr
from app.preview import scene
from app.preview.compare_canvas import CompareCanvas
from app.preview.empty_view import EmptyView
from app.preview.figures import FiguresRow
from app.preview.film_clock import FilmClock
from app.preview.playback import Playback
from app.preview.report_strip import ReportStrip
from app.preview.scene import Mode
from app.preview.timeline import Timeline
from app.preview.view_bar import ViewBar
from engine.core.errors import ErrorInfo
from engine.core.geometry import Size
from engine.protocol.events import Picture, PreviewReady, StageProgress, Telemetry, TileDone
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report

_ASK_AFTER_MS = 120  # while scrubbing, only the frame where the pointer rests is asked for
_FIGURES_FROM_PX = 430  # height below which the figures are hidden
_MB = 2**20


class PreviewView(QWidget):
    """Shows one job at a time; events of other jobs are not for it and change nothing."""

    frame_requested = Signal(str, float)  # job_id, s
    sample_requested = Signal()
    files_requested = Signal()
    action_requested = Signal(str)  # names of the window's actions, for the shown job

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("previewView")
        self.empty = EmptyView()
        self.canvas, self.bar = CompareCanvas(), ViewBar()
        self.timeline, self.figures, self.strip = Timeline(), FiguresRow(), ReportStrip()
        self.playback = Playback(self.canvas, self.timeline, self)
        self._below = QStackedWidget()
        self._below.addWidget(self.figures)
        self._below.addWidget(self.strip)
        self._work = QWidget()
        self._lay_out()
        self._ask = QTimer(self)
        self._ask.setSingleShot(True)
        self._ask.setInterval(_ASK_AFTER_MS)
        self._connect()
        self._forget()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self._work)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(10)
        column.addWidget(self.bar)
        column.addWidget(self.canvas, 1)
        column.addWidget(self.timeline)
        column.addWidget(self._below)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self._work)

    def _connect(self) -> None:
        self.empty.files_requested.connect(self.files_requested)
        self.empty.sample_requested.connect(self.sample_requested)
        self.bar.mode_chosen.connect(self._mode_chosen)
        self.bar.fit_chosen.connect(self.canvas.fit)
        self.bar.zoom_chosen.connect(self.canvas.zoom_to)
        self.bar.tiles_chosen.connect(self.canvas.show_tiles)
        self.bar.live_chosen.connect(self._follow)
        self.canvas.zoom_changed.connect(self.bar.set_zoom)
        self.canvas.tiles_toggled.connect(self.bar.toggle_tiles)
        self.timeline.seconds_chosen.connect(self._scrubbed)
        self.timeline.strip.valueChanged.connect(
            lambda _step: self.canvas.set_no_result_text(self._why_no_result())
        )
        self.strip.action_requested.connect(self.action_requested)
        self.strip.compare_clicked.connect(self._compare)
        self._ask.timeout.connect(self.ask_now)
        self.playback.began.connect(self._leave_live)
        self.playback.stopped.connect(self._ask.start)  # the whole picture of the frame
        self.playback.pictures_changed.connect(self._show_pictures)

    def _forget(self) -> None:
        self._job_id = ""
        self._media: MediaInfo | None = None
        self._plan: Plan | None = None
        self._film: FilmClock | None = None
        self._result_size: Size | None = None  # as seen
        self._source_image, self._result_image = QImage(), QImage()
        self._asked_seconds: float | None = None
        self._is_running = self._is_followed = self._mode_is_users = False
        self._is_finished = False
        self._counts_written = False  # progress of "write" counts, once there was one

    # What the window shows

    @property
    def job_id(self) -> str:
        """The job that is shown; "" for none."""
        return self._job_id

    def show_empty(self) -> None:
        """There is no job: invite."""
        self._ask.stop()
        self._forget()
        self.playback.set_job("", None)
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
        self.timeline.set_film(self._film)
        self.timeline.set_finished(0, is_running=False)
        self.timeline.setVisible(self._film.steps > 1)
        self.figures.clear()
        self._show_below(self.figures)
        self.canvas.scene.tile_map.clear()
        self._stop()
        small = QImage() if picture is None else scene.to_image(picture)
        self._show_pictures(small, QImage())
        self.set_mode(Mode.ORIGINAL)
        self.canvas.fit()
        had_focus = self.empty.isAncestorOf(self.focusWidget() or self)
        self._pages.setCurrentWidget(self._work)
        if had_focus:  # its page has just been hidden; keys now belong to the picture
            self.canvas.setFocus()
        self._ask.start()  # the picture of the queue is a small one

    def show_plan(self, job_id: str, plan: Plan) -> None:
        """What will be done: size of the result, name of the model, what is cut off."""
        if job_id != self._job_id or self._film is None:
            return
        self._plan = plan
        self.playback.set_plan(plan)
        self._result_size = plan.picture.seen_size
        start, stop = (None if edge is None else float(edge) for edge in (plan.start, plan.stop))
        self.timeline.set_trim(start, stop)
        self.figures.show_plan(plan)
        self._refresh_content()

    def tile_done(self, event: TileDone) -> None:
        """A tile of the frame in work."""
        if event.job_id != self._job_id or self._media is None:
            return
        self._run()
        self.bar.offer_tiles(event.tiles > 1)
        if not self._mode_is_users and self.canvas.mode is Mode.ORIGINAL:
            has_source = not self._source_image.isNull()
            self.set_mode(Mode.SPLIT if event.tiles == 1 and has_source else Mode.RESULT)
        if self._result_size is None:
            self._result_size = event.canvas
            self._refresh_content()
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
        if event.job_id != self._job_id or self._film is None or not self._is_awaited(event):
            return
        step = self._film.step_at(event.seconds)
        if not self._is_followed:
            self.timeline.set_step(step)
        is_kept = self.timeline.strip.is_kept(step)
        has_result = event.result is not None and is_kept
        result = scene.to_image(event.result) if has_result else QImage()
        source = QImage() if event.source is None else scene.to_image(event.source)
        self._show_pictures(source, result)
        if source.isNull() and not self._mode_is_users:  # decoded latents have gone with the job
            self.set_mode(Mode.RESULT)

    def _why_no_result(self) -> str:
        strip = self.timeline.strip
        if not strip.is_kept(strip.value()):
            return tr("This part of the film is cut off.")
        if self._is_finished:
            return tr("Reading this frame …")
        if strip.value() < strip.span[0] + strip.finished:
            return tr("This frame is finished. It can be compared when the whole job is done.")
        return tr("There is no result of this frame yet.")

    def _why_no_source(self) -> str:
        """Pictures of a film come at once; latents are no pictures yet."""
        if self._media is None or not self._media.holds_latents:
            return ""
        if self._is_finished:
            return tr("The decoded latents were only kept while the job ran.")
        return tr("Latents are decoded when the job runs.")

    def _is_awaited(self, event: PreviewReady) -> bool:
        """False for answers to others (the queue asks for small ones) and for late ones."""
        if self.playback.is_playing:
            return False
        if self._is_followed:
            return event.result is not None
        if self._asked_seconds is None or self._film is None:
            return False
        near = max(0.05, 1.5 * self._film.seconds_of(1))
        is_larger = event.source is not None and (
            event.source.size.width >= self._source_image.width()
        )
        is_asked = abs(event.seconds - self._asked_seconds) <= near
        return is_asked and (is_larger or event.result is not None)

    def progress(self, event: StageProgress) -> None:
        """How far and how fast."""
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

    def telemetry(self, event: Telemetry) -> None:
        """Memory of this program where its plan is the tightest, while the shown job runs."""
        if not self._is_running:
            return
        on_gpu = self._plan is not None and self._plan.device_bytes > 0
        if not on_gpu:
            self.figures.show_memory(event.ram_ours_mb * _MB)
        elif event.gpu is not None:
            self.figures.show_memory((event.gpu.ours_mb + event.gpu.spilled_mb) * _MB)

    def finished(self, report: Report) -> None:
        """The shown job is done: compare."""
        if self._film is None:
            return
        self._stop()
        self._is_finished = True
        self.playback.set_result(is_published=True)
        first, stop = self.timeline.strip.span
        self.timeline.set_finished(stop - first, is_running=False)
        self.strip.show_report(report)
        self._show_below(self.strip)
        if not self._mode_is_users or self.canvas.mode in (Mode.ORIGINAL, Mode.RESULT):
            self.set_mode(Mode.SPLIT)
        if self._film.counts_frames:
            self.timeline.set_step(first + (stop - first) // 3)  # beginnings are often black
        self.ask_now()

    def failed(self, error: ErrorInfo) -> None:
        """The shown job ended without a result."""
        self._stop()
        self.strip.show_error(error)
        self._show_below(self.strip)

    def stopped(self) -> None:
        """The shown job was cancelled: nothing moves any more."""
        self._stop()

    # Frames

    def _run(self) -> None:
        """The first sign of a running job: follow it."""
        if self._is_running:
            return
        self._is_running, self._is_finished = True, False
        self._show_below(self.figures)
        self._follow()

    def _stop(self) -> None:
        self._is_running = self._is_followed = False
        self.timeline.set_finished(self.timeline.strip.finished, is_running=False)
        self.canvas.set_live(False)
        self.bar.offer_follow(False)
        self.bar.offer_tiles(False)

    def _follow(self) -> None:
        self.playback.stop()
        self._ask.stop()
        self._is_followed = True
        self.canvas.set_live(True)
        self.bar.offer_follow(False)

    def _scrubbed(self, _seconds: float) -> None:
        self._leave_live()
        self._ask.start()

    def _leave_live(self) -> None:
        if self._is_running and self._is_followed:
            self._is_followed = False
            self.canvas.set_live(False)
            self.bar.offer_follow(True)
        self._ask.stop()

    def ask_now(self) -> None:
        """Ask for the frame that is shown."""
        if self._job_id:
            self._asked_seconds = self.timeline.seconds_to_ask
            self.frame_requested.emit(self._job_id, self._asked_seconds)

    def _show_pictures(self, source: QImage, result: QImage) -> None:
        self._source_image, self._result_image = source, result
        self.canvas.set_pictures(source, result)
        self._refresh_content()

    def _refresh_content(self) -> None:
        """Size and names of both pictures."""
        if self._media is None:
            return
        video = self._media.video
        size = self._result_size or video.seen_size
        aspect = float(video.sample_aspect)
        across, down = (1.0, aspect) if video.rotation in (90, 270) else (aspect, 1.0)
        self.canvas.set_content(QSizeF(size.width * across, size.height * down))
        source = f"{tr('Original')} {_times(video.seen_size)}"
        self.canvas.set_labels(source, self._result_label(size))
        self.canvas.set_no_result_text(self._why_no_result())
        self.canvas.set_no_source_text(self._why_no_source())

    def _result_label(self, size: Size) -> str:
        model = self._plan.work.model if self._plan is not None else ""
        name = {"lite": "Lite", "wan-2x": "Wan 2x", "none": tr("Same size")}.get(
            model, tr("Result")
        )
        text = f"{name} {_times(size)}"
        width = self._result_image.width()
        is_reduced = 0 < width < self.canvas.scene.viewport.content.width() - 1
        if is_reduced and not self.canvas.scene.shows_tiles:
            shown = _times(Size(width, self._result_image.height()))
            text = tr("{picture}, shown at {size}", picture=text, size=shown)
        return text

    # View

    def set_mode(self, mode: Mode) -> None:
        """Compare in another way."""
        self.bar.set_mode(mode)
        self.canvas.set_mode(mode)

    def _mode_chosen(self, key: str) -> None:
        self._mode_is_users = True
        self.canvas.set_mode(Mode(key))
        self.playback.refresh()

    def _compare(self) -> None:
        """Show original and result together; a film plays both."""
        if self.canvas.mode in (Mode.ORIGINAL, Mode.RESULT):
            self.bar.set_mode(Mode.SPLIT)
            self._mode_chosen(Mode.SPLIT.value)
        self.canvas.setFocus()
        if not self.timeline.isHidden() and not self.playback.is_playing:
            self.playback.toggle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A low window keeps its height for the picture."""
        super().resizeEvent(event)
        self._show_below(self._below.currentWidget())

    def _show_below(self, widget: QWidget) -> None:
        """Figures or the report; how a job ended is worth its height in any window."""
        self._below.setCurrentWidget(widget)
        self._below.setVisible(widget is self.strip or self.height() >= _FIGURES_FROM_PX)

    def changeEvent(self, event: QEvent) -> None:
        """Another language: the labels of the pictures are made here."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self._refresh_content()


def _times(size: Size) -> str:
    return f"{size.width}×{size.height}"
