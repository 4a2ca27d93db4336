"""Other computers in folders of their own."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.core import paths
from engine.core.errors import EngineError
from engine.farm.identity import Identity, Peer, Peers, own_identity
from engine.farm.pairing import PairingOffer
from engine.farm.pairing_port import PairingPort

T = TypeVar("T")


@contextlib.contextmanager
def computer(folder: Path) -> Iterator[None]:
    """Inside, this process is the computer that has its files in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPREEL_DATA", str(folder))
        yield


def identity_of(folder: Path) -> Identity:
    """The identity of the computer that has its files in `folder`."""
    with computer(folder):
        return own_identity()


def certificate_of(folder: Path) -> str:
    """Its certificate, as PEM."""
    return identity_of(folder).certificate_text


class User:
    """Who looks at the words of a computer, and answers at once, later or never."""

    def __init__(self, answer: bool | None = True) -> None:
        self.answer = answer
        self.offers: list[PairingOffer] = []
        self.given: Future[bool] = Future()
        self.is_shown = threading.Event()

    def show(self, offer: PairingOffer) -> Future[bool]:
        self.offers.append(offer)
        self.given = Future()
        if self.answer is not None:
            self.given.set_result(self.answer)
        self.is_shown.set()
        return self.given

    def says(self, answer: bool) -> None:
        """Answer later; the words may still be on their way."""
        assert self.is_shown.wait(10)
        self.given.set_result(answer)


class Waiting:
    """A computer that waits to be paired, in this process: its files are in `folder`."""

    def __init__(self, folder: Path, answer: bool | None = True) -> None:
        self.folder, self.user = folder, User(answer)
        self._ended: queue.SimpleQueue[Peer | EngineError] = queue.SimpleQueue()
        with computer(folder):
            self.port = PairingPort(
                self.user.show, self._ended.put, port=0, host="127.0.0.1", jobs_port=1234
            ).__enter__()
        _folders[f"pairing {self.port.port}"] = folder
        self.address = f"127.0.0.1:{self.port.port}"

    @property
    def ended(self) -> Peer | EngineError:
        """How the next pairing ended."""
        return self._ended.get(timeout=10)

    @property
    def peers(self) -> list[str]:
        return peers_of(self.folder)

    def close(self) -> None:
        self.port.__exit__(None, None, None)


def peers_of(folder: Path) -> list[str]:
    """Fingerprints of the computers that this one is paired with."""
    with computer(folder):
        return [one.fingerprint for one in Peers().all()]


_folders: dict[str, Path] = {}  # name of a thread -> folder of the computer that it belongs to


def folder_of_thread() -> Path:
    """In place of `identity._folder`: several computers are in this process."""
    return _folders.get(threading.current_thread().name, paths.data_folder()) / "farm"


def in_thread(folder: Path, work: Callable[[], T]) -> Future[T]:
    """Let a computer do something meanwhile."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as err:  # noqa: BLE001 - the test gets it
            result.set_exception(err)

    thread = threading.Thread(target=run, name=f"computer {folder}", daemon=True)
    _folders[thread.name] = folder
    thread.start()
    return result


@contextlib.contextmanager
def scheduler(identity: Identity, trusted: Path) -> Iterator[Any]:
    """A Dask cluster without workers, whose scheduler is open to other computers of a farm."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=0,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=security(identity.key, trusted),
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster


def security(own: Path, trusted: Path) -> Any:
    """Settings of TLS for Dask.

    Args:
        own: PEM file with a key and its certificate.
        trusted: PEM file with the certificates that are accepted.
    """
    from distributed.security import Security

    files = {
        f"tls_{role}_{part}": str(own)
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    return Security(tls_ca_file=str(trusted), require_encryption=True, **files)
