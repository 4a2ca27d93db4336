"""Makes a plan of source and settings for this computer, now; loads neither torch nor av.

A source is a video, pictures, or latents, which become a video before anything else is done.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from engine.core import paths
from engine.core.errors import (
    EngineError,
    FeatureMissing,
    OutputExists,
    OutputIsInput,
    OutputNameUnusable,
    OutputUnwritable,
    PlanDoesNotFit,
    PretendedGpu,
    SourceMissing,
    TruncatedMedia,
    UnsupportedMedia,
    WeightsMissing,
)
from engine.core.file_access import (
    advised,
    check_can_add,
    is_folder,
    reading,
    reason_of,
    write_error,
    writing,
)
from engine.hardware import devices
from engine.hardware.budget import Budget, gpus_here, measure_budget
from engine.hardware.gpu_table import GpuSpec
from engine.models import registry
from engine.models.latents import LatentFormat, LatentHeader
from engine.planner.joining import other_computers
from engine.planner.notices import choice_notices
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import load_rates
from engine.planner.target import default_output
from engine.protocol.media import LATENT, ColourTags, MediaInfo, VideoInfo
from engine.protocol.plan import LatentPlan, Notice, Plan, WorkerPlan, notice_of_error
from engine.runtimes.advice import needed_runtime
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.film_preparation import deinterlaced
from engine.video.write.containers import picture_name

_REFUSALS = {
    kind.code: kind
    for kind in (FeatureMissing, PlanDoesNotFit, PretendedGpu, TruncatedMedia, WeightsMissing)
}
_NO_LIMIT = 2**62  # bytes
_FEW_FRAMES = 2  # a part of so few may lie between two frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Environment of jobs: settings of the program, the folder of job folders, GPUs to pretend."""

    settings: EngineSettings
    jobs_folder: Path
    pretend: tuple[GpuSpec, ...] = ()  # plans are made for them, and cannot start
    taken: frozenset[Path] = frozenset()  # results of other jobs: a plan gets a numbered name
    numbers_results: bool = False  # also where a file of a name that we chose exists
    window_bytes: int = 0  # main memory of the window that runs jobs in its process


def make_plan(
    media: MediaInfo, settings: JobSettings, output: Path | None, machine: Machine
) -> Plan:
    """Plan a job; a result that cannot be written is a refusal in the plan, not an error.

    Args:
        media: The source.
        settings: Settings of the job.
        output: File of the result, a folder to put it into, or None for the folder of the machine's
            settings, else that of the source.
        machine: Environment that it will run in.

    Raises:
        EngineError: Raised by `planner.plan_job.plan_job`.
        IdentityDamaged: Other computers are wanted, and the list of them makes no sense.
    """
    chosen = machine.settings
    output = paths.openable(output) if output is not None else None
    named = None if output is None or is_folder(output) else output
    paired = other_computers().paired() if settings.machines != "off" else {}
    request = Request(media=media, settings=settings, output=named, machines=paired)
    place = output or Path(chosen.output_folder or media.path.parent, media.path.name)
    plan = plan_job(request, _budget(settings, place, machine), load_rates())
    if named is None:
        folder = output or Path(chosen.output_folder or plan.output.parent)
        name = default_output(media, settings, plan.container, chosen.name_pattern).name
        plan = replace(plan, output=paths.openable(folder / name))
    is_there = named is None and not settings.overwrite and os.path.lexists(plan.output)
    if plan.output in machine.taken or (machine.numbers_results and is_there):
        plan = replace(plan, output=paths.numbered(plan.output, machine.taken))
    try:
        check_output(media, plan.output, overwrite=settings.overwrite)
        if plan.start is not None and plan.frames <= _FEW_FRAMES:
            from engine.video.read.frame_reader import check_has_frames

            check_has_frames(media, plan.start, plan.stop)
    except EngineError as err:
        plan = _refused(plan, err)
    return _refused(plan, PretendedGpu(gpu=plan.card)) if plan.is_pretended else plan


