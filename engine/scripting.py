"""The engine for Python programs: `engine.upscale` and the other names of `import engine`.

Each takes settings by keyword under the names of the command line's `--set` and of presets, and the
path of window and command line: `engine.api`. docs/python.md shows them. Loads without torch.
"""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import api
from engine.core import paths
from engine.core.errors import InternalError, SettingsError
from engine.hardware.gpu_table import GpuSpec
from engine.planner.chosen_settings import chosen_settings
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan
from engine.protocol.report import Report
from engine.runtimes import environment
from engine.settings.assignments import unknown_setting, with_named
from engine.settings.schema import (
    EngineSettings,
    JobSettings,
    current_names,
    describe,
    with_values,
)
from engine.settings.store import load_engine_settings
from engine.settings.switches import is_switch

if TYPE_CHECKING:
    import torch

    from engine.models.vae_module import Vae
    from engine.pipeline.frames import Pictures

logging.getLogger("engine").addHandler(logging.NullHandler())  # errors are raised, not printed

AnyPath = str | os.PathLike[str]
Value = str | int | float | bool | os.PathLike[str] | None
"""A value of a setting: of its type, or a text like that of `--set`; None leaves it out."""

_CLOSE_S = 60.0  # for the current tile to be finished after an interruption
_OF_FILES = (  # settings that mean nothing for frames of a program
    *("container", "codec", "crf", "workers", "machines", "segment_seconds"),
    *(
        name
        for name, about in describe(JobSettings).items()
        if about.group in ("film", "file", "latents")
    ),
)


def upscale(
    source: AnyPath,
    output: AnyPath | None = None,
    *,
    preset: str | None = None,
    on_progress: Callable[[e.StageProgress], object] | None = None,
    **settings: Value,
) -> Report:
    """Upscale a video, an image or a folder of numbered images, and wait until it is done.

    Notices of the plan and of the job are warnings of Python. Ctrl-C and an error of `on_progress`
    stop the job: finished parts are kept, and no file has the name of the result. The same call, or
    `python -m engine resume`, continues it.

    Args:
        source: Path of the source.
        output: Path of the result, or a folder for it; None: next to the source, named by its size.
        preset: Name or title of a preset.
        on_progress: Called in this thread about ten times a second; str() of what it gets is a
            line of text.
        settings: Settings by their name, such as `model`, `scale`, `height`, `codec`.

    Returns:
        Report on the checks of the result; `passed` is False if one of them failed.

    Raises:
        EngineError: Reason why there is no result; its class and `code` tell which, `hint` what
            to do.
        KeyboardInterrupt: Ctrl-C was pressed.

    Memory: as planned, independent of the length of the video; see `plan`.
    """
    job, own = _settings(settings, preset)
    environment.choose(job.switches)
    inbox = e.Inbox()
    engine = api.Engine(inbox, settings=own)
    engine.start()
    try:
        sources = [Path(source).absolute()]
        jobs = api.commands_for(sources, job, _path(output), engine_settings=own)
        for command in (*jobs, c.StartQueue()):
            engine.send(command)
        return _report(inbox, on_progress or (lambda progress: None))
    finally:
        engine.close(_CLOSE_S)


def _report(inbox: e.Inbox, on_progress: Callable[[e.StageProgress], object]) -> Report:
    """Pass events on until the job has ended."""
    plan: Plan | None = None
    while True:
        match inbox.next():
            case e.StageProgress() as progress:
                on_progress(progress)
            case e.PlanChosen() as chosen:
                plan = chosen.plan
            case e.JobStarted() if plan is not None:
                _warn(plan.notices, 4)
            case e.Warned(notice=Notice() as notice) | e.PlanDowngraded(notice=Notice() as notice):
                _warn([notice], 4)
            case e.JobFinished(report=report):
                return report
            case e.JobFailed(error=error) | e.JobRejected(error=error):
                raise error.as_error
            case e.JobCancelled() | e.EngineClosed():
                raise InternalError("ended-early")


def _warn(notices: Sequence[Notice], level: int) -> None:
    """Warn at the line of the program, which is `level` calls above the warning."""
    for notice in notices:
        if notice.severity == "warning":
            text = " ".join(filter(None, (notice.message, notice.hint)))
            warnings.warn(text, stacklevel=level)


def upscale_frames(
    frames: Iterable[Any],
    *,
    rate: float | Fraction = 25,
    preset: str | None = None,
    **settings: Value,
) -> Pictures:
    """Upscale frames of a program that reads and writes them itself.

    Cuts are found and shots kept together as in `upscale`. With the settings of a folder of PNG
    images, frames of 8 or 16 bits become those that `upscale` would write, bit for bit, as long as
    memory suffices: a smaller plan cannot take over, since frames cannot be read again.

    Args:
        frames: RGB arrays [height, width, 3] of numpy, uint8 or uint16, all alike, or whatever
            numpy makes such arrays of. A thread reads them, a clip and some frames ahead; a length,
            as a list has, helps the plan.
        rate: Frames per second.
        preset: Name or title of a preset; what it says of files does not count.
        settings: Settings by their name, but for those of files.

    Returns:
        A generator of such arrays, in order; leaving or closing it ends the work.

    Raises:
        EngineError: A setting or the first frame is wrong, or the plan cannot start; while
            iterating, the reason why no frame follows.

    Memory: as planned, independent of the number of frames.
    """
    for name, value in settings.items():
        if name in _OF_FILES and value is not None:
            raise SettingsError("not-of-frames", setting=name)
    job, own = _settings(settings, preset)
    job = with_values(job, {name: getattr(JobSettings(), name) for name in _OF_FILES})
    environment.choose(job.switches)
    inbox = e.Inbox()
    return _warned(api.upscaled_frames(frames, job, rate, inbox, engine_settings=own), inbox)


