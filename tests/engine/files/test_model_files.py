import contextvars
import errno
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.core import errors
from engine.core.control import Control
from engine.files import artifacts
from engine.files.artifacts import Locks
from engine.files.catalogue import PublishedFile
from engine.files.formats.file_map import FileMap
from engine.files.hashing import FileIdentity, sha256_of
from engine.files.model_files import Store, download
from engine.files.transfer import Listener
from engine.protocol.model_file_state import Copy, PublishedState
from tests.helpers.servers import CONTENT, FaultyServer, published, store_of

OTHER = Copy(repository="some/other", place="vae/another_name.safetensors")


def put(store: Store, content: bytes = CONTENT, name: str = "tiny.safetensors") -> Path:
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.folder / name
    path.write_bytes(content)
    return path


def reads_of(store: Store) -> int:
    """How often the file is read when it is loaded twice."""
    heard: list[int] = []
    for _ in range(2):
        store.ready("tiny", on_progress=lambda done, total: heard.append(done == total))
    return sum(heard)


def test_a_missing_file_is_reported_with_the_command_that_downloads_it(store: Store) -> None:
    assert store.state("tiny").state == "missing"
    for ask in (store.path_of, store.ready):
        with pytest.raises(errors.WeightsMissing) as caught:
            ask("tiny")
        assert "models download tiny" in caught.value.hint
    with pytest.raises(errors.UnknownWeights):
        store.ready("tinier")
    assert not store.folder.exists(), "a query creates no files"


def test_a_file_is_read_once_before_it_is_loaded(store: Store) -> None:
    path = put(store)
    assert store.state("tiny").state == "unverified"
    assert store.path_of("tiny") == path
    control = Control()
    control.cancel()
    with pytest.raises(errors.Cancelled):
        store.ready("tiny", control=control)
    assert store.state("tiny").state == "unverified"
    assert reads_of(store) == 1
    assert store.state("tiny").state == "here"
    assert reads_of(Store(store.folder, files=store.catalogue)) == 0
    (store.folder / "files.json").write_text("[{]")  # a damaged cache of hashes
    assert store.state("tiny").state == "unverified"
    assert reads_of(store) == 1


def test_a_file_that_was_touched_is_read_again(store: Store) -> None:
    path = put(store)
    store.ready("tiny")
    os.utime(path, (1, 1))
    assert store.state("tiny").state == "unverified"
    assert reads_of(store) == 1
    put(store, CONTENT[:-1] + b"?")
    os.utime(path, (2, 2))
    with pytest.raises(errors.HashMismatch):
        store.ready("tiny")


def test_an_open_file_is_the_same_as_that_of_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tiny.safetensors"
    path.write_bytes(CONTENT)
    os.utime(path, (1, 1))
    with path.open("rb") as file:
        assert FileIdentity.of(file) == FileIdentity.of(path)


def test_a_wrong_file_of_ours_is_put_aside(store: Store) -> None:
    path = put(store, b"wrong")
    with pytest.raises(errors.HashMismatch, match="not the published file"):
        store.ready("tiny")
    assert not path.exists()
    put(store, b"wrong again")
    with pytest.raises(errors.HashMismatch):
        store.ready("tiny")
    kept = [aside.read_bytes() for aside in store.folder.glob("*.damaged-*")]
    assert sorted(kept) == [b"wrong", b"wrong again"]
    assert store.state("tiny").state == "damaged"


def test_a_wrong_size_is_seen_without_reading(tmp_path: Path, server: FaultyServer) -> None:
    store = store_of(tmp_path, server, published(bytes=len(CONTENT)))
    put(store, CONTENT[:-1])
    assert store.state("tiny").state == "damaged"
    with pytest.raises(errors.HashMismatch):
        store.ready("tiny")


