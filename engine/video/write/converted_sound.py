"""Sound that a container cannot hold: decoded, and stored as samples or encoded again."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.container import OutputContainer
from numpy.typing import NDArray

from engine.video.read.sound import ROUNDED_S, SampleDecoder, samples_of
from engine.video.write.containers import LOSSY_RATES

_ENCODERS = {"opus": "libopus"}  # of codecs whose encoder has another name
_MOST_BITS = 5  # of a sample, for low rates
_OPUS_RATE = 48000  # samples/s: the only one that it decodes to
# Layouts that come out right. TRAP: FFmpeg 8.1 gives the channels of 5.0 and 6.1 other places in
# Opus, and in AAC other layouts lose their names.
_LAYOUTS = {
    "opus": ("mono", "stereo", "3.0", "quad", "5.1", "7.1"),
    "aac": ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "7.1"),
}


def converted_stream(output: OutputContainer, stream: Any, codec: str) -> Any:
    """Add the stream of a decoded sound track to a file, with an encoder of its own.

    Args:
        output: To write.
        stream: Stream of the source.
        codec: Codec that stores its samples, PCM or a lossless one, or that encodes them: AAC or
            Opus.
    """
    decoder = SampleDecoder(stream)
    encoder = av.Codec(_ENCODERS.get(codec, codec), "w")
    rate, layout = decoder.rate, decoder.layout.name
    if codec == "opus" or (encoder.audio_rates and rate not in encoder.audio_rates):
        rate = _OPUS_RATE
    if layout not in _LAYOUTS.get(codec, (layout,)):
        layout = "5.1" if decoder.layout.nb_channels <= 6 else "7.1"
    known = {form.packed.name: form.name for form in encoder.audio_formats or ()}
    samples = known.get(decoder.format, [*known.values()][-1])
    new: Any = output.add_stream(encoder.name, rate=rate, layout=layout, format=samples)
    if codec in LOSSY_RATES:
        channels = new.codec_context.layout.nb_channels
        new.bit_rate = min(LOSSY_RATES[codec], _MOST_BITS * rate) * channels
    new.disposition = int(stream.disposition)
    return new


class SoundConverter:
    """Packets of a decoded sound track, in the order of the file.

    PCM of MKV keeps the time of each packet. Everything else has no gaps: samples follow each other
    where the source's times are rounded, and silence fills what it leaves out. Of a part the frames
    before it tell by how much times are rounded, so that reading may begin anywhere.

    Args:
        stream: Stream of the source.
        new: Result of `converted_stream`.
        has_times: Whether the container keeps the time of each packet.
    """

    def __init__(self, stream: Any, new: Any, *, has_times: bool) -> None:
        self._decoder = SampleDecoder(stream)
        self._new = new
        self._has_times = has_times
        self._type = av.audio.frame.format_dtypes[self._decoder.format]
        self._next: int | None = None  # where the frame that follows begins, samples
        self._end: int | None = None  # of what was encoded, samples
        # samples that frames before it are late, at least and at most
        self._off = Fraction(0), Fraction(0)

    @property
    def is_mixed(self) -> bool:
        """Whether rate or channels change within the track, and only the first ones are kept."""
        return self._decoder.is_mixed

    def packets(self, packet: Any, first: Fraction | None, end: Fraction | None) -> Iterator[Any]:
        """Packets made of a packet of the source, with times in units of a sample.

        Args:
            packet: Packet with times on the result's clock; None flushes decoder and encoder.
            first: Time before which samples are left out, s; None for none.
            end: Time from which on samples are left out, s; None for none.
        """
        for seconds, frame in self._decoder.frames(packet):
            at, rate = self._placed(seconds), self._decoder.rate
            self._next = at + frame.samples
            if self._end is None:
                at += round(sum(self._off) / 2)
            after = at + frame.samples
            start = at if first is None else max(at, round(first * rate))
            stop = after if end is None else min(after, round(end * rate))
            if start < stop:
                self._next = after
                yield from self._silence(start)
                yield from self._encoded(samples_of(frame)[start - at : stop - at], start)
        if packet is None:
            yield from self._new.encode(None)

    def _placed(self, seconds: Fraction | None) -> int:
        """Start of a frame, samples."""
        following = self._next
        if seconds is None:
            return following or 0
        stated = seconds * self._decoder.rate
        if following is None or self._has_times:
            return round(stated)
        off = stated - following
        tick = max(Fraction(1), self._decoder.base * self._decoder.rate)
        is_new = self._end is None and abs(off) > tick
        if is_new or off >= ROUNDED_S * self._decoder.rate:
            self._off = Fraction(0), Fraction(0)
            return round(stated)
        self._off = min(self._off[0], off), max(self._off[1], off)
        return following

    def _silence(self, end: int) -> Iterator[Any]:
        """Silence up to the next frame, where the container has no gaps."""
        while self._end is not None and self._end < end and not self._has_times:
            count = min(self._decoder.rate, end - self._end)
            nothing = np.zeros((count, self._decoder.layout.nb_channels), self._type)
            yield from self._encoded(nothing, self._end)

    def _encoded(self, samples: NDArray[Any], at: int) -> Iterator[Any]:
        """Packets of samples [n, channels] that begin at a sample of the result."""
        decoder, packed = self._decoder, np.ascontiguousarray(samples).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, decoder.format, decoder.layout)
        frame.sample_rate = decoder.rate
        frame.pts, frame.time_base = at, Fraction(1, decoder.rate)
        self._end = at + frame.samples
        yield from self._new.encode(frame)
