import contextlib
import dataclasses
import errno
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import errors
from engine.core.control import Control
from engine.downloads.part_file import PartFile
from engine.downloads.transfer import Listener, RetryPolicy
from engine.model_files.catalogue import PublishedFile
from engine.model_files.store import Store, download, remote_file
from tests.helpers.servers import (
    CONTENT,
    GOOD,
    PLACE,
    Fault,
    FaultyServer,
    faulty_server,
    published,
    store_of,
)

HASTY = RetryPolicy(
    first_tries=3, tries=3, timeout_s=0.4, first_wait_s=0.01, slowest=20_000, slow_s=0.3
)
HALF = len(CONTENT) // 2


def get(store: Store, file: PublishedFile, **listener: object) -> None:
    download(file, store, Listener(**({"retry": HASTY} | listener)))


def is_whole(store: Store, file: PublishedFile) -> bool:
    path = store.ready(file.id)
    return path.read_bytes() == CONTENT and not store.part(file.filename).exists()


def part_of(store: Store, file: PublishedFile, content: bytes) -> Path:
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.part(file.filename)
    path.write_bytes(content)
    return path


def quarantined(store: Store) -> list[Path]:
    return list(store.folder.glob("*.damaged-*"))


def test_a_file_comes_and_is_right(store: Store, file: PublishedFile, server: FaultyServer) -> None:
    heard: list[tuple[int, int]] = []
    get(store, file, on_progress=lambda done, total: heard.append((done, total)))
    assert is_whole(store, file)
    assert heard[-1] == (len(CONTENT), len(CONTENT))
    assert heard == sorted(heard)
    assert store.state("tiny").state == "here"
    get(store, file)
    assert len(server.asked) == 1, "what is here is not asked for again"