def taken_up(
    media: MediaInfo, settings: JobSettings, output: Path | None, plan: Plan, machine: Machine
) -> Plan:
    """The plan with which an interrupted job goes on: its own one while its GPU is here.

    Of several GPUs those that are here go on. Another GPU gets a plan of its own, with a notice.
    Choices that cannot be carried out any more are refused.

    Args:
        media: The job's source.
        settings: Its own.
        output: Path as the user named it.
        plan: It was begun with.
        machine: Environment that it continues in.

    Raises:
        EngineError: Raised by `make_plan`.
    """
    plan = _without_gone(plan, machine)
    budget = _budget(replace(settings, device=plan.gpu or settings.device), plan.output, machine)
    if plan.gpu and budget.gpu_is_gone:
        return make_plan(media, replace(settings, device=plan.gpu), output, machine)
    found = choice_notices(plan, settings, budget)
    lost = tuple(notice for notice in found if notice.severity == "refusal")
    return replace(plan, notices=(*lost, *plan.notices))


def _without_gone(plan: Plan, machine: Machine) -> Plan:
    """The plan for those of its GPUs that are still here; as it was where none is."""
    gone = _gone(plan, machine)
    left = tuple(worker for worker in plan.workers if worker not in gone)
    if not gone or not left:
        return plan
    notice = Notice(
        code="gpus-left-out",
        case="gone",
        severity="warning",
        params={"gpus": ", ".join(worker.card for worker in gone)},
    )
    return replace(
        plan,
        workers=left if len(left) > 1 else (),
        gpu=left[0].gpu,
        card=left[0].card,
        notices=(notice, *plan.notices),
    )


def _gone(plan: Plan, machine: Machine) -> tuple[WorkerPlan, ...]:
    if not any(worker.gpu for worker in plan.workers):
        return ()
    here = gpus_here(machine.pretend)
    return tuple(one for one in plan.workers if devices.chosen(one.gpu, here) is None)


def _budget(settings: JobSettings, place: Path, machine: Machine) -> Budget:
    """Budget of a job now, with its result at a place."""
    budget = measure_budget(
        machine.settings,
        place,
        machine.jobs_folder,
        machine.pretend,
        device=settings.device,
        excluded=settings.excluded,
        needed=None if machine.pretend else needed_runtime(),
    )
    return replace(budget, window_bytes=machine.window_bytes)


def with_model_of(settings: JobSettings, plan: Plan) -> JobSettings:
    """The settings with the model that "auto" stood for in the plan that the user saw.

    What else uses memory when a job starts must not give it another model.
    """
    is_open = settings.model == "auto" and plan.work.model != "none"
    return replace(settings, model=plan.work.model) if is_open else settings


def _refused(plan: Plan, error: EngineError) -> Plan:
    return replace(plan, notices=(notice_of_error(error, "refusal"), *plan.notices))


def check_plan(media: MediaInfo, plan: Plan, *, overwrite: bool) -> None:
    """Check a plan and its output right before the start.

    Raises:
        OutputError: The result cannot be written.
        FeatureMissing: This machine cannot carry out one of the choices.
        PretendedGpu: It was planned for a GPU that is not here.
        TruncatedMedia: The end of the source is missing and that was not allowed.
        WeightsMissing: A file of the model is not on this machine.
        PlanDoesNotFit: Another notice refuses to start.
    """
    pictures: set[str] = set()
    if plan.container == "sequence":
        pictures = {picture_name(media, plan, number) for number in (0, max(0, plan.frames - 1))}
    check_output(media, plan.output, overwrite=overwrite)
    try_output(plan.output, pictures)
    _check_notices(plan)


def _check_notices(plan: Plan) -> None:
    for notice in plan.notices:
        if notice.severity == "refusal":
            params: dict[str, Any] = dict(notice.params)
            if kind := _REFUSALS.get(notice.code):
                raise kind(notice.case, **params)
            problem = notice.as_message
            raise PlanDoesNotFit("refused", problem=problem, advice=problem.hint)


def plan_frames(media: MediaInfo, settings: JobSettings, machine: Machine) -> Plan:
    """Plan for frames that a program gives and takes: nothing is written, one process works.

    Args:
        media: The frames, as if they were a sequence of images.
        settings: Settings of the job, with those about files at their defaults.
        machine: Environment that it will run in.

    Raises:
        EngineError: Raised by `plan_job`, and for a plan that cannot start.
    """
    budget = _budget(settings, machine.jobs_folder, machine)
    budget = replace(budget, free_output_bytes=_NO_LIMIT, free_jobs_bytes=_NO_LIMIT)
    plan = plan_job(Request(media=media, settings=settings), budget, load_rates())
    plan = replace(plan, workers=(), takes_machines=False)
    _check_notices(_refused(plan, PretendedGpu(gpu=plan.card)) if plan.is_pretended else plan)
    return plan


