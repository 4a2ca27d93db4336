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
from engine.files.catalogue import PublishedFile
from engine.files.hashing import PartFile
from engine.files.model_files import Store, download, remote_file
from engine.files.transfer import Listener, RetryPolicy
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


@dataclasses.dataclass(frozen=True)
class Tiny:
    """One published file, the store that it belongs into, and the server that has it."""

    store: Store
    file: PublishedFile
    server: FaultyServer

    @property
    def part(self) -> Path:
        return self.store.part(self.file.filename)

    def get(self, **listener: object) -> None:
        download(self.file, self.store, Listener(**({"retry": HASTY} | listener)))

    def is_whole(self) -> bool:
        return self.store.ready("tiny").read_bytes() == CONTENT and not self.part.exists()

    def write_part(self, content: bytes) -> None:
        self.store.folder.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(content)

    def quarantined(self) -> list[Path]:
        return list(self.store.folder.glob("*.damaged-*"))


@pytest.fixture
def tiny(store: Store, file: PublishedFile, server: FaultyServer) -> Tiny:
    return Tiny(store, file, server)


def test_a_file_comes_and_is_right(tiny: Tiny) -> None:
    heard: list[tuple[int, int]] = []
    tiny.get(on_progress=lambda done, total: heard.append((done, total)))
    assert tiny.is_whole()
    assert heard[-1] == (len(CONTENT), len(CONTENT))
    assert heard == sorted(heard)
    assert tiny.store.state("tiny").state == "here"
    tiny.get()
    assert len(tiny.server.asked) == 1, "what is here is not asked for again"


def test_faults_of_a_server_are_survived(tiny: Tiny) -> None:
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
        tiny.server.faults = list(faults)
        tiny.get(retry=dataclasses.replace(HASTY, first_tries=4, tries=6))
        assert tiny.is_whole(), faults
        assert not tiny.quarantined(), faults
        tiny.store.remove("tiny")


def test_a_download_goes_on_where_it_ended(tiny: Tiny) -> None:
    tiny.server.always = Fault(cut_after=HALF, status=0)
    tiny.server.faults = [Fault(cut_after=HALF), *[Fault(status=503)] * 3]
    with pytest.raises(errors.DownloadFailed):
        tiny.get()
    state = tiny.store.state("tiny")
    assert (state.state, state.done_bytes) == ("partial", HALF)
    tiny.server.always = GOOD
    tiny.get()
    assert tiny.server.ranges[-1] == f"bytes={HALF}-"
    assert tiny.is_whole()


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
        tiny = Tiny(store_of(Path(folder), server, file), file, server)
        tiny.write_part(rest)
        for _ in range(len(faults) + 3):
            with contextlib.suppress(errors.EngineError):
                tiny.get(retry=dataclasses.replace(HASTY, first_wait_s=0.001))
                break
            assert tiny.store.state("tiny").state != "here"
        assert tiny.is_whole(), "once the server is good, the file comes"


def test_a_whole_part_is_kept_and_a_wrong_one_put_aside(tiny: Tiny) -> None:
    tiny.write_part(CONTENT)
    tiny.get()
    assert tiny.server.asked == []
    for rest in (b"wrong" * 100, CONTENT + b"more"):
        tiny.store.remove("tiny")
        tiny.write_part(rest)
        tiny.get()
        assert tiny.is_whole()
        (aside,) = tiny.quarantined()
        assert aside.read_bytes().startswith(rest)


def test_nothing_that_was_loaded_is_lost_by_a_bad_answer(tiny: Tiny) -> None:
    for fault in (
        Fault(content=b"busy", ignore_range=True),
        Fault(ignore_range=True, cut_after=10),
        Fault(ignore_range=True, no_length=True, cut_after=10),
        Fault(status=416, headers={"Content-Range": "bytes */9"}),
        Fault(status=206),
        Fault(status=500),
    ):
        tiny.write_part(CONTENT[:HALF])
        tiny.server.always = fault
        with pytest.raises(errors.EngineError):
            tiny.get()
        kept = [*tiny.quarantined(), tiny.part]
        assert CONTENT[:HALF] in [path.read_bytes() for path in kept if path.exists()], fault
        tiny.server.always = GOOD
        tiny.get()
        assert tiny.is_whole()
        tiny.store.remove("tiny")


def test_a_wrong_file_is_put_aside_and_never_loaded(tiny: Tiny) -> None:
    tiny.server.faults = [Fault(content=CONTENT[:-1] + b"!")]
    with pytest.raises(errors.HashMismatch):
        tiny.get()
    (aside,) = tiny.quarantined()
    assert aside.read_bytes()[-1:] == b"!", "nothing is deleted"
    assert tiny.store.state("tiny").state == "damaged"
    for ask in (tiny.store.path_of, tiny.store.ready):
        with pytest.raises(errors.HashMismatch):
            ask("tiny")
    tiny.get()
    assert tiny.is_whole()
    assert aside.exists()


