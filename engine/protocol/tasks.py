"""Kinds, phases and results of tasks in the background."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from engine.protocol.model_file_state import PublishedState
from engine.protocol.report import BenchReport


class TaskKind(StrEnum):
    """Subject of a task; one task of a kind runs at a time."""

    MODEL_FILE = "model-file"  # its subject is the id of the file; the path of an import
    RUNTIME = "runtime"  # the id of the runtime; names of files until an import is recognised
    UPDATE = "update"
    BENCHMARK = "benchmark"
    LATENT = "latent"  # the path of the file that is shown
    PRESET = "preset"
    DIAGNOSTICS = "diagnostics"  # the path of the archive
    EXAMINATION = "examination"  # the id of the job whose source is looked at
    PAIRING = "pairing"  # the address of the other computer; "" where that one began
    EXCERPT = "excerpt"  # the id of the job a part of which is made; counts frames
    OVERVIEW = "overview"  # the id of the job whose timeline is shown
    LOOK = "look"  # the id of the job of which a frame is made unasked, with Lite


Phase = Literal[
    "",
    "download",
    "verify",
    "import",
    "convert",
    "remove",
    "unpack",
    "compile",  # modules of a runtime
    "try",
    "use",
    "check",
    "install",
]
Result = PublishedState | BenchReport
