"""Containers: what each of them holds, from tables, before any file is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from engine.core.errors import ContainerMismatch
from engine.core.messages import Message, message
from engine.protocol.media import PLAYED_AS, MediaInfo, StreamInfo
from engine.protocol.plan import PassPlan, Plan
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS

_PACKED_SOUND = {"aac", "ac3", "eac3", "mp3", "mp2", "alac", "flac", "opus", "dts"}
_PCM = {f"pcm_{kind}" for kind in ("s16le", "s24le", "s32le", "f32le", "f64le", "s16be", "s24be")}
_MOV_AUDIO = frozenset(_PACKED_SOUND | _PCM)
# FFmpeg's word for what cameras measure, as GoPro's "gpmd"; in other containers for anything.
_DATA = frozenset({"bin_data"})
# By the format of decoded samples: what holds all of them exactly.
_PCM_OF = {
    "u8": "pcm_s16le",
    "s16": "pcm_s16le",
    "s32": "pcm_s32le",
    "flt": "pcm_f32le",
    "dbl": "pcm_f64le",
}
_SAMPLE_BITS = {
    **{"pcm_s16le": 16, "pcm_s24le": 24, "pcm_s32le": 32, "pcm_f32le": 32, "pcm_f64le": 64},
    "flac": 24,
}
# Lossless codecs whose packets last up to a second: a part has their samples, encoded again.
LONG_PACKETS = frozenset({"alac", "flac", "tta", "wavpack"})
NO_CHANNELS = "0 channels"  # layout of a track of which no packet was seen, and that has no header
LOSSY_RATES = {"aac": 128_000, "opus": 96_000}  # bits/s of a channel, of codecs that lose something
_MOST_BITS = 24  # of samples that FFmpeg's encoders of FLAC, ALAC and TTA keep
_MOST_ENCODED = 8  # channels that AAC, Opus and FLAC have names for
# Codecs whose decoded samples of 32 bits have at most 24 that say anything.
_OF_24_BITS = frozenset(
    {"pcm_bluray", "pcm_dvd", "pcm_s24be", "pcm_s24le_planar", "s302m", "mlp", "truehd"}
    | {"pcm_s24daud", "wmalossless"}
)
STYLED = ("ass", "ssa")  # subtitles with fonts, colours and positions
FLAT = ("mov_text",)  # subtitles whose texts cannot overlap
_TEXTS = frozenset({*STYLED, "subrip", "mov_text", "webvtt"})
_MARKS = frozenset({"default", "dub", "comment", "forced", "hearing_impaired", "visual_impaired"})
_NUMBER = re.compile(r"%0?(\d*)d")
_LANGUAGE = re.compile("[a-z]{3}")  # of ISO 639-2 and 639-3, "deu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container: FFmpeg's names of what it holds without a change."""

    name: str  # value of Plan.container
    title: str  # for users
    muxer: str  # FFmpeg's name
    suffixes: tuple[str, ...]  # the first is that of results
    picture: frozenset[str]
    audio: frozenset[str]
    subtitle: frozenset[str]
    text: str = ""  # codec that text subtitles of other formats are converted to
    takes_attachments: bool = False
    keeps_empty: bool = False  # streams without packets
    names_channels: bool = True  # states the channel layout of PCM
    needs_channels: bool = False  # takes no PCM without one
    has_times: bool = False  # states the time of each packet of PCM: there may be gaps
    trial: str = "mjpeg"  # codec of the video that stands for the frames in a trial of the muxer
    is_matroska: bool = False  # file of EBML elements, with times in whole milliseconds
    cover: frozenset[str] = frozenset()
    data: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset({"default"})  # marks of tracks

    def states_mark(self, mark: str, kind: str) -> bool:
        """Whether a track can be marked so; MKV has audio descriptions as subtitles only."""
        is_description = (mark, kind) == ("descriptions", "subtitle")
        return mark in self.marks or (is_description and self.name == "mkv")

    def states_language(self, language: str) -> bool:
        """Whether a track can have this language: MP4 and MOV have room for three letters."""
        return self.is_matroska or language in ("", "und") or bool(_LANGUAGE.fullmatch(language))


