import contextlib
import json
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core import paths
from engine.core.errors import Cancelled, EngineError
from engine.farm import pairing, pairing_port
from engine.farm.errors import MachineUnreachable, PairingFailed
from engine.farm.identity import Peers, own_identity
from engine.farm.pairing import ask
from tests.helpers.certificates import signed_certificate
from tests.helpers.farm import User, Waiting, identity_of, in_thread
from tests.helpers.recording_relay import RecordingRelay

Make = Callable[..., Waiting]


def nothing_is_stored(other: Waiting) -> bool:
    return Peers().all() == () and other.peers == []


def raised_by(call: Callable[[], object]) -> EngineError:
    with pytest.raises(EngineError) as raised:
        call()
    return raised.value


def test_both_computers_get_the_certificate_of_the_other_one(waiting: Make) -> None:
    other, user = waiting(), User()
    found = ask(other.address, user.show, jobs_port=4321)
    theirs = other.ended
    assert Peers().all() == (found,)
    assert found.fingerprint == identity_of(other.folder).fingerprint
    assert found.address == "127.0.0.1:1234"
    assert not isinstance(theirs, EngineError)
    assert (theirs.fingerprint, theirs.address) == (own_identity().fingerprint, "127.0.0.1:4321")
    assert other.peers == [theirs.fingerprint]
    (mine,), (shown,) = user.offers, other.user.offers
    assert mine.words == shown.words
    assert len(mine.words) == 6
    known = paths.resource("pairing_words.txt").read_text().split()
    assert len(set(known)) == 2048
    assert set(mine.words) <= set(known)


def test_the_words_differ_each_time(waiting: Make) -> None:
    other, user = waiting(), User()
    for _ in range(2):
        ask(other.address, user.show)
    assert user.offers[0].words != user.offers[1].words
    assert len(Peers().all()) == len(other.peers) == 1


@pytest.mark.parametrize("is_here", [True, False])
def test_a_refusal_leaves_nothing(waiting: Make, is_here: bool) -> None:
    other = waiting(answer=is_here)
    error = raised_by(lambda: ask(other.address, User(not is_here).show))
    assert (error.code, error.case) == ("pairing-failed", "here" if is_here else "there")
    theirs = other.ended
    assert isinstance(theirs, PairingFailed)
    assert theirs.case == ("there" if is_here else "here")
    assert nothing_is_stored(other)


@pytest.mark.parametrize("is_here", [True, False])
def test_without_an_answer_of_both_users_nothing_is_stored(
    waiting: Make, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "CONFIRM_S", 0.4)
    other = waiting(answer=True if is_here else None)
    user = User(None if is_here else True)
    assert raised_by(lambda: ask(other.address, user.show)).code == "pairing-failed"
    assert isinstance(other.ended, PairingFailed)
    assert nothing_is_stored(other)
    assert (user if is_here else other.user).given.cancelled(), "the words go from the screen"


def test_a_cancelled_answer_is_a_refusal(waiting: Make, tmp_path: Path) -> None:
    other, user = waiting(answer=None), User(None)
    asking = in_thread(paths.data_folder(), lambda: ask(other.address, user.show))
    assert user.is_shown.wait(10)
    user.given.cancel()
    with pytest.raises(Cancelled):
        asking.result(10)
    theirs = other.ended
    assert isinstance(theirs, PairingFailed)
    assert theirs.case == "there"
    assert nothing_is_stored(other)


@pytest.mark.parametrize("confirmed", ["none", "here", "there"])
def test_a_connection_that_ends_before_both_have_confirmed_leaves_nothing(
    waiting: Make, confirmed: str
) -> None:
    other, user = waiting(answer=None), User(None)
    with RecordingRelay(other.port.port) as relay:
        asking = in_thread(paths.data_folder(), lambda: ask(relay.address, user.show))
        assert user.is_shown.wait(10)
        assert other.user.is_shown.wait(10)
        if confirmed == "here":
            user.given.set_result(True)
        if confirmed == "there":
            other.user.given.set_result(True)
        relay.wait_until_quiet()
        relay.cut()
        for one in (user, other.user):
            if not one.given.done():
                with contextlib.suppress(Exception):  # it may be cancelled right now
                    one.given.set_result(True)
        with pytest.raises(PairingFailed):
            asking.result(10)
        assert isinstance(other.ended, PairingFailed)
    assert nothing_is_stored(other)


