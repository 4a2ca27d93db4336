"""Wheels of NVIDIA runtimes: where they are published, the folders they come to, finding them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import DiskFull, EngineError, OutputUnwritable, RuntimeBusy, WeightsMissing
from engine.core.units import bytes_text
from engine.downloads.folder import DownloadFolder
from engine.downloads.transfer import RemoteFile
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel


class RuntimeFolder(DownloadFolder):
    """The folder of installed runtimes, or that of wheels until they are unpacked."""

    reserve_bytes = 256 * 10**6

    def wheel_bytes(self, runtime: Runtime) -> int:
        """Bytes that are here of a runtime's wheels; quarantined ones do not count."""
        return sum(self._bytes_of(wheel) for wheel in pinned_wheels(runtime))

    def _bytes_of(self, wheel: Wheel) -> int:
        target, part = self.target(wheel.filename), self.part(wheel.filename)
        if target.is_file() and target.stat().st_size == wheel.bytes:
            return wheel.bytes
        return part.stat().st_size if part.is_file() else 0

    def busy(self, name: str) -> EngineError:
        """Another thread or process is working on a runtime."""
        return RuntimeBusy("at-work", runtime=name)

    def too_small(self, free: int, needed: int) -> DiskFull:
        """The disk has too little space for a runtime."""
        space = {"free": bytes_text(free), "needed": bytes_text(needed)}
        return DiskFull("runtime", folder=self.folder, **space)

    def unwritable(self, why: str) -> OutputUnwritable:
        """The folder cannot be written."""
        return OutputUnwritable("runtimes", folder=self.folder, reason=why)


def pinned_wheels(runtime: Runtime) -> tuple[Wheel, ...]:
    """The wheels of a runtime; none while one of them is not pinned."""
    return runtime.wheels if runtime.is_pinned else ()


def remote_wheel(wheel: Wheel, known: RuntimeCatalogue) -> RemoteFile:
    """A wheel where it is published: its place is an address, or follows that of the index."""
    place = wheel.place or wheel.filename
    url = place if "://" in place else f"{known.index.rstrip('/')}/{place}"
    return RemoteFile(
        id=wheel.filename,
        name=wheel.filename,
        urls=(url,),
        sha256=wheel.sha256,
        bytes=wheel.bytes,
    )


def wheels_in(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named, and of folders the wheels in them.

    Raises:
        WeightsMissing: There is no such file, or no wheel in a folder.
    """
    found: list[Path] = []
    for path in paths:
        wheels = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not wheels:
            raise WeightsMissing("no-wheel", folder=path)
        if not wheels[0].is_file():
            raise WeightsMissing("no-wheel-file", path=path)
        found += wheels
    return found
