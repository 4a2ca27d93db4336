"""The setup of a newer version on its way: the downloader of model files does the work."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from engine.core.errors import DiskFull, EngineError, OutputUnwritable
from engine.core.units import bytes_text
from engine.downloads import os_errors
from engine.model_files.catalogue import Catalogue, PublishedFile
from engine.model_files.store import Store
from engine.protocol.model_file_state import PublishedState
from engine.updates.build import Source
from engine.updates.manifest import Manifest

_RESERVE_BYTES = 700 * 10**6  # what the setup unpacks, and a little more


class SetupStore(Store):
    """The setup as a published file: our downloader does the rest."""

    def __init__(self, folder: Path, source: Source, found: Manifest) -> None:
        base = source.address.partition("?")[0].rpartition("/")[0]
        template = base.replace("{", "{{").replace("}", "}}") + "/{filename}"
        published = PublishedFile(
            id=found.setup.name,
            title=f"Upreel {found.version}",
            kind="setup",
            models=(),
            precision="",
            repository="updates",
            filename=found.setup.name,
            sha256=found.setup.sha256,
            licence="",
            host="updates",
            revision=found.version,
            bytes=found.setup.bytes,
        )
        files = Catalogue(hosts={"updates": template}, files=(published,))
        super().__init__(folder, files=files)

    def standing_of(self, file_id: str) -> PublishedState:
        """As any store, but a setup in somebody else's folder is none of ours."""
        state = super().standing_of(file_id)
        return (
            dataclasses.replace(state, state="missing", path=None, done_bytes=0)
            if state.borrowed
            else state
        )

    def need(self, bytes_: int) -> None:
        """Refuse what the disk cannot take.

        Raises:
            DiskFull: Less than that, and room for what the setup unpacks, is free.
        """
        free = self.free_bytes()
        if free < bytes_ + _RESERVE_BYTES:
            raise DiskFull(
                f"The disk of {self.folder} has {bytes_text(free)} free, "
                f"but {bytes_text(bytes_ + _RESERVE_BYTES)} are needed for the update.",
                hint="Free some space, then try again.",
                path=self.folder,
                free=free,
                needed=bytes_ + _RESERVE_BYTES,
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """As any store, with our own words."""
        with writing(self.folder):
            yield


def writing(folder: Path) -> AbstractContextManager[None]:
    """Where our folder is written to: what the system refuses becomes an error for people."""
    return os_errors.writing(folder, _unwritable)


def _unwritable(folder: Path, error: OSError) -> EngineError:
    otherwise = OutputUnwritable(
        f"The folder of the updates, {folder}, cannot be written: {error.strerror or error}.",
        hint="Another program may hold the file; or name another folder with UPREEL_CACHE.",
        path=folder,
    )
    return os_errors.refusal(folder, error, otherwise)
