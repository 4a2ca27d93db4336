"""Updates from a server on loopback: good ones, and everything that can be wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from engine import __version__
from engine.core import paths
from engine.core.control import Control
from engine.core.errors import (
    Cancelled,
    DiskFull,
    EngineError,
    OutputUnwritable,
    UpdateBusy,
    UpdateDamaged,
    UpdateMissing,
    UpdateNotInBuild,
    UpdateTooNew,
    UpdateUnreachable,
    UpdateUntrusted,
)
from engine.downloads.transfer import Listener, RetryPolicy
from engine.updates.store import UpdateStore
from tests.helpers.faulty_server import Fault, faulty_server
from tests.helpers.updates import NEWER, SETUP, Release

QUICK = RetryPolicy(tries=3, first_tries=2, first_wait_s=0.01, timeout_s=1.0)


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    with faulty_server() as server:
        release = Release(server)
        monkeypatch.setenv("UPREEL_RESOURCES", str(release.build(tmp_path / "resources")))
        monkeypatch.delenv("UPREEL_UPDATES", raising=False)
        yield release


@pytest.fixture
def store(release: Release) -> UpdateStore:
    return UpdateStore()


def listener(control: Control | None = None) -> Listener:
    return Listener(control=control or Control(), retry=QUICK)


def asked(release: Release) -> list[str]:
    return [path for path, _ in release.server.asked]


def files(store: UpdateStore) -> set[str]:
    return {path.name for path in store.folder.glob("u*")}


def test_from_the_first_question_to_the_setup(release: Release, store: UpdateStore) -> None:
    release.publish()
    assert store.state().newer == ""
    store.check(Control())
    state = store.state()
    assert (state.version, state.newer, state.date) == (__version__, NEWER, "2026-12-01")
    assert (state.bytes, state.done_bytes, state.is_ready) == (len(SETUP), 0, False)
    assert state.notes["zh_CN"] == "- 更快。"
    store.download(listener())
    assert store.state().is_ready
    path = store.ready()
    assert path.read_bytes() == SETUP
    assert path == paths.cache_folder() / "updates" / f"upreel-{NEWER}-setup.exe"
    assert UpdateStore().state().is_ready  # after another start, and nobody was asked
    assert asked(release) == [f"/upreel/{n}" for n in ("update.json", "update.json.sig", path.name)]


def test_no_request_is_sent_without_a_check(release: Release, store: UpdateStore) -> None:
    release.publish()
    assert store.state().is_in_build
    with pytest.raises(UpdateMissing, match="No newer version is known"):
        store.download(listener())
    with pytest.raises(UpdateMissing):
        store.ready()
    assert asked(release) == []


def test_a_build_from_the_sources_sends_no_request(
    release: Release, store: UpdateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resources/update.toml").write_text('address = ""\nkeys = []\n', "utf-8")
    monkeypatch.setenv("UPREEL_UPDATES", release.address)
    assert not store.state().is_in_build
    for verb in (lambda: store.check(Control()), lambda: store.download(listener()), store.ready):
        with pytest.raises(UpdateNotInBuild, match="not in this build"):
            verb()
    assert asked(release) == []


@pytest.mark.parametrize("version", [__version__, "0.0.9", "0.0.0.1"])
def test_an_older_or_equal_version_is_never_offered(
    release: Release, store: UpdateStore, version: str
) -> None:
    release.publish(version)
    store.check(Control())
    assert store.state().newer == ""
    assert files(store) == set()


def test_an_old_description_put_into_our_folder_is_not_offered(
    release: Release, store: UpdateStore
) -> None:
    release.publish("0.0.9")
    store.folder.mkdir(parents=True)
    for name in ("update.json", "update.json.sig"):
        (store.folder / name).write_bytes(release.server.files[f"/upreel/{name}"])
    assert store.state().newer == ""
    with pytest.raises(UpdateMissing):
        store.ready()


def test_a_newer_one_takes_the_place_of_what_was_loaded(
    release: Release, store: UpdateStore
) -> None:
    release.publish("99.0.0")
    store.check(Control())
    store.download(listener())
    release.publish(NEWER)
    store.check(Control())
    state = store.state()
    assert (state.newer, state.is_ready, state.done_bytes) == (NEWER, False, 0)
    assert files(store) == {"update.json", "update.json.sig"}


def test_what_was_installed_is_cleared_away(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    store.download(listener())
    after = UpdateStore(version=NEWER)
    assert after.state().newer == ""
    after.check(Control())
    assert files(after) == set()


def test_the_new_version_deletes_the_setup_that_brought_it(
    release: Release, store: UpdateStore
) -> None:
    release.publish()
    store.check(Control())
    store.download(listener())
    store.tidy()
    assert store.state().is_ready  # not installed yet
    so_far = asked(release)
    UpdateStore(version=NEWER).tidy()
    assert files(store) == set()
    assert asked(release) == so_far


def test_a_build_that_cannot_judge_deletes_nothing(
    release: Release, store: UpdateStore, tmp_path: Path
) -> None:
    release.publish()
    store.check(Control())
    store.download(listener())
    (tmp_path / "resources/update.toml").write_text('address = ""\nkeys = []\n', "utf-8")
    store.tidy()
    (tmp_path / "resources/update.toml").write_text("address =", "utf-8")
    store.tidy()
    assert len(files(store)) == 3


# --- what is not trusted


def test_another_key_is_refused_and_what_was_known_stays(
    release: Release, store: UpdateStore
) -> None:
    release.publish()
    store.check(Control())
    content = release.publish("99.2.0")
    release.publish_text(content, SigningKey(b"x" * 32))
    with pytest.raises(UpdateUntrusted):
        store.check(Control())
    assert store.state().newer == NEWER


def test_a_changed_description_is_refused(release: Release, store: UpdateStore) -> None:
    content = release.publish()
    release.server.files["/upreel/update.json"] = content.replace(b"Faster", b"Foster")
    with pytest.raises(UpdateUntrusted):
        store.check(Control())
    assert files(store) == set()


def test_a_description_changed_on_our_disk_counts_as_none(
    release: Release, store: UpdateStore
) -> None:
    content = release.publish()
    store.check(Control())
    (store.folder / "update.json").write_bytes(content.replace(b"Faster", b"Foster"))
    assert store.state().newer == ""


def test_of_another_program_or_for_a_later_one(release: Release, store: UpdateStore) -> None:
    release.publish(product="uproot")
    with pytest.raises(UpdateUntrusted, match="no description"):
        store.check(Control())
    release.publish(format=2)
    with pytest.raises(UpdateTooNew):
        store.check(Control())


def test_a_changed_byte_of_the_setup(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    name = f"/upreel/upreel-{NEWER}-setup.exe"
    release.server.files[name] = SETUP[:-1] + b"!"
    with pytest.raises(UpdateDamaged, match="not the one that was published"):
        store.download(listener())
    assert files(store) == {"update.json", "update.json.sig"}  # nothing wrong is left lying about
    release.server.files[name] = SETUP
    store.download(listener())
    assert store.ready().read_bytes() == SETUP


def test_a_byte_changed_after_it_was_loaded(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    store.download(listener())
    path = store.ready()
    times = path.stat()
    path.write_bytes(SETUP[:-1] + b"!")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as somebody would who hides it
    assert store.state().is_ready  # what is only looked at
    with pytest.raises(UpdateDamaged):
        store.ready()
    assert not path.exists()
    assert not store.state().is_ready


def test_a_setup_of_another_size(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    store.download(listener())
    store.ready().write_bytes(SETUP + b"!")
    with pytest.raises(UpdateDamaged):
        store.ready()


def test_a_setup_of_that_name_elsewhere_is_never_taken(
    release: Release, store: UpdateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models/vae").mkdir(parents=True)
    (tmp_path / f"models/vae/upreel-{NEWER}-setup.exe").write_bytes(SETUP)
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path))
    release.publish()
    store.check(Control())
    assert not store.state().is_ready
    store.download(listener())
    assert store.ready().parent == store.folder


# --- servers and disks


def test_a_cut_download_goes_on_where_it_ended(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    cut = Fault(cut_after=30_000)
    release.server.faults = [cut, Fault(status=404)]
    with pytest.raises(UpdateUnreachable, match="status 404") as failed:
        store.download(listener())
    assert "goes on where it ended" in failed.value.hint
    assert store.state().done_bytes == 30_000
    store.download(listener())
    assert release.server.ranges[-1] == "bytes=30000-"
    assert store.ready().read_bytes() == SETUP


def test_a_download_can_be_stopped(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    release.server.always = Fault(drip=1000)
    control = Control()
    told = Listener(on_progress=lambda done, _: done > 2000 and control.cancel(), control=control)
    with pytest.raises(Cancelled):
        store.download(told)
    assert 2000 < store.state().done_bytes < len(SETUP)
    with pytest.raises(Cancelled):
        store.check(control)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault(headers={"Content-Type": "text/html; charset=utf-8"}), "a web page instead"),
        (Fault(status=404), "status 404"),
        (Fault(status=503), "status 503"),
        (Fault(content=b"x" * 300_000), "far more than a description"),
        (Fault(cut_after=20), "the connection was cut"),
        (Fault(redirect="ftp://127.0.0.1/update.json"), "ftp:// is no address on the web"),
        (Fault(redirect="file:///etc/passwd"), "file:// is no address on the web"),
        (Fault(redirect="/upreel/update.json"), ""),
    ],
)
def test_whatever_a_server_gives_instead(
    release: Release, store: UpdateStore, fault: Fault, why: str
) -> None:
    release.publish()
    release.server.faults = [fault]
    if not why:
        store.check(Control())  # an honest redirect is followed
        return
    with pytest.raises(UpdateUnreachable, match=why):
        store.check(Control())
    assert store.state().newer == ""


def test_a_web_page_in_the_place_of_the_signature(release: Release, store: UpdateStore) -> None:
    release.publish()
    release.server.faults = [Fault(), Fault(headers={"Content-Type": "text/html"})]
    with pytest.raises(UpdateUnreachable, match="a web page instead") as failed:
        store.check(Control())
    assert "wants a login" in failed.value.hint
    release.server.faults = [Fault(), Fault(content=b"<html>not marked as one</html>")]
    with pytest.raises(UpdateUntrusted):
        store.check(Control())


def test_a_server_that_does_not_answer(
    release: Release, store: UpdateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_UPDATES", "http://127.0.0.1:9/update.json")
    with pytest.raises(UpdateUnreachable, match=r"127.0.0.1 does not give .* no connections"):
        store.check(Control())


def test_a_full_disk_is_reported_before_the_download(
    release: Release, store: UpdateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    release.publish()
    store.check(Control())
    monkeypatch.setattr("engine.downloads.folder.DownloadFolder.free_bytes", lambda self: 1000)
    with pytest.raises(DiskFull, match="needed for the update"):
        store.download(listener())
    assert asked(release)[-1].endswith(".sig")


def test_a_folder_that_cannot_be_written(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.folder.parent.mkdir(parents=True)
    store.folder.write_text("a file lies in its place")
    with pytest.raises(OutputUnwritable, match="folder of the updates"):
        store.check(Control())


def test_two_at_once(release: Release, store: UpdateStore) -> None:
    release.publish()
    store.check(Control())
    from engine.downloads.locks import Locks

    with (
        Locks(store.folder / ".locks").held(f"upreel-{NEWER}-setup.exe"),
        pytest.raises(UpdateBusy),
    ):
        store.download(listener())


def test_every_error_has_a_hint(release: Release, store: UpdateStore) -> None:
    release.publish()
    release.server.always = Fault(status=500)
    with pytest.raises(EngineError) as failed:
        store.check(Control())
    assert failed.value.hint