def check_output(media: MediaInfo, output: Path, *, overwrite: bool) -> None:
    """Refuse a result that cannot be written or would cost the user something.

    Writes nothing, not even for a moment: programs that watch the folder would see it.

    Args:
        media: The source.
        output: File or folder of the result.
        overwrite: A file of that name may be replaced.

    Raises:
        OutputNameUnusable: Windows would make something else of its name, or the drive finds none
            like it.
        OutputIsInput: It is the source itself, even through a link.
        OutputExists: Something of that name is there and may not be replaced.
        OutputUnwritable: The folder is missing or not writable.
    """
    problem = paths.name_problem(output.name)
    if problem is not None:
        raise OutputNameUnusable(problem.case, **problem.params, path=output)
    _check_not_source(media, output)
    if is_folder(output) or (os.path.lexists(output) and not overwrite):
        case = "folder" if is_folder(output) else "before-start"
        raise OutputExists(case, name=output.name, path=output)
    folder = output.parent
    if not is_folder(folder):
        raise OutputUnwritable("no-folder", folder=paths.shown(folder), path=folder)
    with writing(folder):
        check_can_add(folder)
    with _of_name(output):
        output.lstat()


def try_output(output: Path, pictures: Iterable[str] = ()) -> None:
    """Write a few bytes and empty files of the result's names, out of sight, and delete them.

    Args:
        output: File or folder of the result, in a folder that exists.
        pictures: Names of files in the folder of the result.

    Raises:
        OutputNameUnusable: The drive takes none of such a name.
        OutputUnwritable: The folder takes no file.
        DiskFull: Not even an empty file fits.
    """
    folder = output.parent
    with writing(folder), tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"upreel")
    place = partial(tempfile.TemporaryDirectory, dir=folder, ignore_cleanup_errors=True)
    with writing(folder), place(prefix="upreel-", suffix=".part") as trial:
        for name in (output.name, *pictures):
            with _of_name(folder / name):
                Path(trial, name).touch()


@contextmanager
def _of_name(path: Path) -> Iterator[None]:
    """Translates what a drive says of a name; a file that is not there is no error.

    Raises:
        OutputNameUnusable: The drive takes none of such a name.
        OutputError: Another refusal.
    """
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as err:
        if err.errno == errno.EINVAL:
            reason = reason_of(err)
            raise OutputNameUnusable("refused", name=path.name, reason=reason) from err
        raise write_error(err, path) from err


def _check_not_source(media: MediaInfo, output: Path) -> None:
    try:
        same = output.samefile(media.path) or (
            media.kind == "sequence" and output.is_dir() and output.samefile(media.path.parent)
        )
    except OSError:
        return
    if same:
        raise OutputIsInput(path=output)


# --- sources

_PIXEL_FORMAT = "gbrp16le"
RGB_TAGS = ColourTags(matrix="rgb", range="pc", primaries="bt709", transfer="bt709")
_NEAR = 0.005  # frames/s: 23.98 is meant to be 24000/1001


def latents_of(path: Path) -> LatentFormat | None:
    """The format of a file that holds latents, by its name; None for anything else."""
    found = registry.latent_format(path)
    return None if found is None or path.is_dir() else found


def required_latents(path: Path) -> LatentFormat:
    """The format of a file that is to hold latents, whatever its name is."""
    return registry.latent_format(path) or registry.latent_formats()[0]


def probe_source(path: Path, settings: JobSettings) -> MediaInfo:
    """Media of a source; of latents, the video that will be made of them.

    Args:
        path: A file, or what else `engine.video.read.probe` takes.
        settings: The job's: they may choose the video track, or have the frame rate of latents.

    Raises:
        InputError: It cannot be used.
    """
    path = paths.openable(path)
    with reading(path):
        latents = latents_of(path)
        if latents is not None:
            return _film_of_latents(path, latents.header(path), settings)
        from engine.video.read.probe import probe

        return probe(path, settings.video_stream)