def test_files_of_other_programs_are_read_in_place(
    tmp_path: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = published(also=(OTHER,), place="split_files/vae/tiny.safetensors")
    store = store_of(tmp_path / "models", server, file)
    monkeypatch.setenv("UPREEL_COMFYUI", os.pathsep.join(["/nowhere", str(tmp_path / "comfy")]))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for place in (
        "comfy/models/SEEDVR2/tiny.safetensors",
        "comfy/models/diffusion_models/tiny.safetensors",
        "comfy/vae/tiny.safetensors",
        "comfy/models/vae/another_name.safetensors",
        f"hub/models--some--body/snapshots/abc/{file.place}",
        f"hub/models--some--other/snapshots/abc/{OTHER.place}",
        f"hub/models--some--body/blobs/{file.sha256}",
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        state = store.state("tiny")
        assert (state.state, state.path, state.borrowed) == ("unverified", path, True)
        assert store.ready("tiny") == path
        with pytest.raises(errors.WeightsError, match="Upreel does not manage"):
            store.remove("tiny")
        path.write_bytes(b"changed by its owner")
        with pytest.raises(errors.HashMismatch):
            store.ready("tiny")
        assert path.read_bytes() == b"changed by its owner"
        assert store.state("tiny").state == "damaged"
        path.unlink()


def test_a_spare_file_is_listed_only_where_it_is_here(tmp_path: Path, server: FaultyServer) -> None:
    store = store_of(tmp_path, server, published(spare=True))
    assert store.states() == ()
    assert store.state("tiny").state == "missing"
    put(store, CONTENT)
    assert [state.state for state in store.states()] == ["unverified"]


def test_the_case_of_a_name_counts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows both names open it: wan2.2_vae is not Wan2.2_VAE."""
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path))
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "Tiny.safetensors").write_bytes(CONTENT)
    monkeypatch.setattr(
        Path,
        "is_file",
        lambda path: path.name.lower() == "tiny.safetensors" and "vae" in path.parts,
    )
    assert store.state("tiny").state == "missing"


def swap(path: Path, content: bytes) -> None:
    """Put another file of the same size and time of change in its place."""
    about, other = path.stat(), path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
    other.replace(path)


def test_only_the_very_file_that_was_hashed_is_opened(store: Store) -> None:
    path = put(store)
    other = bytes(len(CONTENT))
    assert store.ready("tiny") == path
    FileMap(path).close()
    swap(path, other)
    with pytest.raises(errors.WeightsUnreadable, match="was changed"):
        FileMap(path)
    contextvars.Context().run(FileMap, path).close()  # another thread may plan with what is there
    assert store.state("tiny").state == "unverified", "it is read again"
    with pytest.raises(errors.HashMismatch):
        store.ready("tiny")
    path = put(store)
    store.ready("tiny")
    FileMap(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no file that is open")
def test_a_file_that_is_swapped_while_it_is_hashed_is_not_noted(store: Store) -> None:
    path = put(store)
    swaps = iter([lambda: swap(path, bytes(len(CONTENT)))])
    with pytest.raises(errors.WeightsUnreadable, match="was changed"):
        store.ready("tiny", on_progress=lambda *_: next(swaps, lambda: None)())
    assert store.state("tiny").state == "unverified"


def test_our_own_copy_comes_before_a_borrowed_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path))
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "tiny.safetensors").write_bytes(CONTENT)
    store.ready("tiny")
    mine = put(store)
    store.note(mine, sha256_of(mine), FileIdentity.of(mine))
    assert store.ready("tiny") == mine
    store.remove("tiny")
    assert store.state("tiny").borrowed


def test_remove_takes_everything_of_ours_and_nothing_else(store: Store) -> None:
    for name in ("", ".part", ".damaged-20260101-000000"):
        put(store, name=f"tiny.safetensors{name}")
    other = put(store, name="another.safetensors")
    store.remove("tiny")
    left = {path for path in store.folder.iterdir() if path.suffix not in (".json", ".lock")}
    assert left == {other, store.folder / ".locks"}
    with pytest.raises(errors.WeightsMissing):
        store.remove("tiny")
    with pytest.raises(errors.WeightsUnreadable):
        sha256_of(store.folder)


def test_a_file_of_the_user_is_listed_checked_and_forgotten(store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"my weights")
    digest = sha256_of(mine)
    own = PublishedState(
        id="own-1",
        title="mine.gguf",
        kind="dit",
        models=("seedvr2-3b",),
        precision="q4",
        filename="mine.gguf",
        sha256=digest,
    )
    store.note(mine, digest, FileIdentity.of(mine), linked=True, own=own)
    state = store.state("own-1")
    assert (state.state, state.borrowed, state.is_own) == ("here", True, True)
    assert store.ready("own-1") == mine
    mine.write_bytes(b"other weights")
    with pytest.raises(errors.HashMismatch):
        store.ready("own-1")
    mine.unlink()
    with pytest.raises(errors.WeightsMissing):
        store.ready("own-1")
    store.remove("own-1")
    assert [known.id for known in store.states()] == ["tiny"]


def test_a_folder_that_can_only_be_read_is_used_and_read_each_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(store)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Locks, "held", refuse)
    assert reads_of(store) == 2
    path.write_bytes(b"wrong")
    with pytest.raises(errors.HashMismatch):
        store.ready("tiny")
    assert path.read_bytes() == b"wrong"


def test_a_busy_file_is_waited_for_before_it_is_loaded(
    store: Store, file: PublishedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_TRY_S", 0.1)
    put(store)
    with store.held("tiny"):
        assert store.state("tiny").state == "busy"
        with pytest.raises(errors.WeightsBusy):
            store.remove("tiny")
        with pytest.raises(errors.WeightsBusy):
            download(file, store, Listener())
        found: list[Path] = []
        thread = threading.Thread(target=lambda: found.append(store.ready("tiny")))
        thread.start()
        time.sleep(0.1)
        assert not found
    thread.join()
    assert found == [store.folder / "tiny.safetensors"]


def test_a_full_disk_is_reported_with_sizes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.free_bytes() > 0
    monkeypatch.setattr(Store, "free_bytes", lambda _: 10**9)
    store.need(5 * 10**8)
    with pytest.raises(errors.DiskFull, match=r"1\.0 GB free, but 2\.0 GB") as caught:
        store.need(2 * 10**9)
    assert "UPREEL_MODELS" in caught.value.hint
