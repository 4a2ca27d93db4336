"""Other computers that make spans of a film: what is known of them, commands and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.messages import Message
from engine.protocol.commands import Command
from engine.protocol.events import Event

MachineState = Literal["away", "helped", "idle", "working", "paused", "refused", "left-out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """A computer that is paired with this one, and what it lends.

    Attributes:
        fingerprint: SHA-256 of its certificate, in hexadecimal.
        name: Name that its owner gave it.
        address: "host:port" of its jobs, that it had at the pairing.
        state: "helped" has this computer work for it, "refused" does not fit (another version,
            other weights), "left-out" failed three times in this job.
        devices: Names of its GPUs, or of its CPU.
        free_bytes: Memory that is free there, of the GPUs or main memory.
        frames_per_second: Speed in the current job; 0 while unknown.
        film: Name of the video that it works on; "" for none.
        spans_done: In the present job.
        why: It is refused, left out or paused.
    """

    fingerprint: str
    name: str
    address: str = ""
    state: MachineState = "away"
    devices: tuple[str, ...] = ()
    free_bytes: int = 0
    frames_per_second: float = 0.0
    film: str = ""
    spans_done: int = 0
    why: Message | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMachine:
    """A computer of the local network that waits to be paired."""

    name: str
    address: str  # "host:port"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesState:
    """Knowledge of other computers.

    Attributes:
        machines: Paired computers, by name.
        found: Computers that wait to be paired.
        name: Name of this computer.
        address: Address of this computer in its network, to be typed on another one; "" while it
            does not listen.
        is_lent: This computer works for others.
        lent_to: Name of the computer that it works for at this moment; "" for none.
        problem: Why other computers cannot reach or find this one; None where they can.
    """

    machines: tuple[MachineInfo, ...] = ()
    found: tuple[FoundMachine, ...] = ()
    name: str = ""
    address: str = ""
    is_lent: bool = False
    lent_to: str = ""
    problem: Message | None = None


# --- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCommand(Command):
    """Something about other computers that make parts of films; PairMachine is a task."""


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
    """Whether the words on both screens are the same; without it a pairing lapses.

    Attributes:
        words: Words that were compared; no pairing with other words is answered.
        are_same: They are those of the other screen.
    """

    words: tuple[str, ...]
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
    """Words that have to be the same on both screens, while a pairing waits for ConfirmPairing.

    Attributes:
        words: Six of them.
        name: Name that the other computer gives itself.
        asks: The other computer began.
    """

    words: tuple[str, ...]
    name: str
    asks: bool