CONTAINERS: dict[str, Container] = {
    "mp4": Container(
        name="mp4",
        title="MP4",
        muxer="mp4",
        suffixes=(VIDEO_FORMATS["mp4"], ".m4v"),
        picture=frozenset({"h264", "hevc", "av1", "vp9"}),
        audio=_MOV_AUDIO | {"vorbis"},
        subtitle=frozenset({"mov_text", "dvd_subtitle"}),
        text="mov_text",
        needs_channels=True,
        cover=frozenset({"mjpeg", "png"}),
        data=_DATA,
        marks=_MARKS | {"captions", "descriptions"},
    ),
    "mov": Container(
        name="mov",
        title="MOV",
        muxer="mov",
        suffixes=(VIDEO_FORMATS["mov"], ".qt"),
        picture=frozenset({"h264", "hevc", "prores"}),
        audio=(_MOV_AUDIO - {"flac", "opus"})  # FFmpeg writes these into MP4 only
        | {"pcm_u8", "pcm_s8", "pcm_s32be", "pcm_f32be", "pcm_f64be", "pcm_alaw", "pcm_mulaw"}
        | {"amr_nb", "amr_wb"},
        subtitle=frozenset({"mov_text"}),
        text="mov_text",
        data=_DATA,
    ),
    "mkv": Container(
        name="mkv",
        title="MKV",
        muxer="matroska",
        suffixes=(VIDEO_FORMATS["mkv"],),
        picture=frozenset({"h264", "hevc", "av1", "vp9", "prores", "ffv1"}),
        audio=_MOV_AUDIO | {"vorbis", "truehd", "mlp", "pcm_u8", "wavpack", "tta", "mp1", "cook"},
        subtitle=frozenset(
            {
                "subrip",
                "ass",
                "ssa",
                "webvtt",
                "hdmv_pgs_subtitle",
                "hdmv_text_subtitle",
                "dvd_subtitle",
                "dvb_subtitle",
            }
        ),
        text="subrip",
        takes_attachments=True,
        marks=_MARKS | {"original"},
        keeps_empty=True,
        names_channels=False,
        has_times=True,
        is_matroska=True,
        cover=frozenset({"mjpeg", "png", "bmp", "gif", "tiff", "webp"}),
    ),
    "webm": Container(
        name="webm",
        title="WebM",
        muxer="webm",
        suffixes=(VIDEO_FORMATS["webm"],),
        picture=frozenset({"vp9", "av1"}),
        audio=frozenset({"opus", "vorbis"}),
        subtitle=frozenset({"webvtt"}),
        text="webvtt",
        keeps_empty=True,
        trial="vp8",
        is_matroska=True,
        marks=frozenset({"default", "forced"}),
    ),
}
IMAGE_CODECS = frozenset(IMAGE_FORMATS)
IMAGE_SUFFIXES = {suffix: codec for codec, suffix in IMAGE_FORMATS.items()} | {".tiff": "tiff"}
PICTURES = ("image", "sequence")  # containers that hold nothing but pictures
_SAME_NAME = {"dca": "dts", "text": "subrip", "libopus": "opus", "srt": "subrip"}


def codec_name(name: str) -> str:
    """One name where FFmpeg has several: "dca" is "dts"."""
    return _SAME_NAME.get(name, name)


def source_family(media: MediaInfo) -> str:
    """The source's own container where it can be written: "mp4", "mov", "mkv", "webm", else ""."""
    names = media.container.split(",")
    if "matroska" in names:
        return "webm" if media.path.suffix.lower() in CONTAINERS["webm"].suffixes else "mkv"
    if "mov" not in names and "mp4" not in names:
        return ""
    if media.path.suffix.lower() in CONTAINERS["mov"].suffixes:
        return "mov"
    return "mov" if media.metadata.get("major_brand", "").startswith("qt") else "mp4"


def container_of_name(output: Path) -> str:
    """Container of a name, by its suffix.

    Raises:
        ContainerMismatch: No suffix, or one that is never written.
    """
    suffix = output.suffix.lower()
    for container in CONTAINERS.values():
        if suffix in container.suffixes:
            return container.name
    if suffix in IMAGE_SUFFIXES:
        return "sequence" if "%" in output.name else "image"
    if not suffix:
        raise ContainerMismatch("no-suffix", name=output.name)
    raise ContainerMismatch("unknown-suffix", suffix=suffix, name=output.name)


