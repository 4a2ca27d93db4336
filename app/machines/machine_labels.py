"""Texts about other computers, in the current language."""

from __future__ import annotations

from app.engine_messages import hint, text
from app.i18n import mark, tr
from engine.core.errors import ErrorInfo
from engine.core.units import bytes_text
from engine.protocol.machines import MachineInfo, MachinesState, MachineState

_STATES: dict[MachineState, tuple[str, str, str]] = {  # icon, severity, text
    "away": ("info", "info", mark("Not connected")),
    "helped": ("play", "good", mark("Using this computer")),
    "idle": ("check", "good", mark("Ready")),
    "working": ("play", "good", mark("Working")),
    "paused": ("pause", "info", mark("Paused remotely")),
    "refused": ("error", "refusal", mark("Not compatible")),
    "left-out": ("warning", "warning", mark("Excluded")),
}
_LOUD: dict[MachineState, str] = {"refused": "refusal", "left-out": "warning"}


def state_of(machine: MachineInfo) -> tuple[str, str, str]:
    """Icon, severity and text of a state."""
    shape, severity, text_ = _STATES[machine.state]
    return shape, severity, tr(text_)


def about(machine: MachineInfo) -> str:
    """Its hardware; its last address while it is not reached."""
    if machine.state == "helped":
        return machine.address
    if machine.state == "away":
        return tr("Last seen at {address}", address=machine.address) if machine.address else ""
    free = tr("{size} free", size=bytes_text(machine.free_bytes)) if machine.free_bytes else ""
    return " · ".join(filter(None, (*machine.devices, free)))


def work(machine: MachineInfo) -> str:
    """Its part in the present video; "" where it has none."""
    if not machine.film:
        return ""
    parts = [machine.film]
    if machine.frames_per_second:
        parts.append(speed(machine.frames_per_second))
    parts.append(tr("{count} {count:part|parts} finished", count=machine.spans_done))
    return " · ".join(parts)


def speed(frames_per_second: float) -> str:
    """A speed with its unit, as the figures of a job write it."""
    shown = f"{frames_per_second:.1f}" if frames_per_second >= 10 else f"{frames_per_second:.2f}"
    return tr("{speed} fps", speed=shown)


def why(machine: MachineInfo) -> tuple[str, str, str]:
    """Severity, sentence and help of what keeps it from work; empty texts where nothing does."""
    if machine.why is not None:
        sentence = tr("Not taking part: {why}.", why=text(machine.why))
        return _LOUD.get(machine.state, "info"), sentence, text(machine.why.hint)
    if machine.state == "away":
        return (
            "info",
            tr(
                "It joins when a video is processed, if Upreel is open there and lending is "
                "turned on."
            ),
            "",
        )
    return "info", "", ""


def lending(state: MachinesState) -> str:
    """Explains the switch, or names the computer that this one works for."""
    if state.lent_to:
        return tr("Now working for {name}.", name=state.lent_to)
    return tr(
        "While Upreel is open, this computer processes parts of videos for the computers it is "
        "paired with."
    )


def paired(name: str, words: tuple[str, ...]) -> tuple[str, str]:
    """The pairing and its words once more: they may have been confirmed in haste."""
    return tr("Paired with {name}.", name=name), tr(
        "Both computers confirmed these words: {words}. If {name} showed other words, press "
        "Forget next to it.",
        words=" ".join(words),
        name=name,
    )


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Sentence and help of an error."""
    return text(error), hint(error)
