"""States of the page of other computers and of a pairing, for `tools.screenshots.render`.

All text comes from the window and the engine; the computers and what they do are made up here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.core.messages import message
from engine.farm.errors import MachineUnreachable, PairingFailed
from engine.protocol import events, machines
from engine.protocol.machines import FoundMachine, MachineInfo, MachinesState
from engine.protocol.tasks import TaskKind
from tools.screenshots import queue_states

if TYPE_CHECKING:
    from tools.screenshots.player import Player

_OWN = MachinesState(name="Office", address="192.168.1.20")
_ATTIC = FoundMachine(name="Attic", address="192.168.1.31:47111")
_STUDIO = MachineInfo(
    fingerprint="5a" * 32,
    name="Studio",
    address="192.168.1.30:51877",
    state="idle",
    devices=("RTX 4090, 24 GB",),
    free_bytes=22_400_000_000,
)
_CUTTING = MachineInfo(
    fingerprint="c1" * 32,
    name="Cutting room",
    address="192.168.1.32:51877",
    state="paused",
    devices=("RTX 3080, 10 GB", "RTX 3060, 12 GB"),
    free_bytes=19_100_000_000,
)
_LAPTOP = MachineInfo(fingerprint="1b" * 32, name="Laptop", address="192.168.1.33:51877")
_WORDS = ("harbour", "violin", "pepper", "window", "ocean", "candle")


def _open(player: Player, state: MachinesState = _OWN) -> None:
    player.program.window.actions_["machines"].trigger()
    player.say([machines.MachinesKnown(state=state)])


def _working(machine: MachineInfo, speed: float, spans: int) -> MachineInfo:
    return replace(
        machine,
        state="working",
        film="upreel_sample.mp4",
        frames_per_second=speed,
        spans_done=spans,
        why=None,
    )


def _one(player: Player) -> None:
    helped = replace(_STUDIO, state="helped", devices=(), free_bytes=0)
    _open(player, replace(_OWN, machines=(helped,), is_lent=True, lent_to="Studio"))


def _three(player: Player) -> None:
    machines = (_working(_CUTTING, 0.83, 14), _LAPTOP, _working(_STUDIO, 1.92, 31))
    _open(player, replace(_OWN, machines=machines, is_lent=True))


def _failed(player: Player) -> None:
    """One is left out, one does not fit, one is paused by its owner."""
    left_out = replace(
        _STUDIO,
        state="left-out",
        spans_done=3,
        why=message("reason.machine.left-out", why="its process has ended"),
    )
    refused = replace(
        _LAPTOP,
        state="refused",
        why=message("reason.machine.version", version="0.2.0", own="0.3.0"),
    )
    _open(player, replace(_OWN, machines=(_CUTTING, refused, left_out)))


def _found(player: Player) -> None:
    _open(player, replace(_OWN, found=(_ATTIC,)))


def _unreachable(player: Player) -> None:
    """Another program holds the port."""
    _open(
        player,
        replace(
            _OWN, address="", problem=MachineUnreachable("no-network", reason="no route").as_message
        ),
    )


def _asking(player: Player) -> None:
    _found(player)
    player.program.machines.pair(_ATTIC.address)
    player.settle()


def _words(player: Player) -> None:
    """Words on the computer that asked, once they can be confirmed."""
    from PySide6.QtTest import QTest

    from app.machines.pairing_dialog import READING_MS

    _asking(player)
    player.say([machines.PairingWords(words=_WORDS, name="Attic", asks=False)])
    QTest.qWait(2 * READING_MS)


def _asked(player: Player) -> None:
    """Words on the other one, while they cannot."""
    _open(player)
    player.say([machines.PairingWords(words=_WORDS, name="Office", asks=True)])


def _waiting(player: Player) -> None:
    _words(player)
    player.program.machines.dialog.answered.emit(_WORDS, True)
    player.settle()


def _pairing_failed(player: Player) -> None:
    _words(player)
    error = PairingFailed("there", name="Attic").info()
    player.say([events.TaskFailed(kind=TaskKind.PAIRING, subject=_ATTIC.address, error=error)])


def _paired(player: Player) -> None:
    _words(player)
    player.say([events.TaskDone(kind=TaskKind.PAIRING, subject=_ATTIC.address)])
    _attic = replace(_LAPTOP, name="Attic", state="idle", devices=("RTX 5070 Ti, 16 GB",))
    _one_more = replace(_OWN, machines=(replace(_attic, free_bytes=14_900_000_000), _STUDIO))
    player.say([machines.MachinesKnown(state=_one_more)])


def _workers(player: Player) -> None:
    """Two processes and two other computers at one video."""
    queue_states.running(player)
    speeds = (("", 0.42), ("", 0.39), ("Studio", 1.92), ("Cutting room", 0.83))
    player.say(
        [
            events.WorkerProgress(
                job_id="sample",
                worker=number,
                frame=40 * number,
                frames_per_second=speed,
                name=name,
            )
            for number, (name, speed) in enumerate(speeds, start=1)
        ]
    )


STATES: dict[str, Callable[[Player], None]] = {
    "machines_none": _open,
    "machines_found": _found,
    "machines_one": _one,
    "machines_three": _three,
    "machines_failed": _failed,
    "machines_unreachable": _unreachable,
    "machines_paired": _paired,
    "workers": _workers,
    "pairing_asking": _asking,
    "pairing_words": _words,
    "pairing_asked": _asked,
    "pairing_waiting": _waiting,
    "pairing_failed": _pairing_failed,
}
