"""Media, plans and reports as text for a terminal: an aligned line for each fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

from engine.core.units import (
    bytes_text,
    clock_text,
    duration_text,
    memory_text,
    range_text,
    rate_text,
)
from engine.protocol.media import MediaInfo, StreamInfo, VideoInfo
from engine.protocol.plan import Alternative, LatentPlan, Notice, PassPlan, Plan
from engine.protocol.report import ModelFile, Report

_HDR = {"pq": "HDR (PQ)", "hlg": "HDR (HLG)"}
_STATES = {
    "here": "installed",
    "missing": "not installed",
    "partial": "incomplete",
    "busy": "in use",
    "blocked": "blocked by Windows",
}


def state_word(state: str) -> str:
    """The state of a model file or an NVIDIA runtime as a user reads it."""
    return _STATES.get(state, state)


def media_words(media: MediaInfo) -> list[str]:
    """Describes a file in several lines."""
    tags = media.video.tags
    named = ("matrix", "primaries", "transfer", "range")
    colours = [f"{name} {getattr(tags, name)}" for name in named if getattr(tags, name)]
    lines = [
        _line("File", f"{media.path} ({bytes_text(media.bytes)}, {media.container})"),
        _line("Video", _video(media.video)),
        _line("Length", _length(media.video)),
        _line("Colours", ", ".join(colours) or "not tagged"),
    ]
    lines += [_line(stream.kind.capitalize(), _stream(stream)) for stream in media.streams]
    lines += [
        _line("Chapter", f"{clock_text(chapter.start)} {chapter.title}".rstrip())
        for chapter in media.chapters
    ]
    return lines


def findings(notices: Iterable[Notice]) -> Iterator[str]:
    """A line for each finding, with the settings that help."""
    for name, notice in zip(chain(["Found"], repeat("")), notices, strict=False):
        offers = str(notice.params.get("offers", "")).split(";")
        remedy = " or ".join(f"--set {offer}" for offer in offers if offer)
        yield _line(name, f"{notice.message} {f'[{remedy}]' if remedy else notice.hint}".rstrip())


def plan_words(plan: Plan) -> list[str]:
    """Describes a plan in several lines; notices are printed apart."""
    picture, budget = plan.picture, plan.budget_bytes
    crf, constant = picture.options.get("crf"), int(picture.options.get("b", "0"))
    rate = f", {constant / 1e6:g} Mbit/s" if constant else f", crf {crf}" if crf else ""
    depth = f"{picture.bit_depth} bit {picture.chroma}{rate}"
    allowed = f"{memory_text(budget)} allowed" if budget else "no limit set"
    device = "GPU" if plan.work.device == "cuda" else "computer"
    unmeasured = "" if plan.is_measured else f", not measured on this {device}"
    left = plan.free_disk_bytes
    free = f", {bytes_text(left)} free on the disk" if left is not None else ""
    lines = [
        _line("Source", f"{plan.source} ({plan.source_seen_size}, {_frames(plan)})"),
        _line("Result", f"{plan.output}"),
        _line("Video", f"{picture.seen_size} {picture.codec} ({picture.encoder}), {depth}"),
        _line("Model", plan.work.line),
        _line("Memory", f"about {memory_text(plan.peak_bytes)}, {allowed}"),
        _line("Time", f"{range_text(*plan.expected_seconds)}{unmeasured}"),
        _line("Size", f"about {bytes_text(plan.output_bytes)}{free}"),
    ]
    if plan.first_pass is not None:
        lines.insert(3, _line("First", plan.first_pass.line))
    if plan.device_bytes:
        most, allowed, reserved = map(
            memory_text, (plan.device_bytes, plan.device_budget_bytes, plan.device_limit_bytes)
        )
        limits = f"{allowed} allowed; at most {reserved} reserved, including gaps"
        lines.insert(-2, _line("", f"GPU: about {most}, {limits}"))
    if plan.latent is not None:
        lines.insert(1, _line("Latents", _latents(plan.latent)))
    counts = Counter(s.kind for s in plan.streams if s.copied and not s.converted)
    if counts:
        copied = (f"{count} {kind}" for kind, count in counts.items())
        lines.append(_line("Copied", ", ".join(copied)))
    for stream in plan.streams:
        if stream.converted:
            title = "Encoded" if stream.is_lossy else "Decoded"
            title = "Converted" if stream.kind == "subtitle" else title
            lines.append(_line(title, f"{_named(stream)}, saved as {stream.converted}"))
    for stream in plan.streams:
        if not stream.copied:
            lines.append(_line("Left out", f"{_named(stream)}: {stream.why}"))
    return [*lines, *_why(plan)]


def _named(stream: PassPlan) -> str:
    return f"{stream.kind} {stream.index} ({stream.codec})"


def _why(plan: Plan) -> Iterator[str]:
    """The reasons of a plan, and what one step more or less would change."""
    if plan.reasons is None:
        return
    yield _line("Why", plan.reasons.message)
    yield from (_line("", choice.message) for choice in plan.reasons.choices)
    for name, step in zip(chain(["Instead"], repeat("")), plan.reasons.alternatives, strict=False):
        yield _line(name, f"{step.message}: {_step(plan, step)}")


def _step(plan: Plan, step: Alternative) -> str:
    """Bytes and seconds of an alternative, compared with those of the plan."""
    size = memory_text(step.device_bytes or step.ram_bytes)
    more = step.seconds - plan.seconds
    if abs(more) < max(1.0, 0.001 * plan.seconds):
        time = "same time"
    else:
        time = f"{duration_text(abs(more))} {'slower' if more > 0 else 'faster'}"
    if step.ram_bytes > plan.budget_bytes:
        return f"{memory_text(step.ram_bytes)} of RAM, {time}; does not fit"
    return f"{size}, {time}" if step.fits else f"{size}, {time}; does not fit"


def _latents(plan: LatentPlan) -> str:
    """Describes how a source of latents becomes frames."""
    reading = "normalised" if plan.normalised else "raw"
    tile = f", tiles of {plan.decode_tile}" if plan.decode_tile else ""
    return f"{reading}, decoded with {plan.vae.path.name} on {plan.device}, {plan.dtype}{tile}"


def report_words(report: Report) -> list[str]:
    """Describes a report: a line for each check, then the verdict."""
    lines = [f"  {'ok ' if check.passed else 'BAD'}  {check.message}" for check in report.checks]
    return [*lines, _verdict(report)]


def _verdict(report: Report) -> str:
    if report.passed:
        return f"verified: all {len(report.checks)} checks passed"
    names = ", ".join(check.code for check in report.problems)
    return f"FAILED checks: {names}"


def summary_words(report: Report) -> list[str]:
    """The end of a job: where the result is, how long it took, whether it was proved."""
    parts = [_count(report.frames_out, "frame")]
    if report.seconds:
        speed = report.frames_out / report.seconds
        parts.append(f"{duration_text(report.seconds)} ({speed:.1f} fps)")
    if report.peak_bytes:
        parts.append(f"peak memory {memory_text(report.peak_bytes)}")
    most = report.largest_on_gpu
    if most is not None:
        size, planned = memory_text(most.peak.requested), memory_text(most.planned)
        reserved = memory_text(most.peak.reserved)
        parts.append(f"peak GPU memory {size} ({planned} planned, {reserved} reserved)")
    lines = [f"Done: {report.output}", f"  {', '.join(parts)}", f"  {_verdict(report)}"]
    lines += [f"  BAD  {check.message}" for check in report.problems]
    lines += [f"  {change.message}" for change in report.plan_changes]
    lines += [f"  model file {model_file_words(file)}" for file in report.model_files]
    return lines


def model_file_words(file: ModelFile) -> str:
    """A model file in one line: "4x_film.pth (SPAN), SHA-256 3f65..."."""
    architecture = f" ({file.architecture})" if file.architecture else ""
    return f"{file.name}{architecture}, " + (
        f"SHA-256 {file.sha256}" if file.sha256 else "changed since"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _line(name: str, text: str) -> str:
    return f"{name + ':' if name else '':<10} {text}"


def _video(video: VideoInfo) -> str:
    parts = [f"{video.seen_size} {video.codec}", f"{video.bit_depth} bit {video.chroma}"]
    if video.sample_aspect != 1:
        parts.append(f"pixels {video.sample_aspect.numerator}:{video.sample_aspect.denominator}")
    if video.rotation:
        parts.append(f"rotated by {video.rotation} degrees")
    if video.is_mirrored:
        parts.append("mirrored")
    if video.has_alpha:
        parts.append("transparency")
    if video.is_interlaced:
        parts.append("interlaced")
    return ", ".join([*parts, *filter(None, [_HDR.get(video.hdr, "")])])


def _length(video: VideoInfo) -> str:
    about = "" if video.frame_count_is_exact else "about "
    parts = [about + _count(video.frame_count, "frame")] if video.frame_count else []
    if video.duration is not None:
        parts.append(clock_text(video.duration))
    return ", ".join([*parts, f"{rate_text(video.frame_rate)} fps"])


def _stream(stream: StreamInfo) -> str:
    parts = [stream.codec, stream.language, stream.title, stream.file_name]
    if stream.kind == "video":
        parts = [f"stream {stream.index}", str(stream.size or ""), *parts]
    if stream.channels:
        parts.append(f"{_count(stream.channels, 'channel')}, {stream.sample_rate} Hz")
    return ", ".join(filter(None, parts))


def _frames(plan: Plan) -> str:
    frames = _count(plan.frames, "frame")
    if plan.start is None and plan.stop is None:
        return frames
    stop = "the end" if plan.stop is None else clock_text(plan.stop)
    return f"{frames} from {clock_text(plan.start or 0)} to {stop}"
