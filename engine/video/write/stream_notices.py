"""Notices about the streams beside the video: what a container does not hold, or not unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.core.messages import Message, Param, message
from engine.core.units import rate_text
from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import Notice, PassPlan, Plan, Severity
from engine.video.write.containers import (
    CONTAINERS,
    FLAT,
    PICTURES,
    Container,
    bit_rate_of,
    is_exact,
    is_played_right,
    left_out,
    plan_streams,
    refusal_of,
    source_family,
)

_SOUND_TITLES = {"aac": "AAC", "opus": "Opus", "flac": "FLAC"}
_TEXT_TITLES = {"webvtt": "WebVTT", "subrip": "SubRip", "mov_text": "3GPP timed text"}
_FILM = "film"  # of the messages about streams
_KIND_VIDEO = message("stream.video")


def stream_notices(media: MediaInfo, container: str, sound: str = "auto") -> Iterator[Notice]:
    """Notices about the other streams that the user should read before the start.

    Codes: "stream-left-out" for each stream that the result will not have (warning),
    "sound-converted" (info) for each sound track that is decoded and stored without loss,
    "sound-encoded" (warning) for each one that is encoded again, "text-converted" for each track of
    subtitles that gets another format (a warning if it loses styles), "marks-left-out" and
    "language-left-out" (info) for each track whose dispositions or language the container lacks,
    "times-left-out" (warning) where images have no place for times, titles and chapters,
    "statement-left-out" (info) of the comment of a GIF,
    "container-changed" (info) where the result has another container than the source.

    Args:
        media: The source.
        container: Container of the result.
        sound: Value of the setting `sound`.
    """
    if container in PICTURES and media.kind != "video":
        if "comment" in media.metadata:  # of a GIF
            about: dict[str, Param] = {"name": media.path.name, "kind": "text-entries"}
            about["what"] = message("statement.text-entries")
            yield Notice(code="statement-left-out", case="pictures", severity="info", params=about)
        return
    plans = plan_streams(media, container, sound)
    for plan in left_out(plans):
        yield _notice(media, container, plan, "stream-left-out")
    for plan in plans:
        if plan.converted and plan.kind == "subtitle":
            yield _text_notice(media, container, plan)
        elif plan.converted:
            code = "sound-encoded" if plan.is_lossy else "sound-converted"
            yield _notice(media, container, plan, code)
    if container in PICTURES:
        yield from _image_notices(media)
    if container in CONTAINERS:
        yield from _mark_notices(media, plans, CONTAINERS[container])
    family = source_family(media)
    if family and container not in (family, *PICTURES):
        old, new = CONTAINERS[family].title, CONTAINERS[container].title
        yield Notice(
            code="container-changed",
            severity="info",
            params={"from": family, "to": container, "old": old, "new": new},
        )


def _image_notices(media: MediaInfo) -> Iterator[Notice]:
    """Facts of a video for which its numbered images have no place."""
    params = {"rate": rate_text(media.video.frame_rate)}
    yield Notice(code="times-left-out", severity="warning", params=params)


def _mark_notices(media: MediaInfo, plans: Sequence[PassPlan], into: Container) -> Iterator[Notice]:
    film = StreamInfo(
        index=media.video.index,
        kind="video",
        codec=media.video.codec,
        language=media.video.language,
        marks=media.video.marks,
    )
    copied = {plan.index for plan in plans if plan.copied}
    for stream in (film, *(stream for stream in media.streams if stream.index in copied)):
        lost = [mark for mark in stream.marks if not into.states_mark(mark, stream.kind)]
        about: dict[str, Param] = {
            "index": str(stream.index),
            "stream": message(f"stream.{_FILM if stream is film else stream.kind}"),
            "title": into.title,
        }
        if not into.states_language(stream.language):
            params = {**about, "language": stream.language}
            yield Notice(code="language-left-out", severity="info", params=params)
        if lost:
            keeps = [
                other.title
                for other in CONTAINERS.values()
                if all(other.states_mark(mark, stream.kind) for mark in lost)
            ]
            yield Notice(
                code="marks-left-out",
                case="other-container" if keeps else "",
                severity="info",
                params={
                    **about,
                    "marks": ", ".join(lost),
                    "better": max(keeps, key=lambda title: title == "MKV") if keeps else "",
                },
            )


def trial_notices(media: MediaInfo, before: Plan, after: Plan) -> Iterator[Notice]:
    """Changes of a plan by a trial of the muxer.

    Codes: "stream-left-out" for each stream that it refuses as a whole, "packets-dropped" for each
    one with packets that it refuses, "sound-mixed" for sound that changes within a track.
    """
    for planned, found in zip(before.streams, after.streams, strict=True):
        if found.is_mixed:
            params: dict[str, Param] = {"index": str(found.index), "stream": _kind(found)}
            yield Notice(code="sound-mixed", severity="warning", params=params)
        if planned.copied and not found.copied:
            yield _notice(media, after.container, found, "stream-left-out")
        elif found.dropped:
            yield Notice(
                code="packets-dropped",
                severity="warning",
                params={
                    "count": str(found.dropped),
                    "index": str(found.index),
                    "stream": _kind(found),
                },
            )


def _notice(media: MediaInfo, container: str, plan: PassPlan, code: str) -> Notice:
    """A stream that is left out or converted, with the container that would copy it."""
    stream = next(s for s in media.streams if s.index == plan.index)
    better = _copying(media, container, stream)
    params: dict[str, Param] = {
        "index": str(plan.index),
        "kind": plan.kind,
        "codec": plan.codec,
        "container": container,
        "stream": _kind(plan),
        "why": plan.why,
    }
    case = ""
    if stream.kind == "video":
        case, params["offers"] = "video-track", f"video_stream={stream.index}"
        about = filter(None, (stream.codec, str(stream.size or ""), stream.title))
        params["stream"] = message("stream.with-codec", kind=_KIND_VIDEO, codec=", ".join(about))
    if better:
        case, params["better"] = "other-container", better[0]
    if plan.converted:
        params |= {"converted": plan.converted, "layout": stream.layout}
        into = CONTAINERS[container]
        if plan.converted != "flac" and not into.names_channels and not is_played_right(stream):
            case, params["title"] = "channels", into.title
        if not is_exact(plan.converted, stream):
            params |= {
                "title": _SOUND_TITLES[plan.converted],
                "rate": str(bit_rate_of(plan, stream) // 1000),
            }
            case = "rounded" if plan.converted == "flac" else case
    is_loss = case == "channels" or code != "sound-converted"
    severity: Severity = "warning" if is_loss else "info"
    return Notice(code=code, case=case, severity=severity, params=params)


def _copying(media: MediaInfo, container: str, stream: StreamInfo) -> list[str]:
    """Titles of other containers that hold a stream unchanged, MKV first."""
    others = [c for c in CONTAINERS.values() if c.name != container]
    titles = [c.title for c in others if not refusal_of(c.name, stream, media)]
    return sorted(titles, key=lambda title: title != "MKV")


def _text_notice(media: MediaInfo, container: str, plan: PassPlan) -> Notice:
    """Subtitles that are converted to another format of text."""
    stream = next(s for s in media.streams if s.index == plan.index)
    params: dict[str, Param] = {
        "index": str(plan.index),
        "stream": _kind(plan),
        "title": _TEXT_TITLES[plan.converted],
        "why": plan.why,
        "better": _copying(media, container, stream)[0],
    }
    case = "" if plan.converted == "subrip" else "unplaced"
    if plan.is_lossy:
        case = "timed" if plan.converted in FLAT else "styled"
    severity: Severity = "warning" if plan.is_lossy else "info"
    return Notice(code="text-converted", case=case, severity=severity, params=params)


def _kind(plan: PassPlan) -> Message:
    kind = message(f"stream.{plan.kind}")
    return message("stream.with-codec", kind=kind, codec=plan.codec) if plan.codec else kind
