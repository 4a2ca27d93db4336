"""Muxing: the finished video, the source's other streams, chapters and metadata into one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError
from av.stream import Disposition

from engine.core.control import Control
from engine.protocol.media import MediaInfo, Statement
from engine.protocol.plan import PicturePlan, Plan
from engine.video.read.media_file import open_input
from engine.video.write.containers import CONTAINERS, PICTURES
from engine.video.write.frame_messages import messages_of_frames, with_messages
from engine.video.write.image_files import export_images
from engine.video.write.passthrough import CopiedStreams, stream_metadata
from engine.video.write.segment_file import (
    SegmentFile,
    SegmentStream,
    TimedPacket,
    make_durable,
    writing,
)
from engine.video.write.statements import OF_FRAMES, StatedResult
from engine.video.write.track_header import (
    TrackFacts,
    display_size,
    make_room,
    states_aspect,
    write_facts,
)
from engine.video.write.trial_mux import Nowhere

_OWN_CLOCK = frozenset({"mov", "matroska"})  # containers whose times count from their own start
# Stated by the container itself.
_OF_THE_CONTAINER = frozenset(
    {"major_brand", "minor_version", "compatible_brands", "encoder", "duration"}
)
# Entries with a place of their own in MP4 and MOV; others need the "mdta" table of keys.
_PLAIN = frozenset({"title", "artist", "album", "date", "comment", "genre", "copyright"}) | {
    "keywords",
    "creation_time",
    "timecode",
}
_PLAIN_MP4 = _PLAIN | {"album_artist", "composer", "grouping", "lyrics", "description", "synopsis"}
_PLAIN_MOV = _PLAIN | {"author", "make", "model", "location"}
_LARGEST_TIMESCALE = 2**31 - 1
# Packets come sorted; without this a stream that is mostly silent holds 10 s of picture back.
_INTERLEAVED = {"max_interleave_delta": "500000"}  # us
_PREROLL = 1  # s; MKV could hold up to 32 s before 0


def mux(
    media: MediaInfo,
    plan: Plan,
    segments: Sequence[SegmentFile],
    target: Path,
    *,
    control: Control,
    progress: Callable[[int, int], None],
    must_be_whole: bool = True,
) -> None:
    """Write the result: the video of the segments, and the source's other streams unchanged.

    Every frame gets exactly the time stamp of its source frame (MKV: rounded to 1 ms); sound and
    subtitles keep theirs. A job trimmed at its start begins at 0, and so does a source whose clock
    starts anywhere (MPEG-TS): all streams are shifted alike. `export_images` writes pictures.

    Args:
        media: The source.
        plan: Its `container` is the format, whatever the suffix of `target`.
        segments: In order, at least one.
        target: Written under this name; deleted again when something goes wrong.
        control: Checked between packets.
        progress: Called with bytes of the video done and their sum.
        must_be_whole: Passed to `open_input`, for the other streams.

    Raises:
        Cancelled: The user stopped.
        DiskFull, OutputUnwritable, OutputError: The result cannot be written.
        InputError: The source can no longer be read.

    Memory: one packet of each stream, half a second of packets that the muxer sorts, the index of
    the file (about 100 bytes a packet) and messages of frames (the same); never the length of the
    sound.
    """
    if not segments:
        raise ValueError("nothing to write")
    if plan.container in PICTURES:
        export_images(media, plan, segments, target, control=control, progress=progress)
        return
    begin = segments[0].pts[0] * plan.picture.time_base
    film = SegmentStream(segments, plan.picture, _shift(media, plan, begin))
    try:
        with ExitStack() as stack:
            source = None
            if media.kind == "video":
                source = stack.enter_context(open_input(media.path, must_be_whole=must_be_whole))
            run = _MuxRun(media, plan, begin, source, film)
            with writing(target):
                run.write(f"file:{target}", control, progress)
                run.add_facts(target)
                make_durable(target)
    except BaseException:
        with suppress(OSError):  # the first error counts
            target.unlink(missing_ok=True)
        raise


def tried(media: MediaInfo, plan: Plan, control: Control) -> Plan:
    """The plan with what its muxer takes of the other streams of a video.

    All of their packets are written nowhere, with chapters, tags and a video without frames: what a
    muxer refuses is known before the first frame is made. Reads through the source once.

    Args:
        media: The source.
        plan: Plan of a video; streams that it copies may be refused.
        control: Checked between packets.

    Raises:
        Cancelled: The user stopped.
        OutputError: The muxer refuses even the rest.
        InputError: The source is gone.
    """
    if not any(stream.copied for stream in plan.streams):
        return plan
    begin = media.start + (plan.start or 0)
    with open_input(media.path) as source, writing(plan.output):
        run = _MuxRun(media, plan, begin, source, None)
        run.write(Nowhere(), control, lambda done, total: None)
    return replace(plan, streams=tuple(run.copies.found(stream) for stream in plan.streams))


class _MuxRun:
    """Opens the result, adds its streams, merges their packets by time.

    Args:
        media: The source.
        plan: Plan of the job.
        begin: Time of the video's first frame, s.
        source: The opened source; None for pictures.
        film: Its frames; None for a trial, whose video has none.
    """

    def __init__(
        self,
        media: MediaInfo,
        plan: Plan,
        begin: Fraction,
        source: InputContainer | None,
        film: SegmentStream | None,
    ) -> None:
        self._media = media
        self._plan = plan
        self._source = source
        self._film = film
        self._shift = _shift(media, plan, begin)
        self._end: Fraction | None = None
        self._languages: tuple[str, ...] = ()  # of the tracks of the result
        self._off: tuple[bool, ...] = ()  # which of them are subtitles that are not the default
        if plan.stop is not None:
            self._end = film.end if film else plan.stop + media.start - self._shift
        self._options = _muxer_options(media, plan)
        self.copies = CopiedStreams(media, plan, self._shift, self._end, self._options)

    def write(
        self, target: str | Nowhere, control: Control, progress: Callable[[int, int], None]
    ) -> None:
        """Write the whole file."""
        options = dict(self._options)
        if self._film and not self._is_matroska:  # moves the index in a second pass
            options["movflags"] = options.get("movflags", "") + "+faststart"
        muxer = CONTAINERS[self._plan.container].muxer
        output = av.open(target, "w", format=muxer, container_options=options)
        total = self._film.bytes if self._film else 0
        try:
            film = self._add_streams(output)
            covers = Disposition.attached_pic  # no tracks in MP4
            tracks = [one for one in output.streams if not one.disposition & covers]
            self._languages = tuple(one.metadata.get("language", "") for one in tracks)
            self._off = tuple(
                one.type == "subtitle" and not one.disposition & Disposition.default
                for one in tracks
            )
            self._describe(output, film)
            if self._film:
                make_room(film.metadata, self._plan.container, self._facts)
            output.start_encoding()
            for timed, done in self._merged(film, control):
                control.check()
                output.mux_one(timed.packet)
                progress(done, total)
            self.copies.finish()
            output.close()
        except BaseException:
            with suppress(FFmpegError):  # the first error counts
                output.close()
            raise
        progress(total, total)

    def add_facts(self, target: Path) -> None:
        """Write facts that the muxer does not accept into the finished file."""
        into = CONTAINERS[self._plan.container]
        stated = (one if into.states_language(one) else "" for one in self._languages)
        languages = tuple(stated) if into.name == "mov" else ()
        off = self._off if any(self._off) and not into.is_matroska else ()
        write_facts(target, into.name, replace(self._facts, languages=languages, off=off))

    def _add_streams(self, output: OutputContainer) -> Any:
        """The video and the copied streams in the order of the source."""
        if self._source is None:
            return self._add_film(output)
        film: Any = None
        for stream in self._source.streams:
            if stream.index == self._media.video.index:
                film = self._add_film(output)
                film.metadata.update(stream_metadata(stream.metadata))
                film.disposition = int(stream.disposition)
            else:
                self.copies.add(stream, output)
        self.copies.add_attachments(self._source, output)
        return film

    def _add_film(self, output: OutputContainer) -> Any:
        picture, film = self._plan.picture, self._film_stream(output)
        film.time_base = picture.time_base
        film.sample_aspect_ratio = picture.sample_aspect
        # In MKV and WebM it would mean a constant rate.
        rate = picture.frame_rate if self._film and self._film.is_regular else Fraction(0)
        film.framerate = rate if self._is_matroska else picture.frame_rate
        if picture.has_alpha and picture.codec == "vp9":
            film.metadata["alpha_mode"] = "1"
        if picture.rotation or picture.is_mirrored:
            film.set_display_matrix(_matrix(picture))
        return film

    def _film_stream(self, output: OutputContainer) -> Any:
        """The video's codec and size; in a trial any codec that the container takes."""
        picture = self._plan.picture
        if self._film is None:
            width, height = picture.size.width, picture.size.height
            codec = CONTAINERS[self._plan.container].trial
            return output.add_mux_stream(codec, width=width, height=height)
        with self._film.template() as template:
            film: Any = output.add_stream_from_template(template, opaque=True)
        if picture.codec == "hevc" and self._plan.container in ("mp4", "mov"):
            film.codec_tag = "hvc1"  # Apple's players refuse hev1
        return film

    @property
    def _is_matroska(self) -> bool:
        return CONTAINERS[self._plan.container].is_matroska

    @property
    def _facts(self) -> TrackFacts:
        """Facts that the muxer does not accept and the result must state."""
        picture = self._plan.picture
        result = StatedResult.of_plan(self._plan)
        kept = {one.kind: one.value for one in self._media.statements if result.keeps(one)}
        stereo3d, display = kept.get("stereo3d", ""), None
        lacks_aspect = picture.sample_aspect != 1 and not states_aspect(picture.codec)
        if self._is_matroska and (lacks_aspect or stereo3d):
            display = display_size(picture.size, picture.sample_aspect)
        return TrackFacts(display=display, stereo3d=stereo3d, spherical=kept.get("spherical", ""))

    def _describe(self, output: OutputContainer, film: Any) -> None:
        """Titles, chapters and time code."""
        output.metadata.update(_file_metadata(self._media))
        if self._source is None:
            return
        chapters: Any = shifted_chapters(self._source, self._shift, self._end)
        if chapters:
            output.set_chapters(chapters)
        film.metadata.pop("stereo_mode", None)  # FFmpeg's words for what `_facts` are written of
        for entries in (film.metadata, output.metadata):
            for name in [name for name in entries if name.lower() == "timecode"]:
                del entries[name]
        code = self._media.stated("time-code")
        if StatedResult.of_plan(self._plan).keeps(Statement(kind="time-code", value=code)):
            tags = output.metadata if self._is_matroska else film.metadata
            tags["timecode"] = code

    def _merged(self, film: Any, control: Control) -> Iterator[tuple[TimedPacket, int]]:
        """All packets by decoding time, with the bytes of the video done so far."""
        messages = self._messages(control) if self._film else []
        copies = iter(()) if self._source is None else self.copies.packets(self._source)
        waiting = next(copies, None)
        done = 0
        for timed, done in self._film.packets() if self._film else ():
            while waiting is not None and waiting.seconds < timed.seconds:
                yield waiting, done
                waiting = next(copies, None)
            timed.packet.stream = film
            if messages and messages[timed.frame]:
                codec = self._plan.picture.codec
                packet = with_messages(timed.packet, messages[timed.frame], codec)
                timed = replace(timed, packet=packet)
            yield timed, done
        while waiting is not None:
            yield waiting, done
            waiting = next(copies, None)

    def _messages(self, control: Control) -> list[list[bytes]]:
        """Messages of each frame; [] where the result has none."""
        result = StatedResult.of_plan(self._plan)
        kept = {one.kind for one in self._media.statements if result.keeps(one)} & OF_FRAMES
        if self._film is None or not kept:
            return []
        found = list(messages_of_frames(self._media, self._plan, kept, control))
        return found + [[]] * (self._film.frames - len(found))


