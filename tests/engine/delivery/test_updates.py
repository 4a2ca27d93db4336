"""Updates from a server on loopback: good ones, and everything that can be wrong with them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from engine import __version__
from engine.core import errors, paths
from engine.core.control import Control
from engine.delivery import updates as store_module
from engine.delivery.updates import UpdateStore
from engine.files import artifacts
from engine.files.artifacts import ArtifactFolder, Locks
from engine.files.hashing import sha256_of
from engine.files.transfer import Listener, RetryPolicy
from tests.helpers.servers import NEWER, SETUP, Fault, Release

QUICK = RetryPolicy(tries=3, first_tries=2, first_wait_s=0.01, timeout_s=1.0)


@pytest.fixture
def store(release: Release) -> UpdateStore:
    """Knows of no newer version yet."""
    return UpdateStore()


@pytest.fixture
def checked(store: UpdateStore) -> UpdateStore:
    """Knows the newer version."""
    store.check(Control())
    return store


def listener() -> Listener:
    return Listener(retry=QUICK)


def ready(store: UpdateStore) -> Path:
    """The setup, when it is free again."""
    with store.ready() as path:
        return path


def asked(release: Release) -> list[str]:
    return [path for path, _ in release.server.asked]


def files(store: UpdateStore) -> set[str]:
    return {path.name for path in store.folder.glob("u*")}


def test_from_the_first_question_to_the_setup(release: Release, store: UpdateStore) -> None:
    assert (store.state().newer, store.state().is_in_build) == ("", True)
    for verb in (lambda: store.download(listener()), lambda: ready(store)):
        with pytest.raises(errors.UpdateMissing, match="No newer version is known"):
            verb()
    control = Control()
    control.cancel()
    with pytest.raises(errors.Cancelled):
        store.check(control)
    assert asked(release) == [], "no request is sent without a check"
    store.check(Control())
    state = store.state()
    assert (state.version, state.newer, state.date) == (__version__, NEWER, "2026-12-01")
    assert (state.bytes, state.done_bytes, state.is_ready) == (len(SETUP), 0, False)
    assert state.notes["zh_CN"] == "- 更快。"
    store.download(listener())
    assert store.state().is_ready
    path = ready(store)
    assert path.read_bytes() == SETUP
    assert path == paths.cache_folder() / "updates" / f"upreel-{NEWER}-setup.exe"
    assert UpdateStore().state().is_ready  # after another start, without a request
    assert asked(release) == [f"/upreel/{n}" for n in ("update.json", "update.json.sig", path.name)]


def test_a_build_from_the_sources_sends_no_request(
    release: Release, store: UpdateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resources/update.toml").write_text('address = ""\nkeys = []\n', "utf-8")
    monkeypatch.setenv("UPREEL_UPDATES", release.address)
    assert not store.state().is_in_build
    for verb in (
        lambda: store.check(Control()),
        lambda: store.download(listener()),
        lambda: ready(store),
    ):
        with pytest.raises(errors.UpdateNotInBuild, match="cannot check for updates"):
            verb()
    assert asked(release) == []


def test_an_older_or_equal_version_is_never_offered(release: Release, store: UpdateStore) -> None:
    for version in (__version__, "0.0.0.1", "0.0.9"):
        release.publish(version)
        store.check(Control())
        assert store.state().newer == ""
        assert files(store) == set()
    for name in ("update.json", "update.json.sig"):  # nor is one that was put into our folder
        (store.folder / name).write_bytes(release.server.files[f"/upreel/{name}"])
    assert store.state().newer == ""
    with pytest.raises(errors.UpdateMissing):
        ready(store)


def test_a_newer_version_replaces_a_downloaded_one(release: Release, store: UpdateStore) -> None:
    release.publish("99.0.0")
    store.check(Control())
    store.download(listener())
    release.publish(NEWER)
    store.check(Control())
    state = store.state()
    assert (state.newer, state.is_ready, state.done_bytes) == (NEWER, False, 0)
    assert files(store) == {"update.json", "update.json.sig"}


def test_the_new_version_deletes_its_setup(release: Release, checked: UpdateStore) -> None:
    checked.download(listener())
    checked.tidy()
    assert checked.state().is_ready  # not installed yet
    so_far = asked(release)
    after = UpdateStore(version=NEWER)
    assert after.state().newer == ""
    after.tidy()
    assert files(checked) == set()
    assert asked(release) == so_far
    checked.check(Control())
    checked.download(listener())
    after.check(Control())
    assert files(after) == set()


def test_a_build_that_cannot_judge_deletes_nothing(checked: UpdateStore, tmp_path: Path) -> None:
    checked.download(listener())
    for text in ('address = ""\nkeys = []\n', "address ="):
        (tmp_path / "resources/update.toml").write_text(text, "utf-8")
        checked.tidy()
    assert len(files(checked)) == 3


def test_another_key_is_refused_and_changes_nothing(release: Release, checked: UpdateStore) -> None:
    content = release.publish("99.2.0")
    release.publish_text(content, SigningKey(b"x" * 32))
    with pytest.raises(errors.UpdateUntrusted):
        checked.check(Control())
    assert checked.state().newer == NEWER


def test_a_changed_description_is_refused(release: Release, store: UpdateStore) -> None:
    content = release.publish()
    release.server.files["/upreel/update.json"] = content.replace(b"Faster", b"Foster")
    with pytest.raises(errors.UpdateUntrusted):
        store.check(Control())
    assert files(store) == set()


def test_a_description_changed_on_our_disk_counts_as_none(checked: UpdateStore) -> None:
    file = checked.folder / "update.json"
    file.write_bytes(file.read_bytes().replace(b"Faster", b"Foster"))
    assert checked.state().newer == ""


def test_a_changed_byte_of_the_setup(release: Release, checked: UpdateStore) -> None:
    name = f"/upreel/upreel-{NEWER}-setup.exe"
    release.server.files[name] = SETUP[:-1] + b"!"
    with pytest.raises(errors.UpdateDamaged, match="not the published file"):
        checked.download(listener())
    assert files(checked) == {"update.json", "update.json.sig"}, "the wrong setup is deleted"
    release.server.files[name] = SETUP
    checked.download(listener())
    assert ready(checked).read_bytes() == SETUP


def test_a_byte_changed_after_the_download(checked: UpdateStore) -> None:
    for changed in (SETUP[:-1] + b"!", SETUP + b"!"):
        checked.download(listener())
        path = ready(checked)
        times = path.stat()
        path.write_bytes(changed)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as before the change
        with pytest.raises(errors.UpdateDamaged):
            ready(checked)
        assert not path.exists()
        assert not checked.state().is_ready


def test_the_setup_is_held_from_its_hash_to_its_start(
    checked: UpdateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @contextmanager
    def held(path: Path) -> Iterator[None]:
        seen.append(f"held {path.name}")
        yield
        seen.append("free")

    def hashed(path: Path, *more: Any) -> str:
        seen.append("hashed")
        return sha256_of(path, *more)

    checked.download(listener())
    monkeypatch.setattr(store_module, "_held", held)
    monkeypatch.setattr(store_module, "sha256_of", hashed)
    with checked.ready() as path:
        seen.append("started")
    assert seen == [f"held {path.name}", "hashed", "started", "free"]


@pytest.mark.skipif(sys.platform != "win32", reason="only Windows keeps programs from a file")
def test_nobody_changes_a_held_setup(checked: UpdateStore, tmp_path: Path) -> None:
    checked.download(listener())
    other = tmp_path / "other.exe"
    other.write_bytes(b"other")
    with checked.ready() as path:
        for change in (
            lambda: path.write_bytes(b"other"),
            path.unlink,
            lambda: other.replace(path),
            lambda: path.rename(tmp_path / "away.exe"),
        ):
            with pytest.raises(PermissionError):
                change()
        assert path.read_bytes() == SETUP


def test_a_setup_of_that_name_elsewhere_is_never_taken(
    checked: UpdateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models/vae").mkdir(parents=True)
    (tmp_path / f"models/vae/upreel-{NEWER}-setup.exe").write_bytes(SETUP)
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path))
    assert not checked.state().is_ready
    checked.download(listener())
    assert ready(checked).parent == checked.folder


def test_a_cut_download_goes_on_where_it_ended(release: Release, checked: UpdateStore) -> None:
    release.server.faults = [Fault(cut_after=30_000), Fault(status=404)]
    with pytest.raises(errors.UpdateUnreachable, match="status 404") as failed:
        checked.download(listener())
    assert "resumes where it stopped" in failed.value.hint
    assert checked.state().done_bytes == 30_000
    checked.download(listener())
    assert release.server.ranges[-1] == "bytes=30000-"
    assert ready(checked).read_bytes() == SETUP


def test_whatever_a_server_gives_instead(
    release: Release, store: UpdateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Fault(headers={"Content-Type": "text/html; charset=utf-8"})
    for fault, why in (
        (page, "a web page instead"),
        (Fault(status=404), "status 404"),
        (Fault(status=503), "status 503"),
        (Fault(content=b"x" * 300_000), "far more data"),
        (Fault(cut_after=20), "the connection was lost"),
    ):
        release.server.faults = [fault]
        with pytest.raises(errors.UpdateUnreachable, match=why) as failed:
            store.check(Control())
        assert failed.value.hint
        assert store.state().newer == ""
    release.server.faults = [Fault(), page]  # in the place of the signature
    with pytest.raises(errors.UpdateUnreachable, match="a web page instead") as failed:
        store.check(Control())
    assert "require a login" in failed.value.hint
    release.server.faults = [Fault(), Fault(content=b"<html>not marked as one</html>")]
    with pytest.raises(errors.UpdateUntrusted):
        store.check(Control())
    monkeypatch.setenv("UPREEL_UPDATES", "http://127.0.0.1:9/update.json")
    with pytest.raises(
        errors.UpdateUnreachable, match=r"127.0.0.1 could not be asked .* accept connections"
    ):
        store.check(Control())


def test_a_folder_that_cannot_be_written(store: UpdateStore) -> None:
    store.folder.parent.mkdir(parents=True)
    store.folder.write_text("a file lies in its place")
    with pytest.raises(errors.OutputUnwritable, match="updates folder"):
        store.check(Control())


def test_a_held_setup_or_a_full_disk_is_reported_before_the_download(
    release: Release, checked: UpdateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_TRY_S", 0.1)
    locks = Locks(checked.folder / ".locks")
    with locks.held(f"upreel-{NEWER}-setup.exe"), pytest.raises(errors.UpdateBusy):
        checked.download(listener())
    monkeypatch.setattr(ArtifactFolder, "free_bytes", lambda self: 1000)
    with pytest.raises(errors.DiskFull, match="the update needs"):
        checked.download(listener())
    assert asked(release)[-1].endswith(".sig")
