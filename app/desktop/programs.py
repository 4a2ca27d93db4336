"""Programs that outlive this one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence

from PySide6.QtCore import QProcess, QProcessEnvironment

_log = logging.getLogger(__name__)


def command_words(command: str) -> list[str]:
    """Full path of a command's program, and its arguments; [] where there is no such program.

    Double quotes hold words together; backslashes are letters like others.
    """
    words = QProcess.splitCommand(command)
    program = shutil.which(words[0]) if words else None
    return [program, *words[1:]] if program else []


def start_program(words: Sequence[str]) -> bool:
    """Start a program without a shell; False where the system refuses."""
    process = QProcess()
    process.setProgram(words[0])
    process.setArguments(list(words[1:]))
    environment = QProcessEnvironment.systemEnvironment()
    environment.insert("PYINSTALLER_RESET_ENVIRONMENT", "1")  # else it takes itself for a helper
    process.setProcessEnvironment(environment)
    answer = process.startDetached()  # with the process number in some versions of PySide6
    is_started = bool(answer[0] if isinstance(answer, tuple) else answer)
    if not is_started:
        _log.warning("%s could not be started: %s", words[0], process.errorString())
    return is_started
