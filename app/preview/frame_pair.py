"""The frame at the playhead in two videos: asked for, awaited of both, shown with their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, QSizeF, QTimer, Signal
from PySide6.QtGui import QImage

from app import engine_messages, labels
from app.i18n import tr
from app.preview import scene
from app.preview.compare_canvas import CompareCanvas
from app.preview.film import SOURCE, Film, common_span_s
from app.preview.film_clock import FilmClock
from app.preview.scene import Mode
from app.preview.timeline import Timeline
from engine.core.errors import ErrorInfo
from engine.protocol.events import Picture, PreviewReady
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan

_ASK_AFTER_MS = 120  # while scrubbing, only the frame where the pointer rests is asked for


class FramePair(QObject):
    """Two videos of one source, of a job that is shown: usually the source and the job's result.

    Other results of the source can take the place of either.
    """

    requested = Signal(str, float, bool)  # job_id, s, whether with the source
    changed = Signal()  # other videos, or more of them to choose from
    film_lost = Signal(ErrorInfo)  # why one that was shown has given way

    def __init__(self, canvas: CompareCanvas, timeline: Timeline, parent: QObject) -> None:
        super().__init__(parent)
        self._canvas, self._timeline = canvas, timeline
        self._is_playing = self._can_trim = False
        self._ask = QTimer(self)
        self._ask.setSingleShot(True)
        self._ask.setInterval(_ASK_AFTER_MS)
        self._ask.timeout.connect(self.ask_now)
        timeline.strip.valueChanged.connect(lambda _step: self.refresh_texts())
        self.set_job("", None)

    # Which videos

    def set_job(self, job_id: str, media: MediaInfo | None) -> None:
        """Another job, or none: its source and its result."""
        self._ask.stop()
        self._job_id, self._media = job_id, media
        self._clock = FilmClock.of(media) if media is not None else None
        self._plan: Plan | None = None
        self._offered: tuple[Film, ...] = ()
        self._keys = (SOURCE, job_id)
        self.is_finished = False
        self._error: ErrorInfo | None = None  # why the job's finished result cannot be shown
        self._remedy = ""
        self._look: Plan | None = None
        self.images = (QImage(), QImage())
        self.asked_s: float | None = None
        self._answers: dict[str, PreviewReady | None] = {}  # by job, of the frame that was asked
        if media is not None:
            self._take_films()

    def set_plan(self, plan: Plan) -> None:
        """Result of the job."""
        self._plan = plan
        self._take_films()

    def offer(self, results: Sequence[Film]) -> None:
        """Results of the source that can be shown, that of the job itself included.

        One that is shown and no longer offered gives way to the usual pair.
        """
        if tuple(results) == self._offered:
            return
        self._offered = tuple(results)
        known = {SOURCE, self._job_id, *(film.key for film in results)}
        if known.issuperset(self._keys):
            self._take_films()
        else:
            self.choose(SOURCE, self._job_id)

    def lose(self, job_id: str, error: ErrorInfo) -> None:
        """A finished result cannot be shown: the job's own says why, another one leaves."""
        if job_id == self._job_id:
            self._error = error
            self.refresh_texts()
        elif job_id in self._keys:
            self.offer([film for film in self._offered if film.key != job_id])
            self.film_lost.emit(error)

    def choose(self, first: str, second: str) -> None:
        """Show two other videos, by their keys; a picture that is there already stays meanwhile."""
        pictures = dict(zip(self._keys, self.images, strict=True))
        self._keys = (first, second)
        self._take_films()
        self.show(pictures.get(first, QImage()), pictures.get(second, QImage()))
        self.ask_now()

    @property
    def films(self) -> tuple[Film, ...]:
        """All that can be shown: the source, then results."""
        keys = [film.key for film in self._offered] or [self._job_id]
        return self._film(SOURCE), *map(self._film, keys)

    @property
    def shown(self) -> tuple[Film, Film]:
        """The two videos."""
        first, second = self._keys
        return self._film(first), self._film(second)

    @property
    def is_usual(self) -> bool:
        """Whether the job's result is compared with its source."""
        return self._keys == (SOURCE, self._job_id)

    def set_can_trim(self, can_trim: bool) -> None:
        """Whether the job's choices can be changed; its ends are those of the usual pair only."""
        self._can_trim = can_trim
        self._timeline.set_can_trim(can_trim and self.is_usual)

    def _film(self, key: str) -> Film:
        found = next((film for film in self._offered if film.key == key), None)
        if found is not None and key != self._job_id:
            return found
        assert self._media is not None
        return Film(
            job_id=self._job_id,
            media=self._media,
            plan=self._plan,
            side="source" if key == SOURCE else "result",
            name=found.name if found is not None else "",
        )

    def _take_films(self) -> None:
        start, stop = common_span_s(self.shown)
        self._timeline.set_trim(start, stop)
        self._timeline.set_can_trim(self._can_trim and self.is_usual)
        if self.is_finished:
            first, after = self._timeline.strip.span
            self._timeline.set_finished(after - first, is_running=False)
        self.refresh()
        self.changed.emit()

    # The frame

    def ask_soon(self) -> None:
        """Ask for the frame at the playhead once that rests."""
        self._ask.start()

    def stop_asking(self) -> None:
        """Drop requests that were to be sent soon."""
        self._ask.stop()

    def ask_now(self) -> None:
        """Ask for the frame at the playhead, of each video from its job."""
        self._ask.stop()
        if self._media is None:
            return
        self.asked_s = self._timeline.seconds_to_ask
        results = [film.job_id for film in self.shown if film.side == "result"]
        self._answers = dict.fromkeys(results)
        for job_id in results:  # one of them where the source is shown
            self.requested.emit(job_id, self.asked_s, SOURCE in self._keys)

    def take(self, event: PreviewReady) -> bool:
        """A frame that was asked for; False for answers to others and for late ones."""
        if not self._is_awaited(event):
            return False
        self._answers[event.job_id] = event
        if event.job_id == self._job_id and event.result is not None:
            self._error = None  # it is there again
        if self.is_answered:
            self._show_answers()
        return True

    @property
    def is_answered(self) -> bool:
        """Whether the frame that was asked for last is there."""
        return bool(self._answers) and all(self._answers.values())

    def show_frame(self, event: PreviewReady) -> None:
        """A frame of the job, asked for or not: the one in work."""
        self._answers = {self._job_id: event}
        self._show_answers()

    def _is_awaited(self, event: PreviewReady) -> bool:
        if self.asked_s is None or self._clock is None or event.job_id not in self._answers:
            return False
        near = max(0.05, 1.5 * self._clock.seconds_of(1))
        if abs(event.seconds - self.asked_s) > near:
            return False
        if SOURCE not in self._keys:
            return True
        source, before = event.source, self.images[self._keys.index(SOURCE)]
        is_larger = source is not None and source.size.width >= before.width()  # than the queue's
        return is_larger or event.result is not None

    def _show_answers(self) -> None:
        pictures = [self._picture(film) for film in self.shown]
        self.show(*(QImage() if one is None else scene.to_image(one) for one in pictures))

    def _picture(self, film: Film) -> Picture | None:
        """Frames of a video in the answers; a result outside of the common part is not shown."""
        if film.side == "source":
            return next((one.source for one in self._answers.values() if one is not None), None)
        event = self._answers.get(film.job_id)
        if event is None or self._clock is None:
            return None
        is_kept = self._timeline.strip.is_kept(self._clock.step_at(event.seconds))
        return event.result if is_kept else None

    def show(self, first: QImage, second: QImage) -> None:
        """Show two pictures; null ones for what there is not."""
        self.images = (first, second)
        self._canvas.set_pictures(first, second)
        self.refresh()

    # Names and texts

    def refresh(self) -> None:
        """Size, names and texts of both."""
        if self._media is None:
            return
        results = [film.size for film in self.shown if film.side == "result"]
        size = max(results, key=lambda one: one.pixels)
        video = self._media.video
        aspect = float(video.sample_aspect)
        across, down = (1.0, aspect) if video.rotation in (90, 270) else (aspect, 1.0)
        self._canvas.set_content(QSizeF(size.width * across, size.height * down))
        self._canvas.set_labels(*map(self._labels, (0, 1)))
        self.refresh_texts()

    def refresh_texts(self) -> None:
        """Show the reason for a missing frame, and the text for a screen reader."""
        if self._media is None:
            return
        missing = self._why_missing(0), self._why_missing(1)
        self._canvas.set_missing_texts(*missing)
        if not self._is_playing:  # a screen reader would say each frame
            self._canvas.setAccessibleName(self._spoken(missing))

    def set_remedy(self, remedy: str) -> None:
        """Text on how the frame gets its missing result; "" where it comes by itself."""
        if remedy != self._remedy:
            self._remedy = remedy
            self.refresh_texts()

    def set_look(self, plan: Plan | None) -> None:
        """Plan of the first look that is shown as the result; None for a result of the job."""
        if plan is not self._look:
            self._look = plan
            self.refresh()

    @property
    def has_look(self) -> bool:
        """Whether the result of the frame is a first look."""
        return self._look is not None

    def set_playing(self, is_playing: bool) -> None:
        """Whether frames follow each other."""
        self._is_playing = is_playing
        self.refresh_texts()

    def _labels(self, at: int) -> tuple[str, ...]:
        """Texts on a picture: the size where it is reduced, all of its name, and less of it."""
        film, image = self.shown[at], self.images[at]
        if film.key == self._job_id and self._look is not None:
            film = replace(film, name=labels.preview_name(self._look))
        letter = "" if self.is_usual else f"{'AB'[at]}: "
        whole, short = f"{letter}{film.label}", f"{letter}{film.title}"
        is_reduced = 0 < image.width() < film.size.width - 1
        if film.side == "result" and is_reduced and not self._canvas.scene.shows_tiles:
            shown = f"{image.width()}×{image.height()}"
            return tr("{picture}, shown at {size}", picture=whole, size=shown), whole, short
        return whole, short

    def _why_missing(self, at: int) -> str:
        film, strip = self.shown[at], self._timeline.strip
        if film.side == "source":
            return self._why_no_source()
        if not self._has_common_part:
            return tr("These two results have no part of the video in common.")
        if not strip.is_kept(strip.value()):
            if self.is_usual:
                return tr("This part of the video is trimmed off.")
            return tr("Only one of the two has this part of the video.")
        if film.job_id != self._job_id:
            return tr("Reading this frame …")
        return self._why_no_result()

    def _why_no_result(self) -> str:
        strip = self._timeline.strip
        if self.is_finished:
            return _sentences(self._error) if self._error else tr("Reading this frame …")
        if strip.value() < strip.span[0] + strip.finished:
            return tr("This frame is finished. It can be compared when the whole job is done.")
        return " ".join(filter(None, (tr("There is no result for this frame yet."), self._remedy)))

    def _why_no_source(self) -> str:
        """Pictures of a video come at once; latents are no pictures yet."""
        if self._media is None or not self._media.holds_latents:
            return ""
        if self.is_finished:
            return tr("The decoded latents were kept only while the job was running.")
        return tr("Latents are decoded when the job runs.")

    @property
    def _has_common_part(self) -> bool:
        start, stop = common_span_s(self.shown)
        return stop is None or start < stop

    def _spoken(self, missing: tuple[str, str]) -> str:
        """Film, time, what is shown of it, and why something is not."""
        assert self._media is not None
        mode, (first, second) = self._canvas.mode, self._canvas.scene.labels
        shown = {
            Mode.FIRST: first,
            Mode.SECOND: second,
            Mode.SPLIT: tr(
                "{first} left of the divider, {second} right", first=first, second=second
            ),
            Mode.SIDE: tr("{first} on the left, {second} on the right", first=first, second=second),
            Mode.DIFFERENCE: tr(
                "difference between {first} and {second}", first=first, second=second
            ),
        }[mode]
        film, time = self._media.name, self._timeline.position_text
        if time:
            text = tr("Frame of {film}, {time}: {shown}.", film=film, time=time, shown=shown)
        else:
            text = tr("Image of {film}: {shown}.", film=film, shown=shown)
        return " ".join((text, *self._reasons(missing)))

    def _reasons(self, missing: tuple[str, str]) -> Iterator[str]:
        """Why what is to be seen cannot be seen."""
        hidden = {Mode.FIRST: 1, Mode.SECOND: 0}.get(self._canvas.mode)
        if self._canvas.scene.shows_tiles:
            return
        for at, reason in enumerate(missing):
            if reason and at != hidden and self.images[at].isNull():
                yield reason


def _sentences(error: ErrorInfo) -> str:
    return f"{engine_messages.text(error)} {engine_messages.hint(error)}"
