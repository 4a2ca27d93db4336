"""Texts about NVIDIA runtimes, and the row of one, in the current language."""

from __future__ import annotations

from app.engine_messages import error_title, hint, text
from app.i18n import mark, tr
from app.installs.installable import Installable, Message, Standing, progress
from app.state.runtimes_model import RuntimesModel, Situation, can_repair, is_known
from app.state.tasks_model import TaskState
from engine.core.errors import ErrorInfo
from engine.core.messages import message as engine_message
from engine.core.units import bytes_text
from engine.protocol.delivery import RuntimeState
from engine.protocol.events import RuntimesListed

OWN = ""  # id of the torch that came with the program
_PHASES = {  # title of the card, text of a row
    "download": (mark("Downloading the NVIDIA runtime"), mark("Downloading")),
    "import": (mark("Verifying the file"), mark("Verifying")),
    "unpack": (mark("Unpacking the NVIDIA runtime"), mark("Unpacking")),
    "compile": (mark("Preparing the NVIDIA runtime for fast starts"), mark("Preparing")),
    "try": (mark("Testing the NVIDIA runtime"), mark("Testing")),
    "use": (mark("Switching the NVIDIA runtime"), mark("Switching")),
    "remove": (mark("Removing the NVIDIA runtime"), mark("Removing")),
}
_TITLES = {  # titles of errors that elsewhere are about models
    "download-failed": mark("The NVIDIA runtime could not be downloaded"),
    "hash-mismatch": mark("This is not a published file"),
    "output-unwritable": mark("The folder of the NVIDIA runtime cannot be written to"),
    "weights-missing": mark("File not found"),
    "weights-damaged": mark("The download is corrupt"),
}


def message(model: RuntimesModel) -> Message:
    """The situation as the card shows it."""
    listed, status, task = model.listed, model.status, model.task
    runtime, situation = status.runtime, status.situation
    if task is not None and situation is Situation.BUSY:
        offers = {"download": ("pause", "cancel"), "remove": (), "use": ()}
        said = tr("Please wait …") if task.waits else progress(task)
        if task.phase in ("try", "use"):
            said = tr("This may take several minutes: virus scanners check every new file.")
        return Message("info", phase_title(task), said, offers.get(task.phase, ("cancel",)))
    if task is not None and task.error is not None:
        again = () if task.phase == "import" else ("retry",)
        return Message("refusal", *problem(task.error), (*again, "file", "dismiss"))
    if situation is Situation.READY:
        title = tr("After a restart Upreel runs on the CPU again")
        if runtime is not None:
            title = tr("The NVIDIA runtime is installed and will be used after a restart")
        done = text(model.done) if model.done else tr("Queued videos are kept.")
        return Message("good", title, done, ("restart", "later"))
    if listed is None or situation is Situation.QUIET:
        return Message()
    gpu = gpu_name(listed.card)
    if runtime is None:
        return _no_runtime(listed, gpu)
    done, size = bytes_text(runtime.done_bytes), bytes_text(runtime.bytes)
    if situation is Situation.PARTIAL:
        title = tr("NVIDIA runtime: {done} of {size} downloaded", done=done, size=size)
        said = tr("The download resumes where it stopped.")
        return Message("info", title, said, ("continue", "discard", "hide"))
    if situation is Situation.BROKEN:
        helps = ("restart",) if runtime.is_used else ("repair",) if can_repair(runtime) else ()
        said = tr("Until it is repaired, Upreel runs on the CPU.")
        if runtime.is_used:
            said = tr("After a restart Upreel runs on the CPU until it is repaired.")
        title = tr("The NVIDIA runtime is installed but cannot be used")
        return Message("warning", title, joined(reason(runtime), said), (*helps, "details", "hide"))
    if situation is Situation.BLOCKED:
        helps = ("restart",) if runtime.is_used else ("use",)
        title = tr("Windows blocks the NVIDIA runtime")
        return Message("warning", title, _block(runtime), (*helps, "details", "hide"))
    title = tr("Download the NVIDIA runtime ({size}) to use your {gpu}", gpu=gpu, size=size)
    said = tr(
        "Until then Upreel runs on the CPU. The runtime takes about {size} of the {free} free on "
        "disk. Running videos continue. You can also do this later in the settings.",
        size=bytes_text(runtime.disk_bytes),
        free=bytes_text(listed.free_mb * 1e6),
    )
    if status.outdated:
        title = tr("This version of Upreel needs a newer NVIDIA runtime for your {gpu}", gpu=gpu)
        said = joined(tr("Download size: {size}.", size=size), said)
    risk = risk_of(listed)
    return Message(
        "warning" if risk else "info", title, joined(risk, said), ("download", "file", "hide")
    )


def risk_of(listed: RuntimesListed | None) -> str:
    """Why a runtime may not load once it is downloaded; "" where nothing speaks against it."""
    if listed is None or listed.smart_app_control != "on":
        return ""
    is_loaded = any(state.is_used and state.state == "here" for state in listed.runtimes)
    return "" if is_loaded else text(engine_message("runtime-advice.may-be-blocked"))


