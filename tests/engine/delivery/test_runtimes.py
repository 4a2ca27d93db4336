import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core import errors
from engine.core.control import Control
from engine.core.messages import message
from engine.delivery import runtimes as runtime_store
from engine.delivery.runtimes import RuntimeStore
from engine.files import artifacts
from engine.files.artifacts import ArtifactFolder
from engine.files.transfer import Listener, RetryPolicy
from engine.runtimes import installation as folders
from tests.helpers import runtimes
from tests.helpers.servers import FaultyServer

HASTY = RetryPolicy(first_tries=3, tries=3, timeout_s=0.4, first_wait_s=0.01)
METADATA = f"torch-{runtimes.VERSION}.dist-info"
PACKAGE = {"torch/__init__.py", "torch/version.py", "torch/lib/c10.dll", "torchgen/__init__.py"}


def listener(**changes: object) -> Listener:
    return Listener(**({"retry": HASTY} | changes))


def get(store: RuntimeStore) -> Path:
    """Download and install."""
    wheels = store.download("cu999", listener())
    store.install(store.catalogue.runtime("cu999"), wheels, listener())
    return store.folder_of("cu999")


def leftovers(store: RuntimeStore) -> list[str]:
    """Whatever lies in the folder of runtimes but locks and what is installed."""
    known = {".locks", "downloads", store.folder_of("cu999").name, "chosen.json"}
    return [path.name for path in store.folder.iterdir() if path.name not in known]


def test_a_runtime_is_whole_and_its_wheel_goes(store: RuntimeStore, server: FaultyServer) -> None:
    (store.folder / ".unpack-cu999-1" / "torch").mkdir(parents=True)  # an earlier crash
    wheels = store.download("cu999", listener())
    heard: list[tuple[int, int]] = []
    tells = listener(on_progress=lambda done, total: heard.append((done, total)))
    store.install(store.catalogue.runtime("cu999"), wheels, tells)
    assert heard == sorted(heard)
    assert heard[-1][0] == heard[-1][1] > 20_000
    folder = store.folder_of("cu999")
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    kept = PACKAGE | {f"{METADATA}/METADATA", f"{METADATA}/RECORD", folders.MANIFEST}
    assert files == kept, "headers and import libraries are left out"
    state = store.state("cu999")
    assert (state.state, state.path) == ("here", folder)
    assert store.wheel_bytes(store.catalogue.runtimes[0]) == 0
    assert leftovers(store) == []
    assert server.asked[0][0] == f"/whl/{runtimes.PLACE}"


def test_a_wheel_with_another_hash_is_never_unpacked(
    store: RuntimeStore, server: FaultyServer, wheel: Path
) -> None:
    wrong = bytearray(wheel.read_bytes())
    wrong[500] ^= 1
    server.files[f"/whl/{runtimes.PLACE}"] = bytes(wrong)
    with pytest.raises(errors.HashMismatch):
        store.download("cu999", listener())
    assert not store.folder_of("cu999").exists()
    assert store.state("cu999").state == "missing"


def test_a_full_disk_leaves_what_was_downloaded_and_nothing_else(
    store: RuntimeStore, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ArtifactFolder, "free_bytes", lambda self: 256 * 10**6 + 1)
        with pytest.raises(errors.DiskFull, match="NVIDIA runtime needs"):
            store.download("cu999", listener())
        assert server.asked == [], "it is reported before the first byte"
    wheels = store.download("cu999", listener())
    opened = Path.open

    def full(self: Path, *args: object, **kwargs: object) -> object:
        if self.name == "c10.dll":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(errors.DiskFull):
            store.install(store.catalogue.runtime("cu999"), wheels, listener())
    assert leftovers(store) == []
    assert not store.folder_of("cu999").exists()
    assert wheels[0].is_file(), "the download is kept"


