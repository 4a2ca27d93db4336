"""Other computers that make spans of a film, as the window and the command line see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.messages import Message

MachineState = Literal["away", "idle", "working", "paused", "refused", "left-out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """A computer that is paired with this one, and what it lends.

    Attributes:
        fingerprint: SHA-256 of its certificate, in hexadecimal.
        name: That its owner gave it.
        address: "host:port" where it was reached last; "" before that.
        state: "refused" does not fit (another version, other weights), "left-out" failed three
            times in this job.
        devices: What computes there: names of GPUs, or of the processor.
        free_bytes: Memory that is free there, of the GPUs or main memory.
        frames_per_second: Of the present job; 0 while unknown.
        film: That it works on; "" for none.
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
    """What is known of other computers.

    Attributes:
        machines: That are paired, by name.
        found: That wait to be paired.
        name: Of this computer.
        address: Of this computer in its network, to be typed on another one; "" while it does not
            listen.
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
