"""`machines`: the computers that this one is paired with; pair and forget them."""

from __future__ import annotations

import argparse
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from engine.cli.console import Console
from engine.cli.context import DONE, CommandContext
from engine.cli.options import add_verb
from engine.core.errors import EngineError
from engine.core.messages import message

if TYPE_CHECKING:
    from engine.farm.identity import Peer
    from engine.farm.pairing import PairingOffer

_EXAMPLES = """examples:
  python -m engine machines                        list the paired computers
  python -m engine machines pair                   wait for another computer
  python -m engine machines pair 192.168.1.20      pair with the computer at this address
  python -m engine machines forget "Studio PC"
"""
_WAIT_S = 0.5  # between looks at whether the user ends the program
_READING_S = 1.0  # a yes that comes sooner was typed before the words were there


def register(add: Callable[..., Any]) -> None:
    """Put `machines` with its verbs on the command line."""
    command = add("machines", run, "list, pair or forget other computers", _EXAMPLES)
    command.set_defaults(verb=_list)
    command.add_argument("--json", action="store_true", help="print JSON")
    verbs = command.add_subparsers(title="verbs", metavar="VERB")
    verb = add_verb(verbs, "pair", _pair, "pair with a computer, or wait for one")
    verb.add_argument(
        "address", nargs="?", metavar="ADDRESS", help="address that the waiting computer shows"
    )
    verb.add_argument("--port", type=int, metavar="N", help="port on which this computer waits")
    verb = add_verb(verbs, "forget", _forget, "undo a pairing")
    verb.add_argument("name", metavar="NAME|FINGERPRINT")


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Do one verb."""
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
    from engine.farm.addresses import PAIRING_PORT, joined, own_addresses
    from engine.farm.discovery import announced
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
