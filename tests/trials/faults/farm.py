"""Messages of strangers to the two ports that other computers may reach: pairing and jobs."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from distributed import Client, LocalCluster

from engine.farm import pairing, pairing_port
from engine.farm.identity import Peers, own_identity
from engine.workers import dask_internals
from tests.helpers.farm import User, computer, identity_of, scheduler, security
from tests.helpers.recording_relay import RecordingRelay
from tests.trials.faults import mutators
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import HANG, INTERNAL, OK, RAN, REFUSED, Outcome

_PATIENCE_S = 5.0  # no answer should take longer


class Farm(Group):
    """Recorded conversations that are damaged in many ways, and conversations with other messages.

    They hold what would make a file if any code of theirs ran; users refuse every pairing.
    """

    name = "farm"
    rows = (
        *("pairing, messages", "pairing, TLS"),
        *("jobs, TLS", "jobs, without a pairing", "jobs, without TLS"),
    )
    usual = 10_000
    memory = 200 * 2**20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ran = folder / "ran"
        self._errors: list[str] = []
        logging.getLogger().addHandler(_Errors(self._errors))
        self._peer, self._stranger = identity_of(folder / "peer"), identity_of(folder / "stranger")
        self._listen()
        self._plain = self._conversation_without_tls()
        self._recorded = {"pairing, TLS": self._pairing(), "jobs, TLS": self._conversation()}
        self._ran.unlink()

    def _listen(self) -> None:
        """Open both ports, for the rest of the process."""
        pairing_port._MINUTE_S = 0.0  # all of them reach the user
        user = User(answer=False)
        self._port = pairing_port.PairingPort(
            user.show, lambda _: None, port=0, host="127.0.0.1"
        ).__enter__()
        Peers().add(self._peer.certificate_text, "peer", "")
        dask_internals.limit_connections()
        self._farm = scheduler(own_identity(), Peers().trusted_file())
        address = self._farm.__enter__().scheduler_address
        self._jobs_port = int(address.rpartition(":")[2])

    # --- conversations that are damaged later

    def _conversation(self) -> bytes:
        """What a paired computer sends to run code, as TLS has it."""
        own = own_identity().certificate_text
        with computer(self.folder / "peer"):
            Peers().add(own, "host", "")
            trusted = Peers().trusted_file()
        with RecordingRelay(self._jobs_port) as relay:
            allowed = security(self._peer.key, trusted)
            self._run_code(Client(f"tls://{relay.address}", security=allowed, set_as_default=False))
            return b"".join(relay.sent)

    def _conversation_without_tls(self) -> bytes:
        """The same to a scheduler that asks for no certificate."""
        cluster = LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
        with cluster, RecordingRelay(int(cluster.scheduler_address.rpartition(":")[2])) as relay:
            self._run_code(Client(f"tcp://{relay.address}", set_as_default=False))
            return b"".join(relay.sent)

    def _run_code(self, client: Client) -> None:
        with client:
            client.run_on_scheduler(self._ran.touch)
        assert self._ran.exists(), "what is recorded would run"

    def _pairing(self) -> bytes:
        """What a computer sends that pairs, as TLS has it."""
        with RecordingRelay(self._port.port) as relay:
            self._converse(relay.port, lambda _step, data: data)
            return b"".join(relay.sent)

    # --- cases

    def run(self, number: int) -> Outcome:
        """Send one conversation; then both ports have to answer as before."""
        rng, row = self.chances(number), self.row(number)
        heard = b""
        try:
            heard = self._send(row, rng)
        except TimeoutError:
            return Outcome(HANG, "", "no end of the conversation")
        except OSError:  # it was ended by the other side
            pass
        return self._found(row, heard)

    def _send(self, row: str, rng: Random) -> bytes:
        """What came back of what only a paired computer, or a user, should get."""
        if row == "pairing, messages":
            chosen = rng.randrange(4)
            return self._converse(
                self._port.port,
                lambda step, data: other(data, rng) if step == chosen else data,
            )
        if row in self._recorded:
            port = self._port.port if row == "pairing, TLS" else self._jobs_port
            return exchanged(connected(port), damaged(self._recorded[row], rng))
        connection = connected(self._jobs_port)
        if row == "jobs, without a pairing":
            connection = secured(connection, rng.choice((None, self._stranger.key)))
        return exchanged(connection, damaged(self._plain, rng))

    def _found(self, row: str, heard: bytes) -> Outcome:
        if self._ran.exists() or len(Peers().all()) != 1:
            return Outcome(RAN, "", "code ran, or a stranger is paired")
        if self._errors:
            return Outcome(INTERNAL, "", self._errors.pop())
        try:
            self._ask_both()
        except (OSError, ValueError) as err:
            return Outcome(HANG, "", f"a port does not answer any more: {err}")
        if row == "pairing, messages":
            return Outcome(OK if heard else REFUSED)
        is_answer = heard[:1] not in (b"", b"\x15", b"\x16")  # alerts and handshakes of TLS
        return Outcome(RAN, "", f"an answer: {heard[:40]!r}") if is_answer else Outcome(REFUSED)

    def _ask_both(self) -> None:
        """Raise where a port does not answer to those that it should answer to."""
        if not self._converse(self._port.port, lambda step, data: b"" if step else data):
            raise ValueError("pairing")
        with secured(connected(self._jobs_port), self._peer.key) as secure:
            if not secure.recv(1):
                raise ValueError("jobs")

    def _converse(self, port: int, changed: Callable[[int, bytes], bytes]) -> bytes:
        """Speak as a computer that wants to be paired; the first answer."""
        nonce = bytes(32)
        hello = {
            "protocol": 1,
            "name": "peer",
            "certificate": self._stranger.certificate_text,
            "jobs_port": 1,
            "commitment": pairing._sha256(nonce).hex(),
        }
        first = changed(0, json.dumps(hello).encode())
        with secured(connected(port), None) as secure, secure.makefile("rb") as lines:
            secure.sendall(first + b"\n")
            answer = lines.readline()
            digest = pairing._digest(first, answer.strip(), nonce)
            signature = pairing._signed(self._stranger, digest).hex()
            opened = {"nonce": nonce.hex(), "signature": signature}
            further: list[Any] = [opened, {"confirmed": True}, {"agreed": True}]
            for step, message in enumerate(further, 1):
                data = changed(step, json.dumps(message).encode())
                if not data:
                    break
                secure.sendall(data + b"\n")
            else:
                with contextlib.suppress(ConnectionError):
                    lines.readline()
        return answer


class _Errors(logging.Handler):
    """Keeps what is logged as an error: nothing of a stranger may be one."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(f"{record.name}: {record.getMessage()}")


def damaged(data: bytes, rng: Random) -> bytes:
    """The same with any damage, or as it is."""
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        data = rng.choice(mutators.ANY)(data or b"0", rng)
    return data


def other(data: bytes, rng: Random) -> bytes:
    """A message with other values, or with any damage."""
    return mutators.other_values(data, rng) if rng.randrange(2) else damaged(data, rng)


def connected(port: int) -> socket.socket:
    """A connection whose every wait has an end."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def secured(connection: socket.socket, certificate: Path | None) -> ssl.SSLSocket:
    """TLS of a stranger, who accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context.wrap_socket(connection)


def exchanged(connection: socket.socket, data: bytes) -> bytes:
    """What comes back before the connection ends."""
    with connection:
        connection.sendall(data)
        if not isinstance(connection, ssl.SSLSocket):  # else the bytes of TLS would come
            connection.shutdown(socket.SHUT_WR)
        heard = connection.recv(1 << 16)
        while connection.recv(1 << 16):
            pass
    return heard
