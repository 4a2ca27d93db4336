"""Texts about models, and the row of a model file, in the current language."""

from __future__ import annotations

from app import labels
from app.engine_messages import choice_text, hint, text
from app.i18n import mark, tr
from app.installs.installable import Installable, Message, Standing, problem
from app.state.model_files_model import MB, Package, PackageState, size_of, state_of
from app.state.tasks_model import TaskState
from engine.core.plain_text import one_line
from engine.core.units import bytes_text
from engine.protocol.model_file_state import PublishedState, facts_of
from engine.protocol.plan import Notice
from engine.settings import schema

_TITLES = {  # titles of models that are no choice in the settings
    "wan21-vae": "Wan 2.1 VAE",
    "wan22-vae": "Wan 2.2 VAE",
}
_MODELS = {
    "seedvr2-3b": mark("The smaller model: faster, needs less memory."),
    "seedvr2-7b": mark("The larger model: slower, needs much more memory."),
    "seedvr2-7b-sharp": mark("The same size as 7B, trained for crisper edges."),
    "swiftvr": mark("Faster, smoother; redraws more. Converting it needs 9 GB more."),
    "wan-2x": mark("Upscales 2×, trained on photographs. You need only one of the files."),
    "community": mark("Your own model files, from Real-ESRGAN to DAT. They work frame by frame."),
    "wan21-vae": mark("Opens .latent files with 16 channels. You need only one of the files."),
    "wan22-vae": mark("Opens .latent files with 48 channels. You need only one of the files."),
}
_FILES = {
    "fp32": ("FP32", mark("As published, full precision")),
    "fp16": ("FP16", mark("As published, full precision")),
    "fp8": ("FP8", mark("Half size, slightly less exact")),
    "q8": ("Q8", mark("Half size, nearly exact")),
    "int8": ("INT8", mark("Half size, nearly exact")),
    "mxfp8": ("MXFP8", mark("Half size, slightly less exact")),
    "q4": ("Q4", mark("Smallest, least exact")),
}
_SHARED = {
    "vae": ("VAE", mark("Encodes and decodes frames")),
    "text": (mark("Text embedding"), mark("The fixed text prompt that the model uses")),
}
_OWN = mark("Your own file")
_STATES: dict[PackageState, tuple[str, str, str, str]] = {  # icon, severity, text and action
    "missing": ("download", "info", mark("Not installed"), "download"),
    "partial": ("pause", "info", "", "continue"),
    "incomplete": ("warning", "warning", mark("Shared files missing"), "download"),
    "damaged": ("error", "refusal", mark("Damaged"), "again"),
    "unverified": ("check", "info", mark("Installed, not verified"), "verify"),
    "here": ("check", "good", mark("Installed, verified"), "verify"),
    "busy": ("info", "info", mark("Another program uses it"), "download"),
    "waiting": ("pause", "info", mark("Queued"), "stop"),
    "running": ("download", "good", "", "stop"),
    "failed": ("error", "refusal", mark("Failed"), "retry"),
}
_PHASES = {
    "download": mark("Downloading"),
    "verify": mark("Verifying"),
    "import": mark("Importing"),
    "convert": mark("Converting"),
    "remove": mark("Removing"),
}


def model_title(model: str) -> str:
    """The name of a model."""
    return _TITLES.get(model) or choice_text("model", model)


def model_text(model: str) -> str:
    """Purpose of a model; "" for an unknown one."""
    return tr(_MODELS[model]) if model in _MODELS else ""


def file_texts(file: PublishedState) -> tuple[str, str]:
    """A short name inside its group, and the consequence of choosing the file."""
    if file.is_own:
        title, about = one_line(file.filename), tr(_OWN)
    elif file.kind == "library":
        title, about = tr("Library: {name}", name=file.title), file.filename
    elif file.spare:  # beside the file that is offered in its place
        title, about = file.precision.upper(), f"{file.filename} · {file.repository}"
    elif is_whole_model(file):
        title = tr("16 bit") if file.precision == "16-bit" else file.precision.upper()
        ending = file.filename.rsplit(".", 1)[-1]  # distinguishes two files of the same weights
        if ending != "safetensors":
            title = " · ".join(filter(None, (title, ending.upper())))
        about = f"{file.filename.rsplit('/', 1)[-1]} · {file.repository}"
    elif file.kind in _SHARED:
        title, about = map(tr, _SHARED[file.kind])
    elif file.precision in _FILES:
        title, about = map(tr, _FILES[file.precision])
    else:
        title, about = file.precision.upper(), file.filename
    if file.network is not None:
        facts = facts_of(file)[:-1]  # the licence has a column of its own
        about = " · ".join((one_line(file.network.architecture), *map(text, facts)))
    return title, about


