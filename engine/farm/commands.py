"""Commands `machines`, which lists and pairs computers, and `worker`, which lends this one."""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.console import Console
from engine.cli.context import DONE, CommandContext
from engine.cli.options import add_verb
from engine.core.errors import EngineError
from engine.core.messages import message

if TYPE_CHECKING:
    from engine.farm.identity import Peer
    from engine.farm.pairing import PairingOffer

_MACHINES_EXAMPLES = """examples:
  python -m engine machines                        list the paired computers
  python -m engine machines pair                   wait for another computer
  python -m engine machines pair 192.168.1.20      pair with the computer at this address
  python -m engine machines forget "Studio PC"
"""
_WORKER_EXAMPLES = """examples:
  python -m engine worker                          work for all paired computers, until Ctrl-C
  python -m engine worker --address 192.168.1.20   work only for the computer at this address

This computer processes parts of jobs from other computers, one job after the other. The results are
sent to those computers; no part of a video is kept. `machines` pairs computers.
"""
_WAIT_S = 0.5  # between looks at whether the user ends the program
_READING_S = 1.0  # a yes that comes sooner was typed before the words were there


def register(add: Callable[..., Any]) -> None:
    """Put `machines` with its verbs and `worker` on the command line."""
    _register_machines(add)
    _register_worker(add)


def _register_machines(add: Callable[..., Any]) -> None:
    command = add("machines", _machines, "list, pair or forget other computers", _MACHINES_EXAMPLES)
    command.set_defaults(verb=_list)
    command.add_argument("--json", action="store_true", help="print JSON")
    verbs = command.add_subparsers(title="subcommands", metavar="SUBCOMMAND")
    verb = add_verb(verbs, "pair", _pair, "pair with a computer, or wait for one")
    verb.add_argument(
        "address", nargs="?", metavar="ADDRESS", help="address that the waiting computer shows"
    )
    verb.add_argument("--port", type=int, metavar="N", help="port on which this computer waits")
    verb = add_verb(verbs, "forget", _forget, "undo a pairing")
    verb.add_argument("name", metavar="NAME|FINGERPRINT")


def _machines(args: argparse.Namespace, context: CommandContext) -> int:
    args.verb(args, context)
    return DONE


def _list(_args: argparse.Namespace, context: CommandContext) -> None:
    from engine.farm.identity import Peers, own_identity

    own, peers = own_identity(), Peers().all()
    if context.console.json:
        about = {"name": own.name, "fingerprint": own.fingerprint}
        context.console.data(about | {"machines": [_about(peer) for peer in peers]})
        return
    context.console.say(f"this computer: {own.name}  {own.fingerprint[:16]}")
    width = max((len(peer.name) for peer in peers), default=0)
    for peer in peers:
        context.console.say(f"{peer.name:<{width}}  {peer.fingerprint[:16]}  {peer.address}")
    if not peers:
        context.console.say("no paired computers")


def _pair(args: argparse.Namespace, context: CommandContext) -> None:
    from engine.farm import pairing

    if args.address and args.port is not None:
        args.usage_error("--port applies only without ADDRESS: leave it out, or write ADDRESS:PORT")
    question = _Question(context.console)
    show = question.show
    peer = pairing.ask(args.address, show) if args.address else _waited_for(args, context, show)
    _tell(context, peer, "paired")
    words = " ".join(question.words)
    context.console.note(f"{message('pairing.confirmed', words=words, name=peer.name)}")


