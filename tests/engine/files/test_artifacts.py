import contextlib
import errno
import hashlib
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, DiskFull, EngineError, HashMismatch
from engine.files import artifacts, transfer
from engine.files.artifacts import ArtifactFolder, ArtifactKind, Locks, ensure, is_complete
from engine.files.hashing import PartFile
from engine.files.transfer import Listener, RemoteFile, RetryPolicy, Transfer
from tests.helpers.servers import CONTENT, PLACE, Fault, FaultyServer, faulty_server


class Busy(EngineError):
    """The lock is held."""


KIND = ArtifactKind(
    reserve_bytes=10,
    busy=lambda name: Busy("busy", name=name),
    disk_full="models",
    unwritable="models",
)


@pytest.fixture
def folder(tmp_path: Path) -> ArtifactFolder:
    return ArtifactFolder(tmp_path / "files", KIND)


@pytest.fixture
def remote(server: FaultyServer) -> RemoteFile:
    return RemoteFile(
        id="tiny",
        name="tiny.bin",
        urls=(server.url + "/nothing", server.url + PLACE),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        bytes=len(CONTENT),
    )


def test_a_wrong_file_is_quarantined_and_downloaded_again(
    folder: ArtifactFolder, remote: RemoteFile, server: FaultyServer
) -> None:
    folder.folder.mkdir()
    folder.target("tiny.bin").write_bytes(b"wrong")
    server.files[PLACE] = CONTENT[:-1] + b"!"
    with pytest.raises(HashMismatch) as caught:
        ensure(remote, folder, Listener())
    assert caught.value.params["file"] == "tiny"
    assert not folder.target("tiny.bin").exists()
    server.files[PLACE] = CONTENT
    assert ensure(remote, folder, Listener()).read_bytes() == CONTENT
    aside = set(folder.damaged("tiny.bin"))
    assert {path.read_bytes() for path in aside} == {b"wrong", CONTENT[:-1] + b"!"}
    assert not any(is_complete(path) for path in aside)
    assert folder.files_of("tiny.bin") == aside | {folder.target("tiny.bin")}
    folder.delete("tiny.bin")
    assert folder.files_of("tiny.bin") == set()


def test_a_held_file_is_busy_or_waited_for(
    folder: ArtifactFolder, remote: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_TRY_S", 0.1)
    control = Control()
    with folder.held("tiny"):
        assert folder.is_held("tiny")
        with pytest.raises(Busy):
            ensure(remote, folder, Listener())
        threading.Timer(0.1, control.cancel).start()
        with pytest.raises(Cancelled), folder.held("tiny", wait=control):
            pass
    assert not folder.is_held("tiny")


def test_processes_that_look_at_a_lock_do_not_see_each_other(tmp_path: Path) -> None:
    with Locks(tmp_path).held("a"):
        assert Locks(tmp_path).is_held("a")
        assert not Locks(tmp_path).is_held("b")
    seen: list[bool] = []

    def look() -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            seen.append(Locks(tmp_path).is_held("a"))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) > 8
    assert not any(seen)


def test_the_reserve_of_the_disk_stays_free(
    folder: ArtifactFolder, remote: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArtifactFolder, "free_bytes", lambda _: len(CONTENT) + 9)
    with pytest.raises(DiskFull):
        ensure(remote, folder, Listener())
    monkeypatch.setattr(ArtifactFolder, "free_bytes", lambda _: len(CONTENT) + 10)
    ensure(remote, folder, Listener())


def test_a_cancelled_download_continues(
    folder: ArtifactFolder, remote: RemoteFile, server: FaultyServer
) -> None:
    control = Control()
    server.always = Fault(drip=20_000)

    def cancel(done: int, _: int) -> None:
        if done >= 40_000:
            control.cancel()

    with pytest.raises(Cancelled):
        ensure(remote, folder, Listener(on_progress=cancel, control=control))
    kept = folder.part("tiny.bin").stat().st_size
    assert kept >= 40_000
    server.always = Fault()
    ensure(remote, folder, Listener())
    assert server.ranges[-1] == f"bytes={kept}-"


def test_tries_that_bring_a_megabyte_are_no_failures(
    tmp_path: Path, folder: ArtifactFolder
) -> None:
    content = bytes(range(256)) * 20_000  # 5.12 MB
    with faulty_server() as server:
        server.files["/large"] = content
        server.faults = [Fault(cut_after=1_200_000)] * 4
        remote = RemoteFile(
            id="large",
            name="large.bin",
            urls=(server.url + "/large",),
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=len(content),
        )
        policy = RetryPolicy(first_tries=2, tries=2, first_wait_s=0.0)
        assert ensure(remote, folder, Listener(retry=policy)).read_bytes() == content


def test_bytes_that_a_full_disk_did_not_take_are_not_hashed(tmp_path: Path) -> None:
    class HalfWritten:
        """Takes three bytes, then the disk is full."""

        def __init__(self) -> None:
            self.is_full = False

        def write(self, piece: bytes) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.is_full = True
            return 3

    part = PartFile(tmp_path / "a.part", contextlib.nullcontext)
    part._file.close()
    part._file = HalfWritten()
    with pytest.raises(OSError, match="No space"):
        part.write(b"abcdef")
    assert part.bytes == 3
    assert part.sha256 == hashlib.sha256(b"abc").hexdigest()


def test_no_server_makes_a_download_wait_for_more_than_a_minute(
    remote: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(transfer, "time", clock)
    part: Any = None
    for wanted, waited in ((0.0, 0.0), (0.25, 0.25), (59, 59), (3600, 60)):
        slept.clear()
        Transfer(remote, part, lambda _: None, Listener())._wait(wanted)
        assert sum(slept) == pytest.approx(waited)
