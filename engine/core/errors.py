"""Errors that reach a user: one hierarchy, a stable code each; the catalogue has the words.

A foreign exception is translated once, where it enters. ValueError and TypeError are programming
errors and never part of this hierarchy; `file_access.reported` turns them into InternalError at
the top of a thread.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from engine.core.messages import HasMessage, Message, Param, message


class EngineError(HasMessage, Exception):
    """An error that a user can understand.

    Args:
        case: Which message of the class it is, as `resources/messages` names it: the class says
            "disk-full", the case "while-writing". "" where the class has a single message.
        params: Values of the placeholders of text and hint.

    Attributes:
        code: Stable name of the class in kebab-case; scripts and tests use it.
        is_permanent: A job that has begun meets it again at each try, whatever else is done: its
            source or its record is of no use. Other errors pass, or other choices help.
    """

    code: ClassVar[str] = "engine-error"
    is_permanent: ClassVar[bool] = False

    def __init_subclass__(cls, code: str = "", is_permanent: bool = False) -> None:
        cls.code = code or cls.code
        cls.is_permanent = is_permanent

    def __init__(self, case: str = "", /, **params: object) -> None:
        super().__init__(case)
        self.case = case
        self.params = params

    @property
    def as_message(self) -> Message:
        """The message of the catalogue."""
        return message(f"{self.code}.{self.case}" if self.case else self.code, **self.params)

    def info(self) -> ErrorInfo:
        """Error as plain data, for events."""
        params, lasts = self.as_message.params, self.is_permanent
        return ErrorInfo(code=self.code, case=self.case, params=params, is_permanent=lasts)

    def __str__(self) -> str:
        return self.message

    @cached_property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # typeshed has a list; Python reads any attribute
        """The hint, which Python prints below the error that ends a program, and added notes."""
        return [self.hint] if self.hint else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo(HasMessage):
    """An error as plain data: what an event or a file carries."""

    code: str
    case: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    is_permanent: bool = False  # class attribute of the error

    @property
    def as_message(self) -> Message:
        """The message of the catalogue."""
        return Message(f"{self.code}.{self.case}" if self.case else self.code, dict(self.params))

    @property
    def as_error(self) -> EngineError:
        """Error of the class that it describes."""
        kinds = [EngineError]
        for kind in kinds:  # grows
            kinds += kind.__subclasses__()
        found = next((kind for kind in kinds if kind.code == self.code), EngineError)
        return found(self.case, **self.params)


class InputError(EngineError, code="input-error"):
    """The source cannot be used."""


class SourceMissing(InputError, code="source-missing"):
    """There is no such file."""


class SourceUnreadable(InputError, code="source-unreadable"):
    """The file is there but this user may not read it, or the disk fails."""


class UnreadableMedia(InputError, code="unreadable-media", is_permanent=True):
    """The file is no video or picture, is empty, or is damaged beyond use."""


class TruncatedMedia(InputError, code="truncated-media"):
    """The file ends, or is damaged, before its time is over."""


class UnsupportedMedia(InputError, code="unsupported-media", is_permanent=True):
    """A file we can read but not use: no picture, unknown codec, impossible size."""


class OutputError(EngineError, code="output-error"):
    """The result cannot be written."""


class OutputExists(OutputError, code="output-exists"):
    """A file of that name is already there."""


class OutputIsInput(OutputError, code="output-is-input"):
    """The result would replace its own source."""


class OutputUnwritable(OutputError, code="output-unwritable"):
    """The folder is missing, read-only or not ours."""


class OutputNameUnusable(OutputError, code="output-name"):
    """The system knows no files of that name."""


class ResultHeldBack(OutputError, code="result-held-back"):
    """Frames cannot be read that should be there: a shorter video needs the user's consent."""


class UnsuitableTensor(InputError, code="unsuitable-tensor"):
    """A tensor of a Python program has another shape or type than a model takes."""


class ResultGone(InputError, code="result-gone"):
    """A finished result was deleted or replaced."""


class DiskFull(OutputError, code="disk-full"):
    """No space left while writing, or too little before the start."""


class EncoderMissing(OutputError, code="encoder-missing"):
    """This machine has no encoder for the wanted codec."""


class ContainerMismatch(OutputError, code="container-mismatch"):
    """The container cannot take the wanted codec or one of the streams."""


class WeightsError(EngineError, code="weights-error"):
    """Model files are missing or wrong."""


class WeightsMissing(WeightsError, code="weights-missing"):
    """The file is not on this machine."""


class LibraryMissing(WeightsError, code="library-missing"):
    """A library that a model needs, which the user has to bring, is not on this machine."""


