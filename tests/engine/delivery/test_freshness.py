"""Old descriptions with valid signatures: a newer version is held back, or a bad one offered."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from nacl.signing import SigningKey

from engine.core import errors, paths
from engine.core.control import Control
from engine.delivery import manifest
from engine.delivery.updates import UpdateStore
from tests.helpers.servers import NEWER, Release

DAY = 86_400


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """What this computer's clock is ahead."""
    ahead = [timedelta(0)]
    monkeypatch.setattr(manifest, "_now", lambda: datetime.now(UTC) + ahead[0])
    return ahead


def refused(store: UpdateStore, why: str) -> str:
    with pytest.raises(errors.UpdateOutdated) as found:
        store.check(Control())
    assert found.value.as_message.code == f"update-outdated.{why}"
    assert found.value.hint
    return found.value.message


def test_a_description_that_was_seen_is_not_replaced_by_an_older_one(release: Release) -> None:
    now = int(time.time())
    UpdateStore().check(Control())
    release.publish("98.0.0", counter=now - DAY)
    assert "older than one" in refused(UpdateStore(), "older")
    assert UpdateStore().state().newer == NEWER
    release.publish("98.0.0", counter=now + 60)  # withdrawn and signed again: that is up to date
    UpdateStore().check(Control())
    assert UpdateStore().state().newer == "98.0.0"


def test_a_description_in_our_folder_is_not_replaced_by_an_older_one(release: Release) -> None:
    store = UpdateStore()
    release.publish(NEWER, counter=int(time.time()) - DAY)
    store.check(Control())
    old = [(path, path.read_bytes()) for path in store.folder.glob("update.json*")]
    release.publish("99.9.0")
    store.check(Control())
    for path, content in old:
        path.write_bytes(content)
    assert store.state().newer == ""
    with pytest.raises(errors.UpdateMissing):
        store.ready().__enter__()


def test_one_that_has_expired_is_refused_also_if_it_came_in_time(
    release: Release, clock: list[timedelta]
) -> None:
    store = UpdateStore()
    store.check(Control())
    clock[0] = timedelta(days=30)
    store.check(Control())  # its last day
    assert store.state().newer == NEWER
    clock[0] = timedelta(days=31)
    assert "expired on" in refused(store, "expired")
    assert store.state().newer == ""


def test_a_clock_that_is_behind_the_signature_cannot_judge(
    release: Release, clock: list[timedelta]
) -> None:
    clock[0] = timedelta(days=-2)
    assert "but the date of this computer is" in refused(UpdateStore(), "clock")
    clock[0] = timedelta(hours=-20)
    UpdateStore().check(Control())


def test_counters_are_those_of_their_key(release: Release) -> None:
    """What a stolen key has set does not bind the next one."""
    release.build(paths.resource("update.toml").parent, release.public)
    UpdateStore().check(Control())
    other = SigningKey(b"n" * 32)
    release.build(paths.resource("update.toml").parent, other.verify_key.encode().hex())
    content = release.publish("98.0.0", counter=int(time.time()) - DAY)
    release.publish_text(content, other)
    UpdateStore().check(Control())
    assert UpdateStore().state().newer == "98.0.0"


def test_a_damaged_list_of_counters_is_set_aside(release: Release) -> None:
    file = paths.data_folder() / "updates.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    for text in ("{", "[]", '{"a": "b"}', '{"a": 1e9}'):
        file.write_text(text)
        UpdateStore().check(Control())
        assert UpdateStore().state().newer == NEWER
        assert file.with_name("updates.json.damaged").read_text() == text
