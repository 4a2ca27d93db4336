"""`models`: list, download, verify, import and remove model files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.cli.context import CANCELLED, DONE, CommandContext
from engine.cli.formatting import state_word
from engine.cli.options import add_verb
from engine.cli.session import TaskSession, task_session
from engine.core.units import bytes_text
from engine.files.catalogue import best_vae
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.model_file_state import ImportMode, PublishedState
from engine.protocol.tasks import TaskKind

_EXAMPLES = """examples:
  python -m engine models list
  python -m engine models download seedvr2-3b              the most exact 3B, and the files it needs
  python -m engine models download seedvr2-7b-q4           a smaller file of the 7B
  python -m engine models download wan-2x                  wan21-vae and wan22-vae work the same way
  python -m engine models import D:/ComfyUI/models/SEEDVR2/seedvr2_ema_3b_fp16.safetensors --link
  python -m engine models convert swiftvr --to bf16        once, 20 GB become 9; resumes if stopped
  python -m engine models verify                           verify all installed files

UPREEL_MODELS sets another folder for model files, UPREEL_COMFYUI a ComfyUI whose files are used in
place, UPREEL_MIRROR (or HF_ENDPOINT) another download server.
"""


def register(add: Callable[..., Any]) -> None:
    """Put `models` with its verbs on the command line."""
    command = add(
        "models", run, "list, download, verify, import, convert or remove model files", _EXAMPLES
    )
    verbs = command.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    add_verb(verbs, "list", _list, "show which model files are installed")
    verb = add_verb(verbs, "download", _download, "download files, or all files of a model")
    verb.add_argument("ids", nargs="+", metavar="ID", help="name from `models list`")
    verb.add_argument(
        "--only",
        action="store_true",
        help="without the VAE and text embedding that the model needs",
    )
    verb = add_verb(verbs, "verify", _verify, "compare installed files with the published SHA-256")
    verb.add_argument("id", nargs="?", metavar="ID|PATH", help="default: all installed files")
    verb = add_verb(verbs, "import", _import, "import files that you already have")
    verb.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    how = verb.add_mutually_exclusive_group()
    how.add_argument("--copy", action="store_true", help="copy them to Upreel's folder (default)")
    how.add_argument("--link", action="store_true", help="use them in place")
    verb = add_verb(verbs, "convert", _convert, "convert a published file to a smaller format")
    verb.add_argument("id", metavar="ID", help="a file or model that has other formats: swiftvr")
    verb.add_argument("--to", metavar="FORMAT", default="", help="bf16 (default), fp16, int8, fp8")
    verb.add_argument(
        "--remove-original", action="store_true", help="delete the published file afterwards"
    )
    verb = add_verb(
        verbs, "remove", _remove, "delete Upreel's copy of a file or a partial download"
    )
    verb.add_argument("id", metavar="ID")
    verb.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Do one verb."""
    with task_session(context, TaskKind.MODEL_FILE) as tasks:
        return int(args.verb(args, context, tasks))


def _list(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    listed = tasks.ask(c.ListModelFiles(), e.ModelFilesListed)
    if context.console.json:
        context.console.data({"files": list(listed.files), "free_mb": listed.free_mb})
        return DONE
    width = max(len(file.id) for file in listed.files)
    for file in listed.files:
        context.console.say(f"{file.id:<{width}}  {_stands(file)}")
    context.console.say(f"{bytes_text(listed.free_mb * 1e6)} free for models")
    return DONE


def _download(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    files = _wanted(args.ids, _files(tasks), with_needs=not args.only)
    return tasks.run(*(c.DownloadModelFile(file=file.id) for file in files))


def _verify(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    files = [args.id]
    if args.id is None:
        files = [file.id for file in _files(tasks) if file.is_here]
    if not files:
        context.console.note("No model files installed.")
    return tasks.run(*(c.VerifyModelFile(file=file) for file in files))


def _import(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    mode: ImportMode = "link" if args.link else "copy"
    paths = dict.fromkeys(args.paths)
    return tasks.run(*(c.ImportModelFile(path=path, mode=mode) for path in paths))


def _convert(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    listed = tasks.ask(c.ListModelFiles(), e.ModelFilesListed)
    file = _known(args.id, listed.files)
    for one in file.converts_to:
        if one.format == (args.to or file.converts_to[0].format):
            needed, free = bytes_text(one.bytes), bytes_text(listed.free_mb * 1e6)
            context.console.note(f"The converted file needs at most {needed}; {free} are free.")
    command = c.ConvertModelFile(file=file.id, format=args.to, removes=args.remove_original)
    return tasks.run(command)


def _remove(args: argparse.Namespace, context: CommandContext, tasks: TaskSession) -> int:
    file = _known(args.id, [f for f in _files(tasks) if f.id == args.id])
    if not args.yes and not _agreed(args, file, context):
        return CANCELLED
    return tasks.run(c.RemoveModelFile(file=file.id))


def _files(tasks: TaskSession) -> tuple[PublishedState, ...]:
    return tasks.ask(c.ListModelFiles(), e.ModelFilesListed).files


def _agreed(args: argparse.Namespace, file: PublishedState, context: CommandContext) -> bool:
    if not sys.stdin.isatty():
        args.usage_error("give --yes if the command does not run in a terminal")
    context.console.note(f"Delete {file.id} ({file.path}, {bytes_text(file.done_bytes)})? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _known(file_id: str, files: Sequence[PublishedState]) -> PublishedState:
    """The file of that id; a model stands for its most exact published transformer.

    A model without one stands for its VAE: the published file that is here, else the first.
    """
    named = [file for file in files if file.id == file_id]
    published = [file for file in files if not file.is_own and file_id in file.models]
    named += [file for file in published if file.kind == "dit"]
    return named[0] if named else best_vae(file_id, published)


def _wanted(
    ids: Iterable[str], files: tuple[PublishedState, ...], *, with_needs: bool
) -> list[PublishedState]:
    """The files of these ids, each once, and what they need."""
    found: dict[str, PublishedState] = {}
    for file_id in ids:
        file = _known(file_id, files)
        found[file.id] = file
        if with_needs and file.kind == "dit":
            found |= {need.id: need for need in files if _needs(file, need)}
    return list(found.values())


def _needs(file: PublishedState, other: PublishedState) -> bool:
    """True for a published VAE or text embedding that a transformer lacks."""
    serves = other.kind != "dit" and file.models[0] in other.models
    return serves and not other.is_own and other.state != "here"


def _stands(file: PublishedState) -> str:
    size = bytes_text(file.bytes) if file.bytes else f"about {bytes_text(file.about_bytes)}"
    parts = [f"{state_word(file.state):<13}", f"{size:<13}", f"{file.licence or 'your own':<10}"]
    if file.state == "partial":
        parts.append(f"{bytes_text(file.done_bytes)} downloaded")
    elif file.path is not None:
        parts.append(str(file.path))
    else:
        parts.append(file.repository)
    return "  ".join(parts)
