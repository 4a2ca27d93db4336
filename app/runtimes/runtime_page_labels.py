"""NVIDIA runtimes on their page: names, what they need, where they stand."""

from __future__ import annotations

from app.engine_messages import text
from app.i18n import mark, tr
from app.runtimes.runtime_labels import Message, joined, message
from app.state.runtime_status import (
    Situation,
    is_known,
    size_of,
)
from app.state.runtimes_model import RuntimesModel
from app.state.tasks_model import TaskState
from engine.core.units import bytes_text
from engine.protocol.runtime_state import RuntimeState

OWN = ""  # id of the torch that came with the program
_SHORT_PHASES = {
    "download": mark("Downloading"),
    "import": mark("Checking"),
    "unpack": mark("Unpacking"),
    "try": mark("Being tried"),
    "use": mark("Being changed"),
    "remove": mark("Removing"),
}


def own(model: RuntimesModel) -> RuntimeState:
    """The torch that came with the program, as if it was one of the runtimes.

    Also what a start falls back to when the chosen one cannot be used.
    """
    is_packed = model.listed is None or model.listed.follows_choice
    title = tr("Built in, for the processor") if is_packed else tr("The torch of this Python")
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
    """What a runtime needs."""
    if state.id == OWN:
        return tr("Comes with Upreel and is always there")
    parts = []
    if state.driver:
        parts.append(tr("driver {version} or newer", version=state.driver))
    if not is_known(state):
        parts.append(tr("from another version of Upreel"))
    if state.path is not None:
        parts.append(tr("{size} on the disk", size=bytes_text(state.done_bytes)))
    elif size_of(state) and state.state != "not-in-build":
        size, disk = bytes_text(size_of(state)), bytes_text(state.disk_bytes)
        parts.append(tr("{size} to download, about {disk} on the disk", size=size, disk=disk))
    return " · ".join(parts)


def state_of(state: RuntimeState, task: TaskState | None) -> tuple[str, str, str]:
    """Icon, severity and words for where a runtime stands."""
    if task is not None:
        if task.runs:
            return "download", "good", tr(_SHORT_PHASES[task.phase])
        return "error", "refusal", tr("Stopped by an error")
    if state.state == "broken":
        return "warning", "warning", tr("Cannot be used")
    if state.is_used:
        return "check", "good", tr("In use") if state.is_chosen else tr("In use for now")
    if state.is_chosen:
        return "check", "good", tr("From the next start on")
    return _at_rest(state)


def _at_rest(state: RuntimeState) -> tuple[str, str, str]:
    match state.state:
        case "here":
            return "check", "info", tr("Here, not chosen")
        case "busy":
            return "info", "info", tr("Another program is at it")
        case "not-in-build":
            return "info", "info", tr("Not in this build")
    if not state.suits_program:
        return "info", "info", tr("For another system")
    if state.state == "partial":
        percent = min(99, int(100 * state.done_bytes / max(1, size_of(state))))
        return "pause", "info", tr("{percent} % here", percent=percent)
    if not state.suits_card:
        return "info", "info", tr("Not for this machine")
    return "download", "info", tr("Not here")


def summary(model: RuntimesModel) -> str:
    """Which torch is in use and why, in a sentence or two."""
    listed = model.listed
    if listed is None:
        return tr("Looking at this machine …")
    if model.standing.situation is Situation.READY:
        return message(model).title
    is_used = any(state.is_used for state in listed.runtimes)
    return joined(text(listed.used), "" if is_used else text(listed.advice))


def in_use(model: RuntimesModel) -> Message:
    """Which torch this program has, why, and what would suit the card."""
    listed = model.listed
    if listed is None:
        return Message(severity="info", title=tr("Looking at this machine …"))
    used = next((state for state in listed.runtimes if state.is_used), own(model))
    why = "\n".join((text(listed.used), text(listed.advice)))
    return Message(severity="info", title=tr("In use now: {name}", name=title_of(used)), text=why)
