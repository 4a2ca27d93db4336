"""Machines of a farm on this one: each with a certificate, processes and a folder of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engine.farm.identity import Peers
from engine.workers.door import Door, own_door
from engine.workers.fit import Device, own_devices
from engine.workers.lend import Lending
from tests.helpers.farm import certificate_of, computer


@dataclass(frozen=True, slots=True)
class Paired:
    """Machines that know each other: the one with the film, and those that help."""

    host: Door
    others: tuple[Door, ...]

    @property
    def address(self) -> str:
        """Where the host lets others in."""
        return f"127.0.0.1:{self.host.port}"


def processor() -> Device:
    """What a machine of a test lends."""
    return next(one for one in own_devices() if not one.gpu)


def paired(folder: Path, count: int, *, silence: str = "30s") -> Paired:
    """A host and some machines that are paired with it."""
    folders = [folder / f"machine_{number}" for number in range(count + 1)]
    certificates = [certificate_of(one) for one in folders]
    with computer(folders[0]):
        for number, certificate in enumerate(certificates[1:], start=1):
            Peers().add(certificate, f"machine {number}", "")
        host = replace(own_door(free_port()), network="127.0.0.1", silence=silence)
    others = []
    for one in folders[1:]:
        with computer(one):
            Peers().add(certificates[0], "host", "")
            others.append(own_door())
    return Paired(host, tuple(others))


@contextmanager
def lent(
    machines: Paired, folder: Path, *, addresses: Sequence[str] = ()
) -> Iterator[list[Lending]]:
    """All machines work for the host, each at the address where it reaches it."""
    where = addresses or [machines.address] * len(machines.others)
    with ExitStack() as stack:
        yield [
            stack.enter_context(lending(door, address, folder / f"lent_{number}"))
            for number, (door, address) in enumerate(
                zip(machines.others, where, strict=True), start=1
            )
        ]


def lending(door: Door, address: str, folder: Path) -> Lending:
    """A machine that lends its processor."""
    return Lending(door, lambda: (address,), folder=folder, devices=(processor(),))


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port
