"""Playback of the shown job: keys and buttons, which videos, how fast, from where to where."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent

from app import engine_messages
from app.i18n import mark, tr
from app.preview.compare_canvas import CompareCanvas
from app.preview.film import Film
from app.preview.player import Frame, Opener, Player
from app.preview.scene import Mode
from app.preview.sound import Part, SoundOut
from app.preview.timeline import Timeline
from engine.core.errors import EngineError
from engine.core.geometry import Size
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo, Side
from engine.protocol.plan import Plan

_FASTEST = 8.0
_PART_S = 0.25  # that is decoded at once to be played backwards
_LOOK_S = 0.3  # between two looks for more of a video that is being made
_HELD = Qt.Key.Key_H  # shows the first video while it is down
KEYS = (  # what `take_key` knows, for the list of keys
    (("Space",), mark("Play or pause")),
    (("J", "L"), mark("Play backwards or forwards; press again to double the speed")),
    (("K",), mark("Pause")),
    (("Left", "Right"), mark("Previous or next frame")),
    (("Ctrl+Left", "Ctrl+Right"), mark("Previous or next cut, in short videos")),
    (("I", "O"), mark("Set the start or end of the result")),
    (("H",), mark("Show the original, or A, while the key is held")),
)


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A frame of a video that plays backwards: its time counts down."""

    frame: Frame

    @property
    def seconds(self) -> float:
        """Minus the time of the frame."""
        return -self.frame.seconds

    def picture(self, box: Size) -> Picture:
        """Time of the frame itself."""
        return self.frame.picture(box)


def backwards(opened: Opener) -> Opener:
    """Frames from a time down to the beginning, as a video whose times rise.

    Memory: the frames of `_PART_S`.
    """

    def frames(start: float) -> Iterator[Frame]:
        bound, begin = -start + 1e-6, -start
        while bound > 0:
            begin = max(0.0, min(begin, bound) - _PART_S)
            part: list[Frame] = []
            for frame in opened(begin):
                if frame.seconds >= bound:
                    break
                part.append(frame)
            for frame in reversed(part):
                yield Mirrored(frame)
            if part:
                bound = part[0].seconds
            elif begin == 0.0:
                return

    return frames


def opener(job_id: str, media: MediaInfo, plan: Plan, side: Side) -> Opener:
    """The source or a result of a job, as `engine.api.played_frames` reads it."""

    def frames(start_s: float) -> Iterator[Frame]:
        from engine.api import played_frames  # here: in the thread that reads

        yield from played_frames(job_id, media, plan, side, start_s)

    return frames


def growing(opened: Opener, grows: Callable[[], bool]) -> Opener:
    """Frames of a video that is being made; at its end those that are finished later."""

    def frames(start: float) -> Iterator[Frame]:
        last = float("-inf")
        while True:
            is_more_to_come = grows()  # asked before reading: what comes meanwhile is not missed
            for frame in opened(max(start, last)):
                if frame.seconds > last + 1e-6:
                    last = frame.seconds
                    yield frame
            if not is_more_to_come:
                return
            time.sleep(_LOOK_S)

    return frames


