"""What the line over the window says about the NVIDIA runtime, in the current language."""

from __future__ import annotations

from dataclasses import dataclass

from app import engine_messages
from app.i18n import mark, tr
from app.models.model_labels import progress
from app.state.runtime_status import (
    Situation,
    Standing,
    size_of,
)
from app.state.runtimes_model import RuntimesModel
from app.state.tasks_model import TaskState
from app.widgets.error_view import help_of
from engine.core.errors import ErrorInfo
from engine.core.units import bytes_text
from engine.protocol.runtime_state import RuntimeState

_PHASES = {
    "download": mark("Downloading the NVIDIA runtime"),
    "import": mark("Checking the file"),
    "unpack": mark("Unpacking the NVIDIA runtime"),
    "try": mark("Trying the NVIDIA runtime"),
    "use": mark("Changing the NVIDIA runtime"),
    "remove": mark("Removing the NVIDIA runtime"),
}
_TRYING = mark("This may take minutes: virus scanners read every new file once.")
_TITLES = {  # of errors that elsewhere are about models
    "download-failed": mark("The NVIDIA runtime could not be downloaded"),
    "hash-mismatch": mark("This is not a file that was published"),
    "output-unwritable": mark("The folder of the NVIDIA runtime cannot be written to"),
    "weights-missing": mark("There is no such file"),
    "weights-damaged": mark("What came is damaged"),
}

_COMMAND = "python -m engine"  # a hint with it is for the command line: here is a button
_HINTS = {
    "runtime-broken": mark("Repair gets it again."),
    "runtime-busy": mark("Choose what is built in, start Upreel again, then try once more."),
    "unknown-runtime": mark("Look again shows those that there are."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A sentence, and smaller what it means."""

    severity: str  # of app.widgets.notice_line
    title: str
    text: str = ""


def card_name(name: str) -> str:
    """A card as its owner calls it."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def message(model: RuntimesModel) -> Message:
    """What the bar says."""
    standing = model.standing
    match standing.situation:
        case Situation.OFFER:
            return _offer(model, standing)
        case Situation.PARTIAL:
            return _partial(standing)
        case Situation.BUSY:
            return _busy(model.task)
        case Situation.FAILED:
            return _failed(model.task)
        case Situation.READY:
            return _ready(model, standing)
        case Situation.BROKEN:
            return _broken(standing)
        case Situation.OLD_DRIVER | Situation.OLD_CARD | Situation.NOT_IN_BUILD:
            return _no_way(model, standing)
        case Situation.QUIET:
            return Message(severity="info", title="")


def _offer(model: RuntimesModel, standing: Standing) -> Message:
    listed, runtime = model.listed, standing.runtime
    assert listed is not None
    assert runtime is not None
    card, size = card_name(listed.card), bytes_text(size_of(runtime))
    if standing.outdated:
        title = tr("This version of Upreel needs a newer NVIDIA runtime for your {card}", card=card)
    elif runtime.can_download:
        title = tr(
            "Your {card} can be used after a download of {size} (NVIDIA runtime)",
            card=card,
            size=size,
        )
    else:
        title = tr("Your {card} can be used with the NVIDIA runtime, from a file", card=card)
    text = tr(
        "Until then the processor does the work. It takes about {size} of the {free} free on the "
        "disk; films go on meanwhile. Later: in the settings.",
        size=bytes_text(runtime.disk_bytes),
        free=bytes_text(listed.free_mb * 1e6),
    )
    if standing.outdated and runtime.can_download:
        text = joined(tr("A download of {size}.", size=size), text)
    return Message(severity="info", title=title, text=text)


def _partial(standing: Standing) -> Message:
    runtime = standing.runtime
    assert runtime is not None
    done, size = bytes_text(runtime.done_bytes), bytes_text(size_of(runtime))
    return Message(
        severity="info",
        title=tr("{done} of {size} of the NVIDIA runtime are here", done=done, size=size),
        text=tr("The download goes on where it ended."),
    )


def _busy(task: TaskState | None) -> Message:
    if task is None:
        return Message(severity="info", title="")
    if task.phase in ("try", "use"):
        text = tr(_TRYING)
    else:
        text = tr("One moment …") if task.waits else progress(task)
    return Message(severity="info", title=tr(_PHASES[task.phase]), text=text)


def _failed(task: TaskState | None) -> Message:
    if task is None or task.error is None:
        return Message(severity="refusal", title="")
    title, text = problem(task.error)
    return Message(severity="refusal", title=title, text=text)


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Title of an error, and below it the engine's sentence and what to do, a line each."""
    hint = engine_messages.hint(error)
    if _COMMAND in error.hint:
        hint = tr(_HINTS[error.code]) if error.code in _HINTS else ""
    lines = (engine_messages.text(error), hint)
    title = _TITLES.get(error.code) or help_of(error).title
    return tr(title), "\n".join(line for line in lines if line)


def _ready(model: RuntimesModel, standing: Standing) -> Message:
    if standing.runtime is None:
        title = tr("From the next start on the processor does the work again")
    else:
        title = tr("The NVIDIA runtime is here: it is used from the next start on")
    text = (
        engine_messages.text(model.done)
        if model.done
        else tr("Films that wait in the queue are kept.")
    )
    return Message(severity="good", title=title, text=text)


def reason(state: RuntimeState) -> str:
    """Why an installed runtime is not used; "" where it is not known."""
    if state.why is None:
        return ""
    return tr("The reason: {why}.", why=engine_messages.text(state.why).rstrip(".。"))


def _broken(standing: Standing) -> Message:
    runtime = standing.runtime
    assert runtime is not None
    without = tr("The processor does the work until it is repaired.")
    if runtime.is_used:
        without = tr("After a new start the processor does the work, until it is repaired.")
    return Message(
        severity="warning",
        title=tr("The NVIDIA runtime is installed, but it cannot be used"),
        text=joined(reason(runtime), without),
    )


def _no_way(model: RuntimesModel, standing: Standing) -> Message:
    listed = model.listed
    assert listed is not None
    card, lite = card_name(listed.card), tr("Until then the processor does the work, with Lite.")
    if standing.situation is Situation.OLD_DRIVER:
        return Message(
            severity="warning",
            title=tr(
                "Your {card} needs a newer NVIDIA driver: {needed} or newer, {driver} is here",
                card=card,
                needed=listed.driver_needed,
                driver=listed.driver,
            ),
            text=joined(tr("Update the driver, then start Upreel again."), lite),
        )
    if standing.situation is Situation.OLD_CARD:
        return Message(
            severity="info",
            title=tr("Your {card} cannot be used: no NVIDIA runtime knows it", card=card),
            text=tr("The processor does the work. Lite is made for that."),
        )
    return Message(
        severity="info",
        title=tr("The NVIDIA runtime for your {card} is not in this build of Upreel", card=card),
        text=joined(tr("A released Upreel knows where to get it."), lite),
    )


def joined(*sentences: str) -> str:
    """One after the other, with a space where the language has one."""
    text = ""
    for sentence in filter(None, sentences):
        text += sentence if not text or text.endswith("。") else f" {sentence}"
    return text