def examined_source(media: MediaInfo) -> MediaInfo:
    """A video with what a sample of its frames shows; everything else as it is. Loads av.

    A file of another size than when it was probed is probed again: it was replaced meanwhile, or
    was not complete yet.

    Raises:
        InputError: It cannot be used any more.
    """
    from engine.video.read.examination import examined
    from engine.video.read.media_file import check_readable
    from engine.video.read.probe import probe

    is_file = media.kind != "sequence" and not media.holds_latents
    if is_file and advised(lambda: check_readable(media.path), media.bytes) != media.bytes:
        media = probe(media.path)
    return examined(media)


def described(media: MediaInfo, settings: JobSettings) -> MediaInfo:
    """A source that was probed, with other settings."""
    if not media.holds_latents and media.video_stream == settings.video_stream:
        return media
    return probe_source(media.given, settings)


def decoded(media: MediaInfo, plan: Plan, folder: Path) -> MediaInfo | None:
    """The video that a job reads: its source, or what was decoded of it; None before that is done.

    Of a source that is deinterlaced it has the rate and the times that its frames are read with.

    Args:
        media: The source.
        plan: Plan of the job.
        folder: Folder of the job.
    """
    if plan.latent is None:
        return deinterlaced(media, plan.deinterlacing)
    film = film_path(media, plan.latent, folder)
    return film_at(media, film) if film.is_file() else None


def film_path(media: MediaInfo, plan: LatentPlan, folder: Path) -> Path:
    """Path of a job's decoded video: another name for whatever would look different.

    Raises:
        SourceMissing: The latents have gone.
    """
    try:
        about = media.path.stat()
    except OSError as err:
        raise SourceMissing("since-start", name=media.path.name, path=media.path) from err
    key = (
        *(about.st_size, about.st_mtime_ns, media.video.frame_rate),
        *(plan.vae.path, plan.vae.bytes, plan.vae.modified_ns, plan.model, plan.normalised),
    )
    name = hashlib.sha256("|".join(map(str, key)).encode()).hexdigest()[:12]
    return folder / f"decoded_{name}.avi"


def film_at(media: MediaInfo, path: Path) -> MediaInfo:
    """Latents as the video that was decoded from them."""
    return replace(
        media,
        path=path,
        container="avi",
        bytes=path.stat().st_size,
        video=replace(media.video, codec="ffv1"),
    )


def probe_film(path: Path, video_stream: int = -1) -> MediaInfo:
    """Media of a file that has frames.

    Args:
        path: The file.
        video_stream: Index of the stream, as `JobSettings.video_stream`.

    Raises:
        UnsupportedMedia: It holds latents, whose pictures have to be decoded first.
        InputError: It cannot be used.
    """
    if latents_of(path) is not None:
        raise UnsupportedMedia("latents", name=path.name)
    return probe_source(path, JobSettings(video_stream=video_stream))


def _film_of_latents(path: Path, header: LatentHeader, settings: JobSettings) -> MediaInfo:
    rate = exact_rate(settings.latent_rate) if settings.latent_rate else header.film.rate
    return MediaInfo(
        path=path,
        kind="video" if header.film.frames > 1 else "image",
        container=LATENT,
        bytes=path.stat().st_size,
        video=_video(header, rate),
    )


def _video(header: LatentHeader, rate: Fraction) -> VideoInfo:
    return VideoInfo(
        index=0,
        codec=LATENT,
        size=header.film.size,
        pixel_format=_PIXEL_FORMAT,
        chroma="rgb",
        bit_depth=16,
        frame_rate=rate,
        time_base=1 / rate,
        frame_count=header.film.frames,
        frame_count_is_exact=True,
        duration=header.film.frames / rate,
        tags=RGB_TAGS,
    )


def exact_rate(rate: float) -> Fraction:
    """The frame rate that is meant: 23.976 is 24000/1001."""
    whole = Fraction(round(rate) or 1)
    for meant in (whole, whole * 1000 / 1001):
        if abs(rate - meant) < _NEAR:
            return meant
    return Fraction(rate).limit_denominator(1000)
