"""The newer version of the program on this machine: its description, and its setup as it comes.

updates/update.json       the last description that was signed by us
updates/update.json.sig   its signatures; both are checked whenever they are read
updates/upreel-...exe     the setup, under its name only when its SHA-256 was right
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path

from engine import __version__
from engine.core import atomic_file, windows_paths
from engine.core.control import Control
from engine.core.errors import (
    DownloadFailed,
    HashMismatch,
    UpdateBusy,
    UpdateDamaged,
    UpdateError,
    UpdateMissing,
    UpdateNotInBuild,
    UpdateUnreachable,
    WeightsBusy,
    WeightsError,
)
from engine.core.paths import cache_folder
from engine.downloads.hashing import sha256_of
from engine.downloads.transfer import Listener
from engine.model_files.download import download
from engine.protocol.update_state import UpdateState
from engine.updates import build, fetch_manifest, manifest
from engine.updates.build import Source
from engine.updates.download import SetupStore, writing
from engine.updates.manifest import Manifest

logger = logging.getLogger(__name__)

_AGAIN = "Check the connection, then try again: it goes on where it ended."


class UpdateStore:
    """Each of its verbs does one thing in the calling thread.

    Args:
        version: Of the program that is to be updated.
    """

    def __init__(self, version: str = __version__) -> None:
        self._version = version
        self.folder = windows_paths.openable(cache_folder() / "updates").absolute()

    def state(self) -> UpdateState:
        """What is known without asking anybody."""
        state = UpdateState(version=self._version, installed_as=build.installed_as())
        try:
            source = build.source()
        except UpdateNotInBuild as err:
            logger.warning("%s", err.message)
            return state
        found = self._kept(source) if source.is_here else None
        if found is None:
            return dataclasses.replace(state, is_in_build=source.is_here)
        file = SetupStore(self.folder, source, found).standing_of(found.setup.name)
        return dataclasses.replace(
            state,
            is_in_build=True,
            newer=found.version,
            date=found.date,
            notes=found.notes,
            setup=found.setup.name,
            bytes=found.setup.bytes,
            done_bytes=file.done_bytes if file.state in ("partial", "here", "unverified") else 0,
            is_ready=file.state == "here",
        )

    def check(self, control: Control) -> None:
        """Ask which version is the newest; what is older than the newest one is deleted here.

        Raises:
            UpdateNotInBuild: This build does not know where to ask.
            UpdateUnreachable: Nobody answers there, or with something else.
            UpdateUntrusted, UpdateTooNew: What came is no description of an update.
            DiskFull, OutputUnwritable: Our folder cannot take it.
            Cancelled: `control` said so.
        """
        source = _here()
        content, signatures = fetch_manifest.description(source.address, control)
        found = manifest.read(content, signatures.decode("ascii", "replace"), source.keys)
        is_newer = manifest.is_newer(found.version, self._version)
        with writing(self.folder):
            if is_newer:
                atomic_file.write_bytes(self.folder / manifest.NAME, content)
                atomic_file.write_bytes(self.folder / manifest.SIGNATURE, signatures)
            self._sweep(found.setup.name if is_newer else "")

    def download(self, listener: Listener) -> None:
        """Load the setup of the version that `check` found, or go on where that ended.

        Raises:
            UpdateMissing: No newer version is known.
            UpdateBusy: Somebody is at it.
            UpdateUnreachable: Nobody gives it.
            UpdateDamaged: What came is not the setup that was published; it was deleted.
            DiskFull, OutputUnwritable, Cancelled: As a download.
        """
        source = _here()
        found = self._known(source)
        store = SetupStore(self.folder, source, found)
        name = found.setup.name
        try:
            file = store.standing_of(name)
            store.need(found.setup.bytes - (file.done_bytes if file.state == "partial" else 0))
            download(store.catalogue.file(name), store, listener)
        except DownloadFailed as err:
            raise UpdateUnreachable(err.message, hint=_AGAIN, **err.params) from err
        except HashMismatch as err:
            self._sweep(name)
            raise _damaged(found) from err
        except WeightsBusy as err:
            raise busy() from err
        except WeightsError as err:
            raise UpdateError(err.message, hint=err.hint, **err.params) from err

    def ready(self, listener: Listener | None = None) -> Path:
        """The setup, read again from its first byte to its last: it may be started now.

        Raises:
            UpdateMissing: It was not loaded.
            UpdateDamaged: It is not what was published any more; it was deleted.
            Cancelled: The listener's control said so.
        """
        listener = listener or Listener()
        source = _here()
        found = self._known(source)
        path = self.folder / found.setup.name
        if not path.is_file():
            raise UpdateMissing(
                f"The setup of Upreel {found.version} is not on this machine.",
                hint="Download it first.",
                version=found.version,
            )
        try:
            is_right = (
                path.stat().st_size == found.setup.bytes
                and sha256_of(path, listener.tell, listener.control) == found.setup.sha256
            )
        except (OSError, WeightsError) as err:
            raise UpdateError(f"{path.name} cannot be read.", hint=str(err), path=path) from err
        if not is_right:
            with contextlib.suppress(OSError):
                path.unlink()
            raise _damaged(found)
        return path

    def tidy(self) -> None:
        """Delete what was loaded of a version that is installed by now; asks nobody."""
        if not any(self.folder.glob("up*")):
            return
        with contextlib.suppress(UpdateNotInBuild, OSError):
            source = build.source()
            if source.is_here and self._kept(source) is None:
                self._sweep("")

    def _known(self, source: Source) -> Manifest:
        found = self._kept(source)
        if found is None:
            raise UpdateMissing(
                "No newer version is known.",
                hint="Look for updates first.",
                version=self._version,
            )
        return found

    def _kept(self, source: Source) -> Manifest | None:
        """The newer version that was found some time ago; its signature is checked anew."""
        try:
            content = (self.folder / manifest.NAME).read_bytes()
            signatures = (self.folder / manifest.SIGNATURE).read_text("ascii", "replace")
            found = manifest.read(content, signatures, source.keys)
        except FileNotFoundError:
            return None
        except (OSError, UpdateError) as err:
            logger.warning("%s: %s", self.folder / manifest.NAME, err)
            return None
        return found if manifest.is_newer(found.version, self._version) else None

    def _sweep(self, current: str) -> None:
        """Delete setups but the current one; without one everything."""
        kept = {current, f"{current}.part"} if current else set[str]()
        if not current:
            for name in (manifest.NAME, manifest.SIGNATURE):
                (self.folder / name).unlink(missing_ok=True)
        for path in self.folder.glob("upreel-*"):
            if path.name not in kept:
                with contextlib.suppress(OSError):  # it runs, or a scanner looks at it
                    path.unlink()


def _here() -> Source:
    source = build.source()
    if not source.is_here:
        raise UpdateNotInBuild(
            "Looking for updates is not in this build of Upreel.",
            hint="Get a released Upreel where you got this one.",
        )
    return source


def _damaged(found: Manifest) -> UpdateDamaged:
    return UpdateDamaged(
        f"The setup of Upreel {found.version} is not the one that was published.",
        hint="It was deleted and not started. Download it again.",
        version=found.version,
    )


def busy(_running: str = "") -> UpdateBusy:
    """The error while a task of this program, or another program, works on the update."""
    return UpdateBusy(
        "Upreel is at work on the update already.",
        hint="Wait until that has finished, or stop it.",
    )