def _warned(pictures: Pictures, inbox: e.Inbox) -> Pictures:
    """The frames; warnings are given in the thread that takes them."""
    with closing(pictures):
        while True:
            picture = next(pictures, None)
            while not inbox.empty():
                match inbox.next():
                    case e.PlanChosen(plan=plan):
                        _warn(plan.notices, 3)
                    case (
                        e.Warned(notice=Notice() as one) | e.PlanDowngraded(notice=Notice() as one)
                    ):
                        _warn([one], 3)
            if picture is None:
                return
            yield picture


def plan(
    source: AnyPath,
    output: AnyPath | None = None,
    *,
    preset: str | None = None,
    pretend_gpu: str | Sequence[str] = (),
    pretend_vram: str = "",
    **settings: Value,
) -> Plan:
    """Plan a job without running it: memory, time, size of the file, and what speaks against it.

    Args:
        source: Path of the source.
        output: Path of the result, or a folder for it; None: next to the source.
        preset: Name or title of a preset.
        pretend_gpu: Name of a GPU to plan for, such as "RTX 5070 Ti", or of several.
        pretend_vram: Memory of that GPU, such as "16GiB"; "" for its own.
        settings: Settings by their name.

    Returns:
        The plan; `fits` is False if it cannot be started, and a notice says why.

    Raises:
        EngineError: The source cannot be used, or the settings are impossible.
    """
    names = (pretend_gpu,) if isinstance(pretend_gpu, str) else pretend_gpu
    pretend = api.pretended(*names, memory=pretend_vram)
    job, own = _settings(settings, preset, pretend)
    return api.plan(
        Path(source).absolute(), job, _path(output), engine_settings=own, pretend=pretend
    )


def probe(source: AnyPath) -> MediaInfo:
    """Properties of a video, an image or a folder of numbered images, with findings in its frames.

    Raises:
        InputError: It cannot be used.
    """
    return api.probe(Path(source))


def verify(
    source: AnyPath, output: AnyPath, *, video_stream: int = -1, start: str = "", stop: str = ""
) -> Report:
    """Compare a result with its source: frames, time stamps, streams, colours.

    Args:
        source: Path of the source.
        output: Path of the result.
        video_stream: Index of the video track that the result was made of; -1: the usual one.
        start: Time that the result starts at, as in the settings of its job; "": the first frame.
        stop: Time that it ends before; "": the end.

    Raises:
        InputError: One of them cannot be read.
        SettingsError: The source has no such part.
    """
    return api.verify(Path(source), Path(output), video_stream, start, stop)


def load_vae(
    path: AnyPath, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> Vae:
    """A VAE of SeedVR2, Wan 2.1, Wan 2.2 or Wan 2x as a module of torch.

    Args:
        path: Safetensors, PyTorch or GGUF file; its content tells which VAE it is.
        device: Device to compute on; None: a GPU that torch can use, else the CPU.
        dtype: Type to compute in; None: float16 on a GPU, float32 on a CPU.

    Raises:
        WeightsError: The file cannot be used.
        NoUsableGpu: A GPU was asked for that torch cannot use.
    """
    from engine.models.vae_module import load_vae as load

    return load(Path(path), device=device, dtype=dtype)


def _path(output: AnyPath | None) -> Path | None:
    return None if output is None else Path(output).absolute()


def _settings(
    named: Mapping[str, Value], preset: str | None, pretend: Sequence[GpuSpec] = ()
) -> tuple[JobSettings, EngineSettings]:
    """Settings of a job and of the program from keywords.

    Raises:
        SettingsError: A name or a value is wrong.
    """
    of_jobs, of_program = current_names(JobSettings), current_names(EngineSettings)
    known = (*of_jobs.values(), *of_program.values(), *_other_keywords())
    for name in named:
        if name not in (*of_jobs, *of_program) and not is_switch(name):
            raise unknown_setting(name, known)
    texts = [f"{name}={value}" for name, value in named.items() if is_switch(name)]
    job = {name: value for name, value in named.items() if name in of_jobs}
    own = {name: named[name] for name in named if name in of_program and named[name] is not None}
    try:
        usual = load_engine_settings()
    except SettingsError as err:
        warnings.warn(str(err), stacklevel=3)
        usual = EngineSettings()
    program = with_named(usual, {"tile_previews": False, **own})
    paths.choose_jobs_folder(program.job_folder)
    return chosen_settings(job, texts, preset=preset, pretend=pretend), program


def _other_keywords() -> Iterator[str]:
    """Keywords that are no settings."""
    for call in (upscale, plan):
        parameters = inspect.signature(call).parameters.values()
        yield from (one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