class Playback(QObject):
    """Plays what the canvas shows; stands still when another job is shown."""

    began = Signal()
    stopped = Signal()
    pictures_changed = Signal(QImage, QImage)  # of both videos; null for what there is not
    trim_chosen = Signal(dict)  # settings "start" and "stop"

    def __init__(self, canvas: CompareCanvas, timeline: Timeline, parent: QObject) -> None:
        super().__init__(parent)
        self._canvas, self._timeline = canvas, timeline
        self._media: MediaInfo | None = None
        self._pair: tuple[Film, Film] | None = None
        self._job_id = ""
        self._result: Literal["", "result", "pieces"] = ""  # of the job; "" for none
        self._excerpt: Plan | None = None  # of a part that was made before
        self._speed = 0.0
        self._run = 0  # counts what was played: earlier threads wait for nothing any more
        self._mode_before: Mode | None = None  # while the key is held
        self._knows_silence = False  # the line about a missing device was shown
        self.player, self.sound = Player(self), SoundOut(self)
        self.sound.no_device.connect(self._tell_silence)
        timeline.volume.gain_changed.connect(self._set_gain)
        self._set_gain(timeline.volume.gain)
        self.player.failed.connect(self._tell_failure)
        self.player.shown.connect(self._show)
        self.player.ended.connect(self._ended)
        self.player.playing_changed.connect(timeline.show_playing)
        timeline.play_clicked.connect(self.toggle)
        timeline.span_chosen.connect(self._choose_trim)
        timeline.seconds_chosen.connect(lambda _seconds: self.stop())

    # What can be played

    def set_job(self, job_id: str, media: MediaInfo | None) -> None:
        """Another job, or none."""
        self.stop()
        self._release()
        self._job_id, self._media = job_id, media
        self._pair, self._result, self._excerpt = None, "", None
        self._timeline.set_note("")

    def set_pair(self, pair: tuple[Film, Film]) -> None:
        """Which two videos are shown; where they play, the new ones go on."""
        if pair != self._pair:
            self._pair = pair
            self.refresh()

    def set_result(self, *, is_published: bool) -> None:
        """The job has a result: the whole one, or pieces of it."""
        self._result = "result" if is_published else "pieces"

    def set_excerpt(self, plan: Plan | None) -> None:
        """A part of the video was made with this plan: it plays where the job has no result."""
        self._excerpt = plan

    @property
    def is_playing(self) -> bool:
        """Whether frames follow each other."""
        return self.player.is_playing

    def _films(self) -> dict[str, Opener]:
        """Videos to read of the pair: those shown, and the first one where the second ends."""
        assert self._pair is not None
        mode, films = self._canvas.mode, {}
        first, second = self._pair
        sides = self._side(first), self._side(second)
        if sides[0] and (mode is not Mode.SECOND or sides[1] in ("", "excerpt")):
            films["first"] = self._opener(first, sides[0])
        if sides[1] and (mode is not Mode.FIRST or not sides[0]):
            films["second"] = self._growing_opener(second, sides[1])
        return {name: backwards(film) for name, film in films.items()} if self._speed < 0 else films

    def _side(self, film: Film) -> Side | Literal["", "excerpt"]:
        """Which video of its job the engine reads, or "excerpt"; "" for none yet."""
        if film.side == "source" or film.job_id != self._job_id:
            return film.side
        return self._result or ("excerpt" if self._excerpt is not None else "")

    def _growing_opener(self, film: Film, side: Side | Literal["excerpt"]) -> Opener:
        opened, strip, run = self._opener(film, side), self._timeline.strip, self._run
        if side != "pieces" or self._speed < 0 or strip.value() >= strip.span[0] + strip.finished:
            return opened  # the first video is played meanwhile

        def grows() -> bool:
            return run == self._run and self._result == "pieces" and self._timeline.is_running

        return growing(opened, grows)

    def _opener(self, film: Film, side: Side | Literal["excerpt"]) -> Opener:
        plan = film.plan
        if side == "excerpt":
            side, plan = "result", self._excerpt
        assert plan is not None
        return opener(film.job_id, film.media, plan, side)

    # Playing

    def toggle(self) -> None:
        """Play, or stand still."""
        if self.is_playing:
            self.stop()
        else:
            self.play(1.0)

    def play(self, speed: float) -> None:
        """Play from the playhead; below 0 backwards. Nothing where there is no video to play."""
        if not self._can_play:
            return
        first, stop = self._timeline.strip.span
        step = self._timeline.strip.value()
        last = stop - 1 if self._timeline.is_looped else self._timeline.strip.maximum()
        if speed > 0 and step >= last:
            self._timeline.set_step(first)
        self._speed = speed
        target = self._canvas.scene.viewport.target.size() * self._canvas.devicePixelRatioF()
        box = Size(max(1, round(target.width())), max(1, round(target.height())))
        at = self._timeline.seconds_to_ask
        self.began.emit()
        self._timeline.set_note("")
        self._run += 1
        self.player.play(self._films(), at if speed > 0 else -at, abs(speed), box)
        self._play_sound(at)

    @property
    def _can_play(self) -> bool:
        """Whether what is shown is a video, and has its plans."""
        has_plans = self._pair is not None and all(film.plan is not None for film in self._pair)
        return has_plans and self._timeline.strip.maximum() > 0

    def _play_sound(self, start_s: float) -> None:
        """Sound of the source, whichever video is shown; only at its own speed."""
        media = self._media
        assert media is not None
        if self._speed != 1.0 or not media.audio_streams:
            self.sound.stop()
            return

        def parts(start: float, rate: int) -> Iterator[Part]:
            from engine.api import played_sound  # here: in the thread of the sound

            yield from played_sound(media, start, rate)

        self.sound.play(parts, start_s, lambda: self.player.heard)

    def _set_gain(self, gain: float) -> None:
        self.sound.gain = gain

    def _tell_silence(self) -> None:
        if not self._knows_silence:
            self._knows_silence = True
            self._timeline.set_note(tr("No audio device: playing without sound."))

    def _tell_failure(self, error: EngineError) -> None:
        self._timeline.set_note(engine_messages.text(error.info()))

    def stop(self) -> None:
        """Stand still."""
        self._run += 1
        self.sound.stop()
        if self.is_playing:
            self.player.stop()
            self.stopped.emit()

    def refresh(self) -> None:
        """Another view: play what it shows."""
        if self.is_playing:
            self.play(self._speed)

    def _shuttle(self, direction: int) -> None:
        """Play in a direction, each time twice as fast."""
        is_same = self.is_playing and self._speed * direction > 0
        self.play(direction * (min(2 * abs(self._speed), _FASTEST) if is_same else 1.0))

    def _show(self, seconds: float, images: Mapping[str, QImage]) -> None:
        self._timeline.show_seconds(abs(seconds))
        none = QImage()
        self.pictures_changed.emit(images.get("first", none), images.get("second", none))
        strip = self._timeline.strip
        if self._timeline.is_looped and self._speed > 0 and strip.value() >= strip.span[1] - 1:
            self.play(self._speed)

    def _ended(self) -> None:
        if self._timeline.is_looped and self._speed > 0:
            self._timeline.set_step(self._timeline.strip.span[0])
            self.play(self._speed)
        else:
            self.sound.stop()
            self.stopped.emit()

    # Keys

    def take_key(self, event: QKeyEvent) -> bool:
        """A key that no control has used; False where it means nothing here either."""
        strip, held = self._timeline.strip, event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        direction = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if held == Qt.KeyboardModifier.ControlModifier and direction:
            return strip.go_to_cut(direction)
        if held or self._pair is None:
            return False
        match Qt.Key(event.key()):
            case Qt.Key.Key_Space:
                self.toggle()
            case Qt.Key.Key_J:
                self._shuttle(-1)
            case Qt.Key.Key_K:
                self.stop()
            case Qt.Key.Key_L:
                self._shuttle(1)
            case Qt.Key.Key_Left | Qt.Key.Key_Right as key:
                strip.go(1 if key == Qt.Key.Key_Right else -1)
            case Qt.Key.Key_I:
                self._choose_trim(strip.value(), max(strip.span[1], strip.value() + 1))
            case Qt.Key.Key_O:
                self._choose_trim(min(strip.span[0], strip.value()), strip.value() + 1)
            case key if key == _HELD:
                self._hold(event.isAutoRepeat())
            case _:
                return False
        return True

    def release_key(self, event: QKeyEvent) -> None:
        """The first video goes with its key."""
        if event.key() == _HELD and not event.isAutoRepeat():
            self._release()

    def _hold(self, is_repeated: bool) -> None:
        if not is_repeated and self._mode_before is None:
            self._mode_before = self._canvas.mode
            self._canvas.set_mode(Mode.FIRST)
            if self._mode_before is Mode.SECOND:
                self.refresh()  # it was not read so far

    def _release(self) -> None:
        if self._mode_before is not None:
            mode, self._mode_before = self._mode_before, None
            self._canvas.set_mode(mode)
            if mode is Mode.SECOND:
                self.refresh()

    # Trim

    def _choose_trim(self, first: int, stop: int) -> None:
        if not self._timeline.strip.can_trim:
            return
        self.trim_chosen.emit(self._timeline.trim_of(first, stop))
