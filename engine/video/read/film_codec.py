"""The decoder of a film: the one that gives all that its stream holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from av import CodecContext
from av.video.codeccontext import VideoCodecContext

if TYPE_CHECKING:
    from av import Packet
    from av.video.stream import VideoStream

# FFmpeg's own decoders leave transparency out; those of libvpx give it with these pixels only.
_WITH_ALPHA = {("vp8", "yuv420p"): "libvpx", ("vp9", "yuv420p"): "libvpx-vp9"}


def decoder_of(stream: VideoStream) -> VideoCodecContext:
    """The decoder for the packets of a stream, from a key frame on; not opened yet."""
    context = stream.codec_context
    name = _WITH_ALPHA.get((context.codec.canonical_name, context.pix_fmt or ""))
    if name is None or not _states_alpha(stream):
        return context
    decoder = CodecContext.create(name, "r")
    assert isinstance(decoder, VideoCodecContext)
    return decoder


def has_alpha_beside(stream: VideoStream, packet: Packet[Any]) -> bool:
    """Whether a packet of Matroska or WebM holds transparency beside what its codec codes."""
    return _states_alpha(stream) and packet.has_sidedata("matroska_block_additional")


def _states_alpha(stream: VideoStream) -> bool:
    stated = {name.lower(): value for name, value in stream.metadata.items()}
    return stated.get("alpha_mode", "0") != "0"