def test_both_have_to_agree_while_the_connection_lives(waiting: Make) -> None:
    """A cable that is cut ends no connection: the other user's late answer must not store."""
    other, user = waiting(answer=None), User(True)
    with RecordingRelay(other.port.port) as relay:
        asking = in_thread(paths.data_folder(), lambda: ask(relay.address, user.show))
        assert other.user.is_shown.wait(10)
        relay.wait_until_quiet()
        relay.hold()
        other.user.given.set_result(True)
        relay.wait_for_more()
        assert nothing_is_stored(other)
        relay.cut()
        with pytest.raises(PairingFailed):
            asking.result(10)
        assert isinstance(other.ended, PairingFailed)
    assert nothing_is_stored(other)


def test_a_computer_in_the_middle_gets_other_words(waiting: Make, tmp_path: Path) -> None:
    """It pairs with both, with certificates of its own."""
    there, middle, user = waiting("there"), waiting("middle", answer=None), User(None)
    here = in_thread(paths.data_folder(), lambda: ask(middle.address, user.show))
    assert middle.user.is_shown.wait(10)
    further = in_thread(middle.folder, lambda: ask(there.address, User(False).show))
    assert raised_by(lambda: further.result(10)).case == "here"
    assert there.user.is_shown.wait(10)
    assert user.is_shown.wait(10)
    assert user.offers[0].words == middle.user.offers[0].words
    assert user.offers[0].words != there.user.offers[0].words
    user.given.set_result(False)
    assert raised_by(lambda: here.result(10)).case == "here"


def hello(**changed: Any) -> dict[str, Any]:
    """The first message of a computer that asks."""
    text = own_identity().certificate_text
    about = {"protocol": 1, "name": "A", "certificate": text, "jobs_port": 1}
    return about | {"commitment": pairing._sha256(bytes(32)).hex()} | changed


