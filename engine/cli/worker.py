"""`worker`: this computer makes parts of films for those that it is paired with."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from engine.cli.context import DONE, CommandContext

_EXAMPLES = """examples:
  python -m engine worker                          work for all paired computers, until Ctrl-C
  python -m engine worker --address 192.168.1.20   work only for the computer at this address

This computer processes parts of jobs from other computers, one job after the other. The results are
sent to those computers; no part of a video is kept. `machines` pairs computers.
"""


def register(add: Callable[..., Any]) -> None:
    """Put `worker` on the command line."""
    command = add("worker", run, "process parts of videos for other computers", _EXAMPLES)
    command.add_argument(
        "--address",
        metavar="HOST[:PORT]",
        help="address of the computer to work for; default: all paired computers in the network",
    )
    command.set_defaults(json=False)


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Lend this computer until the user ends it.

    Raises:
        UnknownMachine: It is paired with none.
        AlreadyLent: Another Upreel lends it.
        MachineUnreachable: The address is none.
    """
    from engine.farm.addresses import JOBS_PORT, joined, split
    from engine.farm.errors import UnknownMachine
    from engine.farm.identity import Peers
    from engine.workers.door import own_door
    from engine.workers.lend import Lending, paired_hosts

    if not Peers().all():
        raise UnknownMachine("none-paired")
    hosts: Callable[[], tuple[str, ...]]
    with contextlib.ExitStack() as stack:
        end = stack.enter_context(_ended())
        if args.address:
            hosts = partial(tuple, [joined(*split(args.address, JOBS_PORT))])
        else:
            hosts = stack.enter_context(paired_hosts())

        def heard(state: str, what: str) -> None:
            context.console.note(_TEXTS[state].format(what))

        door = own_door()
        stack.enter_context(Lending(door, hosts, heard))
        context.console.note(f"{door.name} is waiting for work. Press Ctrl-C to stop.")
        while not end.wait(0.5):
            pass
    return DONE


_TEXTS = {
    "working": "working for {}",
    "idle": "waiting for work",
    "refused": "not used: {}",
}


@contextlib.contextmanager
def _ended() -> Iterator[threading.Event]:
    """Set by Ctrl-C, also in a background job of a shell, or by a service manager."""
    end = threading.Event()
    names = [signal.SIGINT, signal.SIGTERM]
    before = {name: signal.signal(name, lambda *_: end.set()) for name in names}
    try:
        yield end
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
