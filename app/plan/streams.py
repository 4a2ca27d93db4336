"""Treatment of sound tracks, subtitles, chapters and whatever else a source has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from app.engine_messages import text
from app.i18n import tr
from app.state.job_row import JobRow
from engine.core.messages import Message, message
from engine.core.plain_text import one_line
from engine.protocol.media import StreamInfo
from engine.protocol.plan import PassPlan

_REWRITTEN = "reason.stream.rewritten"
_PICTURES = ("image", "sequence")  # containers without room for anything else


@dataclass(frozen=True, slots=True)
class StreamLine:
    """One stream, and what becomes of it, in the current language."""

    kind: str
    name: str
    fate: str
    is_kept: bool


def stream_lines(row: JobRow) -> list[StreamLine]:
    """A line for each stream of a planned source but its picture, then one for its chapters."""
    if row.plan is None or row.media is None:
        return []
    known = {stream.index: stream for stream in row.media.streams}
    lines = [_line(one, known.get(one.index)) for one in row.plan.streams]
    count = len(row.media.chapters)
    if count:
        is_kept = row.plan.container not in _PICTURES
        is_part = row.plan.start is not None or row.plan.stop is not None
        kept = tr("those of the selected part are copied") if is_part else tr("copied")
        fate = kept if is_kept else tr("left out")
        title = tr("Chapters: {count}", count=count)
        lines.append(StreamLine(tr("chapters"), title, fate, is_kept))
    return lines


def summary(row: JobRow) -> str:
    """Both in one line: "Copied: sound track ×2 · chapters ×12"; "" where there is nothing."""
    lines = stream_lines(row)
    kept = _counted([line.kind for line in lines if line.is_kept])
    lost = _counted([line.kind for line in lines if not line.is_kept])
    parts = [tr("Copied: {parts}", parts=kept)] if kept else []
    parts += [tr("left out: {parts}", parts=lost)] if lost else []
    return "; ".join(parts)


def _counted(kinds: list[str]) -> str:
    counts = Counter(kinds)
    return " · ".join(f"{kind} ×{count}" if count > 1 else kind for kind, count in counts.items())


def _line(plan: PassPlan, stream: StreamInfo | None) -> StreamLine:
    kind = text(message(f"stream.{plan.kind}"))
    words = [kind[:1].upper() + kind[1:], *(_details(stream) if stream is not None else ())]
    if plan.codec:
        words.append(plan.codec)
    name = " · ".join(words)
    if plan.converted:
        fate = tr("decoded and saved as {codec}", codec=plan.converted)
        if plan.kind == "subtitle":
            fate = tr("converted to {codec}", codec=plan.converted)
        elif plan.is_lossy:
            fate = tr("encoded again as {codec}", codec=plan.converted)
        return StreamLine(kind, name, fate, True)
    if plan.copied:
        return StreamLine(kind, name, tr("copied"), True)
    why = text(plan.why) if isinstance(plan.why, Message) else plan.why
    if isinstance(plan.why, Message) and plan.why.code == _REWRITTEN:
        return StreamLine(kind, name, why, True)
    fate = tr("left out: {parts}", parts=why) if why else tr("left out")
    return StreamLine(kind, name, fate, False)


def _details(stream: StreamInfo) -> Iterator[str]:
    if stream.language not in ("", "und"):
        yield one_line(stream.language)
    if stream.title or stream.file_name:
        yield one_line(stream.title or stream.file_name)
    if stream.channels:
        yield tr("{count} channels", count=stream.channels)
