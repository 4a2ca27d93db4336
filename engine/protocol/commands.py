"""Commands to the engine: frozen, picklable dataclasses; their values are checked on arrival."""

from __future__ import annotations

import math
import secrets
import time
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from engine.core.errors import CommandInvalid
from engine.protocol.excerpt import Excerpt
from engine.protocol.media import MediaInfo
from engine.protocol.model_file_state import ImportMode
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings, JobSettings

_MOST = 2**62  # largest number of a value
_MOST_SHOWN = 60  # characters of a value in an error


def new_job_id() -> str:
    """A name for a job that sorts by time and is never given twice."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def at_least(low: int, default: Any = MISSING) -> Any:
    """A dataclass field with a least value or, for tuples, a least length: see `check`."""
    return field(default=default, metadata={"low": low})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to do; one with a value that its field cannot have is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Command):
    """Load the heavy libraries now; answered by EngineReady. Sent after the first paint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob(Command):
    """Probe a file and put it into the queue; answered by JobQueued or JobRejected."""

    job_id: str
    source: Path
    settings: JobSettings = field(default_factory=JobSettings)
    output: Path | None = None  # None: next to the source, named by the target
    is_automatic: bool = False  # not asked for: refused where reading it has ended the program


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamineSource(Command):
    """Task to examine frames of a job's source, begun for each job; ends in SourceExamined."""

    job_id: str
    media: MediaInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceExamined(Command):
    """Examined source of a job; answered by PlanChosen where that changes anything."""

    job_id: str
    media: MediaInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptJob(Command):
    """Put an unfinished job of an earlier run into the queue."""

    job_id: str
    accept: bool = False  # its result is taken as it is, also with frames missing
    output: Path | None = None  # another name, or a folder, for the result; None: as it began
    overwrite: bool = False  # the result may replace a file of its name
    position: int | None = None  # in the queue, from 0; None for the end
    otherwise: AddJob | None = None  # carried out where the job has ended meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeJob(Command):
    """New settings for a job that does not run and has no result; answered by PlanChosen."""

    job_id: str
    settings: JobSettings
    output: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPlan(Command):
    """Plan a job with other settings, for a look; answered by PlanShown, and the job stays."""

    job_id: str
    settings: JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob(Command):
    """Take a job that does not run out of the queue and delete its finished segments.

    Also a job of an earlier run that cannot go on and so never came into the queue, and one that
    was removed before and could return.
    """

    job_id: str
    can_return: bool = False  # its segments stay until RestoreJob, or RemoveJob without this


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreJob(Command):
    """Put a removed job that can return back into the queue, in the state that it had."""

    job_id: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJob(Command):
    """Move a waiting job in the queue."""

    job_id: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryJob(Command):
    """Let a failed or cancelled job wait again; finished segments are used."""

    job_id: str
    accept: bool = False  # its result is taken as it is, also with frames missing


