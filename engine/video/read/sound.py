"""Sound: samples exactly as their decoder gives them, and a stereo track for playback."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import av
import numpy as np
from av.stream import Discard
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.errors import memory_ran_out
from engine.core.file_access import advised
from engine.protocol.media import PLAYED_AS, MediaInfo
from engine.video.read.clock import PartClock, StampCheck
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated
from engine.video.read.stream_info import sample_format_of

_READ_THROUGH_S = 300.0  # length of a video whose sound is read as a whole
ROUNDED_S = Fraction(1, 50)  # that time stamps may be off where sound goes on without a break
_STORED = {"u8": "s16"}  # formats that are widened; planar ones become packed
# Codecs whose samples do not depend on packets more than 10 s before them. Of tones and noise the
# first right sample came after at most 28 packets (Opus, 0.6 s), 3 (MP3), 1 (AC-3, AAC, DTS) or 0.
_RESTARTING = frozenset(
    {"ac3", "adpcm_ima_wav", "adpcm_ms", "alac", "dts", "eac3", "flac", "mlp", "mp3", "opus"}
    | {"s302m", "truehd", "tta", "vorbis", "wavpack"}
)
_WITH_NOISE = frozenset({"aac", "mp2", "wmav1", "wmav2"})  # these add noise that always differs
_SAME_NOISE = {"cons_noisegen": "1"}  # noise of AC-3 that depends on nothing but its packet


def decoded_frames(decoder: Any, packet: Any) -> list[av.AudioFrame]:
    """Frames of a packet; none where it cannot be decoded.

    Args:
        decoder: av.AudioStream or av.AudioCodecContext.
        packet: Packet of the stream; None, or an empty one, flushes the decoder.
    """
    try:
        return list(decoder.decode(packet))
    except av.error.EOFError:
        return []  # nothing is left since the last time
    except av.error.FFmpegError as err:
        if memory_ran_out(err):
            raise
        return []


def restarts(codec: str, *, exactly: bool) -> bool:
    """Whether a sound track can be decoded from 10 s before a time on with the same result.

    Args:
        codec: FFmpeg's name.
        exactly: Whether each sample must be the same; else the decoder's own noise may differ.
    """
    is_exact = codec in _RESTARTING or codec.startswith("pcm_")
    return is_exact or (codec in _WITH_NOISE and not exactly)


class SampleDecoder:
    """Decodes a sound track into packed samples without loss.

    Packets that cannot be decoded are left out. Where rate or channels change within the track,
    the samples are brought to those at its beginning.

    Args:
        stream: av.AudioStream.

    Attributes:
        format: FFmpeg's name of the samples' format: "s16", "s32", "flt" or "dbl".
        rate: Samples a second.
        layout: av.AudioLayout of the channels.
        is_mixed: Whether samples of another rate or other channels were brought to these.
    """

    def __init__(self, stream: Any) -> None:
        self._decoder = context = stream.codec_context
        context.options = _SAME_NOISE
        self.base = Fraction(stream.time_base or Fraction(1, 1000))
        packed = av.AudioFormat(sample_format_of(context)).packed.name
        self.format: str = _STORED.get(packed, packed)
        self.rate: int = context.sample_rate
        self.layout = _named(context.layout)
        self.is_mixed = False
        self._form: tuple[str, str, int] | None = None
        self._resampler: Any = None

    def frames(self, packet: Any) -> Iterator[tuple[Fraction | None, av.AudioFrame]]:
        """Frames of a packet, and when each begins, s; None where only those before it tell."""
        for frame in decoded_frames(self._decoder, packet):
            seconds = None if frame.pts is None else frame.pts * self.base
            form = frame.format.name, frame.layout.name, frame.sample_rate
            if form != self._form:
                self._form = form
                channels = frame.layout.nb_channels, frame.sample_rate
                self.is_mixed |= channels != (self.layout.nb_channels, self.rate)
                self._resampler = av.AudioResampler(self.format, self.layout, self.rate)
            frame.pts = None
            for part in self._resampler.resample(frame):
                yield seconds, part
                seconds = None


def _named(layout: av.AudioLayout) -> av.AudioLayout:
    """A layout that says which channels there are, where the source says only how many."""
    count = layout.nb_channels
    is_named = not layout.name.endswith(" channels") or count > len(PLAYED_AS)
    return layout if is_named else av.AudioLayout(PLAYED_AS[count - 1])


def samples_of(frame: av.AudioFrame) -> NDArray[Any]:
    """The samples of a packed frame [n, channels]."""
    return frame.to_ndarray().reshape(-1, frame.layout.nb_channels)


def timed_samples(
    media: MediaInfo, index: int, jumps: Sequence[Fraction], control: Control
) -> Iterator[tuple[float, NDArray[Any]]]:
    """The samples of a sound track [n, channels], and the time of the first of them, s.

    Args:
        media: The file; read as far as it can be.
        index: Index of the stream.
        jumps: Result of `clock.film_jumps`: times continue where a recording was joined.
        control: Checked between packets.

    Raises:
        InputError: The file is gone.
        Cancelled: The user stopped.
    """
    with open_input(media.path, must_be_whole=False) as container, translated(media.path):
        stream = stream_at(media.path, container, index)
        for other in container.streams:
            if other.index != index:
                other.discard = Discard.all
        decoder = SampleDecoder(stream)
        clock = PartClock(decoder.base, jumps, StampCheck(media.container))
        following = 0.0
        for packet in readable_packets(media.path, container, [stream]):
            control.check()
            time = packet.pts if packet.pts is not None else packet.dts
            if time is not None and not packet.is_discard:
                packet.pts = packet.dts = clock.moved(time)
            for seconds, frame in decoder.frames(packet):
                samples = samples_of(frame)
                at = following if seconds is None else float(seconds)
                following = at + len(samples) / decoder.rate
                yield at, samples


_TRIED_S = 2.0  # s of packets without a frame that show that a track cannot be decoded
_TRIED_BYTES = 32 << 20  # read for that at most: 2.5 s of a UHD Blu-ray


def with_decoders(media: MediaInfo) -> MediaInfo:
    """The facts of a video, without sample formats of sound that cannot be decoded."""
    silent = advised(lambda: _undecodable_tracks(media), frozenset[int]())
    streams = (replace(s, sample_format="") if s.index in silent else s for s in media.streams)
    return replace(media, streams=tuple(streams))


def _undecodable_tracks(media: MediaInfo) -> frozenset[int]:
    """Indices of the sound tracks that cannot be decoded, found without reading far.

    Where the first packets give nothing, which may be damage of the beginning, some in the middle
    of the video count. A track without packets at either place counts as decodable.

    Raises:
        InputError: The file cannot be read.
    """
    tracks = frozenset(one.index for one in media.audio_streams if one.sample_format)
    for part in (Fraction(0), Fraction(1, 2)):
        if tracks:
            tracks = _without_frames(media, tracks, part * (media.video.duration or 0))
    return tracks


def _without_frames(media: MediaInfo, tracks: Collection[int], place: Fraction) -> frozenset[int]:
    """Tracks whose packets give nothing from a place on, s of the video."""
    left, failed, begun = {*tracks}, set[int](), dict[int, float]()
    size = 0  # of the packets, those of the video too: how far the file was read
    with open_input(media.path, must_be_whole=False) as container, translated(media.path):
        streams = {i: stream_at(media.path, container, i) for i in (media.video.index, *tracks)}
        for stream in container.streams:
            if stream.index not in streams:
                stream.discard = Discard.all
        if place:
            container.seek(int((place + media.start) * av.time_base))
        for packet in readable_packets(media.path, container, [*streams.values()]):
            size += packet.size
            if not left or size > _TRIED_BYTES:
                break
            if not packet.size or packet.stream.index not in left:
                continue
            index, time = packet.stream.index, packet.pts if packet.dts is None else packet.dts
            seconds = float((time or 0) * (packet.time_base or 0))
            if decoded_frames(streams[index], packet):
                left.remove(index)
            elif seconds - begun.setdefault(index, seconds) >= _TRIED_S:
                left.remove(index)
                failed.add(index)
        else:  # the end of the file: decoders may hold frames back
            failed |= {i for i in left & {*begun} if not decoded_frames(streams[i], None)}
    return frozenset(failed)


_LOUDNESS_RATE = 8000  # Hz: peaks are shown, nothing is heard
_MOMENT_S = 0.15  # of sound that stands for its surroundings


def loudness(media: MediaInfo, count: int, is_over: Callable[[], bool]) -> tuple[float, ...]:
    """The largest sample in each of n equally long parts, 0 to 1; () for a video without sound.

    A short video is read through. Of each part of a long one a moment in its middle is read, so
    the time does not depend on the length.

    Args:
        media: Result of `probe`.
        count: Number of parts.
        is_over: Whether the rest is not wanted any more; it is as loud as what is before it.

    Raises:
        InputError: The file is gone, or cannot be read.

    Memory: a packet of samples.
    """
    tracks = sorted(media.audio_streams, key=lambda track: not track.is_default)
    length = float(media.video.duration or 0)
    if not tracks or not length:
        return ()
    peaks: list[float | None] = [None] * count
    is_long = length > _READ_THROUGH_S
    with open_input(media.path, must_be_whole=False) as container:
        stream = cast(av.AudioStream, stream_at(media.path, container, tracks[0].index))
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        # each eighth part first: what is read when the time is over stands for all
        order = sorted(range(count), key=lambda part: part % 8) if is_long else [0]
        for place in (length * (part + 0.5) / count if is_long else 0.0 for part in order):
            with translated(media.path):
                container.seek(int((place + float(media.start)) * av.time_base))
            for seconds, peak in _peaks(media, container, stream):
                part = int(seconds / length * count)
                if 0 <= part < count:
                    peaks[part] = max(peaks[part] or 0.0, peak)
                if is_over():
                    return _filled(peaks)
                if is_long and seconds >= place + _MOMENT_S:
                    break
    return _filled(peaks)


def _filled(peaks: list[float | None]) -> tuple[float, ...]:
    """Parts that were not read are as loud as the last one that was."""
    last, found = 0.0, []
    for peak in peaks:
        last = last if peak is None else peak
        found.append(last)
    return tuple(found)


def _peaks(media: MediaInfo, container: Any, stream: Any) -> Iterator[tuple[float, float]]:
    """The time of each frame from here on, s of the video, and its largest sample."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=_LOUDNESS_RATE)
    for packet in readable_packets(media.path, container, [stream]):
        for frame in decoded_frames(stream, packet):
            if frame.pts is None or frame.time_base is None:
                continue
            seconds = float(frame.pts * frame.time_base - media.start)
            frame.pts = None
            for part in resampler.resample(frame):
                samples = part.to_ndarray()
                yield seconds, min(1.0, float(np.abs(samples).max(initial=0.0)))


