"""Other computers that make spans of a video: their state, commands and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.messages import Message
from engine.protocol.commands import Command
from engine.protocol.events import Event

MachineState = Literal["away", "helped", "idle", "working", "paused", "refused", "left-out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """A computer that is paired with this one, and what it lends."""

    fingerprint: str  # SHA-256 of its certificate, in hexadecimal
    name: str  # name that its owner gave it
    address: str = ""  # "host:port" of its jobs, that it had at the pairing
    # "helped" has this computer work for it, "refused" does not fit (another version, other
    # weights), "left-out" failed three times in this job.
    state: MachineState = "away"
    devices: tuple[str, ...] = ()  # names of the GPUs, or of the CPU, that compute there
    free_bytes: int = 0  # memory that is free there: VRAM, or RAM
    frames_per_second: float = 0.0  # speed of the present job; 0 while unknown
    film: str = ""  # video that it works on; "" for none
    spans_done: int = 0  # in the present job
    why: Message | None = None  # it is refused, left out or paused


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMachine:
    """A computer of the local network that waits to be paired."""

    name: str
    address: str  # "host:port"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesState:
    """State of other computers."""

    machines: tuple[MachineInfo, ...] = ()  # paired computers, by name
    found: tuple[FoundMachine, ...] = ()  # computers that wait to be paired
    name: str = ""  # name of this computer
    address: str = ""  # address to be typed on another computer; "" while this one does not listen
    is_lent: bool = False  # this computer works for others
    lent_to: str = ""  # name of the computer that it works for at this moment; "" for none
    problem: Message | None = None  # why other computers cannot reach or find this one


# --- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCommand(Command):
    """Something about other computers that make parts of videos; PairMachine is a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowMachines(MachineCommand):
    """Answered by MachinesKnown, now and whenever something has changed, as long as they are shown.

    While they are shown this computer can be found and paired.
    """

    are_shown: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMachine(MachineCommand):
    """Pair with a computer: a task that shows PairingWords and waits for ConfirmPairing."""

    address: str  # "host" or "host:port"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPairing(MachineCommand):
    """Whether the words on both screens are the same; without it a pairing lapses."""

    words: tuple[str, ...]  # compared words; no pairing with other words is answered
    are_same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMachine(MachineCommand):
    """Undo a pairing: from now on that computer is a stranger."""

    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LendMachine(MachineCommand):
    """Whether this computer works for those that it is paired with."""

    is_lent: bool


# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesKnown(Event):
    """Other computers; emitted on request, and while they are shown whenever one has changed."""

    state: MachinesState


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingWords(Event):
    """Words that have to be the same on both screens, while a pairing waits for ConfirmPairing."""

    words: tuple[str, ...]  # six of them
    name: str  # name that the other computer gives itself
    asks: bool  # the other computer began
