"""`presets`: named settings; list, save, export, import and remove them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.cli.context import DONE, CommandContext
from engine.cli.options import add_verb
from engine.core.errors import OutputExists
from engine.hardware.devices import fastest, from_environment
from engine.planner import preset_choice
from engine.settings import presets
from engine.settings.assignments import with_text
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings

_EXAMPLES = """examples:
  python -m engine presets list
  python -m engine presets save "Old tapes" --preset best --set height=1080
  python -m engine upscale tape.avi --preset old-tapes
  python -m engine presets export old-tapes tapes.toml
  python -m engine presets import tapes.toml
"""


def register(add: Callable[..., Any]) -> None:
    """Put `presets` with its verbs on the command line."""
    command = add("presets", run, "list, save, export, import or remove presets", _EXAMPLES)
    verbs = command.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    add_verb(verbs, "list", _list, "list the presets for this computer")
    verb = add_verb(verbs, "save", _save, "save settings under a name")
    verb.add_argument("title", metavar="TITLE")
    verb.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting as for `upscale`; can be repeated",
    )
    verb.add_argument("--preset", metavar="NAME", help="start with the settings of this preset")
    verb = add_verb(verbs, "export", _export, "write a preset to a file")
    verb.add_argument("name", metavar="NAME")
    verb.add_argument("path", type=Path, metavar="FILE")
    verb.add_argument("--overwrite", action="store_true", help="replace an existing file")
    verb = add_verb(verbs, "import", _import, "import a preset from a file")
    verb.add_argument("path", type=Path, metavar="FILE")
    verb = add_verb(verbs, "remove", _remove, "remove one of your own presets")
    verb.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Do one verb."""
    args.verb(args, context)
    return DONE


def _list(args: argparse.Namespace, context: CommandContext) -> None:
    found = preset_choice.offered(fastest(from_environment()))
    if context.console.json:
        context.console.data({"card": found.gpu, "presets": list(found.presets)})
    else:
        width = max(len(preset.name) for preset in found.presets)
        for preset in found.presets:
            text = preset.title if preset.is_own else f"{preset.title}. {preset.description}"
            context.console.say(f"{preset.name:<{width}}  {text}")
    for failure in found.failures:
        context.console.error(failure)


def _save(args: argparse.Namespace, context: CommandContext) -> None:
    settings = JobSettings()
    if args.preset is not None:
        settings = preset_choice.chosen(args.preset, settings, fastest(from_environment()))
    made = presets.save(args.title, with_text(settings, args.set))
    _tell(context, made, f"saved as {made.name}")


def _export(args: argparse.Namespace, context: CommandContext) -> None:
    preset = preset_choice.named(args.name, fastest(from_environment()))
    if args.path.exists() and not args.overwrite:
        raise OutputExists("file", path=args.path)
    presets.export(preset, args.path)
    _tell(context, preset, f"written to {args.path}")


def _import(args: argparse.Namespace, context: CommandContext) -> None:
    made = presets.take(args.path)
    _tell(context, made, f"saved as {made.name}")


def _remove(args: argparse.Namespace, context: CommandContext) -> None:
    preset = preset_choice.named(args.name, fastest(from_environment()))
    presets.remove(preset.name)
    _tell(context, preset, "removed")


def _tell(context: CommandContext, preset: Preset, what: str) -> None:
    if context.console.json:
        context.console.data(preset)
    else:
        context.console.say(f"{preset.title}: {what}")