def test_a_second_download_at_the_same_time_is_refused(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_TRY_S", 0.1)
    store.download("cu999", listener())
    with RuntimeStore(store.catalogue).files.held("cu999"):
        assert store.state("cu999").state == "busy"
        with pytest.raises(errors.RuntimeBusy):
            store.download("cu999", listener())
        with pytest.raises(errors.RuntimeBusy):
            store.remove("cu999")


def test_a_wheel_from_the_disk_is_taken_and_stays_there(store: RuntimeStore, wheel: Path) -> None:
    for path in (wheel, wheel.parent):
        runtime, wheels = store.recognise([path], listener())
        store.install(runtime, wheels, listener())
        assert store.state("cu999").state == "here"
        assert wheel.is_file()
        store.remove("cu999")
        assert store.state("cu999").state == "missing"


def test_another_wheel_is_refused(store: RuntimeStore, tmp_path: Path, wheel: Path) -> None:
    other = tmp_path / "torch-1-py3-none-any.whl"
    changed = bytearray(wheel.read_bytes())
    changed[100] ^= 1
    for content in (b"PK", bytes(changed)):
        other.write_bytes(content)
        with pytest.raises(errors.HashMismatch, match="not a wheel"):
            store.recognise([other], listener())
    with pytest.raises(errors.WeightsMissing):
        store.recognise([tmp_path / "nothing.whl"], listener())


def test_a_runtime_for_another_system_sends_no_request(server: FaultyServer, wheel: Path) -> None:
    other = wheel.rename(wheel.with_name("torch-1-cp27-none-win_arm64.whl"))
    store = RuntimeStore(runtimes.catalogue(runtimes.runtime(other), index=server.url))
    assert not store.state("cu999").suits_program
    with pytest.raises(errors.UnsuitableWheel, match="This program cannot load"):
        store.download("cu999", listener())
    assert server.asked == []
    assert not store.folder.exists()


def test_a_damaged_one_is_seen_refused_repaired_and_removed(store: RuntimeStore) -> None:
    folder = get(store)
    store.use("cu999")
    assert store.state("cu999").is_chosen
    (folder / "torch/lib/c10.dll").unlink()
    state = store.state("cu999")
    assert state.state == "broken"
    assert str(state.why) == "the file torch/lib/c10.dll is missing or damaged"
    with pytest.raises(errors.RuntimeBroken, match="is missing or damaged"):
        store.use("cu999")
    get(store)
    assert store.state("cu999").state == "here"
    assert leftovers(store) == []
    store.remove("cu999")
    assert not folder.exists()
    assert folders.chosen() == ""
    assert leftovers(store) == []
    with pytest.raises(errors.WeightsMissing):
        store.remove("cu999")
    with pytest.raises(errors.UnknownRuntime):
        store.remove("cu000")


def test_another_version_is_shown_and_can_be_removed(store: RuntimeStore, tmp_path: Path) -> None:
    old = get(store)
    members = dict(runtimes.MEMBERS) | {"torch/new.py": ""}
    newer = runtimes.runtime(runtimes.wheel(tmp_path / "newer", members))
    later = RuntimeStore(runtimes.catalogue(newer))
    states = {state.id: state for state in later.states()}
    assert states["cu999"].state == "missing"
    assert states[old.name].why == message("reason.runtime.other-version")
    later.remove(old.name)
    assert not old.exists()


def test_a_cancelled_one_leaves_nothing(store: RuntimeStore) -> None:
    wheels = store.download("cu999", listener())
    control = Control()
    with pytest.raises(errors.Cancelled):
        store.install(
            store.catalogue.runtime("cu999"),
            wheels,
            listener(control=control, on_progress=lambda done, total: control.cancel()),
        )
    assert leftovers(store) == []
    assert not store.folder_of("cu999").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no file that is open")
def test_a_wheel_that_is_swapped_after_it_was_hashed_is_never_installed(
    store: RuntimeStore, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other = runtimes.wheel(tmp_path / "other", {"torch/__init__.py": "evil = 1"})
    evil, right = other.read_bytes(), wheel.read_bytes()
    runtime, wheels = store.recognise([wheel], listener())
    wheel.write_bytes(evil)
    with pytest.raises(errors.HashMismatch):
        store.install(runtime, wheels, listener())
    real = runtime_store.unpack
    swaps: list[Callable[[], object]] = [  # after the second look, which is the last
        lambda: other.replace(wheel),
        lambda: wheel.write_bytes(right),
    ]
    for swap in swaps:
        wheel.write_bytes(right)
        monkeypatch.setattr(
            runtime_store, "unpack", lambda *given, swap=swap: (swap(), real(*given))[1]
        )
        with pytest.raises(errors.WeightsUnreadable, match="was changed"):
            store.install(runtime, wheels, listener())
        assert leftovers(store) == []
        assert not store.folder_of("cu999").exists()
    monkeypatch.setattr(runtime_store, "unpack", real)
    store.install(runtime, wheels, listener())
    assert store.is_whole("cu999")


def test_a_wheel_that_would_do_harm_leaves_nothing(store: RuntimeStore, tmp_path: Path) -> None:
    bad = runtimes.wheel(tmp_path / "bad", {"../../outside.py": "", "torch/__init__.py": ""})
    known = RuntimeStore(runtimes.catalogue(runtimes.runtime(bad)))
    runtime, wheels = known.recognise([bad], listener())
    with pytest.raises(errors.UnsafeArchive, match="invalid path"):
        known.install(runtime, wheels, listener())
    assert not list(tmp_path.rglob("outside.py"))
    assert leftovers(known) == []
