"""Texts about models, their files and the status of those, in the current language."""

from __future__ import annotations

from app import labels
from app.engine_messages import choice_text, hint, text
from app.i18n import mark, tr
from app.state.model_files_model import MB, FileStatus, Package, size_of
from app.state.tasks_model import TaskState
from app.widgets.error_view import error_title
from engine.core.errors import ErrorInfo
from engine.core.plain_text import one_line
from engine.core.units import bytes_text
from engine.protocol.model_file_state import PublishedState, facts_of
from engine.settings import schema

_TITLES = {  # of models that are no choice of their own
    "wan21-vae": "Wan 2.1 VAE",
    "wan22-vae": "Wan 2.2 VAE",
}
_MODELS = {
    "seedvr2-3b": mark("The smaller model: faster, needs less memory."),
    "seedvr2-7b": mark("The larger model: slower, needs much more memory."),
    "seedvr2-7b-sharp": mark("The same size as 7B, trained for crisper edges."),
    "wan-2x": mark("Upscales 2×, trained on photographs. You need only one of the files."),
    "community": mark("Your own model files, from Real-ESRGAN to DAT. They work frame by frame."),
    "wan21-vae": mark("Opens .latent files with 16 channels. You need only one of the files."),
    "wan22-vae": mark("Opens .latent files with 48 channels. You need only one of the files."),
}
_FILES = {
    "fp16": ("FP16", mark("As published, full precision")),
    "fp8": ("FP8", mark("Half size, slightly less exact")),
    "q8": ("Q8", mark("Half size, nearly exact")),
    "q4": ("Q4", mark("Smallest, least exact")),
}
_SHARED = {
    "vae": ("VAE", mark("Encodes and decodes frames")),
    "text": (mark("Text embedding"), mark("The fixed text prompt that the model uses")),
}
_OWN = mark("Your own file")
_STATUSES = {
    FileStatus.MISSING: mark("Not installed"),
    FileStatus.INCOMPLETE: mark("Shared files missing"),
    FileStatus.DAMAGED: mark("Damaged"),
    FileStatus.UNCHECKED: mark("Installed, not verified"),
    FileStatus.HERE: mark("Installed, verified"),
    FileStatus.ELSEWHERE: mark("Another program uses it"),
    FileStatus.WAITING: mark("Queued"),
    FileStatus.FAILED: mark("Failed"),
}
_PHASES = {
    "download": mark("Downloading"),
    "verify": mark("Verifying"),
    "import": mark("Importing"),
    "remove": mark("Removing"),
}


def model_title(model: str) -> str:
    """The name of a model."""
    return _TITLES.get(model) or choice_text("model", model)


def _ending(file: PublishedState) -> str:
    """The suffix, which distinguishes two files of the same weights."""
    ending = file.filename.rsplit(".", 1)[-1]
    return "" if ending == "safetensors" else ending.upper()


def model_text(model: str) -> str:
    """Purpose of a model; "" for an unknown one."""
    return tr(_MODELS[model]) if model in _MODELS else ""


def file_title(file: PublishedState) -> str:
    """A short name inside its group."""
    if file.is_own:
        return one_line(file.filename)
    if file.kind == "library":
        return tr("Library: {name}", name=file.title)
    if is_whole_model(file):
        precision = tr("16 bit") if file.precision == "16-bit" else file.precision.upper()
        return " · ".join(part for part in (precision, _ending(file)) if part)
    if file.kind in _SHARED:
        return tr(_SHARED[file.kind][0])
    return tr(_FILES[file.precision][0]) if file.precision in _FILES else file.precision.upper()


def file_text(file: PublishedState) -> str:
    """Consequence of the choice of this file."""
    if file.network is not None:
        facts = facts_of(file)[:-1]  # the licence has a column of its own
        return " · ".join((one_line(file.network.architecture), *map(text, facts)))
    if file.is_own:
        return tr(_OWN)
    if file.kind == "library":
        return file.filename
    if is_whole_model(file):
        return f"{file.filename.rsplit('/', 1)[-1]} · {file.repository}"
    if file.kind in _SHARED:
        return tr(_SHARED[file.kind][1])
    return tr(_FILES[file.precision][1]) if file.precision in _FILES else file.filename


def full_title(file: PublishedState) -> str:
    """A name that can stand alone: for screen readers and questions."""
    is_part = file.kind != "dit" and not is_whole_model(file)
    if is_part or file.is_own or not file.models:
        return file_title(file)
    return f"{model_title(file.models[0])} {file_title(file)}"


def is_whole_model(file: PublishedState) -> bool:
    """Whether a file needs no other one: the VAEs of Wan, and community models."""
    if file.kind == "upscaler":
        return True
    return file.kind == "vae" and not set(schema.SEEDVR2).intersection(file.models)


def can_redraw(file: PublishedState) -> bool:
    """Whether a film can be made with the model that this file stands for."""
    is_main = file.kind == "dit" or is_whole_model(file)
    return is_main and bool(set(schema.MODELS).intersection(file.models))


def size(file: PublishedState) -> str:
    """Size of the whole file; not known before the first byte where it is not published."""
    if file.bytes or not file.about_bytes:
        return bytes_text(file.bytes) if file.bytes else "–"
    return f"≈ {bytes_text(file.about_bytes)}"


def status(package: Package, status: FileStatus, task: TaskState | None) -> str:
    """State of a package."""
    if status is FileStatus.BUSY and task is not None:
        return tr(_PHASES[task.phase])
    if status is FileStatus.PARTIAL:
        file = package.main
        if not size_of(file):
            return tr("{size} downloaded", size=bytes_text(file.done_bytes))
        percent = min(99, int(100 * file.done_bytes / size_of(file)))
        return tr("{percent} % downloaded", percent=percent)
    return tr(_STATUSES[status])


def progress(task: TaskState) -> str:
    """Megabytes, speed and time left in one line."""
    done = round(task.done)
    if task.total:
        parts = [tr("{done} of {total} MB", done=done, total=round(task.total))]
    else:
        parts = [tr("{done} MB", done=done)]
    if task.per_second:
        parts.append(tr("{speed} MB/s", speed=f"{task.per_second:.1f}"))
    if task.seconds_left:
        parts.append(tr("{time} left", time=labels.duration(task.seconds_left)))
    return " · ".join(parts)


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Title of an error, and below it the engine's sentence and what to do, a line each."""
    lines = (text(error), hint(error))
    return error_title(error), "\n".join(line for line in lines if line)


def short_progress(task: TaskState) -> str:
    """A few letters for a button."""
    if task.total:
        return f"{int(100 * task.share)} %"
    return f"{task.done:,.0f} MB" if task.done else "…"


def availability(package: Package | None, task: TaskState | None) -> str:
    """Remark after a model in the list; "" where nothing is known."""
    if package is None:
        return ""
    if task is not None and task.runs:
        return short_progress(task)
    if package.is_complete:
        return tr("installed")
    left = package.lacking_mb
    return tr("{size} to download", size=bytes_text(left * MB)) if left else tr("to download")