def full_title(file: PublishedState) -> str:
    """A name that can stand alone: for screen readers and questions."""
    is_part = file.kind != "dit" and not is_whole_model(file)
    if is_part or file.is_own or not file.models:
        return file_texts(file)[0]
    return f"{model_title(file.models[0])} {file_texts(file)[0]}"


def is_whole_model(file: PublishedState) -> bool:
    """Whether a file needs no other one: the VAEs of Wan, and community models."""
    if file.kind == "upscaler":
        return True
    return file.kind == "vae" and not {*schema.SEEDVR2, *schema.SWIFTVR}.intersection(file.models)


def can_redraw(file: PublishedState) -> bool:
    """Whether a video can be made with the model that this file stands for."""
    is_main = file.kind == "dit" or is_whole_model(file)
    return is_main and bool(set(schema.MODELS).intersection(file.models))


def size(file: PublishedState) -> str:
    """Size of the whole file; not known before the first byte where it is not published."""
    if file.bytes or not file.about_bytes:
        return bytes_text(file.bytes) if file.bytes else "–"
    return f"≈ {bytes_text(file.about_bytes)}"


def item_of(package: Package, task: TaskState | None, notice: Notice | None) -> Installable:
    """Row of a file with its companions.

    Args:
        package: The file.
        task: Task on it, or how that ended.
        notice: Remark on a file that was imported all the same.
    """
    file, state = package.main, state_of(package, task)
    name, is_model = full_title(file), can_redraw(file)
    icon, severity, said, action = _STATES[state]
    if state == "running" and task is not None:
        said = _PHASES[task.phase]
    said = tr(said) if said else _downloaded(file)
    if action == "verify" and is_model:
        action = "use"
    elif file.kind == "library" and state in ("missing", "partial", "damaged", "busy"):
        action = "add"
    rests = state not in ("busy", "waiting", "running")
    menu = {
        "use": rests and package.is_complete,
        "convert": rests and package.is_complete,
        "verify": file.is_here and rests,
        "folder": file.path is not None,
        "remove": rests and file.path is not None and (file.is_own or not file.borrowed),
    }
    if not is_model:
        del menu["use"]
    if not file.converts_to:
        del menu["convert"]
    place = ""
    if file.borrowed and file.path is not None:
        place = tr("Used in place: {folder}", folder=labels.folder(file.path.parent))
    error = None
    if task is not None and task.error is not None:
        error = Message("refusal", *problem(task.error))
    elif notice is not None:
        error = Message(notice.severity, text(notice), hint(notice))
    title, about = file_texts(file)
    return Installable(
        id=file.id,
        title=title,
        about=about,
        full_title=name,
        button_for=f"{name}, {one_line(file.filename)}",
        place=place,
        facts=((size(file), ""), (one_line(file.licence) or "–", one_line(file.repository))),
        standing=Standing(icon, severity, said),
        action=action,
        can_act=state != "busy",
        menu=menu,
        task=task,
        problem=error,
    )


def _downloaded(file: PublishedState) -> str:
    if not size_of(file):
        return tr("{size} downloaded", size=bytes_text(file.done_bytes))
    percent = min(99, int(100 * file.done_bytes / size_of(file)))
    return tr("{percent} % downloaded", percent=percent)


def short_progress(task: TaskState) -> str:
    """A few letters for a button."""
    if task.total:
        return f"{int(100 * task.share)} %"
    return f"{task.done:,.0f} MB" if task.done else "…"


def availability(package: Package, task: TaskState | None) -> str:
    """Remark after a model in the list."""
    if task is not None and task.runs:
        return short_progress(task)
    if package.is_complete:
        return tr("installed")
    left = package.lacking_mb
    return tr("{size} to download", size=bytes_text(left * MB)) if left else tr("to download")
