"""The farm as a wing of the engine: other computers that help with jobs. Loads fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.core.errors import EngineError
from engine.core.wings import Wing
from engine.jobs.task_runner import Task
from engine.planner.joining import OtherComputers
from engine.protocol.events import Event
from engine.protocol.machines import MachineCommand
from engine.protocol.tasks import TaskKind

if TYPE_CHECKING:
    from engine.farm.service import MachinesService


class _FarmWing(Wing):
    """Commands `machines` and `worker`, the page of other computers, and their part of jobs."""

    def add_commands(self, add: Callable[..., Any]) -> None:
        from engine.farm import commands

        commands.register(add)

    def services(self, host: Any) -> tuple[Any, ...]:
        return (_ServiceOnDemand(host),)

    def other_computers(self) -> OtherComputers:
        from engine.farm.planning import PairedComputers

        return PairedComputers()

    def hand_out(self, port: int) -> Any:
        from engine.farm.host import hand_out

        return partial(hand_out, port=port)

    def private_names(self) -> Iterator[str]:
        from engine.farm.identity import Peers  # loads cryptography

        with suppress(EngineError):
            for peer in Peers().all():
                yield from (peer.name, peer.address, peer.address.rpartition(":")[0])


WING = _FarmWing()


class _ServiceOnDemand:
    """`engine.farm.service`, loaded with its first command: few users need it."""

    kind = TaskKind.PAIRING
    commands = MachineCommand

    def __init__(self, host: Any) -> None:
        self._host = host
        host.at_end.append(self._close)
        self._loaded: MachinesService | None = None

    def answer(self, command: MachineCommand) -> Task | tuple[Event, ...]:
        if self._loaded is None:
            from engine.farm.service import MachinesService

            self._loaded = MachinesService(self._host.sink, self._host.send, self._host.jobs_port)
        return self._loaded.answer(command)

    def _close(self, timeout_s: float) -> None:
        if self._loaded is not None:
            self._loaded.close(timeout_s)
