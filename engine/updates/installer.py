"""Starts the setup of a newer version, before the program ends."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path

from engine.core import windows_paths
from engine.core.errors import UpdateNotInstallable
from engine.core.messages import message
from engine.hardware.process import NO_CONSOLE
from engine.updates.build import installed_as
from engine.updates.store import UpdateStore

logger = logging.getLogger(__name__)

_SWITCH = "/UPDATE"  # no questions; waits for this process to end, then starts the new version


def check_installable() -> None:
    """Refuse copies of the program that a setup cannot update.

    Raises:
        UpdateNotInstallable: This copy was not installed by a setup; the hint has the alternative.
    """
    how = installed_as()
    if how != "setup":
        raise UpdateNotInstallable("installed-otherwise", help=message(f"help.update.{how}"))


def start_update(store: UpdateStore | None = None) -> Path:
    """Start the downloaded setup; this process has to end then, as the setup waits for that.

    Its SHA-256 is computed again right before, and until it runs no other program can change it.

    Returns:
        The setup.

    Raises:
        UpdateNotInstallable: A setup cannot update this copy, or it does not start.
        UpdateMissing, UpdateDamaged: It was not downloaded, or was changed.
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
    environment = os.environ | {"PYINSTALLER_RESET_ENVIRONMENT": "1"}  # it may start a new Upreel
    flags = NO_CONSOLE
    if sys.platform == "win32":
        flags |= subprocess.CREATE_NEW_PROCESS_GROUP  # it ignores Ctrl-C in our console
        ctypes.windll.kernel32.SetDllDirectoryW(
            None
        )  # else it would load libraries from our folder
    subprocess.Popen(  # noqa: S603 - the setup whose SHA-256 was signed and has been checked
        [windows_paths.shown(path), _SWITCH],
        creationflags=flags,
        cwd=windows_paths.shown(path.parent),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
