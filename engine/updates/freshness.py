"""Which signed descriptions still count: none that expired, none older than one seen before.

A signature stays valid for ever. Whoever stands between this computer and the server could deliver
an old description with its signature for as long as he likes, and so keep a newer version back or
offer one whose faults are known. `updates.json` in the folder of this user's data has the largest
counter seen of each key: a stolen key cannot set a counter that a new key never reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import UpdateOutdated
from engine.core.file_access import writing
from engine.core.paths import data_folder
from engine.core.serialization import from_plain, read_json, set_aside
from engine.updates.manifest import Manifest

_SLACK = timedelta(days=1)  # of this computer's clock


def check(found: Manifest, signers: Sequence[str]) -> None:
    """Refuse a description that is not the newest one for sure.

    Args:
        found: The description.
        signers: Known keys that have signed it.

    Raises:
        UpdateOutdated: It has expired, a later one was seen, or this computer's clock is behind
            the signature, so that its expiry cannot be checked.
    """
    now = _now()
    signed = datetime.fromtimestamp(found.counter, UTC)
    if now + _SLACK < signed:
        raise UpdateOutdated("clock", signed=signed.date(), today=now.date())
    if now.date() > date.fromisoformat(found.expires):
        raise UpdateOutdated("expired", expires=found.expires, today=now.date())
    seen = _seen()
    if any(found.counter < seen.get(key, 0) for key in signers):
        raise UpdateOutdated("older", version=found.version)


def remember(found: Manifest, signers: Sequence[str]) -> None:
    """Keep the counter of a description that passed `check`.

    Raises:
        OutputUnwritable, DiskFull: The folder of this user's data cannot take it.
    """
    counters = dict(_seen())
    new = counters | dict.fromkeys(signers, found.counter)
    if new != counters:
        path = _file()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(path, new)


def _seen() -> Mapping[str, int]:
    with set_aside(_file()):
        return from_plain(dict[str, int], read_json(_file()))
    return {}


def _file() -> Path:
    return data_folder() / "updates.json"


def _now() -> datetime:
    return datetime.now(UTC)