def test_faults_of_a_server_are_survived(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    for faults in (
        [Fault(cut_after=0), Fault(cut_after=5000), Fault(cut_after=1)],
        [Fault(stall_after=HALF)],
        [Fault(drip=500)],
        [Fault(cut_after=HALF), Fault(ignore_range=True)],
        [Fault(cut_after=HALF), Fault(shift_range=-7)],
        [Fault(cut_after=HALF), Fault(status=416, headers={"Content-Range": "bytes */9"})],
        [Fault(length=len(CONTENT) + 4000)],
        [Fault(chunked=True, cut_after=HALF)],
        [Fault(status=429, headers={"Retry-After": "0"}), Fault(status=500)],
        [Fault(cut_after=10), *[Fault(status=503)] * 4],
    ):
        server.faults = list(faults)
        get(store, file, retry=dataclasses.replace(HASTY, first_tries=4, tries=6))
        assert is_whole(store, file), faults
        assert not quarantined(store), faults
        store.remove("tiny")


def test_a_download_goes_on_where_it_ended(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    server.always = Fault(cut_after=HALF, status=0)
    server.faults = [Fault(cut_after=HALF), *[Fault(status=503)] * 3]
    with pytest.raises(errors.DownloadFailed):
        get(store, file)
    state = store.state("tiny")
    assert (state.state, state.done_bytes) == ("partial", HALF)
    server.always = GOOD
    get(store, file)
    assert server.ranges[-1] == f"bytes={HALF}-"
    assert is_whole(store, file)


FAULTS = st.one_of(
    st.builds(Fault, cut_after=st.integers(0, len(CONTENT)), chunked=st.booleans()),
    st.builds(Fault, length=st.integers(0, 2 * len(CONTENT))),
    st.builds(Fault, ignore_range=st.booleans(), cut_after=st.integers(0, len(CONTENT))),
    st.builds(Fault, shift_range=st.integers(-9, 9)),
    st.builds(Fault, status=st.sampled_from([204, 206, 304, 400, 404, 416, 429, 500, 503])),
    st.builds(Fault, content=st.binary(max_size=300)),
    st.builds(Fault, no_length=st.just(True), cut_after=st.integers(0, len(CONTENT))),
)


@settings(max_examples=25, deadline=None)
@given(
    faults=st.lists(FAULTS, max_size=6),
    rest=st.binary(max_size=40),
    known_bytes=st.sampled_from([0, len(CONTENT)]),
)
def test_whatever_a_server_does_a_file_that_is_here_is_right(
    faults: list[Fault], rest: bytes, known_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, faulty_server() as server:
        server.files[PLACE] = CONTENT
        server.faults = list(faults)
        file = published(bytes=known_bytes)
        store = store_of(Path(folder), server, file)
        part_of(store, file, rest)
        policy = dataclasses.replace(HASTY, first_wait_s=0.001)
        for _ in range(len(faults) + 3):
            with contextlib.suppress(errors.EngineError):
                get(store, file, retry=policy)
                break
            assert store.state("tiny").state != "here"
        assert is_whole(store, file), "once the server is good, the file comes"


def test_a_whole_part_is_kept_and_a_wrong_one_put_aside(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    part_of(store, file, CONTENT)
    get(store, file)
    assert server.asked == []
    for rest in (b"wrong" * 100, CONTENT + b"more"):
        store.remove("tiny")
        part_of(store, file, rest)
        get(store, file)
        assert is_whole(store, file)
        (aside,) = quarantined(store)
        assert aside.read_bytes().startswith(rest)


def test_nothing_that_was_loaded_is_lost_by_a_bad_answer(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    for fault in (
        Fault(content=b"busy", ignore_range=True),
        Fault(ignore_range=True, cut_after=10),
        Fault(ignore_range=True, no_length=True, cut_after=10),
        Fault(status=416, headers={"Content-Range": "bytes */9"}),
        Fault(status=206),
        Fault(status=500),
    ):
        part_of(store, file, CONTENT[:HALF])
        server.always = fault
        with pytest.raises(errors.EngineError):
            get(store, file)
        kept = [*quarantined(store), store.part(file.filename)]
        assert CONTENT[:HALF] in [path.read_bytes() for path in kept if path.exists()], fault
        server.always = GOOD
        get(store, file)
        assert is_whole(store, file)
        store.remove("tiny")


def test_a_wrong_file_is_put_aside_and_never_loaded(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    server.faults = [Fault(content=CONTENT[:-1] + b"!")]
    with pytest.raises(errors.HashMismatch):
        get(store, file)
    (aside,) = quarantined(store)
    assert aside.read_bytes()[-1:] == b"!", "nothing is deleted"
    assert store.state("tiny").state == "damaged"
    for ask in (store.path_of, store.ready):
        with pytest.raises(errors.HashMismatch):
            ask("tiny")
    get(store, file)
    assert is_whole(store, file)
    assert aside.exists()


def test_a_server_that_delivers_nothing_is_reported_with_a_hint(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    page = Fault(content=b"<html>Please log in", headers={"Content-Type": "text/html"})
    for fault, words in (
        (Fault(status=404), "404"),
        (Fault(status=503), "503"),
        (Fault(cut_after=0), "cut"),
        (Fault(stall_after=0), "stopped answering"),
        (Fault(drip=1), "almost nothing"),
        (page, "web page"),
        (Fault(headers={"Content-Encoding": "gzip"}), "compressed"),
        (Fault(redirect="ftp://127.0.0.1/x"), "ftp"),
        (Fault(redirect="/"), "circle"),
        (Fault(headers={"X-Linked-Etag": '"' + "0" * 64 + '"'}), "another file"),
    ):
        server.always = fault
        with pytest.raises(errors.DownloadFailed, match=words) as caught:
            get(store, file)
        assert "127.0.0.1" in caught.value.message
        assert caught.value.hint
        assert not quarantined(store)
        with pytest.raises(errors.WeightsMissing, match=r"tiny\.safetensors"):
            store.ready("tiny")
        store.part(file.filename).unlink(missing_ok=True)


def test_a_mirror_is_asked_first_and_the_publisher_after_it(
    store: Store, file: PublishedFile, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MIRROR", f"{server.url}/mirror/")
    mirrored = "/mirror/some/body/resolve/main/tiny.safetensors"
    get(store, file)
    assert [path for path, _ in server.asked] == [mirrored, PLACE]
    assert is_whole(store, file)
    store.remove("tiny")
    server.files[mirrored] = b"something else"
    get(store, file)
    assert is_whole(store, file)
    assert len(quarantined(store)) == 1


def test_the_hubs_own_variable_stands_for_the_hub_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    store = Store(tmp_path)
    named = {file.id: remote_file(file, store).urls for file in store.catalogue}
    assert named["seedvr2-3b-fp16"] == (
        "https://mirror.example/numz/SeedVR2_comfyUI/resolve/main/seedvr2_ema_3b_fp16.safetensors",
    )
    assert all("mirror.example" not in url for url in named["seedvr2-text"])


def test_a_disk_that_fills_up_keeps_what_is_there(
    store: Store, file: PublishedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PartFile.write

    def write(self: PartFile, piece: bytes) -> None:
        if self.bytes > HALF:
            with store.writing():
                raise OSError(errno.ENOSPC, "No space left on device")
        real(self, piece)

    monkeypatch.setattr(PartFile, "write", write)
    with pytest.raises(errors.DiskFull):
        get(store, file)
    monkeypatch.setattr(PartFile, "write", real)
    assert store.state("tiny").done_bytes > HALF
    get(store, file)
    assert is_whole(store, file)


@pytest.mark.skipif(  # Wine shows the devices of its host as common files
    sys.platform == "win32" or not Path("/dev/full").exists(),
    reason="no device that is always full",
)
def test_a_device_without_space_is_a_full_disk(store: Store, file: PublishedFile) -> None:
    store.folder.mkdir(parents=True)
    store.part(file.filename).symlink_to("/dev/full")
    with pytest.raises(errors.DiskFull):
        get(store, file)


def test_a_folder_that_is_a_file_is_reported(
    file: PublishedFile, server: FaultyServer, tmp_path: Path
):
    (tmp_path / "models").write_text("not a folder")
    with pytest.raises(errors.OutputUnwritable):
        get(store_of(tmp_path / "models", server, file), file)


def test_stop_ends_a_download_at_once(
    store: Store, file: PublishedFile, server: FaultyServer
) -> None:
    for fault in (Fault(stall_after=HALF), Fault(drip=100), Fault(status=503)):
        control, server.always = Control(), fault
        threading.Timer(0.3, control.cancel).start()
        begin = time.monotonic()
        with pytest.raises(errors.Cancelled):
            get(store, file, control=control, retry=RetryPolicy())
        assert time.monotonic() - begin < 3
        assert not quarantined(store)


def test_a_copy_of_another_program_is_read_unless_it_is_wrong(
    store: Store,
    file: PublishedFile,
    server: FaultyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "ComfyUI" / "models" / "SEEDVR2" / file.filename
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path / "ComfyUI"))
    get(store, file)
    assert server.asked == []
    state = store.state("tiny")
    assert (state.state, state.borrowed, state.path) == ("here", True, copy)
    copy.write_bytes(b"cut")
    get(store, file)
    assert is_whole(store, file)
    assert copy.read_bytes() == b"cut"