class UnknownWeights(WeightsError, code="unknown-weights"):
    """The catalogue has no such file."""


class WeightsBusy(WeightsError, code="weights-busy"):
    """Another program, or another part of this one, is at the file, or was just now."""


class DownloadFailed(WeightsError, code="download-failed"):
    """The server, or the way to it, does not give the file."""


class HashMismatch(WeightsError, code="hash-mismatch"):
    """The file is not the published one."""


class WeightsUnreadable(WeightsError, code="weights-unreadable"):
    """The file is there but this user may not read it, or the disk fails."""


class NotSafetensors(WeightsError, code="not-safetensors"):
    """The file is of another kind: an archive, a pickle, GGUF, a web page, a folder."""


class NotGguf(WeightsError, code="not-gguf"):
    """The file is no GGUF file, or of a version or byte order that we cannot read."""


class WeightsTruncated(WeightsError, code="weights-truncated"):
    """The file is shorter than its head says: a download or a copy that was cut off."""


class WeightsDamaged(WeightsError, code="weights-damaged"):
    """The head of the file contradicts itself or what follows it."""


class UnsafeWeights(WeightsError, code="unsafe-weights"):
    """A pickle that holds more than tensors: reading it could run a program."""


class WrongModel(WeightsError, code="wrong-model"):
    """The file is whole but holds another model than the wanted one."""


class WrongNumbers(WeightsError, code="wrong-numbers"):
    """Tensors have a format, a scale or values that these weights cannot have."""


class UnknownKeys(WeightsError, code="unknown-keys"):
    """Tensors are missing, left over or misshapen."""


class MissingKeys(UnknownKeys, code="missing-keys"):
    """Tensors that the model needs are not in the file."""


class ExtraKeys(UnknownKeys, code="extra-keys"):
    """The file has tensors that the model has no place for."""


class WrongShapes(UnknownKeys, code="wrong-shapes"):
    """Tensors have other shapes than the model."""


class RuntimePackError(EngineError, code="runtime-error"):
    """Something about an NVIDIA runtime, a build of torch other than that of the program."""


class UnknownRuntime(RuntimePackError, code="unknown-runtime"):
    """There is no such runtime."""


class UnsuitableWheel(RuntimePackError, code="unsuitable-wheel"):
    """A wheel that this program cannot load."""


class RuntimeBusy(RuntimePackError, code="runtime-busy"):
    """It is being installed, or a program uses it."""


class RuntimeBroken(RuntimePackError, code="runtime-broken"):
    """It is installed but does not work here."""


class RuntimeBlocked(RuntimePackError, code="runtime-blocked"):
    """It is installed and intact, but a policy of Windows forbids loading its libraries."""


class UnsafeArchive(RuntimePackError, code="unsafe-archive"):
    """A wheel that is damaged, or that would write outside its folder or without end."""


class UpdateError(EngineError, code="update-error"):
    """Something about an update of the program."""


class UpdateNotInBuild(UpdateError, code="update-not-in-build"):
    """This build does not know where updates are published, or by whose key they are signed."""


class UpdateUnreachable(UpdateError, code="update-unreachable"):
    """The place where updates are published does not answer, or with something else."""


class UpdateUntrusted(UpdateError, code="update-untrusted"):
    """The answer was not signed by us, or describes something else."""


class UpdateOutdated(UpdateError, code="update-outdated"):
    """A signed description of updates that is not the newest one, or of unknown age."""


class UpdateTooNew(UpdateError, code="update-too-new"):
    """The description of the update is written in a way that this version cannot read."""


class UpdateDamaged(UpdateError, code="update-damaged"):
    """The setup is not the one that was published."""


class UpdateMissing(UpdateError, code="update-missing"):
    """There is no update, or its setup was not downloaded."""


class UpdateBusy(UpdateError, code="update-busy"):
    """Another task or program works on it already."""


class UpdateNotInstallable(UpdateError, code="update-not-installable"):
    """This copy of the program was not installed by a setup, or the setup does not start."""


class HardwareError(EngineError, code="hardware-error"):
    """The machine lacks something."""


class NoUsableGpu(HardwareError, code="no-usable-gpu"):
    """No GPU, or none that can do this."""


class GpuLost(HardwareError, code="gpu-lost"):
    """The GPU answered no more: this process cannot use it again, the next one may."""


class PretendedGpu(HardwareError, code="pretended-card"):
    """The plan was made for a GPU that is not in this machine."""


class FeatureMissing(HardwareError, code="feature-missing"):
    """This device, or this build of torch, cannot do what was chosen; the hint names what can."""


