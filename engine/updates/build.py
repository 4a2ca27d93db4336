"""Facts of this build: where its updates are published, and how it was installed."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import UpdateNotInBuild
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_toml
from engine.files.http_client import is_safe
from engine.protocol.update_state import Install

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSource:
    """The address of updates, and the keys that sign them."""

    address: str = ""  # of update.json; its signature and the setup are in the same folder
    keys: tuple[str, ...] = ()  # public Ed25519 keys, 64 hexadecimal digits each

    @property
    def is_here(self) -> bool:
        """True where this build can look for updates."""
        return bool(self.address and self.keys)


def source() -> UpdateSource:
    """Source of updates of this build; empty in a checkout, filled in by a release.

    `UPREEL_UPDATES` sets another address; the keys stay those of the build.

    Raises:
        UpdateNotInBuild: The program's own file is damaged, or the address is not encrypted.
    """
    found = read(resource("update.toml"))
    found = UpdateSource(address=os.environ.get("UPREEL_UPDATES") or found.address, keys=found.keys)
    if found.address and not is_safe(found.address):
        raise UpdateNotInBuild("not-https")
    return found


def read(path: Path) -> UpdateSource:
    """Content of such a file.

    Raises:
        UpdateNotInBuild: It is damaged.
    """
    try:
        found = from_plain(UpdateSource, read_toml(path))
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise UpdateNotInBuild("damaged", path=path) from err
    if not all(_KEY.fullmatch(key) for key in found.keys):
        raise UpdateNotInBuild("damaged", path=path)
    return found


def installed_as() -> Install:
    """Kind of this installation: by the setup, as an unpacked folder, or as sources."""
    if not getattr(sys, "frozen", False):
        return "sources"
    folder = Path(sys.executable).parent
    by_setup = sys.platform == "win32" and any(folder.glob("unins*.exe"))
    return "setup" if by_setup else "portable"
