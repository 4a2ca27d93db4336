import multiprocessing
import ssl
import stat
import sys
from pathlib import Path

import pytest

from engine.core import paths
from engine.farm.errors import IdentityDamaged, UnknownMachine
from engine.farm.identity import Peers, own_identity
from tests.helpers.farm import certificate_of


def ask_for_identity(folder: str, go: object, answers: object) -> None:
    """A process that starts at the same time as others."""
    import os

    os.environ["UPREEL_DATA"] = folder
    go.wait()
    answers.put(own_identity().fingerprint)


def test_the_identity_is_made_once_and_its_key_is_private() -> None:
    identity = own_identity()
    assert own_identity() == identity
    assert identity.certificate.parent == paths.data_folder() / "farm"
    assert len(identity.fingerprint) == 64
    assert "PRIVATE" not in identity.certificate_text
    if sys.platform != "win32":
        assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600


def test_processes_that_start_at_once_get_the_same_identity(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    go, answers = spawn.Event(), spawn.Queue()
    workers = [
        spawn.Process(target=ask_for_identity, args=(str(tmp_path), go, answers)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    go.set()
    found = {answers.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join(60)
    assert len(found) == 1


@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_damaged_key_is_an_error_and_stays(damage: bytes) -> None:
    file = own_identity().key
    file.write_bytes(damage)
    with pytest.raises(IdentityDamaged) as raised:
        own_identity()
    assert str(file) in raised.value.hint
    assert file.read_bytes() == damage


def test_a_key_of_another_certificate_is_damage(tmp_path: Path, other: str) -> None:
    identity = own_identity()
    key = identity.key.read_text().split("-----BEGIN CERTIFICATE")[0]
    identity.key.write_text(key + other)
    with pytest.raises(IdentityDamaged):
        own_identity()


@pytest.fixture
def other(tmp_path: Path) -> str:
    """The certificate of another computer."""
    return certificate_of(tmp_path / "other")


def test_peers_are_added_and_forgotten(other: str) -> None:
    peers = Peers()
    assert peers.all() == ()
    peer = peers.add(other, "Studio\n\x1b[31m PC", "192.168.1.20:47110")
    assert peer.name == "Studio [31m PC"
    assert Peers().all() == (peer,)
    assert peers.named("studio [31M pc") == peers.named(peer.fingerprint[:8]) == peer
    peers.add(other, "Office", "10.0.0.1:47110")
    assert [one.name for one in peers.all()] == ["Office"]
    peers.forget(peer.fingerprint)
    assert peers.all() == ()
    with pytest.raises(UnknownMachine, match="not paired"):
        peers.forget(peer.fingerprint)


def test_a_name_of_several_asks_for_the_fingerprint(tmp_path: Path, other: str) -> None:
    peers = Peers()
    one = peers.add(other, "PC", "a:1")
    two = peers.add(certificate_of(tmp_path / "third"), "PC", "b:1")
    with pytest.raises(UnknownMachine) as raised:
        peers.named("PC")
    assert one.fingerprint[:16] in raised.value.hint
    assert peers.named(two.fingerprint) == two
    with pytest.raises(UnknownMachine):
        peers.named("")


def test_the_trusted_file_has_the_peers_and_the_own_certificate(other: str) -> None:
    peers = Peers()
    peer = peers.add(other, "PC", "a:1")
    file = peers.trusted_file()
    text = file.read_text()
    assert text.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE" not in text
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(file))
    assert context.cert_store_stats() == {"x509": 2, "x509_ca": 0, "crl": 0}
    file.write_text("damaged")
    assert peers.trusted_file().read_text() == text
    peers.forget(peer.fingerprint)
    assert peers.trusted_file().read_text() == own_identity().certificate_text


@pytest.mark.parametrize("damage", ["", "{}", "[{}]", '[{"fingerprint": "00", "name": "a"}]'])
def test_a_damaged_list_of_peers_is_an_error_and_stays(damage: str, other: str) -> None:
    Peers().add(other, "PC", "a:1")
    file = paths.data_folder() / "farm" / "machines.json"
    file.write_text(damage)
    for use in (Peers().all, Peers().trusted_file, lambda: Peers().add(other, "PC", "a:1")):
        with pytest.raises(IdentityDamaged) as raised:
            use()
        assert str(file) in raised.value.hint
    assert file.read_text() == damage


def test_a_certificate_under_a_wrong_fingerprint_is_damage(other: str) -> None:
    peer = Peers().add(other, "PC", "a:1")
    file = paths.data_folder() / "farm" / "machines.json"
    file.write_text(file.read_text().replace(peer.fingerprint, "0" * 64))
    with pytest.raises(IdentityDamaged):
        Peers().all()
