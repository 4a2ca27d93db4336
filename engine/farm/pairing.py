"""Exchange of the certificates of two computers, while users compare six words on both.

One asks, the other has its pairing port open. A computer between the two would have to show other
certificates, hence other words: they come from both certificates and both nonces, and the one that
asks commits itself to its nonce before it sees the other one. So no side can try out nonces until
words fit; one try succeeds once in 2^66.

    asks:   version, name, certificate, commitment = SHA-256 of the nonce
    waits:  version, name, certificate, nonce
    asks:   nonce, signature of all that by the key of the certificate
    both:   {"confirmed": true} once the user has compared the words
    both:   {"agreed": true} once both have confirmed; who receives it stores the certificate

The connection is one of TLS 1.3 with the certificate of the one that waits. Whatever ends it before
the last message leaves both as they were; if it ends while that is on its way, one of them has
stored what both users had confirmed, and the other says that they are not paired.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NoReturn

from engine.core import paths
from engine.core.errors import Cancelled
from engine.core.file_access import reason_of
from engine.core.serialization import from_plain, parse_json
from engine.farm.endpoint import JOBS_PORT, PAIRING_PORT, joined, split
from engine.farm.errors import MachineUnreachable, PairingFailed
from engine.farm.identity import Identity, Peer, Peers, clean_name, fingerprint_of, own_identity

ANSWER_S = 10.0  # for the messages before the words, and after them
CONFIRM_S = 120.0  # for both users
_LOOK_S = 0.1  # how often the answer of the user is asked for
_PROTOCOL = 1
_NONCE_BYTES = 32
_WORDS, _WORD_BITS = 6, 11
_MOST_BYTES = 8192  # of a message
BUSY = {"refused": "busy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingOffer:
    """A pairing that waits for the user."""

    name: str  # name that the other computer gives itself
    address: str  # "host:port" of its jobs
    fingerprint: str  # SHA-256 of its certificate, in hexadecimal
    words: tuple[str, ...]  # words that have to be equal on both screens


# Shows the words. The user's answer becomes the result: True where the words are the same. It is
# cancelled when the pairing ends before that; cancelling it ends the pairing.
Show = Callable[[PairingOffer], "Future[bool]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hello:
    """The first message of each side."""

    protocol: int
    name: str
    certificate: str
    jobs_port: int
    commitment: str = ""
    nonce: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The second message of the side that asks."""

    nonce: str
    signature: str


def ask(address: str, show: Show, *, jobs_port: int = JOBS_PORT) -> Peer:
    """Pair this computer with one that waits for it.

    Args:
        address: "host" or "host:port".
        show: Shows the words; called once, in this thread.
        jobs_port: Port for jobs of this computer, for the other one.

    Raises:
        MachineUnreachable: There is no such computer, or it does not wait.
        PairingFailed: It was refused, too late or disturbed; nothing was stored.
        Cancelled: The user's answer was cancelled.
        IdentityDamaged, OutputError: Own files of this computer cannot be used.
    """
    identity, (host, port) = own_identity(), split(address, PAIRING_PORT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # users compare words
    try:
        connection = socket.create_connection((host, port), timeout=ANSWER_S)
    except (OSError, UnicodeError) as err:
        reason = reason_of(err)
        raise MachineUnreachable("no-answer", address=joined(host, port), reason=reason) from err
    with failing(joined(host, port)), context.wrap_socket(connection) as secure:
        channel = Channel(secure, ANSWER_S)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        own = channel.send(_hello(identity, jobs_port, commitment=_sha256(nonce).hex()))
        other = channel.receive()
        if read(other) == BUSY:
            raise PairingFailed("busy", name=joined(host, port))
        hello = _read_hello(other)
        if ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"") != (
            hello.certificate
        ):
            raise PairingFailed("certificate", name=clean_name(hello.name))
        digest = _digest(own, other, nonce)
        channel.send({"nonce": nonce.hex(), "signature": _signed(identity, digest).hex()})
        return _agree(channel, show, _offer(hello, host, digest, identity), hello.certificate)


