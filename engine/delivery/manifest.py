"""Signed description of a version of the program, its source, and whether it still counts.

    {"product": "upreel", "format": 1, "version": "0.2.0", "date": "2026-12-01",
     "counter": 1796083200, "expires": "2027-05-30",
     "notes": {"en": "...", "zh_CN": "..."},
     "setup": {"name": "upreel-0.2.0-setup.exe", "bytes": 180000000, "sha256": "..."}}

It is JSON, signed with Ed25519 over its very bytes; bytes without a valid signature are not parsed.
A later version may add fields; one that changes their meaning increments `format`, and older
programs then refuse it.

A signature stays valid for ever. Whoever stands between this computer and the server could deliver
an old description with its signature for as long as he likes, and so keep a newer version back or
offer one whose faults are known. So the counter grows with every signature, and the date of expiry
forces a new one. `updates.json` in the folder of this user's data has the largest counter seen of
each key: a stolen key cannot set a counter that a new key never reaches.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.core import atomic_file
from engine.core.errors import UpdateNotInBuild, UpdateOutdated, UpdateTooNew, UpdateUntrusted
from engine.core.file_access import writing
from engine.core.paths import data_folder, resource
from engine.core.serialization import from_plain, parse_json, read_json, read_toml, set_aside
from engine.files.hashing import signers
from engine.files.http_client import is_safe
from engine.protocol.delivery import Install

PRODUCT, FORMAT = "upreel", 1
NAME, SIGNATURE = "update.json", "update.json.sig"
MOST_BYTES = 2**18
"""Largest size of a description or its signatures."""
_LARGEST_SETUP = 2**31 - 1  # bytes; limit of NSIS
_LARGEST_COUNTER = 253_402_300_799  # the last second of the year 9999
_SLACK = timedelta(days=1)  # of this computer's clock
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}")
_SETUP = re.compile(r"upreel-[0-9A-Za-z._-]{1,100}\.exe")
_DIGEST = re.compile(r"[0-9a-f]{64}")  # of SHA-256, and a public key


# --- this build


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSource:
    """The address of updates, and the keys that sign them."""

    address: str = ""  # address of update.json; its signature and the setup are in the same folder
    keys: tuple[str, ...] = ()  # public Ed25519 keys, 64 hexadecimal digits each

    @property
    def is_here(self) -> bool:
        """True where this build can look for updates."""
        return bool(self.address and self.keys)


def source() -> UpdateSource:
    """Source of updates of this build; empty in a checkout, filled in by a release.

    `UPREEL_UPDATES` sets another address; the keys stay those of the build. A damaged file of the
    program and an address without encryption raise UpdateNotInBuild.
    """
    found = source_in(resource("update.toml"))
    found = UpdateSource(address=os.environ.get("UPREEL_UPDATES") or found.address, keys=found.keys)
    if found.address and not is_safe(found.address):
        raise UpdateNotInBuild("not-https")
    return found


def source_in(path: Path) -> UpdateSource:
    """Content of such a file; raises UpdateNotInBuild where it is damaged."""
    try:
        found = from_plain(UpdateSource, read_toml(path))
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise UpdateNotInBuild("damaged", path=path) from err
    if not all(_DIGEST.fullmatch(key) for key in found.keys):
        raise UpdateNotInBuild("damaged", path=path)
    return found


def installed_as() -> Install:
    """Kind of this installation: by the setup, as an unpacked folder, or as sources."""
    if not getattr(sys, "frozen", False):
        return "sources"
    folder = Path(sys.executable).parent
    by_setup = sys.platform == "win32" and any(folder.glob("unins*.exe"))
    return "setup" if by_setup else "portable"


# --- the description


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The program that installs an update."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of the program, as it was published."""

    version: str  # "0.2.0"
    date: str  # day of the version, "2026-12-01"
    counter: int  # seconds from 1970 (UTC) to the signature; a later signature has a larger one
    expires: str  # the last day (UTC) on which this is the newest description for sure
    notes: dict[str, str]  # Markdown by language; "en" is always there
    setup: Setup


def read(content: bytes, signatures: str, keys: Sequence[str]) -> Manifest:
    """Parse a description whose signature is valid.

    Args:
        content: The bytes as they came.
        signatures: In Base64, one a line; one by a known key is enough, so keys can change.
        keys: Public keys, 64 hexadecimal digits each.

    Raises:
        UpdateUntrusted: No known key has signed these bytes, or they describe something else.
        UpdateTooNew: Only a newer program can read them.
    """
    if not signers(content, signatures, keys):
        raise UpdateUntrusted("signature")
    return parse(content)


def parse(content: bytes) -> Manifest:
    """Parse signed bytes; raises as `read`."""
    try:
        found = parse_json(content)
        if found["product"] != PRODUCT:
            raise _no_description("it describes another program")
        if found["format"] != FORMAT:
            raise UpdateTooNew()
        manifest = from_plain(Manifest, found)
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise _no_description(f"{type(err).__name__}: {err}") from err
    setup = manifest.setup
    checks: list[tuple[Any, str]] = [
        (_VERSION.fullmatch(manifest.version), "version"),
        (_is_date(manifest.date), "date"),
        (_is_date(manifest.expires), "date of expiry"),
        (0 < manifest.counter <= _LARGEST_COUNTER, "counter"),
        (manifest.notes.get("en"), "notes"),
        (_SETUP.fullmatch(setup.name), "name of the setup"),
        (0 < setup.bytes <= _LARGEST_SETUP, "size of the setup"),
        (_DIGEST.fullmatch(setup.sha256), "SHA-256 of the setup"),
    ]
    for is_right, what in checks:
        if not is_right:
            raise _no_description(f"the {what} is invalid")
    return manifest


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _no_description(why: str) -> UpdateUntrusted:
    return UpdateUntrusted("no-description", why=why)


def is_newer(version: str, than: str) -> bool:
    """Whether a version is later than another: 0.10 after 0.9, and 0.2.0 equals 0.2."""
    return _version_parts(version) > _version_parts(than)


def _version_parts(version: str) -> tuple[int, ...]:
    """The four parts of a version; raises ValueError for what is no version."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a version")
    found = [int(part) for part in version.split(".")]
    return (*found, *[0] * (4 - len(found)))


# --- freshness


def check_fresh(found: Manifest, keys: Sequence[str]) -> None:
    """Refuse a description that is not the newest one for sure.

    Args:
        found: The description.
        keys: Known keys that have signed it.

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
    if any(found.counter < seen.get(key, 0) for key in keys):
        raise UpdateOutdated("older", version=found.version)


def remember(found: Manifest, keys: Sequence[str]) -> None:
    """Keep the counter of a description that passed `check_fresh`."""
    counters = dict(_seen())
    new = counters | dict.fromkeys(keys, found.counter)
    if new != counters:
        path = _counters_file()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(path, new)


def _seen() -> Mapping[str, int]:
    with set_aside(_counters_file()):
        return from_plain(dict[str, int], read_json(_counters_file()))
    return {}


def _counters_file() -> Path:
    return data_folder() / "updates.json"


def _now() -> datetime:
    return datetime.now(UTC)