def _waited_for(
    args: argparse.Namespace, context: CommandContext, show: Callable[[PairingOffer], Future[bool]]
) -> Peer:
    """The first computer whose pairing both users confirm."""
    from engine.farm.discovery import announced
    from engine.farm.endpoint import PAIRING_PORT, joined, own_addresses
    from engine.farm.errors import MachineUnreachable, PairingFailed
    from engine.farm.pairing_port import PairingPort

    ended: queue.SimpleQueue[Peer | EngineError] = queue.SimpleQueue()
    wanted = PAIRING_PORT if args.port is None else args.port
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(PairingPort(show, ended.put, port=wanted)).port
        for host in own_addresses() or ["localhost"]:
            context.console.note(f"waiting for another computer at {joined(host, port)}")
        try:
            stack.enter_context(announced(pairing_port=port))
        except MachineUnreachable as err:
            context.console.error(err)  # whoever knows the address still finds this computer
        while True:
            with contextlib.suppress(queue.Empty):
                found = ended.get(timeout=_WAIT_S)
                if not isinstance(found, EngineError):
                    return found
                if isinstance(found, PairingFailed) and found.case != "here":
                    context.console.error(found)  # of a stranger, perhaps: wait for the next one
                else:
                    raise found


def _forget(args: argparse.Namespace, context: CommandContext) -> None:
    from engine.farm.identity import Peers

    peer = Peers().named(args.name)
    Peers().forget(peer.fingerprint)
    _tell(context, peer, "forgotten")


def _tell(context: CommandContext, peer: Peer, what: str) -> None:
    if context.console.json:
        context.console.data(_about(peer))
    else:
        context.console.say(f"{peer.name}: {what}")


def _about(peer: Peer) -> dict[str, str]:
    return {"name": peer.name, "fingerprint": peer.fingerprint, "address": peer.address}


class _Question:
    """Shows the words and asks the user; the pairing may end before the answer.

    A line that is typed after that answers the old question, not the next one.

    Attributes:
        words: Words that were shown last.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_asking = threading.Lock()
        self.words: tuple[str, ...] = ()

    def show(self, offer: PairingOffer) -> Future[bool]:
        """Shows the words, like `engine.farm.pairing.Show`."""
        self.words = offer.words
        text = message("pairing.words", name=offer.name, address=offer.address)
        self._console.note("", str(text), "", f"    {' '.join(offer.words)}", "")
        self._console.note(f"{message('pairing.right')}")
        answer: Future[bool] = Future()
        threading.Thread(target=self._ask, args=(answer,), daemon=True).start()
        return answer

    def _ask(self, answer: Future[bool]) -> None:
        with self._is_asking:
            if answer.cancelled():
                return
            is_read = False
            while not is_read:
                asked = time.monotonic()
                are_same = self._console.is_confirmed("Are the words on both computers the same?")
                is_read = not are_same or time.monotonic() - asked >= _READING_S
            with contextlib.suppress(InvalidStateError):  # the pairing has ended
                answer.set_result(are_same)


# --- worker


def _register_worker(add: Callable[..., Any]) -> None:
    """Put `worker` on the command line."""
    command = add("worker", _work, "process parts of videos for other computers", _WORKER_EXAMPLES)
    command.add_argument(
        "--address",
        metavar="HOST[:PORT]",
        help="address of the computer to work for; default: all paired computers in the network",
    )
    command.set_defaults(json=False)


def _work(args: argparse.Namespace, context: CommandContext) -> int:
    """Lend this computer until the user ends it.

    Raises:
        UnknownMachine: It is paired with none.
        AlreadyLent: Another Upreel lends it.
        MachineUnreachable: The address is none.
    """
    from engine.farm.endpoint import JOBS_PORT, joined, own_endpoint, split
    from engine.farm.errors import UnknownMachine
    from engine.farm.identity import Peers
    from engine.farm.lending import Lending, paired_hosts

    if not Peers().all():
        raise UnknownMachine("none-paired")
    hosts: Callable[[], tuple[str, ...]]
    with contextlib.ExitStack() as stack:
        end = stack.enter_context(_ended())
        if args.address:
            hosts = partial(tuple, [joined(*split(args.address, JOBS_PORT))])
        else:
            hosts = stack.enter_context(paired_hosts())

        def changed(state: str, what: str) -> None:
            context.console.note(_TEXTS[state].format(what))

        endpoint = own_endpoint()
        stack.enter_context(Lending(endpoint, hosts, changed))
        context.console.note(f"{endpoint.name} is waiting for work. Press Ctrl-C to stop.")
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
