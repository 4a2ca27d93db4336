"""The newer version of the program on this computer: looked up, downloaded, verified, started.

updates/update.json       the newest description that was signed and not expired
updates/update.json.sig   its signatures; both are verified whenever they are read
updates/upreel-...exe     the setup, under its name only when its SHA-256 was right
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urljoin

from engine import __version__
from engine.core import atomic_file, paths
from engine.core.control import Control
from engine.core.errors import (
    DownloadFailed,
    HashMismatch,
    UpdateBusy,
    UpdateDamaged,
    UpdateError,
    UpdateMissing,
    UpdateNotInBuild,
    UpdateNotInstallable,
    UpdateUnreachable,
    WeightsError,
)
from engine.core.messages import message
from engine.core.paths import cache_folder
from engine.delivery import manifest
from engine.delivery.manifest import Manifest, UpdateSource
from engine.files import http_client
from engine.files.artifacts import ArtifactFolder, ArtifactKind, ensure
from engine.files.hashing import sha256_of, signers
from engine.files.http_client import HttpError
from engine.files.transfer import Listener, RemoteFile, host
from engine.hardware.process import NO_CONSOLE
from engine.jobs.task_runner import RunningTask, Task
from engine.protocol import commands as c
from engine.protocol.delivery import UpdateState
from engine.protocol.events import UpdateKnown
from engine.protocol.tasks import Phase, TaskKind

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_SWITCH = "/UPDATE"  # no questions; waits for this process to end, then starts the new version
_KIND = ArtifactKind(
    reserve_bytes=700 * 10**6,  # what the setup unpacks, and a little more
    busy=lambda _: UpdateBusy(),
    disk_full="update",
    unwritable="updates",
    states_reserve=True,
)


class UpdateStore:
    """Finds, downloads and verifies updates; every method works in the calling thread.

    Args:
        version: Version of the program that is to be updated.
    """

    def __init__(self, version: str = __version__) -> None:
        self._version = version
        folder = paths.openable(cache_folder() / "updates")
        self._files = ArtifactFolder(folder, _KIND)
        self.folder = self._files.folder

    def state(self) -> UpdateState:
        """Returns the state that is known without a request."""
        state = UpdateState(version=self._version, installed_as=manifest.installed_as())
        try:
            source = manifest.source()
        except UpdateNotInBuild as err:
            logger.warning("%s", err.message)
            return state
        found = self._kept(source) if source.is_here else None
        if found is None:
            return dataclasses.replace(state, is_in_build=source.is_here)
        setup = remote_setup(found, source)
        return dataclasses.replace(
            state,
            is_in_build=True,
            newer=found.version,
            date=found.date,
            notes=found.notes,
            setup=found.setup.name,
            bytes=found.setup.bytes,
            done_bytes=self._files.done_bytes(setup),
            is_ready=self._files.has(setup),
        )

    def check(self, control: Control) -> None:
        """Look up the newest version; files of older ones are deleted."""
        source = _source()
        content, signatures = description(source.address, control)
        text = signatures.decode("ascii", "replace")
        found = _read(content, text, source)
        is_newer = manifest.is_newer(found.version, self._version)
        manifest.remember(found, signers(content, text, source.keys))
        with self._files.writing():
            if is_newer:
                atomic_file.write_bytes(self.folder / manifest.NAME, content)
                atomic_file.write_bytes(self.folder / manifest.SIGNATURE, signatures)
            self._sweep(found.setup.name if is_newer else "")

    def download(self, listener: Listener) -> None:
        """Download the setup of the version that `check` found, or resume its download.

        A download with another SHA-256 than the published one is deleted: UpdateDamaged.
        """
        source = _source()
        found = self._known(source)
        setup = remote_setup(found, source)
        try:
            self._files.need(setup.bytes - self._files.done_bytes(setup))
            ensure(setup, self._files, listener)
        except DownloadFailed as err:
            raise UpdateUnreachable("setup", problem=err.as_message) from err
        except HashMismatch as err:
            self._sweep(setup.name)
            raise UpdateDamaged("setup", version=found.version) from err
        except WeightsError as err:
            problem = err.as_message
            raise UpdateError("model-file", problem=problem, help=problem.hint) from err

    @contextlib.contextmanager
    def ready(self, listener: Listener | None = None) -> Iterator[Path]:
        """The setup, to be started in the block; its SHA-256 is computed again.

        On Windows the file is locked against changes before it is hashed and until the block ends:
        the file that is started is the one that was hashed. A setup with another SHA-256 than the
        published one is deleted: UpdateDamaged.
        """
        listener = listener or Listener()
        found = self._known(_source())
        path = self.folder / found.setup.name
        if not path.is_file():
            raise UpdateMissing("setup", version=found.version)
        with contextlib.ExitStack() as until_started:
            try:
                until_started.enter_context(_held(path))
                is_right = (
                    path.stat().st_size == found.setup.bytes
                    and sha256_of(path, listener.on_progress, listener.control)
                    == found.setup.sha256
                )
            except (OSError, WeightsError) as err:
                raise UpdateError("unreadable", name=path.name, reason=err, path=path) from err
            if is_right:
                yield path
                return
        with contextlib.suppress(OSError):
            path.unlink()
        raise UpdateDamaged("setup", version=found.version)

    def tidy(self) -> None:
        """Delete the download of a version that is installed by now; sends no request."""
        if not any(self.folder.glob("up*")):
            return
        with contextlib.suppress(UpdateNotInBuild, OSError):
            source = manifest.source()
            if source.is_here and self._kept(source) is None:
                self._sweep("")

    def _known(self, source: UpdateSource) -> Manifest:
        found = self._kept(source)
        if found is None:
            raise UpdateMissing("nothing-newer")
        return found

    def _kept(self, source: UpdateSource) -> Manifest | None:
        """The newer version that an earlier `check` found; its signature is verified again."""
        try:
            content = (self.folder / manifest.NAME).read_bytes()
            signatures = (self.folder / manifest.SIGNATURE).read_text("ascii", "replace")
            found = _read(content, signatures, source)
        except FileNotFoundError:
            return None
        except (OSError, UpdateError) as err:
            logger.warning("%s: %s", self.folder / manifest.NAME, err)
            return None
        return found if manifest.is_newer(found.version, self._version) else None

    def _sweep(self, current: str) -> None:
        """Delete all setups except the current one; without one delete everything."""
        kept = {current, f"{current}.part"} if current else set[str]()
        if not current:
            for name in (manifest.NAME, manifest.SIGNATURE):
                (self.folder / name).unlink(missing_ok=True)
        for path in self.folder.glob("upreel-*"):
            if path.name not in kept:
                with contextlib.suppress(OSError):  # it runs, or a virus scanner reads it
                    path.unlink()


def _source() -> UpdateSource:
    source = manifest.source()
    if not source.is_here:
        raise UpdateNotInBuild()
    return source


def _read(content: bytes, signatures: str, source: UpdateSource) -> Manifest:
    """A signed and fresh description; raises as `manifest.read` and `manifest.check_fresh`."""
    found = manifest.read(content, signatures, source.keys)
    manifest.check_fresh(found, signers(content, signatures, source.keys))
    return found


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
    """The description and its signatures, not verified yet; else UpdateUnreachable."""
    content = _small_file(address, control)
    return content, _small_file(urljoin(address, manifest.SIGNATURE), control)


def _small_file(address: str, control: Control) -> bytes:
    control.check()
    help = "try-again"
    try:
        with http_client.get(address, timeout_s=_TIMEOUT_S, control=control) as reply:
            if reply.status == 200 and reply.is_web_page:
                help = "web-page"
                raise HttpError("web-page")
            return reply.read_whole(manifest.MOST_BYTES)
    except HttpError as err:
        about = {"host": host(address), "why": err.why, "help": message(f"help.transfer.{help}")}
        raise UpdateUnreachable("description", **about) from err


# --- start of the setup


if sys.platform == "win32":
    from ctypes import wintypes

    _READ, _SHARE_READ, _EXISTING = 0x80000000, 1, 3  # GENERIC_READ, FILE_SHARE_READ, OPEN_EXISTING
    _NONE = ctypes.c_void_p(-1).value  # INVALID_HANDLE_VALUE

    @contextlib.contextmanager
    def _held(path: Path) -> Iterator[None]:
        """No program can change, replace or delete the file in the block; it can be read and run.

        Raises OSError where it is missing, or another program has it open to change it.
        """
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateFileW.restype = wintypes.HANDLE
        handle = kernel.CreateFileW(
            *(wintypes.LPCWSTR(str(path)), wintypes.DWORD(_READ), wintypes.DWORD(_SHARE_READ)),
            *(None, wintypes.DWORD(_EXISTING), wintypes.DWORD(0), None),
        )
        if handle == _NONE:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            yield
        finally:
            kernel.CloseHandle(wintypes.HANDLE(handle))

else:

    @contextlib.contextmanager
    def _held(path: Path) -> Iterator[None]:
        """No lock: only Windows can keep other programs from changing the file."""
        with path.open("rb"):
            yield


def check_installable() -> None:
    """Refuse copies of the program that no setup installed; the hint has the alternative."""
    how = manifest.installed_as()
    if how != "setup":
        raise UpdateNotInstallable("installed-otherwise", help=message(f"help.update.{how}"))


def start_update(store: UpdateStore | None = None) -> Path:
    """Start the downloaded setup; this process has to end then, because the setup waits for it.

    Its SHA-256 is computed again first; other programs cannot change it until it runs.

    Returns:
        The setup.
    """
    check_installable()
    with (store or UpdateStore()).ready() as path:
        logger.info("starting %s", path.name)
        try:
            _start(path)
        except OSError as err:
            reason = err.strerror or err
            raise UpdateNotInstallable(
                "does-not-start", name=path.name, reason=reason, path=path
            ) from err
    return path


def _start(path: Path) -> None:
    """Start it detached: it outlives this process and uses neither its folder nor its console."""
    environment = os.environ | {"PYINSTALLER_RESET_ENVIRONMENT": "1"}  # the setup starts Upreel
    flags = NO_CONSOLE
    if sys.platform == "win32":
        flags |= subprocess.CREATE_NEW_PROCESS_GROUP  # it ignores Ctrl-C in our console
        # else it would load libraries from our folder
        ctypes.windll.kernel32.SetDllDirectoryW(None)
    subprocess.Popen(  # noqa: S603 - the setup whose SHA-256 was signed and has been checked
        [paths.shown(path), _SWITCH],
        creationflags=flags,
        cwd=paths.shown(path.parent),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# --- commands


class UpdateService:
    """Answers commands about updates: what is known at once, everything else as a task.

    A second task is refused while the first runs.

    Args:
        store: Store of this computer; made on first use.
    """

    kind = TaskKind.UPDATE
    commands = c.UpdateCommand

    def __init__(self, store: UpdateStore | None = None) -> None:
        self._own_store = store
        self._was_checked = False

    def answer(self, command: c.UpdateCommand) -> Task | tuple[UpdateKnown]:
        """The known state, or a task."""
        match command:
            case c.CheckUpdate():
                return self._task("check", self._check)
            case c.DownloadUpdate():
                return self._task("download", lambda work: self._store.download(Listener.of(work)))
            case c.InstallUpdate():
                return self._task("install", self._install)
        return (self._known(),)

    @property
    def _store(self) -> UpdateStore:
        if self._own_store is None:
            self._own_store = UpdateStore()
        return self._own_store

    def _task(self, phase: Phase, do: Callable[[RunningTask], None]) -> Task:
        return Task(
            kind=self.kind, phase=phase, do=do, busy=lambda _: UpdateBusy(), state=self._known
        )

    def _check(self, work: RunningTask) -> None:
        self._store.check(work.control)
        self._was_checked = True

    def _install(self, work: RunningTask) -> None:
        check_installable()
        with self._store.ready(Listener.of(work)):
            pass

    def _known(self) -> UpdateKnown:
        state = dataclasses.replace(self._store.state(), was_checked=self._was_checked)
        return UpdateKnown(state=state)
