"""Texts about NVIDIA runtimes, in the current language."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.installs.model_labels import progress
from app.state.runtimes_model import (
    RuntimesModel,
    RuntimeStatus,
    Situation,
    is_known,
    size_of,
)
from app.state.tasks_model import TaskState
from app.widgets.error_view import error_title
from engine.core.errors import ErrorInfo, RuntimeNotAccepted
from engine.core.units import bytes_text
from engine.protocol.runtime_state import RuntimeState

_PHASES = {
    "download": mark("Downloading the NVIDIA runtime"),
    "import": mark("Verifying the file"),
    "unpack": mark("Unpacking the NVIDIA runtime"),
    "try": mark("Testing the NVIDIA runtime"),
    "use": mark("Switching the NVIDIA runtime"),
    "remove": mark("Removing the NVIDIA runtime"),
}
_TRYING = mark("This may take several minutes: virus scanners check every new file.")
_TITLES = {  # of errors that elsewhere are about models
    "download-failed": mark("The NVIDIA runtime could not be downloaded"),
    "hash-mismatch": mark("This is not a published file"),
    "output-unwritable": mark("The folder of the NVIDIA runtime cannot be written to"),
    "weights-missing": mark("File not found"),
    "weights-damaged": mark("The download is corrupt"),
}

HINTS = {  # where the hint of the engine is a command: here is a button
    "runtime-broken.unusable": mark("Repair downloads it again."),
    "runtime-busy.in-use": mark("Select the built-in runtime, restart Upreel, then try again."),
    "unknown-runtime.no-such-runtime": mark("Refresh lists the available runtimes."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A sentence, and smaller what it means."""

    severity: str  # of app.widgets.notice_line
    title: str
    text: str = ""


def gpu_name(name: str) -> str:
    """Short name of a GPU."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def message(model: RuntimesModel) -> Message:
    """Text of the bar."""
    status = model.status
    match status.situation:
        case Situation.OFFER:
            return _offer(model, status)
        case Situation.PARTIAL:
            return _partial(status)
        case Situation.BUSY:
            return _busy(model.task)
        case Situation.FAILED:
            return _failed(model.task)
        case Situation.READY:
            return _ready(model, status)
        case Situation.BROKEN:
            return _broken(status)
        case Situation.OLD_DRIVER | Situation.OLD_GPU:
            return _no_way(model, status)
        case Situation.QUIET:
            return Message(severity="info", title="")


def _offer(model: RuntimesModel, status: RuntimeStatus) -> Message:
    listed, runtime = model.listed, status.runtime
    assert listed is not None
    assert runtime is not None
    gpu, size = gpu_name(listed.card), bytes_text(size_of(runtime))
    if status.outdated:
        title = tr("This version of Upreel needs a newer NVIDIA runtime for your {gpu}", gpu=gpu)
    else:
        title = tr(
            "Download the NVIDIA runtime ({size}) to use your {gpu}",
            gpu=gpu,
            size=size,
        )
    text = tr(
        "Until then Upreel runs on the CPU. The runtime takes about {size} of the {free} free on "
        "disk. Running videos continue. You can also do this later in the settings.",
        size=bytes_text(runtime.disk_bytes),
        free=bytes_text(listed.free_mb * 1e6),
    )
    if status.outdated:
        text = joined(tr("Download size: {size}.", size=size), text)
    return Message(severity="info", title=title, text=text)


def _partial(status: RuntimeStatus) -> Message:
    runtime = status.runtime
    assert runtime is not None
    done, size = bytes_text(runtime.done_bytes), bytes_text(size_of(runtime))
    return Message(
        severity="info",
        title=tr("NVIDIA runtime: {done} of {size} downloaded", done=done, size=size),
        text=tr("The download resumes where it stopped."),
    )


def _busy(task: TaskState | None) -> Message:
    if task is None:
        return Message(severity="info", title="")
    if task.phase in ("try", "use"):
        text = tr(_TRYING)
    else:
        text = tr("Please wait …") if task.waits else progress(task)
    return Message(severity="info", title=phase_title(task), text=text)


def phase_title(task: TaskState) -> str:
    """Name of a task on a runtime."""
    return tr(_PHASES[task.phase])


def _failed(task: TaskState | None) -> Message:
    if task is None or task.error is None:
        return Message(severity="refusal", title="")
    title, text = problem(task.error)
    return Message(severity="refusal", title=title, text=text)


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Title of an error, and below it the engine's sentence and what to do, a line each."""
    code = error.as_message.code
    lines = (text(error), tr(HINTS[code]) if code in HINTS else hint(error))
    title = tr(_TITLES[error.code]) if error.code in _TITLES else error_title(error)
    return title, "\n".join(line for line in lines if line)


def acceptance(error: ErrorInfo) -> str:
    """Facts about a file before it is accepted; sums in groups of digits, that they can be read."""
    sums = (" ".join(re.findall(".{8}", one)) for one in RuntimeNotAccepted.sums(error))
    return (
        f"{text(replace(error, params={**error.params, 'sha256': tuple(sums)}))}\n\n{hint(error)}"
    )


def _ready(model: RuntimesModel, status: RuntimeStatus) -> Message:
    if status.runtime is None:
        title = tr("After a restart Upreel runs on the CPU again")
    else:
        title = tr("The NVIDIA runtime is installed and will be used after a restart")
    done = text(model.done) if model.done else tr("Queued videos are kept.")
    return Message(severity="good", title=title, text=done)