_BEFORE = Fraction(1, 2)  # s that a seek goes further back, for decoders that need a run-up


@dataclass(frozen=True, slots=True)
class Sound:
    """Samples float32 [n, 2] in [-1, 1], and the time of the first in the video, s."""

    seconds: float
    samples: NDArray[np.float32]


def sound_from(media: MediaInfo, start: Fraction, rate: int) -> Iterator[Sound]:
    """The default track, or the first one, from a time on; nothing for a video without sound.

    Packets that cannot be decoded are left out, and so is their time.

    Args:
        media: Result of `probe`.
        start: First time included, s from the video's beginning.
        rate: Samples a second.

    Raises:
        InputError: The file is gone, or cannot be read.

    Memory: a packet of samples.
    """
    tracks = sorted(media.audio_streams, key=lambda track: not track.is_default)
    if not tracks:
        return
    path = media.path
    with open_input(path, must_be_whole=False) as container:
        stream = cast(av.AudioStream, stream_at(path, container, tracks[0].index))
        with translated(path):
            first = max(Fraction(0), start - _BEFORE) + media.start
            container.seek(int(first * av.time_base), backward=True)
        resampler = av.AudioResampler(format="flt", layout="stereo", rate=rate)
        following: Fraction | None = None
        for packet in readable_packets(path, container, [stream]):
            for frame in decoded_frames(stream, packet):
                if frame.pts is None or frame.time_base is None:
                    continue
                seconds = frame.pts * frame.time_base - media.start
                if following is not None and abs(seconds - following) < ROUNDED_S:
                    seconds = following
                frame.pts = None  # the resampler would fill gaps; those are the player's
                with translated(path):
                    parts = [part.to_ndarray() for part in resampler.resample(frame)]
                for part in parts:
                    samples = part.reshape(-1, 2).astype(np.float32, copy=False)
                    left_out = max(0, round((start - seconds) * rate))
                    if left_out < len(samples):
                        yield Sound(float(seconds) + left_out / rate, samples[left_out:])
                    seconds += Fraction(len(samples), rate)
                following = seconds
