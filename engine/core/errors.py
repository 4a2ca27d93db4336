"""Errors that reach a user: one hierarchy, a stable code each; the catalogue has the words.

A foreign exception is translated once, where it enters. ValueError and TypeError are mistakes of
ours and never part of this hierarchy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from engine.core.messages import Message, Param, hint_of, message, text_of


class EngineError(Exception):
    """An error that a user can understand.

    Args:
        case: Which message of the class it is, as `resources/messages` names it: the class says
            "disk-full", the case "while-writing". "" where the class has a single message.
        params: Values of the placeholders of text and hint.

    Attributes:
        code: Stable name of the class in kebab-case; scripts and tests use it.
    """

    code: ClassVar[str] = "engine-error"

    def __init__(self, case: str = "", /, *, hint: str = "", **params: object) -> None:
        super().__init__(case)
        self.case = "" if " " in case else case
        self.params = params
        code = f"{self.code}.{self.case}" if self.case else self.code
        self.as_message = message(code, **params)
        # LEGACY: a sentence in the place of a case, until every room has moved to the catalogue.
        self.message = case if " " in case else text_of(self.as_message)
        self.hint = hint or ("" if " " in case else hint_of(self.as_message))

    def info(self) -> ErrorInfo:
        """The same as plain data, for events."""
        return ErrorInfo(
            code=self.code,
            case=self.case,
            message=self.message,
            hint=self.hint,
            params=self.as_message.params,
        )

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """An error as plain data: what an event or a file carries."""

    code: str
    message: str
    hint: str = ""
    case: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)

    @property
    def as_message(self) -> Message:
        """The message of the catalogue."""
        return Message(f"{self.code}.{self.case}" if self.case else self.code, dict(self.params))


class InputError(EngineError):
    """The source cannot be used."""

    code = "input-error"


class SourceMissing(InputError):
    """There is no such file."""

    code = "source-missing"


class SourceUnreadable(InputError):
    """The file is there but this user may not read it, or the disk fails."""

    code = "source-unreadable"


class UnreadableMedia(InputError):
    """The file is no video or picture, is empty, or is damaged beyond use."""

    code = "unreadable-media"


class TruncatedMedia(InputError):
    """The file ends, or is damaged, before its time is over."""

    code = "truncated-media"


class UnsupportedMedia(InputError):
    """A file we can read but not use: no picture, unknown codec, impossible size."""

    code = "unsupported-media"


class OutputError(EngineError):
    """The result cannot be written."""

    code = "output-error"


class OutputExists(OutputError):
    """A file of that name is already there."""

    code = "output-exists"


class OutputIsInput(OutputError):
    """The result would replace its own source."""

    code = "output-is-input"


class OutputUnwritable(OutputError):
    """The folder is missing, read-only or not ours."""

    code = "output-unwritable"


class OutputNameUnusable(OutputError):
    """The system knows no files of that name."""

    code = "output-name"


class DiskFull(OutputError):
    """No space left while writing, or too little before the start."""

    code = "disk-full"


class EncoderMissing(OutputError):
    """This machine has no encoder for the wanted codec."""

    code = "encoder-missing"


class ContainerMismatch(OutputError):
    """The container cannot take the wanted codec or one of the streams."""

    code = "container-mismatch"


class WeightsError(EngineError):
    """Files with numbers of a model are missing or wrong."""

    code = "weights-error"


class WeightsMissing(WeightsError):
    """The file is not on this machine."""

    code = "weights-missing"


class UnknownWeights(WeightsError):
    """The catalogue has no such file."""

    code = "unknown-weights"


class WeightsBusy(WeightsError):
    """Another program, or another part of this one, is at the file."""

    code = "weights-busy"


class DownloadFailed(WeightsError):
    """The server, or the way to it, does not give the file."""

    code = "download-failed"


class HashMismatch(WeightsError):
    """The file is not the published one."""

    code = "hash-mismatch"


class WeightsUnreadable(WeightsError):
    """The file is there but this user may not read it, or the disk fails."""

    code = "weights-unreadable"


class NotSafetensors(WeightsError):
    """The file is of another kind: an archive, a pickle, GGUF, a web page, a folder."""

    code = "not-safetensors"


class NotGguf(WeightsError):
    """The file is no GGUF file, or of a version or byte order that we cannot read."""

    code = "not-gguf"


class WeightsTruncated(WeightsError):
    """The file is shorter than its head says: a download or a copy that was cut off."""

    code = "weights-truncated"


class WeightsDamaged(WeightsError):
    """The head of the file contradicts itself or what follows it."""

    code = "weights-damaged"


class UnsafeWeights(WeightsError):
    """A pickle that holds more than tensors: reading it could run a program."""

    code = "unsafe-weights"


class WrongModel(WeightsError):
    """The file is whole but holds another model than the wanted one."""

    code = "wrong-model"


class WrongNumbers(WeightsError):
    """Tensors are stored in a format that these weights cannot have (whole numbers)."""

    code = "wrong-numbers"


class UnknownKeys(WeightsError):
    """Tensors are missing, left over or misshapen."""

    code = "unknown-keys"


class MissingKeys(UnknownKeys):
    """Tensors that the model needs are not in the file."""

    code = "missing-keys"


class ExtraKeys(UnknownKeys):
    """The file has tensors that the model has no place for."""

    code = "extra-keys"


class WrongShapes(UnknownKeys):
    """Tensors have other shapes than the model."""

    code = "wrong-shapes"


class RuntimePackError(EngineError):
    """Something about an NVIDIA runtime, a build of torch beside the one of the program."""

    code = "runtime-error"


class UnknownRuntime(RuntimePackError):
    """There is no such runtime."""

    code = "unknown-runtime"


class RuntimeNotInBuild(RuntimePackError):
    """This build of the program does not know the files of it, and takes no others."""

    code = "runtime-not-in-build"


class RuntimeBusy(RuntimePackError):
    """It is being installed, or a program uses it."""

    code = "runtime-busy"


class RuntimeBroken(RuntimePackError):
    """It is installed but does not work here."""

    code = "runtime-broken"


class UnsafeArchive(RuntimePackError):
    """A wheel that is damaged, or that would write outside its folder or without end."""

    code = "unsafe-archive"


class HardwareError(EngineError):
    """The machine lacks something."""

    code = "hardware-error"


class NoUsableGpu(HardwareError):
    """No card, or none that can do this."""

    code = "no-usable-gpu"


class PretendedGpu(HardwareError):
    """The plan was made for a card that is not in this machine."""

    code = "pretended-card"


class FeatureMissing(HardwareError):
    """This device, or this build of torch, cannot do what was chosen; the hint names what can."""

    code = "feature-missing"


class CapacityError(EngineError):
    """Too little memory."""

    code = "capacity-error"


class PlanDoesNotFit(CapacityError):
    """Not even the smallest plan fits."""

    code = "plan-does-not-fit"


class OutOfMemory(CapacityError):
    """The device or the machine refused memory while running."""

    code = "out-of-memory"


class NumericOverflow(CapacityError):
    """The device computed values that are not finite: its number format is too narrow."""

    code = "numeric-overflow"


class SettingsError(EngineError):
    """A setting has an impossible value or an unknown name."""

    code = "settings-error"


class JobError(EngineError):
    """Something about a job."""

    code = "job-error"


class UnknownJob(JobError):
    """There is no job of that name."""

    code = "unknown-job"


class JobBusy(JobError):
    """Another program is at this job."""

    code = "job-busy"


class CheckpointMismatch(JobError):
    """Source, settings or weights changed since the job was interrupted."""

    code = "checkpoint-mismatch"


class EngineStopped(JobError):
    """The engine thread has ended."""

    code = "engine-stopped"


class InternalError(EngineError):
    """A mistake of ours; the log has the traceback."""

    code = "internal-error"


class Cancelled(Exception):
    """The user asked to stop; not an error."""