def test_a_server_that_delivers_nothing_is_reported_with_a_hint(tiny: Tiny) -> None:
    page = Fault(content=b"<html>Please log in", headers={"Content-Type": "text/html"})
    for fault, words in (
        (Fault(status=404), "404"),
        (Fault(status=503), "503"),
        (Fault(cut_after=0), "lost"),
        (Fault(stall_after=0), "stopped responding"),
        (Fault(drip=1), "almost no data"),
        (page, "web page"),
        (Fault(headers={"Content-Encoding": "gzip"}), "compressed"),
        (Fault(redirect="ftp://127.0.0.1/x"), "ftp"),
        (Fault(redirect="/"), "loop"),
        (Fault(redirect="http://127.0.0.1:port/x"), "not a web address"),
        (Fault(headers={"X-Linked-Etag": '"' + "0" * 64 + '"'}), "another file"),
    ):
        tiny.server.always = fault
        with pytest.raises(errors.DownloadFailed, match=words) as caught:
            tiny.get(retry=dataclasses.replace(HASTY, first_tries=1, tries=1))
        assert "127.0.0.1" in caught.value.message
        assert caught.value.hint
        assert not tiny.quarantined()
        with pytest.raises(errors.WeightsMissing, match=r"tiny\.safetensors"):
            tiny.store.ready("tiny")
        tiny.part.unlink(missing_ok=True)
    tiny.server.close()
    with pytest.raises(errors.DownloadFailed, match="does not accept connections"):
        tiny.get()


def test_a_mirror_is_asked_first_and_the_publisher_after_it(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MIRROR", f"{tiny.server.url}/mirror/")
    mirrored = "/mirror/some/body/resolve/main/tiny.safetensors"
    tiny.get()
    assert [path for path, _ in tiny.server.asked] == [mirrored, PLACE]
    assert tiny.is_whole()
    tiny.store.remove("tiny")
    tiny.server.files[mirrored] = b"something else"
    tiny.get()
    assert tiny.is_whole()
    assert len(tiny.quarantined()) == 1


def test_the_hubs_own_variable_stands_for_the_hub_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    store = Store(tmp_path)
    named = {file.id: remote_file(file, store).urls for file in store.catalogue}
    assert named["seedvr2-3b-fp16"] == (
        "https://mirror.example/numz/SeedVR2_comfyUI/resolve/main/seedvr2_ema_3b_fp16.safetensors",
    )
    hub, *others = named["seedvr2-text"]
    assert hub.startswith("https://mirror.example/ByteDance-Seed/SeedVR2-3B/resolve/37255ff8")
    assert others
    assert all("mirror.example" not in url for url in others)


def test_a_disk_that_fills_up_keeps_the_part(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PartFile.write

    def write(self: PartFile, piece: bytes) -> None:
        if self.bytes > HALF:
            with tiny.store.writing():
                raise OSError(errno.ENOSPC, "No space left on device")
        real(self, piece)

    monkeypatch.setattr(PartFile, "write", write)
    with pytest.raises(errors.DiskFull):
        tiny.get()
    monkeypatch.setattr(PartFile, "write", real)
    assert tiny.store.state("tiny").done_bytes > HALF
    tiny.get()
    assert tiny.is_whole()


@pytest.mark.skipif(  # Wine shows the devices of its host as common files
    sys.platform == "win32" or not Path("/dev/full").exists(),
    reason="no device that is always full",
)
def test_a_device_without_space_is_a_full_disk(tiny: Tiny) -> None:
    tiny.store.folder.mkdir(parents=True)
    tiny.part.symlink_to("/dev/full")
    with pytest.raises(errors.DiskFull):
        tiny.get()


def test_a_folder_that_is_a_file_is_reported(tiny: Tiny) -> None:
    tiny.store.folder.write_text("not a folder")
    with pytest.raises(errors.OutputUnwritable):
        tiny.get()


def test_stop_ends_a_download_at_once(tiny: Tiny) -> None:
    for fault in (Fault(stall_after=HALF), Fault(drip=100), Fault(status=503)):
        control, tiny.server.always = Control(), fault
        threading.Timer(0.3, control.cancel).start()
        begin = time.monotonic()
        with pytest.raises(errors.Cancelled):
            tiny.get(control=control, retry=RetryPolicy())
        assert time.monotonic() - begin < 3
        assert not tiny.quarantined()


def test_a_copy_of_another_program_is_read_unless_it_is_wrong(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "ComfyUI" / "models" / "SEEDVR2" / tiny.file.filename
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path / "ComfyUI"))
    tiny.get()
    assert tiny.server.asked == []
    state = tiny.store.state("tiny")
    assert (state.state, state.borrowed, state.path) == ("here", True, copy)
    copy.write_bytes(b"lost")
    tiny.get()
    assert tiny.is_whole()
    assert copy.read_bytes() == b"lost"
