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
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.downloads import http_client
from engine.downloads.folder import DownloadFolder
from engine.downloads.http_client import HttpError
from engine.downloads.transfer import RemoteFile, host
from engine.updates import manifest
from engine.updates.build import UpdateSource
from engine.updates.manifest import Manifest

_TIMEOUT_S = 10.0


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
        space = {"free": bytes_text(free), "needed": bytes_text(needed + self.reserve_bytes)}
        return DiskFull("update", folder=self.folder, **space)

    def unwritable(self, why: str) -> OutputUnwritable:
        """The folder of the updates cannot be written."""
        return OutputUnwritable("updates", folder=self.folder, reason=why)


def busy(_running: str = "") -> UpdateBusy:
    """The error while a task of this program, or another program, works on the update."""
    return UpdateBusy()


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
                raise _unreachable(address, HttpError("status", status=reply.status))
            if reply.is_web_page:
                raise _unreachable(address, HttpError("web-page"), "web-page")
            while piece := reply.read():
                found += piece
                if len(found) > manifest.MOST_BYTES:
                    raise _unreachable(address, HttpError("too-long"))
    except HttpError as err:
        raise _unreachable(address, err) from err
    return bytes(found)


def _unreachable(address: str, error: HttpError, help: str = "try-again") -> UpdateUnreachable:
    return UpdateUnreachable(
        "description",
        host=host(address),
        why=error.why,
        help=message(f"help.transfer.{help}"),
    )