def _shift(media: MediaInfo, plan: Plan, begin: Fraction) -> Fraction:
    """Seconds to subtract from every time."""
    if plan.start is not None:
        return begin
    if media.kind != "video" or _OWN_CLOCK & set(media.container.split(",")):
        return Fraction(0)
    return media.start


def _matrix(picture: PicturePlan) -> list[int]:
    """Display matrix of FFmpeg: rotated clockwise first, then mirrored."""
    cos = {0: 1, 90: 0, 180: -1, 270: 0}[picture.rotation]
    sin = {0: 0, 90: 1, 180: 0, 270: -1}[picture.rotation]
    across = -1 if picture.is_mirrored else 1
    one = 1 << 16
    return [across * cos * one, sin * one, 0, -across * sin * one, cos * one, 0, 0, 0, 1 << 30]


def _file_metadata(media: MediaInfo) -> dict[str, str]:
    """Global entries of the source that stay true."""
    return {k: v for k, v in media.metadata.items() if k.lower() not in _OF_THE_CONTAINER}


def shifted_chapters(source: Any, shift: Fraction, end: Fraction | None) -> list[dict[str, Any]]:
    """Chapters of the source on the clock of the result.

    Args:
        source: The opened file.
        shift: Seconds to subtract from every time.
        end: End of the result in seconds, where it was trimmed. Chapters outside are dropped and
            those across an edge cut; MKV refuses one that begins before 0.
    """
    chapters = []
    for chapter in source.chapters():
        base = chapter["time_base"] or Fraction(1, 1000)
        moved = round(shift / base)
        first, last = chapter["start"] - moved, chapter["end"] - moved
        kept = max(first, 0), last if end is None else min(last, round(end / base))
        if kept != (first, last) and kept[1] <= kept[0]:
            continue
        first, last = kept
        chapters.append({**chapter, "start": first, "end": last, "time_base": base})
    return chapters


def _muxer_options(media: MediaInfo, plan: Plan) -> dict[str, str]:
    """Options of the muxer that keep times and tags exact."""
    if CONTAINERS[plan.container].is_matroska:
        options = {"default_mode": "passthrough", **_INTERLEAVED}
        if media.start >= -_PREROLL:  # sound of MP4 starts a little before 0: keep it there
            options["avoid_negative_ts"] = "disabled"
        return options
    options = {"movie_timescale": str(_movie_timescale(media, plan)), **_INTERLEAVED}
    plain = _PLAIN_MOV if plan.container == "mov" else _PLAIN_MP4
    if any(name.lower() not in plain for name in _file_metadata(media)):
        options["movflags"] = "+use_metadata_tags"
    return options


def _movie_timescale(media: MediaInfo, plan: Plan) -> int:
    """Units a second for late starts: a common multiple of those of all streams where it fits."""
    scale = plan.picture.time_base.denominator
    for stream in media.audio_streams:
        both = lcm(scale, stream.sample_rate or 1)
        scale = both if both <= _LARGEST_TIMESCALE else scale
    return scale if 1000 <= scale <= _LARGEST_TIMESCALE else lcm(1000, scale) % 2**31 or 1000