def is_of_file(output: Path) -> bool:
    """Whether a name ends as those of results do; any other one is that of a folder."""
    known = {suffix for one in CONTAINERS.values() for suffix in one.suffixes}
    return output.suffix.lower() in known | IMAGE_SUFFIXES.keys()


def has_format_of(output: Path, plan: Plan) -> bool:
    """Whether the name of a result means the format of a plan; a folder of pictures has any name.

    Args:
        output: Such a name, also a pattern of pictures.
        plan: A plan of frames that are encoded already.
    """
    suffix = output.suffix.lower()
    if plan.container not in PICTURES:
        return suffix in CONTAINERS[plan.container].suffixes
    is_of_folder = plan.container == "sequence" and "%" not in output.name
    return is_of_folder or IMAGE_SUFFIXES.get(suffix) == plan.picture.codec


def output_suffix(container: str, codec: str) -> str:
    """Suffix of the result's name, with its dot; of a sequence that of its pictures."""
    if container in PICTURES:
        return IMAGE_FORMATS[codec]
    return CONTAINERS[container].suffixes[0]


def picture_name(media: MediaInfo, plan: Plan, number: int) -> str:
    """Name of a picture in the folder of a sequence, by the number of its frame.

    Pictures of a sequence keep their names and indices.
    """
    suffix = output_suffix("sequence", plan.picture.codec)
    pattern = plan.pattern or Path(media.pattern).name
    match = _NUMBER.search(pattern)
    if match is None:
        return f"frame_{number + 1:06d}{suffix}"
    first = media.first_number if media.pattern else 1
    digits = f"{first + number:0{int(match[1] or 1)}d}"
    name = pattern[: match.start()] + digits + pattern[match.end() :]
    return Path(name).stem + suffix


def can_write_rotation(container: str) -> bool:
    """Whether the file can keep rotation and mirror as metadata; else its pixels are rotated."""
    return container in CONTAINERS


def takes_picture(container: str, codec: str) -> bool:
    """Whether the container holds a video stream of this codec."""
    if container in PICTURES:
        return codec in IMAGE_CODECS
    return codec in CONTAINERS[container].picture


def refusal_of(container: str, stream: StreamInfo, media: MediaInfo) -> Message | None:
    """Why a stream cannot be copied into a container; None when it can."""
    if container in PICTURES:
        return message("reason.stream.pictures-only")
    if stream.is_of_other_programme:
        return message("reason.stream.programme")
    if stream.kind == "video":
        return message("reason.stream.video")
    if stream.layout == NO_CHANNELS:
        return message("reason.stream.late")
    if stream.kind == "thumbnails":
        return message("reason.stream.thumbnails", title=CONTAINERS[container].title)
    kind, into = codec_name(stream.codec), CONTAINERS[container]
    if stream.kind == "data":
        return _refusal_of_data(stream, media, into)
    if stream.kind == "attachment":
        attachments = message("reason.stream.no-attachments", title=into.title)
        return None if into.takes_attachments else attachments
    if stream.kind == "cover":
        cover = message("reason.stream.cover", title=into.title, codec=kind)
        return None if kind in into.cover else cover
    if kind in (into.audio if stream.kind == "audio" else into.subtitle):
        needs_names = into.needs_channels and kind in _PCM and not names_channels(stream.layout)
        channels = message("reason.stream.channels", title=into.title)
        return channels if needs_names and stream.kind == "audio" else None
    if not kind:
        return message("reason.stream.unknown-codec", title=into.title)
    if stream.kind == "audio" and not stream.sample_format:
        return message("reason.stream.undecodable", title=into.title, codec=kind)
    return message("reason.stream.codec", title=into.title, codec=kind)


REWRITTEN = message("reason.stream.rewritten")
_TIME_CODE = ("tmcd", "timecode")
_CHAPTER_TEXT = "text"


def _refusal_of_data(stream: StreamInfo, media: MediaInfo, into: Container) -> Message | None:
    if stream.codec in _TIME_CODE or (stream.codec == _CHAPTER_TEXT and media.chapters):
        return REWRITTEN
    if stream.codec in into.data and {"mov", "mp4"} & set(media.container.split(",")):
        return None
    return message("reason.stream.data", title=into.title)


