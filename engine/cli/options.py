"""Turns the options of `upscale` and `plan` into settings."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core import paths
from engine.core.errors import OutputUnwritable, SettingsError
from engine.core.messages import message, text_of
from engine.hardware.devices import from_environment
from engine.hardware.gpu_table import GpuSpec
from engine.planner.availability import devices_here
from engine.planner.chosen_settings import chosen_settings, named_model
from engine.settings.assignments import with_text
from engine.settings.optimisations import choices, optimisations
from engine.settings.schema import (
    EngineSettings,
    JobSettings,
    current_names,
    describe,
)

if TYPE_CHECKING:
    from engine.cli.context import CommandContext

DEVICE_HELP = 'cpu, or a GPU by number or name: 1, cuda:1 or "5070 Ti"; default: the fastest'


def path(text: str) -> str:
    """The text of a path; an empty one, as of an unset variable, would be the present folder."""
    if not text:
        raise argparse.ArgumentTypeError("a path cannot be empty")
    return text


def add_part(
    command: Any, start: str = "start at this time", stop: str = "end before this time"
) -> None:
    """The part of a video that a command is about: `--start` and `--stop`, with their help."""
    command.add_argument("--start", metavar="T", help=f"{start}, for example 12.5 or 1:02:03.5")
    command.add_argument("--stop", metavar="T", help=stop)


def add_verb(verbs: Any, name: str, do: Callable[..., object], help: str) -> Any:
    """A verb of a command, as `models list`; `do` carries it out."""
    verb = verbs.add_parser(
        name, help=help, description=help[0].upper() + help[1:] + ".", allow_abbrev=False
    )
    verb.set_defaults(verb=do, usage_error=verb.error)
    verb.add_argument("--json", action="store_true", help="print JSON")
    add_verbose(verb)
    return verb


def add_verbose(command: argparse.ArgumentParser) -> None:
    """Put `--verbose` on a command; it may stand before and after the command's name."""
    command.add_argument(
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the log to standard error; UPREEL_LOG=debug logs more",
    )


def job_settings(args: argparse.Namespace, pretend: Sequence[GpuSpec] = ()) -> JobSettings:
    """Settings of a job from the options: a preset, then named options, last `--set`.

    Args:
        args: Arguments of a command with the options of a job.
        pretend: GPUs in the place of this machine's own.
    """
    named = {
        **_models(args),
        "device": getattr(args, "device", None),
        "start": args.start,
        "stop": args.stop,
        "workers": args.workers,
        "overwrite": args.overwrite,
        **_target(args),
        **{name: getattr(args, name) for name in ("dit", "vae", "text_embedding")},
    }
    texts = [text for text in args.set if not _is_of_engine(text)]
    preset = getattr(args, "preset", None)
    return chosen_settings(named, texts, preset=preset, pretend=pretend)


def _models(args: argparse.Namespace) -> dict[str, str | None]:
    """The model of `--model`, or that of `--then` after a first pass."""
    if args.then is None:
        return {"model": args.model}
    if args.model is None:
        raise SettingsError("then-without-model", model=args.then)
    first = named_model(args.model)
    if "model_file" not in first:
        raise SettingsError("first-model-is-no-file", model=args.model)
    return {"model": args.then, "first_model": first["model_file"]}


def engine_settings(args: argparse.Namespace, context: CommandContext) -> EngineSettings:
    """Engine settings of this user with those of `--set`; their folder is that of jobs from now on.

    Tile previews are not shown here.
    """
    settings = dataclasses.replace(context.own_settings(), tile_previews=False)
    settings = with_text(settings, [text for text in args.set if _is_of_engine(text)])
    paths.choose_jobs_folder(settings.job_folder)
    return settings


def output(args: argparse.Namespace) -> Path | None:
    """The file or folder of `-o`, absolute: an unfinished job may go on from another folder.

    Raises:
        OutputUnwritable: It ends like a folder, and there is none.
    """
    if args.output is None:
        return None
    found = Path(args.output).absolute()
    if args.output.endswith(("/", os.sep)) and not found.is_dir():
        raise OutputUnwritable("no-folder", folder=found, path=found)
    return found


def sources(texts: list[str]) -> list[Path]:
    """The inputs; patterns like *.mp4 are filled in where the shell does not (Windows)."""
    found: list[Path] = []
    for text in texts:
        is_pattern = bool(re.search(r"[*?]", text)) and not Path(text).exists()
        matches = sorted(glob.glob(text)) if is_pattern else []  # noqa: PTH207 - also absolute ones
        found += map(Path, matches or [text])
    return found


def settings_help() -> str:
    """Every setting that `--set` knows: name, default, description, limits and choices.

    Choices that are not available on this computer are listed in a line of their own.
    """
    lacking = devices_here(from_environment()).automatic.unavailable
    lines = ["settings for --set, with their defaults:"]
    for kind in (JobSettings, EngineSettings):
        defaults = kind()
        for name, about in describe(kind).items():
            value: object = getattr(defaults, name)
            if isinstance(value, bool):
                value = "yes" if value else "no"
            allowed = ""
            if about.choices:
                allowed = f" ({', '.join(about.choices)})"
            elif about.low is not None and about.high is not None:
                allowed = f" ({about.low:g} to {about.high:g} {about.unit}".rstrip() + ")"
            description = text_of(message(f"setting.{name}"))
            lines.append(f"  {f'{name}={value}':<22} {description}{allowed}")
            if name in lacking:
                lines.append(f"{'':<25}not available on this computer: {', '.join(lacking[name])}")
    lines.append(
        "\noptimisations, for example --set run.tf32=on, or UPREEL_RUN_TF32=on in the environment:"
    )
    named = ", ".join(entry.key for entry in optimisations())
    lines.append(textwrap.fill(named, 96, initial_indent="  ", subsequent_indent="  "))
    lines += [
        f"  {entry.key}={entry.default} ({', '.join(entry.values)})"
        for entry in choices()
        if not entry.setting
    ]
    lines.append(
        "  several together: vae.all, dit.all, run.all, all; switches=exact turns all of them off"
    )
    return "\n".join(lines)


def _is_of_engine(text: str) -> bool:
    return text.partition("=")[0].strip().replace("-", "_") in current_names(EngineSettings)


def _target(args: argparse.Namespace) -> dict[str, int]:
    if args.size is not None:
        width, height = parse_size(args.size)
        return {"width": width, "height": height}
    if args.height is not None:
        if args.height < 1:
            raise SettingsError("empty-height", height=args.height)
        return {"height": args.height}
    return {} if args.scale is None else {"scale": args.scale}


def parse_size(text: str) -> tuple[int, int]:
    """Width and height of "1920x1080".

    Raises:
        SettingsError: Not two whole numbers, or one of them below 1.
    """
    match = re.fullmatch(r"(\d+)[xX×](\d+)", text.strip())
    if match is None:
        raise SettingsError("not-a-size", text=text)
    width, height = int(match[1]), int(match[2])
    if width < 1 or height < 1:
        raise SettingsError("empty-size", size=f"{width}x{height}")
    return width, height