class ChoiceMissing(HardwareError, code="choice-missing"):
    """A job was begun with a way to compute that does not work on this device."""


class CapacityError(EngineError, code="capacity-error"):
    """Too little memory."""


class PlanDoesNotFit(CapacityError, code="plan-does-not-fit"):
    """Not even the smallest plan fits."""


class OutOfMemory(CapacityError, code="out-of-memory"):
    """The device or the machine refused memory while running."""


class NumericOverflow(CapacityError, code="numeric-overflow"):
    """The device computed values that are not finite: its dtype is too narrow.

    The case is the part of the model: "encoder", "transformer", "decoder" or "community-model".
    """


class SettingsError(EngineError, code="settings-error"):
    """A setting has an impossible value or an unknown name."""


class CommandInvalid(EngineError, code="command-invalid"):
    """A command to the engine has a value that it cannot have."""


class JobError(EngineError, code="job-error"):
    """Something about a job."""


class UnknownJob(JobError, code="unknown-job"):
    """There is no job of that name."""


class JobBusy(JobError, code="job-busy"):
    """Another program is at this job."""


class CheckpointMismatch(JobError, code="checkpoint-mismatch", is_permanent=True):
    """Source, settings or weights changed since the job was interrupted."""


class EngineStopped(JobError, code="engine-stopped"):
    """The engine thread has ended."""


class SystemRefusal(EngineError, code="system-refusal"):
    """The operating system refused something, and only its own words say why."""


class InternalError(EngineError, code="internal-error"):
    """A programming error; the log has the traceback."""


class Cancelled(Exception):
    """The user asked to stop; not an error."""


# --- lack of memory

# In messages of torch's allocators, of CUDA's libraries and of systems without memory or threads.
_PHRASES = (
    "not enough memory",
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "status_alloc_failed",
    "host_allocation_failed",
    "paging file is too small",
    "can't start new thread",
)
_WINDOWS = frozenset({8, 14, 1455})  # not enough memory, out of memory, the limit of commitments


def is_memory_refusal(error: BaseException) -> bool:
    """Whether an error says that memory was refused, the GPU's or the system's.

    That passes, so it is never a verdict on a file, an encoder or a build of torch.
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM or getattr(error, "winerror", None) in _WINDOWS
    text = str(error).lower() if isinstance(error, RuntimeError | ImportError) else ""
    return any(phrase in text for phrase in _PHRASES)


def memory_ran_out(error: BaseException) -> bool:
    """Whether a library reports a lack of memory as damage: memory is then still short."""
    return is_memory_refusal(error) or _is_short()


def _is_short() -> bool:
    """Whether the system refuses 64 MB, which are taken for an instant and not touched."""
    try:
        mmap.mmap(-1, 2**26).close()
    except (OSError, MemoryError):
        return True
    return False


# --- libraries that Windows refuses to load

# Invalid image hash, access disabled by policy, and those of application control: policy
# violation, bad reputation, explicit denial.
_BLOCKED = frozenset({577, 1260, 4551, *range(4556, 4560), *range(4580, 4584)})
_BLOCKED_STATUS = frozenset({0xC0000428, 0xC0E90002})  # the same as statuses of ended processes
_WIN_ERROR = re.compile(r"\[WinError (\d+)\]")


def is_code_refusal(error: BaseException) -> bool:
    """Whether an error says that a policy of Windows forbids loading a file.

    Smart App Control, App Control for Business and AppLocker also refuse intact files that are not
    signed, so it is no verdict on the file.
    """
    return getattr(error, "winerror", None) in _BLOCKED or (
        isinstance(error, ImportError | OSError | RuntimeError) and states_code_refusal(str(error))
    )


def states_code_refusal(text: str) -> bool:
    """Whether a text contains such an error: a number of Windows, or its sentence.

    An ImportError has the sentence alone, in the language of Windows.
    """
    numbers = {int(number) for number in _WIN_ERROR.findall(text)}
    sentence = _sentence_of_refusal()
    return not numbers.isdisjoint(_BLOCKED) or (bool(sentence) and sentence in text)


def is_refused_process(status: int) -> bool:
    """Whether a process ended with this status because Windows refused one of its libraries."""
    return status & 0xFFFFFFFF in _BLOCKED_STATUS


def _sentence_of_refusal() -> str:
    """Windows' own sentence; "" on other systems and where this Windows knows none."""
    if sys.platform != "win32":
        return ""
    found = ctypes.FormatError(4551).strip()
    return "" if found.startswith("<") else found  # ctypes: "<no description>"