def answer(
    connection: ssl.SSLSocket,
    host: str,
    show: Show,
    jobs_port: int,
    may_begin: Callable[[], bool],
    begins: Callable[[], bool],
) -> Peer:
    """The other side of `ask`.

    Args:
        connection: Connection of the computer that asks; TLS is ready.
        host: Address of that computer.
        show: Shows the words, like that of `ask`.
        jobs_port: Port for jobs of this computer.
        may_begin: Whether the user could be asked now.
        begins: Whether the user is asked now, once the other computer has shown that it has the
            key of its certificate; then no other pairing is.

    Raises:
        PairingFailed, Cancelled, IdentityDamaged, OutputError: See `ask`.
    """
    identity = own_identity()
    with failing(host):
        channel = Channel(connection, ANSWER_S)
        other = channel.receive()
        hello = _read_hello(other)
        if not may_begin():
            _refuse(channel, hello)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        own = channel.send(_hello(identity, jobs_port, nonce=nonce.hex()))
        opened = from_plain(_Opened, read(channel.receive()))
        revealed = bytes.fromhex(opened.nonce)
        if len(revealed) != _NONCE_BYTES or _sha256(revealed).hex() != hello.commitment:
            raise ValueError("another nonce than that of the commitment")
        digest = _digest(other, own, revealed)
        _check_signature(hello.certificate, bytes.fromhex(opened.signature), digest)
        offer = _offer(hello, host, digest, identity)
        if not begins():
            _refuse(channel, hello)
        return _agree(channel, show, offer, hello.certificate)


@contextlib.contextmanager
def failing(name: str) -> Iterator[None]:
    """Translates what a connection raises, and what makes no sense, to PairingFailed."""
    try:
        yield
    except (ssl.SSLError, ValueError, TypeError, KeyError) as err:
        raise PairingFailed("no-sense", name=name) from err
    except OSError as err:  # and TimeoutError
        raise PairingFailed("dropped", name=name) from err


def _hello(identity: Identity, jobs_port: int, **own: str) -> dict[str, object]:
    about = {"protocol": _PROTOCOL, "name": identity.name, "jobs_port": jobs_port}
    return about | {"certificate": identity.certificate_text} | own


def _read_hello(data: bytes) -> _Hello:
    hello = from_plain(_Hello, read(data))
    if hello.protocol != _PROTOCOL or not 0 < hello.jobs_port < 2**16:
        raise ValueError("another protocol")
    _check_certificate(hello.certificate)
    return hello


def _offer(hello: _Hello, host: str, digest: bytes, identity: Identity) -> PairingOffer:
    fingerprint = fingerprint_of(hello.certificate)
    if fingerprint == identity.fingerprint:
        raise PairingFailed("itself")
    return PairingOffer(
        name=clean_name(hello.name),
        address=joined(host, hello.jobs_port),
        fingerprint=fingerprint,
        words=_words_of(digest),
    )


def _refuse(channel: Channel, hello: _Hello) -> NoReturn:
    channel.send(BUSY)
    raise PairingFailed("busy", name=clean_name(hello.name))


def _agree(channel: Channel, show: Show, offer: PairingOffer, certificate: str) -> Peer:
    """Wait for both users, then store the other computer."""
    channel.allow(CONFIRM_S)
    given = show(offer)
    try:
        _confirm(channel, given, offer.name)
        channel.allow(ANSWER_S)
        channel.send({"agreed": True})
        if read(channel.receive()) != {"agreed": True}:
            raise ValueError("no agreement")
    finally:
        given.cancel()
    return Peers().add(certificate, offer.name, offer.address)


def _confirm(channel: Channel, given: Future[bool], name: str) -> None:
    """Wait until both users have confirmed; the connection is watched meanwhile."""
    is_sent = is_received = False
    while not (is_sent and is_received):
        if not is_sent and given.done():
            is_sent = not given.cancelled() and given.result()
            channel.send({"confirmed": is_sent})
            if given.cancelled():
                raise Cancelled
            if not is_sent:
                raise PairingFailed("here", name=name)
            if is_received:
                return  # what comes next is no confirmation
        data = channel.received(_LOOK_S)
        if data is not None:
            if is_received:
                raise ValueError("confirmed twice")
            reply = read(data)
            is_received = reply == {"confirmed": True}
            if not is_received:
                raise PairingFailed("busy" if reply == BUSY else "there", name=name)
        elif channel.is_too_late:
            raise PairingFailed("too-late", name=name, minutes=f"{CONFIRM_S / 60:g}")


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _digest(asking: bytes, waiting: bytes, nonce: bytes) -> bytes:
    """Hash of what both sides must have seen alike: both first messages, and the first nonce.

    Nothing that a side could still choose after it has seen the other's nonce is in it.
    """
    return _sha256(json.dumps([asking.hex(), waiting.hex(), nonce.hex()]).encode())