def _no_runtime(listed: RuntimesListed, gpu: str) -> Message:
    """A GPU that no runtime suits, or not with this driver."""
    if not listed.driver_needed:
        title = tr("Your {gpu} cannot be used: no NVIDIA runtime supports it", gpu=gpu)
        said = tr("Upreel runs on the CPU. Lite is made for that.")
        return Message("info", title, said, ("details", "hide"))
    title = tr(
        "Your {gpu} needs a newer NVIDIA driver: {needed} or newer, {driver} is installed",
        gpu=gpu,
        needed=listed.driver_needed,
        driver=listed.driver,
    )
    said = joined(
        tr("Update the driver, then restart Upreel."),
        tr("Until then Upreel runs on the CPU, with Lite."),
    )
    fitting = (one for one in listed.runtimes if one.suits_card and one.suits_program)
    older = next(fitting, None)
    if older is None:
        return Message("warning", title, said, ("driver", "hide"))
    more = tr(
        "If you cannot update it, {name} in the settings works with this driver: {size} to "
        "download, and slower.",
        name=title_of(older),
        size=bytes_text(older.bytes),
    )
    return Message("warning", title, joined(said, more), ("driver", "details", "hide"))


def gpu_name(name: str) -> str:
    """Short name of a GPU."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def phase_title(task: TaskState) -> str:
    """Name of a task on a runtime."""
    return tr(_PHASES[task.phase][0])


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Title of an error, and below it the engine's sentence and what to do, a line each."""
    title = tr(_TITLES[error.code]) if error.code in _TITLES else error_title(error)
    return title, "\n".join(filter(None, (text(error), hint(error))))


def reason(state: RuntimeState) -> str:
    """Why an installed runtime is not used; "" where it is not known."""
    if state.why is None:
        return ""
    return tr("Reason: {why}.", why=text(state.why).rstrip(".。"))


def _block(state: RuntimeState) -> str:
    """Why Windows refuses a runtime, and what helps; "" where it is not known."""
    return joined(reason(state), text(state.why.hint) if state.why is not None else "")


def joined(*sentences: str) -> str:
    """One after the other, with a space where the language has one."""
    text = ""
    for sentence in filter(None, sentences):
        text += sentence if not text or text.endswith("。") else f" {sentence}"
    return text


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
    elif state.bytes:
        size, disk = bytes_text(state.bytes), bytes_text(state.disk_bytes)
        parts.append(tr("{size} to download, about {disk} on disk", size=size, disk=disk))
    return " · ".join(parts)


def item_of(state: RuntimeState, task: TaskState | None, *, is_idle: bool) -> Installable:
    """Row of a runtime.

    Args:
        state: State from the list of the engine.
        task: Task on this one, or how it ended.
        is_idle: Nothing is done to any runtime: a request would be accepted.
    """
    action, title = _action(state, task), title_of(state)
    has_some = state.path is not None or state.done_bytes > 0
    error = None
    if task is not None and task.error is not None:
        error = Message("refusal", *problem(task.error))
    elif task is None and state.state in ("broken", "blocked"):
        error = Message("warning", _block(state))
    menu: dict[str, bool] = {}
    if state.id != OWN:
        removable = is_idle and has_some and not state.is_used
        menu = {"folder": state.path is not None, "remove": removable}
    return Installable(
        id=state.id,
        title=title,
        about=about(state),
        full_title=title,
        button_for=title,
        standing=_standing(state, task),
        action=action,
        can_act=is_idle or action in ("pause", "cancel"),
        menu=menu,
        task=task,
        problem=error,
    )


def _action(state: RuntimeState, task: TaskState | None) -> str:
    """Name of the one button; "" where there is nothing to do."""
    if task is not None and task.runs:
        return {"download": "pause", "remove": "", "use": ""}.get(task.phase, "cancel")
    if not state.suits_program or state.state == "busy":
        return ""
    if state.state == "here":
        return "" if state.is_chosen else "use"
    if state.state == "blocked":
        return "" if state.is_used else "use"
    if state.state == "broken":
        return "repair" if is_known(state) else "remove"
    if not state.suits_card:
        return ""
    if task is not None and task.phase == "download":
        return "retry"
    return "continue" if state.state == "partial" else "download"


def _standing(state: RuntimeState, task: TaskState | None) -> Standing:
    if task is not None and task.runs:
        return Standing("download", "good", tr(_PHASES[task.phase][1]))
    if task is not None:
        return Standing("error", "refusal", tr("Failed"))
    if state.state == "broken":
        return Standing("warning", "warning", tr("Cannot be used"))
    if state.state == "blocked":
        return Standing("warning", "warning", tr("Blocked by Windows"))
    if state.is_used:
        said = tr("In use") if state.is_chosen else tr("Temporarily in use")
        return Standing("check", "good", said)
    if state.is_chosen:
        return Standing("check", "good", tr("After a restart"))
    if state.state == "here":
        return Standing("check", "info", tr("Installed, not selected"))
    if state.state == "busy":
        return Standing("info", "info", tr("Another program uses it"))
    if not state.suits_program:
        return Standing("info", "info", tr("For another system"))
    if state.state == "partial":
        percent = min(99, int(100 * state.done_bytes / max(1, state.bytes)))
        return Standing("pause", "info", tr("{percent} % downloaded", percent=percent))
    if not state.suits_card:
        return Standing("info", "info", tr("Not for this computer"))
    return Standing("download", "info", tr("Not installed"))


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
    why = "\n".join(filter(None, (text(listed.used), text(listed.advice), risk_of(listed))))
    return Message(severity="info", title=tr("In use now: {name}", name=title_of(used)), text=why)
