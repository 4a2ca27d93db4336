"""What the open ports answer to whoever has no pairing: nothing."""

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from engine.core import paths
from engine.farm.identity import Peers, own_identity
from engine.farm.pairing import ask
from engine.workers import dask_internals
from tests.helpers.certificates import signed_certificate
from tests.helpers.farm import (
    User,
    Waiting,
    certificate_of,
    computer,
    identity_of,
    in_thread,
    scheduler,
    security,
)
from tests.helpers.recording_relay import RecordingRelay

_HELLO = b"\x00" * 8 + b"\x85\xa2op\xa8identity\xa5reply\xc3"
Make = Callable[..., Waiting]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Those of a host and of a worker machine, which are paired."""
    host, worker = tmp_path_factory.mktemp("host"), tmp_path_factory.mktemp("worker")
    for one, other in ((host, worker), (worker, host)):
        certificate = certificate_of(other)
        with computer(one):
            Peers().add(certificate, other.name, "")
    return host, worker


@pytest.fixture(scope="module")
def cluster(folders: tuple[Path, Path]) -> Iterator[Any]:
    """A scheduler of the host."""
    dask_internals.limit_connections()
    with computer(folders[0]):
        identity, trusted = own_identity(), Peers().trusted_file()
    with scheduler(identity, trusted) as cluster:
        yield cluster


def port_of(cluster: Any) -> int:
    return int(cluster.scheduler_address.rpartition(":")[2])


def client(folders: tuple[Path, Path], address: str, cluster: Any) -> Client:
    """The worker machine as it speaks with the scheduler."""
    with computer(folders[1]):
        own, trusted = own_identity().key, Peers().trusted_file()
    return Client(
        f"tls://{address}", security=security(own, trusted), set_as_default=False, timeout="10s"
    )


def answer(port: int, certificate: Path | None) -> bytes:
    """The first words of the scheduler, which it says to whoever may speak with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.recv(1000)
    return b""


def test_a_paired_computer_is_answered(folders: tuple[Path, Path], cluster: Any) -> None:
    assert answer(port_of(cluster), identity_of(folders[1]).key) != b""


@pytest.mark.parametrize("who", ["none", "stranger", "expired", "authority", "issued", "rsa"])
def test_without_a_paired_certificate_nothing_is_answered(
    folders: tuple[Path, Path], cluster: Any, tmp_path: Path, who: str
) -> None:
    made: dict[str, Callable[[], Path | None]] = {
        "none": lambda: None,
        "stranger": lambda: identity_of(tmp_path).key,
        "expired": lambda: signed_certificate(until=datetime(2020, 1, 1)).write(tmp_path),
        "authority": lambda: signed_certificate(is_ca=True).write(tmp_path),
        "issued": lambda: signed_certificate(issuer=identity_of(folders[1]).key).write(tmp_path),
        "rsa": lambda: signed_certificate(is_rsa=True).write(tmp_path),
    }
    assert answer(port_of(cluster), made[who]()) == b""


def test_who_is_paired_counts_while_the_scheduler_runs(tmp_path: Path) -> None:
    other = certificate_of(tmp_path / "other")
    dask_internals.limit_connections()
    with computer(tmp_path / "host"):
        fingerprint = Peers().add(other, "other", "").fingerprint
        identity, trusted = own_identity(), Peers().trusted_file()
    key = identity_of(tmp_path / "other").key
    with scheduler(identity, trusted) as own:
        assert answer(port_of(own), key) != b""
        with computer(tmp_path / "host"):
            Peers().forget(fingerprint)
        dask_internals.renew_trust(own.scheduler, security(identity.key, trusted))
        assert answer(port_of(own), key) == b""
        assert answer(port_of(own), identity.key) != b""
        with computer(tmp_path / "host"):
            Peers().add(other, "other", "")
        dask_internals.renew_trust(own.scheduler, security(identity.key, trusted))
        assert answer(port_of(own), key) != b"", "paired again"


def test_without_tls_nothing_is_answered(cluster: Any) -> None:
    with socket.create_connection(("127.0.0.1", port_of(cluster)), timeout=10) as plain:
        plain.sendall(_HELLO)
        received = b""
        with contextlib.suppress(ConnectionError):
            received = plain.recv(1000)
    assert received[:1] in (b"", b"\x15"), "an alert of TLS at most"
    assert len(received) < 10


def test_the_scheduler_of_a_stranger_is_not_joined(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """It announces itself with the fingerprint of a paired computer, say."""
    stranger = identity_of(tmp_path)
    with computer(folders[1]):
        own = own_identity()
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(stranger.certificate_text + own.certificate_text)
    with scheduler(stranger, trusted) as other, pytest.raises(OSError, match=r"TLS|Timed out"):
        client(folders, other.scheduler_address.partition("://")[2], other)


def test_a_recorded_conversation_cannot_be_repeated(
    folders: tuple[Path, Path], cluster: Any, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    with RecordingRelay(port_of(cluster)) as relay:
        with client(folders, relay.address, cluster) as recorded:
            recorded.run_on_scheduler(seen.mkdir)
        assert seen.is_dir()
        relay.wait_until_quiet()
        sent = b"".join(relay.sent)
    seen.rmdir()
    assert len(sent) > 1000
    for data in (sent, *relay.sent):
        repeat(port_of(cluster), data)
    assert not seen.exists()
    with client(folders, f"127.0.0.1:{port_of(cluster)}", cluster) as later:
        later.run_on_scheduler(seen.mkdir)
    assert seen.is_dir(), "the port still answers those that are paired"


def test_a_recorded_pairing_cannot_be_repeated(waiting: Make, tmp_path: Path) -> None:
    other = waiting()
    with RecordingRelay(other.port.port) as relay:
        ask(relay.address, User().show)
        assert other.ended
    with computer(other.folder):
        Peers().forget(own_fingerprint := other.peers[0])
    for data in (b"".join(relay.sent), *relay.sent):
        repeat(other.port.port, data)
    assert len(other.user.offers) == 1
    assert other.peers == []
    assert own_fingerprint == identity_of(paths.data_folder()).fingerprint
    in_thread(tmp_path / "next", lambda: ask(other.address, User().show)).result(10)


def repeat(port: int, data: bytes) -> None:
    """Send recorded bytes, and wait for the end."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
    ):
        plain.sendall(data)
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(1 << 16):
            pass


def test_silent_connections_keep_no_paired_computer_out(
    folders: tuple[Path, Path], cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_internals, "FIRST_BYTE_S", 1.0)
    port, most = port_of(cluster), dask_internals._MOST_OF_ONE
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            for _ in range(most + 10)
        ]
        assert [one.recv(1) for one in silent[:10]] == [b""] * 10, "the oldest go"
        assert not select.select(silent[10:], [], [], 0)[0]
        assert answer(port, identity_of(folders[1]).key) != b""
        assert [one.recv(1) for one in silent] == [b""] * len(silent), "each has a second"


def test_a_handshake_that_stops_ends(
    folders: tuple[Path, Path], cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun to speak: silent ones go before it."""
    with monkeypatch.context() as patch:
        patch.setattr(dask_internals, "FIRST_BYTE_S", 0.1)
        patch.setattr(dask_internals, "_LONGEST_S", 0.3)
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", port_of(cluster)), timeout=10) as plain:
            plain.sendall(first_words())
            while plain.recv(1 << 16):
                pass
        assert time.monotonic() - begun >= 0.3
    assert answer(port_of(cluster), identity_of(folders[1]).key) != b""


def first_words() -> bytes:
    """What a computer says first in a handshake of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()
