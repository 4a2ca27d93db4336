"""A task in the background: what a service makes of a command, and the task runner runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from engine.core.control import Control
from engine.core.errors import EngineError
from engine.core.messages import Message
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import Notice
from engine.protocol.report import BenchReport

if TYPE_CHECKING:
    from engine.protocol.events import Event


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


Phase = Literal[
    "", "download", "verify", "import", "remove", "unpack", "try", "use", "check", "install"
]
Result = PublishedState | BenchReport


class RunningTask(Protocol):
    """Receiver of the reports of a running task; it may cancel the task through `control`."""

    @property
    def control(self) -> Control:
        """Cancels the task."""
        ...

    def begin(self, phase: Phase, subject: str = "") -> None:
        """Enter another phase, under another subject where one is given."""
        ...

    def progress(self, done: int, total: int) -> None:
        """So many bytes of so many are done; 0 while the total is unknown."""
        ...

    def step(self, done: int, total: int, name: Message | None) -> None:
        """So many steps or frames are done; `name` is the step that begins, None at the end."""
        ...

    def emit(self, event: Event) -> None:
        """Emit what has been found before the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Report of a task that ended well."""

    result: Result | None = None
    notice: Notice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something that takes a while.

    A task waits while another of its kind runs, unless `turn` or `busy` say otherwise.
    """

    kind: TaskKind
    do: Callable[[RunningTask], Outcome | None]
    subject: str = ""
    phase: Phase = ""
    turn: Literal["waits", "replaces", "at-once"] = "waits"  # "replaces": those that wait
    busy: Callable[[str], EngineError] | None = None  # refuses it, by the subject of what runs
    state: Callable[[], Event] | None = None  # what may have changed: emitted before its end