def reason(state: RuntimeState) -> str:
    """Why an installed runtime is not used; "" where it is not known."""
    if state.why is None:
        return ""
    return tr("Reason: {why}.", why=text(state.why).rstrip(".。"))


def _broken(status: RuntimeStatus) -> Message:
    runtime = status.runtime
    assert runtime is not None
    without = tr("Until it is repaired, Upreel runs on the CPU.")
    if runtime.is_used:
        without = tr("After a restart Upreel runs on the CPU until it is repaired.")
    return Message(
        severity="warning",
        title=tr("The NVIDIA runtime is installed but cannot be used"),
        text=joined(reason(runtime), without),
    )


def _no_way(model: RuntimesModel, status: RuntimeStatus) -> Message:
    listed = model.listed
    assert listed is not None
    gpu, lite = gpu_name(listed.card), tr("Until then Upreel runs on the CPU, with Lite.")
    if status.situation is Situation.OLD_DRIVER:
        return Message(
            severity="warning",
            title=tr(
                "Your {gpu} needs a newer NVIDIA driver: {needed} or newer, {driver} is installed",
                gpu=gpu,
                needed=listed.driver_needed,
                driver=listed.driver,
            ),
            text=joined(tr("Update the driver, then restart Upreel."), lite),
        )
    return Message(
        severity="info",
        title=tr("Your {gpu} cannot be used: no NVIDIA runtime supports it", gpu=gpu),
        text=tr("Upreel runs on the CPU. Lite is made for that."),
    )


def joined(*sentences: str) -> str:
    """One after the other, with a space where the language has one."""
    text = ""
    for sentence in filter(None, sentences):
        text += sentence if not text or text.endswith("。") else f" {sentence}"
    return text


OWN = ""  # id of the torch that came with the program
_SHORT_PHASES = {
    "download": mark("Downloading"),
    "import": mark("Verifying"),
    "unpack": mark("Unpacking"),
    "try": mark("Testing"),
    "use": mark("Switching"),
    "remove": mark("Removing"),
}


def own(model: RuntimesModel) -> RuntimeState:
    """The torch that came with the program, as if it was one of the runtimes.

    Also what a start falls back to when the chosen one cannot be used.
    """
    is_packed = model.listed is None or model.listed.follows_choice
    title = tr("Built in, for the CPU") if is_packed else tr("PyTorch of this Python installation")
    return RuntimeState(
        id=OWN,
        title=title,
        torch="",
        cuda="",
        state="here",
        is_chosen=not any(s.is_chosen and s.state == "here" for s in model.runtimes),
        is_used=not any(state.is_used for state in model.runtimes),
    )


def title_of(state: RuntimeState) -> str:
    """Name of a runtime."""
    if not state.cuda:
        return state.title
    torch = f" · torch {state.torch.partition('+')[0]}" if state.torch else ""
    return f"CUDA {state.cuda}{torch}"


def about(state: RuntimeState) -> str:
    """Requirements of a runtime."""
    if state.id == OWN:
        return tr("Included with Upreel, always available")
    parts = []
    if state.driver:
        parts.append(tr("driver {version} or newer", version=state.driver))
    if not is_known(state):
        parts.append(tr("from another version of Upreel"))
    if state.path is not None:
        parts.append(tr("{size} on disk", size=bytes_text(state.done_bytes)))
    elif size_of(state):
        size, disk = bytes_text(size_of(state)), bytes_text(state.disk_bytes)
        parts.append(tr("{size} to download, about {disk} on disk", size=size, disk=disk))
    return " · ".join(parts)


def state_of(state: RuntimeState, task: TaskState | None) -> tuple[str, str, str]:
    """Icon, severity and text for the status of a runtime."""
    if task is not None:
        if task.runs:
            return "download", "good", tr(_SHORT_PHASES[task.phase])
        return "error", "refusal", tr("Failed")
    if state.state == "broken":
        return "warning", "warning", tr("Cannot be used")
    if state.is_used:
        return "check", "good", tr("In use") if state.is_chosen else tr("Temporarily in use")
    if state.is_chosen:
        return "check", "good", tr("After a restart")
    return _at_rest(state)


def _at_rest(state: RuntimeState) -> tuple[str, str, str]:
    match state.state:
        case "here":
            return "check", "info", tr("Installed, not selected")
        case "busy":
            return "info", "info", tr("Another program uses it")
    if not state.suits_program:
        return "info", "info", tr("For another system")
    if state.state == "partial":
        percent = min(99, int(100 * state.done_bytes / max(1, size_of(state))))
        return "pause", "info", tr("{percent} % downloaded", percent=percent)
    if not state.suits_card:
        return "info", "info", tr("Not for this computer")
    return "download", "info", tr("Not installed")


def summary(model: RuntimesModel) -> str:
    """Which torch is in use and why, in a sentence or two."""
    listed = model.listed
    if listed is None:
        return tr("Checking your hardware …")
    if model.status.situation is Situation.READY:
        return message(model).title
    is_used = any(state.is_used for state in listed.runtimes)
    return joined(text(listed.used), "" if is_used else text(listed.advice))


def in_use(model: RuntimesModel) -> Message:
    """Which torch this program has, why, and what would suit the GPU."""
    listed = model.listed
    if listed is None:
        return Message(severity="info", title=tr("Checking your hardware …"))
    used = next((state for state in listed.runtimes if state.is_used), own(model))
    why = "\n".join((text(listed.used), text(listed.advice)))
    return Message(severity="info", title=tr("In use now: {name}", name=title_of(used)), text=why)
