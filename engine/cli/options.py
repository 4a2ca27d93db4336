"""Turns the options of `upscale` and `plan` into settings."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import SettingsError
from engine.core.messages import message, text_of
from engine.core.units import parse_clock
from engine.files.model_files import Store
from engine.files.model_files import named as named_file
from engine.hardware.budget import gpus_here
from engine.hardware.devices import fastest, from_environment, named_each
from engine.hardware.devices import named as named_gpu
from engine.hardware.gpu_table import GpuSpec
from engine.planner import preset_choice
from engine.planner.availability import devices_here
from engine.settings.assignments import with_text
from engine.settings.optimisations import choices, optimisations
from engine.settings.schema import (
    MODELS,
    EngineSettings,
    JobSettings,
    current_names,
    describe,
)

if TYPE_CHECKING:
    from engine.cli.context import CommandContext

_MODEL_FILES = {".pth", ".pt", ".ckpt", ".safetensors"}

DEVICE_HELP = 'cpu, or a GPU by number or name: 1, cuda:1 or "5070 Ti"; default: the fastest'


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
    pretend = pretend or from_environment()
    for text in (args.start, args.stop):
        if text is not None:
            parse_clock(text)
    device = getattr(args, "device", None)
    named = {
        **_models(args),
        "device": device,
        "start": args.start,
        "stop": args.stop,
        "workers": args.workers,
        **_target(args),
    }
    for name in ("dit", "vae", "text_embedding"):
        file = getattr(args, name)
        named[name] = None if file is None else str(Path(file).absolute())
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    preset, before = getattr(args, "preset", None), JobSettings()
    if preset is not None:
        before = preset_choice.chosen(preset, before, fastest(pretend))
    before = dataclasses.replace(before, overwrite=args.overwrite, **changes)
    settings = with_text(before, [text for text in args.set if not _is_of_engine(text)])
    if settings.excluded_gpus != before.excluded_gpus:
        excluded = named_each(settings.excluded, gpus_here(pretend))
        settings = dataclasses.replace(settings, excluded_gpus=excluded)
    if device is None and settings.device == before.device:
        return settings
    return dataclasses.replace(settings, device=named_gpu(settings.device, gpus_here(pretend)))


def _models(args: argparse.Namespace) -> dict[str, str | None]:
    """The model of `--model`, or that of `--then` after a first pass."""
    if args.then is None:
        return _model(args.model)
    if args.model is None:
        raise SettingsError("then-without-model", model=args.then)
    first = _model(args.model)
    if "model_file" not in first:
        raise SettingsError("first-model-is-no-file", model=args.model)
    return {**_model(args.then), "first_model": first["model_file"]}


def _model(text: str | None) -> dict[str, str | None]:
    """A model by its id, by the id of an imported file, or by the path of a file."""
    if text is None or text in MODELS:
        return {"model": text}
    if text.startswith("own-"):
        return {"model": "community", "model_file": str(Store().path_of(text))}
    if Path(text).is_file() or Path(text).suffix.lower() in _MODEL_FILES:
        return {"model": "community", "model_file": str(named_file(Path(text)).path)}
    return {"model": text}


def engine_settings(args: argparse.Namespace, context: CommandContext) -> EngineSettings:
    """Engine settings of this user with those of `--set`; tile previews are not shown here."""
    settings = dataclasses.replace(context.own_settings(), tile_previews=False)
    return with_text(settings, [text for text in args.set if _is_of_engine(text)])


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


def _target(args: argparse.Namespace) -> dict[str, int | None]:
    if args.size is not None:
        width, height = parse_size(args.size)
        return {"width": width, "height": height}
    if args.height is not None:
        if args.height < 1:
            raise SettingsError("empty-height", height=args.height)
        return {"height": args.height, "width": 0}
    if args.scale is not None:
        return {"scale": args.scale, "height": 0, "width": 0}
    return {"scale": 1} if "none" in (args.model, args.then) else {}


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
