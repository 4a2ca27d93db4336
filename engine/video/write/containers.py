"""What each kind of file can take, decided from tables before anything is opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ContainerMismatch
from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import Notice, PassPlan

_PACKED_SOUND = {"aac", "ac3", "eac3", "mp3", "mp2", "alac", "flac", "opus", "dts"}
_PCM = {f"pcm_{kind}" for kind in ("s16le", "s24le", "s32le", "f32le", "f64le", "s16be", "s24be")}
_MOV_AUDIO = frozenset(_PACKED_SOUND | _PCM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One kind of file: FFmpeg's names of what it holds without a change."""

    name: str  # as in Plan.container
    title: str  # for people
    muxer: str  # FFmpeg's name
    suffixes: tuple[str, ...]  # the first is the one we write
    picture: frozenset[str]
    audio: frozenset[str]
    subtitle: frozenset[str]
    takes_attachments: bool = False
    cover: frozenset[str] = frozenset()


CONTAINERS: dict[str, Container] = {
    "mp4": Container(
        name="mp4",
        title="MP4",
        muxer="mp4",
        suffixes=(".mp4", ".m4v"),
        picture=frozenset({"h264", "hevc", "av1"}),
        audio=_MOV_AUDIO | {"vorbis"},
        subtitle=frozenset({"mov_text", "dvd_subtitle"}),
        cover=frozenset({"mjpeg", "png"}),
    ),
    "mov": Container(
        name="mov",
        title="MOV",
        muxer="mov",
        suffixes=(".mov", ".qt"),
        picture=frozenset({"h264", "hevc", "prores"}),
        audio=(_MOV_AUDIO - {"flac", "opus"})  # FFmpeg writes these into MP4 only
        | {"pcm_u8", "pcm_s8", "pcm_alaw", "pcm_mulaw", "amr_nb", "amr_wb"},
        subtitle=frozenset({"mov_text"}),
    ),
    "mkv": Container(
        name="mkv",
        title="MKV",
        muxer="matroska",
        suffixes=(".mkv",),
        picture=frozenset({"h264", "hevc", "av1", "prores", "ffv1"}),
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
        takes_attachments=True,
        cover=frozenset({"mjpeg", "png", "bmp", "gif", "tiff", "webp"}),
    ),
}
IMAGE_SUFFIXES = {".png": "png", ".tif": "tiff", ".tiff": "tiff"}
PICTURES = ("image", "sequence")  # containers that hold nothing but pictures
_SAME_NAME = {"dca": "dts", "text": "subrip", "libopus": "opus", "srt": "subrip"}


def codec_name(name: str) -> str:
    """One name where FFmpeg's coders have several: "dca" is "dts"."""
    return _SAME_NAME.get(name, name)


def source_family(media: MediaInfo) -> str:
    """The source's own kind of file where we can write it: "mp4", "mov", "mkv", else ""."""
    names = media.container.split(",")
    if "matroska" in names:
        return "mkv"
    if "mov" not in names and "mp4" not in names:
        return ""
    if media.path.suffix.lower() in CONTAINERS["mov"].suffixes:
        return "mov"
    return "mov" if media.metadata.get("major_brand", "").startswith("qt") else "mp4"


def container_of_name(output: Path) -> str:
    """Kind of file that a name asks for, by its suffix.

    Raises:
        ContainerMismatch: No suffix, or one that is never written.
    """
    suffix = output.suffix.lower()
    for container in CONTAINERS.values():
        if suffix in container.suffixes:
            return container.name
    if suffix in IMAGE_SUFFIXES:
        return "sequence" if "%" in output.name else "image"
    raise ContainerMismatch(
        f"Files of the kind {suffix or 'without a suffix'} cannot be written.",
        hint="Give the result a name that ends in .mp4, .mov or .mkv, a picture .png or .tif.",
        name=output.name,
    )


def output_suffix(container: str, codec: str) -> str:
    """Suffix of the result's name, with its dot; of a sequence that of its pictures."""
    if container in PICTURES:
        return ".tif" if codec == "tiff" else ".png"
    return CONTAINERS[container].suffixes[0]