class Stranger:
    """Speaks the protocol by hand, with any messages."""

    def __init__(self, other: Waiting) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = socket.create_connection(("127.0.0.1", other.port.port), timeout=10)
        self.connection = context.wrap_socket(connection)
        self.lines = self.connection.makefile("rb")

    def say(self, message: Any) -> bytes:
        """The answer to a message; b"" where the connection ends."""
        with contextlib.suppress(ConnectionError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")
            return self.lines.readline()
        return b""

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


def opened(first: dict[str, Any], answer: bytes, nonce: bytes) -> dict[str, str]:
    """The second message of the one that asks, with a signature of its own key."""
    digest = pairing._digest(json.dumps(first).encode(), answer.strip(), nonce)
    return {"nonce": nonce.hex(), "signature": pairing._signed(own_identity(), digest).hex()}


@pytest.mark.parametrize(
    ("nonce", "is_own"), [(b"\1" + bytes(31), True), (b"", True), (bytes(32), False)]
)
def test_another_nonce_than_that_of_the_commitment_or_another_key_is_refused(
    waiting: Make, nonce: bytes, is_own: bool, tmp_path: Path
) -> None:
    """Else the side that asks could try nonces until the words fit, or show any certificate."""
    other, victim = waiting(), identity_of(tmp_path / "victim")
    stranger = Stranger(other)
    first = hello() if is_own else hello(certificate=victim.certificate_text)
    answer = stranger.say(first)
    assert json.loads(answer)["nonce"]
    assert stranger.say(opened(first, answer, nonce)) == b""
    stranger.close()
    assert other.user.offers == []


@pytest.mark.parametrize(
    "changed",
    [
        {"protocol": 2},
        {"jobs_port": 0},
        {"jobs_port": True},
        {"name": 1},
        {"certificate": "x"},
        {"certificate": "ca"},
        {"certificate": "two"},
        {"certificate": "rsa"},
        {"name": "n" * 10_000},
    ],
)
def test_messages_that_make_no_sense_end_the_conversation(
    waiting: Make, changed: dict[str, Any]
) -> None:
    own = own_identity().certificate_text
    made = {
        "ca": lambda: signed_certificate(is_ca=True).certificate,
        "rsa": lambda: signed_certificate(is_rsa=True).certificate,
        "two": lambda: own + own,
    }
    name = changed.get("certificate")
    changed = {"certificate": made[name]()} if name in made else changed
    other = waiting()
    stranger = Stranger(other)
    assert stranger.say(hello(**changed)) == b""
    stranger.close()
    assert ask(other.address, User().show), "the port still answers"


def test_the_certificate_of_the_connection_has_to_be_the_one_that_is_named(
    waiting: Make, tmp_path: Path
) -> None:
    """A computer in the middle that hands on all messages as they are."""
    other = waiting(answer=None)
    middle = identity_of(tmp_path / "middle")
    with RecordingRelay(other.port.port, decrypting_as=middle) as relay:
        assert raised_by(lambda: ask(relay.address, User().show)).case == "certificate"
    assert nothing_is_stored(other)


def test_a_computer_is_not_paired_with_itself(waiting: Make) -> None:
    other = waiting()
    in_place = in_thread(other.folder, lambda: ask(other.address, User().show))
    assert raised_by(lambda: in_place.result(10)).case == "itself"
    assert other.peers == []


def test_one_pairing_at_a_time_and_few_in_a_minute(
    waiting: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, user = waiting(answer=None), User(None)
    first = in_thread(paths.data_folder(), lambda: ask(other.address, user.show))
    assert user.is_shown.wait(10)
    assert raised_by(lambda: ask(other.address, User().show)).case == "busy"
    user.given.set_result(False)
    assert raised_by(lambda: first.result(10)).case == "here"
    assert isinstance(other.ended, PairingFailed)
    other.user.answer = False
    for _ in range(4):
        assert raised_by(lambda: ask(other.address, User().show)).case == "there"
        assert isinstance(other.ended, PairingFailed)
    assert raised_by(lambda: ask(other.address, User().show)).case == "busy"
    monkeypatch.setattr(pairing_port, "_MINUTE_S", 0.0)
    assert raised_by(lambda: ask(other.address, User().show)).case == "there"


@pytest.mark.parametrize("said", [b"", b"\x16"])
def test_connections_that_go_no_further_keep_nobody_out(
    waiting: Make, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """Neither silent ones nor those that have begun a handshake, and nobody waits for them."""
    monkeypatch.setattr(pairing_port, "FIRST_BYTE_S", 0.5)
    monkeypatch.setattr(pairing, "ANSWER_S", 1.0)
    other = waiting()
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", other.port.port), 10))
            for _ in range(pairing_port._MOST_SILENT_OF_ONE + 10)
        ]
        for one in idle:
            with contextlib.suppress(ConnectionError):  # it had to go
                one.sendall(said)
        assert ask(other.address, User().show)
        for one in idle:
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
        assert time.monotonic() - began < 8


def test_pairings_that_go_no_further_keep_nobody_out(waiting: Make) -> None:
    """Strangers say their names, and no more."""
    other = waiting()
    strangers = [Stranger(other) for _ in range(3)]
    assert all(b"nonce" in stranger.say(hello()) for stranger in strangers)
    assert ask(other.address, User().show)
    for stranger in strangers:
        stranger.close()


def test_a_host_uses_up_its_own_share_alone(waiting: Make) -> None:
    """Of the pairings that reach the user in a minute."""
    other = waiting(answer=False)
    other.port._last = (("10.0.0.1", time.monotonic()),) * pairing_port._MOST_SHOWN_OF_ONE
    assert other.port._had_many("10.0.0.1")
    assert raised_by(lambda: ask(other.address, User().show)).case == "there"


def test_what_is_no_address_and_what_does_not_answer() -> None:
    for text in ("", "a b", "host:0", "host:99999", "host:x", "[::1", "x" * 300, ":1"):
        error = raised_by(lambda text=text: ask(text, User().show))
        assert (error.code, error.case) == ("machine-unreachable", "no-address"), text
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = raised_by(lambda: ask(f"127.0.0.1:{port}", User().show))
    assert error.case == "no-answer"
    assert f"127.0.0.1:{port}" in error.message


def test_a_port_in_use_is_an_error(waiting: Make) -> None:
    other = waiting()
    port = pairing_port.PairingPort(
        User().show, lambda _: None, port=other.port.port, host="127.0.0.1"
    )
    with pytest.raises(MachineUnreachable, match=str(other.port.port)), port:
        pass