def _words_of(digest: bytes) -> tuple[str, ...]:
    number = int.from_bytes(_sha256(b"words" + digest)) >> (256 - _WORDS * _WORD_BITS)
    places = (number >> _WORD_BITS * place for place in reversed(range(_WORDS)))
    return tuple(_word_list()[place % 2**_WORD_BITS] for place in places)


@functools.cache
def _word_list() -> list[str]:
    return paths.resource("pairing_words.txt").read_text("ascii").split()


def _signed(identity: Identity, digest: bytes) -> bytes:
    """The signature that proves that the key of the certificate is here."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.sign(b"pairing" + digest, ec.ECDSA(hashes.SHA256()))


def _check_signature(certificate: str, signature: bytes, digest: bytes) -> None:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(signature, b"pairing" + digest, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as err:
        raise ValueError("the key is not that of the certificate") from err


def _check_certificate(text: str) -> None:
    """Accept a certificate as `identity` makes them: of a curve, and not able to sign others.

    Raises:
        ValueError: It is another one, or not written as this program writes it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        certificate = x509.load_pem_x509_certificate(text.encode("ascii"))
        is_written_so = certificate.public_bytes(serialization.Encoding.PEM).decode() == text
        is_of_a_curve = isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except Exception as err:  # cryptography raises errors of many classes
        raise ValueError("no certificate of this program") from err
    if basic.ca or not is_written_so or not is_of_a_curve:
        raise ValueError("no certificate of this program")


# --- messages: a line of JSON each, between computers that do not trust each other yet


class Channel:
    """A connection of TLS; whatever is no message, or comes too late, is an exception.

    Args:
        connection: The other computer may be any.
        seconds: Time for all messages; `allow` gives more.

    Memory: some messages at most, whatever comes.
    """

    def __init__(self, connection: ssl.SSLSocket, seconds: float) -> None:
        self._connection = connection
        self._received = bytearray()
        self.allow(seconds)

    def allow(self, seconds: float) -> None:
        """Set the time for all further messages, from now on."""
        self._end = time.monotonic() + seconds

    @property
    def is_too_late(self) -> bool:
        """Whether all that time has passed."""
        return time.monotonic() >= self._end

    def send(self, message: dict[str, Any]) -> bytes:
        """Send a message; its bytes.

        Raises:
            OSError: The connection has ended, or the other side reads nothing.
        """
        data = json.dumps(message).encode()
        self._connection.settimeout(max(self._end - time.monotonic(), 0.01))
        self._connection.sendall(data + b"\n")
        return data

    def receive(self) -> bytes:
        """The next message.

        Raises:
            TimeoutError: It has not come in time.
            OSError: The connection has ended.
            ValueError: It is too long.
        """
        while (data := self.received(self._end - time.monotonic())) is None:
            if self.is_too_late:
                raise TimeoutError
        return data

    def received(self, seconds: float) -> bytes | None:
        """The next message where one comes within this time; otherwise as `receive`."""
        end = time.monotonic() + seconds
        while (length := self._received.find(b"\n")) < 0:
            if len(self._received) > _MOST_BYTES:
                raise ValueError("a message that is too long")
            self._connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                piece = self._connection.recv(_MOST_BYTES)
            except TimeoutError:
                return None
            if not piece:
                raise ConnectionError("the connection has ended")
            self._received += piece
        if length > _MOST_BYTES:
            raise ValueError("a message that is too long")
        data = bytes(self._received[:length])
        del self._received[: length + 1]
        return data


def read(data: bytes) -> dict[str, Any]:
    """A message as plain data.

    Raises:
        ValueError: It is no table of JSON.
    """
    message = parse_json(data)
    if not isinstance(message, dict):
        raise ValueError("no table")
    return message