def can_write_rotation(container: str) -> bool:
    """Whether the file can say "turn or mirror the picture"; else its pixels have to be turned."""
    return container in CONTAINERS


def takes_picture(container: str, codec: str) -> bool:
    """Whether the container holds this codec of the picture."""
    if container in PICTURES:
        return codec in IMAGE_SUFFIXES.values()
    return codec in CONTAINERS[container].picture


def takes(container: str, stream: StreamInfo, media: MediaInfo) -> str:
    """Why a stream cannot be copied into a container; "" when it can."""
    if container in PICTURES:
        return "a picture has no other streams"
    kind, into = codec_name(stream.codec), CONTAINERS[container]
    if stream.kind == "attachment":
        return "" if into.takes_attachments else f"{into.title} holds no attached files"
    if stream.kind == "cover":
        return "" if kind in into.cover else f"{into.title} holds no cover of the kind {kind}"
    if stream.kind == "data":
        return _why_not_data(stream, media)
    allowed = into.audio if stream.kind == "audio" else into.subtitle
    return "" if kind in allowed else f"{into.title} cannot hold {kind or 'an unknown codec'}"


WRITTEN_ANEW = "written anew from the source's own"
_TIME_CODE = ("tmcd", "timecode")
_CHAPTER_TEXT = ("bin_data", "text")


def _why_not_data(stream: StreamInfo, media: MediaInfo) -> str:
    is_mov = bool({"mov", "mp4"} & set(media.container.split(",")))
    if stream.codec in _TIME_CODE or (is_mov and stream.codec in _CHAPTER_TEXT and media.chapters):
        return WRITTEN_ANEW
    return "data streams are not copied"


def plan_streams(media: MediaInfo, container: str) -> tuple[PassPlan, ...]:
    """What happens to every stream beside the film, in the order of the file."""
    plans = []
    for stream in media.streams:
        why = takes(container, stream, media)
        plans.append(
            PassPlan(
                index=stream.index,
                kind=stream.kind,
                codec=stream.codec,
                copied=not why,
                why=why,
            )
        )
    return tuple(plans)


def left_out(plans: Iterable[PassPlan]) -> tuple[PassPlan, ...]:
    """Streams that the result will really miss."""
    return tuple(p for p in plans if not p.copied and p.why != WRITTEN_ANEW)


def stream_notices(media: MediaInfo, container: str) -> tuple[Notice, ...]:
    """What the user should know about the other streams before the start.

    Codes: "stream-left-out" for each stream that is not copied (warning), "container-changed"
    (info) where the result is of another kind of file than the source.
    """
    if container in PICTURES and media.kind != "video":
        return ()
    missed = left_out(plan_streams(media, container))
    notices = [_left_out_notice(media, container, plan) for plan in missed]
    family = source_family(media)
    if family and container not in (family, *PICTURES):
        old, new = CONTAINERS[family].title, CONTAINERS[container].title
        notices.append(
            Notice(
                code="container-changed",
                severity="info",
                message=f"The result is of the kind {new}, the source of the kind {old}.",
                params={"from": family, "to": container},
            )
        )
    return tuple(notices)


def _left_out_notice(media: MediaInfo, container: str, plan: PassPlan) -> Notice:
    stream = next(s for s in media.streams if s.index == plan.index)
    better = [c.title for c in CONTAINERS.values() if not takes(c.name, stream, media)]
    better.sort(key=lambda title: title != "MKV")
    what = {"audio": "sound track", "subtitle": "subtitle", "cover": "cover picture"}
    return Notice(
        code="stream-left-out",
        severity="warning",
        message=f"Stream {plan.index} ({what.get(plan.kind, plan.kind)}, "
        f"{plan.codec or 'unknown'}) is left out: {plan.why}.",
        hint=f"Choose {better[0]} as the kind of file to keep it." if better else "",
        params={
            "index": str(plan.index),
            "kind": plan.kind,
            "codec": plan.codec,
            "container": container,
        },
    )