def conversion_of(container: str, stream: StreamInfo, sound: str = "auto") -> str:
    """The codec in which a container holds a decoded sound track, or subtitles of text.

    Of sound the one that is asked for; else PCM, or FLAC where the container cannot name the
    channels of PCM; else Opus. "" where there is none: neither of both, or nothing decodes it.

    Args:
        container: Container of the result.
        stream: Stream of the source, which cannot be copied.
        sound: Value of the setting `sound`.
    """
    samples = stream.sample_format.removesuffix("p")
    pcm, into = _PCM_OF.get(samples, ""), CONTAINERS.get(container)
    if stream.kind == "subtitle" and into is not None and not stream.is_of_other_programme:
        return into.text if codec_name(stream.codec) in _TEXTS else ""
    is_sound = stream.kind == "audio" and not stream.is_of_other_programme
    is_sound = is_sound and stream.layout != NO_CHANNELS
    if not is_sound or into is None or not pcm:
        return ""
    if sound == "auto" and not into.audio & _PCM:
        sound = "opus"
    if sound != "auto":
        return sound if stream.channels <= _MOST_ENCODED else ""
    if pcm == "pcm_s32le" and codec_name(stream.codec) in _OF_24_BITS:
        pcm = "pcm_s24le"
    has_names = into.names_channels or is_played_right(stream)
    if not has_names and pcm in ("pcm_s16le", "pcm_s24le") and stream.channels <= len(PLAYED_AS):
        return "flac"
    return pcm


def is_exact(converted: str, stream: StreamInfo) -> bool:
    """Whether a codec stores the decoded samples of a stream as they are; FLAC has no floats."""
    if converted == "flac":
        has_bits = stream.sample_bits <= _MOST_BITS
        return has_bits and stream.sample_format.removesuffix("p") in ("u8", "s16", "s32")
    return converted not in LOSSY_RATES


def bit_rate_of(plan: PassPlan, stream: StreamInfo) -> int:
    """Bits/s of a stream in the result, at most; 0 while unknown."""
    if plan.converted in LOSSY_RATES:
        return LOSSY_RATES[plan.converted] * stream.channels
    bits = 0 if plan.converted == plan.codec else _SAMPLE_BITS.get(plan.converted, 0)
    return bits * stream.sample_rate * stream.channels or stream.bit_rate


def names_channels(layout: str) -> bool:
    """Whether FFmpeg's name of a layout says which channels there are, not only how many."""
    return bool(layout) and not layout.endswith(" channels")


def is_played_right(stream: StreamInfo) -> bool:
    """Whether players assume the right channels where a file states only how many."""
    return not names_channels(stream.layout) or stream.layout in PLAYED_AS


def plan_streams(
    media: MediaInfo,
    container: str,
    sound: str = "auto",
    part: tuple[Fraction | None, Fraction | None] = (None, None),
) -> tuple[PassPlan, ...]:
    """Treatment of every stream but the video, in the order of the file.

    Args:
        media: The source.
        container: Container of the result.
        sound: Value of the setting `sound`.
        part: Start and stop of the part of the source, s; None where it is not cut.
    """
    plans = []
    for stream in media.streams:
        why = refusal_of(container, stream, media)
        converted = conversion_of(container, stream, sound) if why is not None else ""
        is_cut = part != (None, None) and stream.codec in LONG_PACKETS
        if why is None and is_cut and stream.sample_format and stream.sample_bits <= _MOST_BITS:
            converted = stream.codec
        plans.append(
            PassPlan(
                index=stream.index,
                kind=stream.kind,
                codec=stream.codec,
                copied=why is None or bool(converted),
                converted=converted,
                is_lossy=converted in LOSSY_RATES or (bool(converted) and stream.codec in STYLED),
                why=why or "",
            )
        )
    return tuple(plans)


def left_out(plans: Iterable[PassPlan]) -> tuple[PassPlan, ...]:
    """Streams that will be missing in the result."""
    return tuple(p for p in plans if not p.copied and p.why != REWRITTEN)
