"""What comes from the server of updates: the signed description, and the setup's folder."""

from __future__ import annotations

from urllib.parse import urljoin

from engine.core.control import Control
from engine.core.errors import (
    DiskFull,
    EngineError,
    OutputUnwritable,
    UpdateBusy,
    UpdateUnreachable,
)
from engine.core.units import bytes_text
from engine.downloads import http_client
from engine.downloads.folder import DownloadFolder
from engine.downloads.transfer import RemoteFile, host
from engine.updates import manifest
from engine.updates.build import UpdateSource
from engine.updates.manifest import Manifest

_TIMEOUT_S = 10.0
_LOGIN = "Perhaps this network wants a login: open a web page, then try again."
_CHECK = "Check the connection, then try again."


class SetupFolder(DownloadFolder):
    """The folder of the description and the setup of a newer version."""

    reserve_bytes = 700 * 10**6  # what the setup unpacks, and a little more

    def done_bytes(self, setup: RemoteFile) -> int:
        """Bytes of the setup that are here."""
        if self.is_complete(setup):
            return setup.bytes
        part = self.part(setup.name)
        return part.stat().st_size if part.is_file() else 0

    def is_complete(self, setup: RemoteFile) -> bool:
        """True where the setup has its name and size; its content is not read."""
        path = self.target(setup.name)
        return path.is_file() and path.stat().st_size == setup.bytes

    def busy(self, name: str) -> EngineError:
        """Another thread or process is downloading the setup."""
        return busy()

    def too_small(self, free: int, needed: int) -> DiskFull:
        """The disk has too little space for the setup and what it unpacks."""
        return DiskFull(
            f"The disk of {self.folder} has {bytes_text(free)} free, "
            f"but {bytes_text(needed + self.reserve_bytes)} are needed for the update.",
            hint="Free some space, then try again.",
            path=self.folder,
            free=free,
            needed=needed + self.reserve_bytes,
        )

    def unwritable(self, why: str) -> OutputUnwritable:
        """The folder of the updates cannot be written."""
        return OutputUnwritable(
            f"The folder of the updates, {self.folder}, cannot be written: {why}.",
            hint="Another program may hold the file; or name another folder with UPREEL_CACHE.",
            path=self.folder,
        )


def busy(_running: str = "") -> UpdateBusy:
    """The error while a task of this program, or another program, works on the update."""
    return UpdateBusy(
        "Upreel is at work on the update already.",
        hint="Wait until that has finished, or stop it.",
    )


def remote_setup(found: Manifest, source: UpdateSource) -> RemoteFile:
    """The setup of a version; it is published next to the description."""
    base = source.address.partition("?")[0].rpartition("/")[0]
    return RemoteFile(
        id=found.setup.name,
        name=found.setup.name,
        urls=(f"{base}/{found.setup.name}",),
        sha256=found.setup.sha256,
        bytes=found.setup.bytes,
    )


def description(address: str, control: Control) -> tuple[bytes, bytes]:
    """The description and its signatures as they came, not verified.

    Raises:
        UpdateUnreachable: The server does not answer, or with something else.
        Cancelled: The control was cancelled.
    """
    content = _small_file(address, control)
    return content, _small_file(urljoin(address, manifest.SIGNATURE), control)


def _small_file(address: str, control: Control) -> bytes:
    control.check()
    found = bytearray()
    try:
        with http_client.get(address, timeout_s=_TIMEOUT_S, control=control) as reply:
            if reply.status != 200:
                raise _unreachable(address, f"it says {reply.status}")
            if reply.is_web_page:
                raise _unreachable(address, "it gave a web page instead", _LOGIN)
            while piece := reply.read():
                found += piece
                if len(found) > manifest.MOST_BYTES:
                    raise _unreachable(address, "it gave far more than a description has")
    except http_client.HttpError as err:
        raise _unreachable(address, str(err)) from err
    return bytes(found)


def _unreachable(address: str, why: str, hint: str = _CHECK) -> UpdateUnreachable:
    return UpdateUnreachable(
        f"{host(address)} does not tell which version is the newest: {why}.",
        hint=hint,
        host=host(address),
        why=why,
    )
