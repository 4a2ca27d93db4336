"""The description of an update: JSON, signed with Ed25519 over its very bytes.

    {"product": "upreel", "format": 1, "version": "0.2.0", "date": "2026-12-01",
     "counter": 1796083200, "expires": "2027-05-30",
     "notes": {"en": "...", "zh_CN": "..."},
     "setup": {"name": "upreel-0.2.0-setup.exe", "bytes": 180000000, "sha256": "..."}}

Bytes without a valid signature are not parsed. A later version may add fields; one that changes
their meaning increments `format`, and older programs then refuse it. The counter grows with every
signature, and the date of expiry forces a new one: see `freshness`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from engine.core.errors import UpdateTooNew, UpdateUntrusted
from engine.core.serialization import from_plain, parse_json

PRODUCT, FORMAT = "upreel", 1
NAME, SIGNATURE = "update.json", "update.json.sig"
MOST_BYTES = 2**18
"""Largest size of a description or its signatures."""
_LARGEST_SETUP = 2**31 - 1  # bytes; limit of NSIS
_MOST_SIGNATURES = 8
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}")
_SETUP = re.compile(r"upreel-[0-9A-Za-z._-]{1,100}\.exe")
_LARGEST_COUNTER = 253_402_300_799  # the last second of the year 9999
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The program that installs an update."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of the program, as it was published.

    Attributes:
        version: "0.2.0".
        date: Day of the version, "2026-12-01".
        counter: Seconds from 1970 (UTC) to the signature; a later signature has a larger one.
        expires: The last day (UTC) on which this is the newest description for sure.
        notes: Markdown by language; "en" is always there.
        setup: Program that installs it.
    """

    version: str
    date: str
    counter: int
    expires: str
    notes: dict[str, str]
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
    if not is_signed(content, signatures, keys):
        raise UpdateUntrusted("signature")
    return parse(content)


def is_signed(content: bytes, signatures: str, keys: Sequence[str]) -> bool:
    """Whether one of the signatures is valid for a known key."""
    return bool(signers(content, signatures, keys))


def signers(content: bytes, signatures: str, keys: Sequence[str]) -> tuple[str, ...]:
    """The known keys that have signed these bytes."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    found = []
    for line in signatures.split()[:_MOST_SIGNATURES]:
        try:
            signature = base64.b64decode(line, validate=True)
        except ValueError:
            continue
        for key in keys:
            try:
                VerifyKey(bytes.fromhex(key)).verify(content, signature)
            except (BadSignatureError, ValueError):
                continue
            found.append(key)
    return tuple(found)


def parse(content: bytes) -> Manifest:
    """Parse signed bytes.

    Raises:
        UpdateUntrusted: They are no description of an Upreel, although they are signed.
        UpdateTooNew: Only a newer program can read them.
    """
    try:
        found = parse_json(content)
        if found["product"] != PRODUCT:
            raise _no_description("it describes another program")
        if found["format"] != FORMAT:
            raise UpdateTooNew()
        manifest = from_plain(Manifest, found)
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise _no_description(f"{type(err).__name__}: {err}") from err
    why_not = _wrong(manifest)
    if why_not:
        raise _no_description(why_not)
    return manifest


def is_newer(version: str, than: str) -> bool:
    """Whether a version is later than another: 0.10 after 0.9, and 0.2.0 equals 0.2."""
    return _version_parts(version) > _version_parts(than)


def _version_parts(version: str) -> tuple[int, ...]:
    """The four parts of a version; raises ValueError for what is no version."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a version")
    found = [int(part) for part in version.split(".")]
    return (*found, *[0] * (4 - len(found)))


def _wrong(manifest: Manifest) -> str:
    """The first impossible value of a description; "" for none."""
    setup = manifest.setup
    checks: list[tuple[Any, str]] = [
        (_VERSION.fullmatch(manifest.version), "version"),
        (_is_date(manifest.date), "date"),
        (_is_date(manifest.expires), "date of expiry"),
        (0 < manifest.counter <= _LARGEST_COUNTER, "counter"),
        (manifest.notes.get("en"), "notes"),
        (_SETUP.fullmatch(setup.name), "name of the setup"),
        (0 < setup.bytes <= _LARGEST_SETUP, "size of the setup"),
        (_SHA256.fullmatch(setup.sha256), "SHA-256 of the setup"),
    ]
    return next((f"the {what} is invalid" for is_right, what in checks if not is_right), "")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _no_description(why: str) -> UpdateUntrusted:
    return UpdateUntrusted("no-description", why=why)