@dataclass(frozen=True, slots=True, kw_only=True)
class StartQueue(Command):
    """Run waiting jobs, one after the other, also those added later."""

    skips_refused: bool = False  # jobs whose plan cannot start go on waiting; else they fail


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQueue(Command):
    """Start no further job; the running one goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseJob(Command):
    """Halt the running job within one tile."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeJob(Command):
    """Let a paused job go on."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob(Command):
    """Stop a job within one tile; its finished segments stay until it is removed."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowFrame(Command):
    """Answered by PreviewReady: the frame at a time, from the source and, if done, the result."""

    job_id: str
    seconds: float
    longest_side: int = at_least(1, 1920)  # px; larger pictures are reduced
    has_source: bool = True  # False where the result alone is compared with another one


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOverview(Command):
    """Read thumbnails, loudness and cuts of a job's source for a timeline: a task.

    Each OverviewRead has all that is known so far. A later one replaces one that waits.
    """

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptCommand(Command):
    """Command about parts of a job's video: a task, with the job as subject."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindScenes(ExcerptCommand):
    """Find scenes of the video that show differences of models; ends with ScenesFound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeExcerpt(ExcerptCommand):
    """Make a part of a job's video by its plan, before the whole.

    Ends with ExcerptReady; ShowFrame then has a result there. Refused while a job runs or is
    paused, or a benchmark runs; StartQueue stops it.
    """

    start: float  # s of the source
    seconds: float = at_least(0, 0.0)  # 0: the frame that is shown at `start`
    settings: JobSettings | None = None  # used in place of the job's own, to compare both


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLook(Command):
    """Make a frame of a job's video with Lite on the CPU, though the user did not ask: a task.

    Its settings are those of `for_look`. Ends with ExcerptReady; ShowFrame has that frame where
    nothing was tried. Refused while a job or a benchmark runs; all that the user asks for stops it.
    """

    job_id: str
    start: float  # s of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptMade(Command):
    """Result of a task for MakeExcerpt or MakeLook; answered by ExcerptReady."""

    job_id: str
    excerpt: Excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLatent(Command):
    """Show what is in a .latent file, for a user who is to choose its reading; creates no job.

    A task that emits LatentRead and LatentShown. A later one replaces one that waits.
    """

    path: Path
    vae: str = ""  # file of the user's own instead of the published one
    longest_side: int = at_least(1, 512)  # px of the pictures; larger ones are reduced


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetCommand(Command):
    """Command about presets; answered at once, with TaskFailed where it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPresets(PresetCommand):
    """Answered by PresetsListed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePreset(PresetCommand):
    """Keep settings under a name; answered by PresetsListed."""

    title: str
    settings: JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePreset(PresetCommand):
    """Delete one of the user's own; answered by PresetsListed."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPreset(PresetCommand):
    """Write a preset to a file; only a failure is answered."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPreset(PresetCommand):
    """Take a preset from a file; answered by PresetsListed."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEngine(Command):
    """Other settings of the program: for plans and jobs from now on, not for one that runs."""

    settings: EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBenchmark(Command):
    """Measure this computer, as a task; refused while a job runs, as both times would be wrong."""

    quick: bool = True  # calibration alone, at most a minute; else every optimisation too
    archive: Path | None = None  # "Measure this PC": ten minutes, then one .zip for a report


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDiagnostics(Command):
    """Run the self-test and write an archive for a report, as a task; without names of files."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFileCommand(Command):
    """Command about model files; jobs go on meanwhile. All but the list are tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListModelFiles(ModelFileCommand):
    """Answered by ModelFilesListed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadModelFile(ModelFileCommand):
    """Download a file of the catalogue, or resume its download."""

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyModelFile(ModelFileCommand):
    """Read an installed file and compare its SHA-256 with the published one."""

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportModelFile(ModelFileCommand):
    """Import a file of the user's: copy it to the program's folder, or remember its path."""

    path: Path
    mode: ImportMode = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertModelFile(ModelFileCommand):
    """Keep a published file in another format that it can have, or resume that; see `converts_to`.

    Attributes:
        file: Id in the catalogue.
        format: One of the formats; "" for the first.
        removes: Delete our own copy of the published file afterwards.
    """

    file: str
    format: str = ""
    removes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveModelFile(ModelFileCommand):
    """Delete our own copy of a file, whole or in part; an external file is only forgotten."""

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCommand(Command):
    """Command about NVIDIA runtimes, builds of torch; jobs go on. All but the list are tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuntimes(RuntimeCommand):
    """Answered by RuntimesListed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRuntime(RuntimeCommand):
    """Download a runtime or resume its download, unpack and test it; the next start uses it."""

    runtime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRuntime(RuntimeCommand):
    """Does what InstallRuntime does, with wheels of the user's: files, or folders of wheels."""

    paths: tuple[Path, ...] = at_least(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRuntime(RuntimeCommand):
    """Test an installed runtime, and let the next start use it; "" for the included torch."""

    runtime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRuntime(RuntimeCommand):
    """Delete a runtime and its downloaded files."""

    runtime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCommand(Command):
    """Command about updates of the program; jobs go on meanwhile. All but ShowUpdate are tasks.

    A task emits UpdateKnown before it ends.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowUpdate(UpdateCommand):
    """Answered by UpdateKnown with the last known state, without a request to the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUpdate(UpdateCommand):
    """Ask the server of updates whether there is a newer version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadUpdate(UpdateCommand):
    """Download the setup of the newer version, or resume its download."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallUpdate(UpdateCommand):
    """Check that the setup may be started; after TaskDone the sender ends, starting it last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTask(Command):
    """Stop tasks that run or wait; partial downloads stay. Each answers with TaskStopped."""

    kind: TaskKind
    subject: str = ""  # "": all of that kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(Command):
    """End the engine: a running job is left as it is, to be resumed at the next start.

    Jobs that wait to be added or planned, and previews that wait, are dropped.
    """


# --- the check of values


def check(command: Command) -> None:
    """Refuse values of another type than their fields, and those below the "low" of a field.

    Commands come from another program.

    Raises:
        CommandInvalid: Names the command, the field and the value.
    """
    kind: Any = type(command)
    kinds = _kinds(kind)
    for one in fields(command):
        value = getattr(command, one.name)
        low = one.metadata.get("low", -math.inf)
        if not _fits(value, kinds[one.name]) or _amount(value) < low:
            raise CommandInvalid(command=kind.__name__, field=one.name, value=_shown(value))


def _amount(value: Any) -> float:
    """Amount that the "low" of a field is compared with."""
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int | float) else math.inf


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_MOST_SHOWN]
    except ValueError:  # an integer of thousands of digits
        return type(value).__name__


@cache
def _kinds(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if kind in (int, float):
        is_number = isinstance(value, int if kind is int else int | float)
        return is_number and not isinstance(value, bool) and abs(value) <= _MOST  # never NaN
    if kind in (str, Path) and isinstance(value, kind):
        return "\0" not in str(value)  # no name of the system has one
    return isinstance(value, origin or kind)
