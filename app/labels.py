"""Texts for states, stages, times and sizes, in the current language."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.engine_messages import choice_text, error_title
from app.i18n import mark, tr
from app.state.downloads_model import can_download
from app.state.job_row import JobRow, JobState
from engine.core.geometry import Size
from engine.core.paths import shown
from engine.core.plain_text import one_line
from engine.core.units import range_in_unit
from engine.protocol.plan import Plan

_BUILT_IN = {"lite": "Lite", "lite-plus": "Lite Plus"}  # models; their choice says "built in" too
_STAGES = {
    "prepare": mark("Preparing"),
    "weights": mark("Model files"),
    "run": mark("Upscaling"),
    "mux": mark("Joining"),
    "latents": mark("Latents"),
    "load": mark("Load model"),
    "read": mark("Read"),
    "clean": mark("Clean"),
    "encode": mark("Encode"),
    "transformer": mark("Transformer"),
    "decode": mark("Decode"),
    "upscale": mark("Upscale"),
    "steady": mark("Blend frames"),
    "restore": mark("Restore"),
    "write": mark("Write"),
    "compile": mark("Compile"),
    "wait-read": mark("Wait for reading"),
    "wait-write": mark("Wait for writing"),
    "verify": mark("Verify"),
}


def counted(rows: Iterable[JobRow], count: int) -> str:
    """A number of files of a queue: "4 videos", "4 images", or "4 files" where it has both."""
    kinds = {row.media.kind == "image" for row in rows if row.media is not None}
    if kinds == {True}:
        return tr("{count} images", count=count)
    return tr("{count} files", count=count) if len(kinds) > 1 else tr("{count} videos", count=count)


def duration(seconds: float) -> str:
    """A duration: "under 1 s", "45 s", "3 min 20 s", "2 h 05 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return tr("{seconds} s", seconds=whole) if whole or seconds <= 0 else tr("under 1 s")
    if whole < 600:
        return tr("{minutes} min {seconds} s", minutes=whole // 60, seconds=f"{whole % 60:02d}")
    hours, minutes = divmod(round(whole / 60), 60)
    if not hours:
        return tr("{minutes} min", minutes=minutes)
    return tr("{hours} h {minutes} min", hours=hours, minutes=f"{minutes:02d}")


def about(seconds: float) -> str:
    """A predicted duration: "under 1 s", "about 45 s"."""
    time = duration(seconds)
    return tr("about {time}", time=time) if round(seconds) else time


def gpu_waits(waits_for: str, share: float) -> str:
    """Sentence about the GPU waiting for "read" or "write", a share of the time; "" for ""."""
    texts = {
        "": "",
        "read": tr(
            "The GPU waits for frames of the source: {share} of the last ten seconds",
            share=f"{share:.0%}",
        ),
        "write": tr(
            "The GPU waits for the encoder: {share} of the last ten seconds", share=f"{share:.0%}"
        ),
    }
    return texts[waits_for]


def expected(plan: Plan) -> str:
    """The range of a plan's time, in one unit: "2–14 min"."""
    low, high, unit = range_in_unit(*plan.expected_seconds)
    if low == high:
        return duration(plan.seconds)
    texts = {
        "s": tr("{low}–{high} s", low=low, high=high),
        "min": tr("{low}–{high} min", low=low, high=high),
        "h": tr("{low}–{high} h", low=low, high=high),
    }
    return texts[unit]


def difference(seconds: float) -> str:
    """A difference of durations: "+45 s", "−3 min 20 s", "same time"."""
    if abs(seconds) < 0.5:
        return tr("same time")
    return f"{'+' if seconds > 0 else '−'}{duration(abs(seconds))}"


def gigabytes(megabytes: float) -> str:
    """Memory in GB of 1024 MB, without the unit: "1.2"."""
    return f"{megabytes / 1024:.1f}"


def size(value: Size) -> str:
    """Width and height with a multiplication sign."""
    return f"{value.width}×{value.height}"


def target(row: JobRow) -> str:
    """Size of the result: planned, or as requested."""
    if row.current_plan is not None:
        return size(row.current_plan.picture.seen_size)
    settings = row.settings
    if settings.target is not None:
        return size(settings.target)
    if settings.height:
        return f"{settings.height}p"
    return f"×{settings.scale}"


def model_name(model: str) -> str:
    """Name of a model without where it comes from."""
    return _BUILT_IN.get(model) or choice_text("model", model)


def result_name(plan: Plan | None) -> str:
    """Name of a result after its model."""
    model = plan.work.model if plan is not None else ""
    own = {"": tr("Result"), "none": tr("Same size")}
    return own.get(model) or model_name(model)


def preview_name(plan: Plan | None) -> str:
    """Name of frames that a plan would give, while it has given no file."""
    return tr("{model} preview", model=result_name(plan))


def from_to(row: JobRow) -> str:
    """Sizes of source and result; only that of the result where the file was not read."""
    if row.media is None:
        return target(row)
    return f"{size(row.media.video.seen_size)} → {target(row)}"


def sizes(source: Size, result: Size) -> str:
    """Sizes of source and result."""
    return f"{size(source)} → {size(result)}"


def stage(row: JobRow) -> str:
    """The present stage of the running job."""
    percent = round(100 * row.stage_share)
    match row.stage:
        case "prepare":
            return tr("Preparing")
        case "weights":
            return tr("Verifying the model files · {percent} %", percent=percent)
        case "decode":
            return tr("Decoding the latent · {percent} %", percent=percent)
        case "mux":
            return tr("Joining video and audio · {percent} %", percent=percent)
        case "verify":
            return tr("Verifying the result · {percent} %", percent=percent)
    if row.total:
        return tr("Upscaling · {done} of {total}", done=row.done, total=row.total)
    return tr("Upscaling")


def state(row: JobRow) -> str:
    """The state of a job, as its card shows it."""
    if row.asked == "cancel":
        return tr("Cancelling …")
    if row.asked == "pause":
        return tr("Pausing …")
    match row.state:
        case JobState.READING:
            return tr("Reading the file")
        case JobState.WAITING:
            if not row.is_refused:
                return tr("Queued")
            if row.is_downloading:
                return tr("Downloading")
            return tr("Needs a download") if can_download(row) else tr("Cannot start yet")
        case JobState.RUNNING:
            return stage(row)
        case JobState.PAUSED:
            paused = tr("Paused at {percent} %", percent=round(100 * row.share))
            return tr("Waits for disk space") if row.waits_for_room else paused
        case JobState.DONE:
            if row.lost is not None:
                return error_title(row.lost)
            has_problems = row.report is not None and row.report.problems
            return tr("Done, but checks failed") if has_problems else tr("Done")
        case JobState.FAILED:
            return tr("Failed")
        case JobState.CANCELLED:
            return " · ".join(filter(None, (tr("Cancelled"), held(row))))
        case JobState.REJECTED:
            return tr("Cannot be used")


def remaining(row: JobRow) -> str:
    """The right end of a card's last line: time left, or expected time."""
    if row.state is JobState.RUNNING and row.seconds_left and row.asked != "cancel":
        return tr("{time} left", time=duration(row.seconds_left))
    if row.can_start and row.plan is not None and row.plan.seconds:
        return expected(row.plan)
    return ""


def held(row: JobRow) -> str:
    """Finished part of an interrupted job: "8 of 12 minutes finished"; "" for nothing."""
    if not row.done or row.plan is None or row.state is JobState.DONE:
        return ""
    rate = float(row.plan.picture.frame_rate)
    seconds = (row.done / rate, row.total / rate)
    if seconds[1] < 120:
        return tr(
            "{done} of {total} seconds finished", done=round(seconds[0]), total=round(seconds[1])
        )
    done, total = (round(value / 60) for value in seconds)
    return tr("{done} of {total} minutes finished", done=done, total=total)


def folder(path: Path) -> str:
    """A folder for display: home shortened to "~"."""
    home = Path.home()
    within = path.is_relative_to(home)
    return one_line(f"~/{path.relative_to(home).as_posix()}" if within else shown(path))


def folder_name(path: Path) -> str:
    """The name of a folder, or of a drive."""
    return path.name or str(path)


def stage_name(stage: str) -> str:
    """Title of a stage of a job, named as in `StagePlan`."""
    return tr(_STAGES.get(stage, stage))
