"""`runtime`: builds of torch for NVIDIA GPUs; download, import, select and remove them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.cli.context import DONE, CommandContext
from engine.cli.formatting import state_word
from engine.cli.options import add_verb
from engine.cli.tasks import TaskSession, task_session
from engine.core.errors import RuntimeBroken, RuntimeNotAccepted
from engine.core.serialization import to_plain
from engine.core.units import bytes_text
from engine.hardware import torch_memory
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import RuntimeTrial
from engine.protocol.runtime_state import RuntimeState
from engine.protocol.tasks import TaskKind
from engine.runtimes import start

_EXAMPLES = """examples:
  python -m engine runtime list
  python -m engine runtime install                 the recommended one for your GPU
  python -m engine runtime import D:/torch-2.13.0+cu130-cp312-cp312-win_amd64.whl
  python -m engine runtime use bundled             use the built-in torch again

If Upreel does not know the SHA-256 of a file, its name, size and SHA-256 are shown first: confirm
them in the terminal, or with --accept-sha256 SUM in a script.

A runtime is used from the next start on. UPREEL_RUNTIME=bundled|installed|ID selects one for a
single start; if Upreel runs from source, this is the only way.
"""
BUNDLED = start.BUNDLED


def register(add: Callable[..., Any]) -> None:
    """Put `runtime` with its verbs on the command line."""
    text = "list, download, import, select or remove NVIDIA builds of torch"
    command = add("runtime", run, text, _EXAMPLES)
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    add_verb(verbs, "list", _list, "show which runtimes are installed, which one is used, and why")
    verb = add_verb(
        verbs, "install", _install, "download a runtime, test it and use it from now on"
    )
    verb.add_argument(
        "id", nargs="?", metavar="ID", help="default: the recommended one for your GPU"
    )
    _add_acceptance(verb)
    verb = add_verb(
        verbs, "import", _import, "install a runtime from official wheels that you already have"
    )
    verb.add_argument("paths", nargs="+", type=Path, metavar="WHEEL|FOLDER")
    _add_acceptance(verb)
    verb = add_verb(verbs, "use", _use, "select an installed runtime for the next start")
    verb.add_argument("id", metavar=f"ID|{BUNDLED}")
    verb = add_verb(verbs, "remove", _remove, "remove a runtime")
    verb.add_argument("id", metavar="ID")
    verb = add_verb(verbs, "try", _try, "load the runtime of this process and compute with it")
    verb.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")


def _add_acceptance(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--accept-sha256",
        action="append",
        default=[],
        type=str.lower,
        metavar="SUM",
        help="accept a file with this SHA-256 even if Upreel does not know it",
    )


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Do one verb."""
    return int(args.verb(args, context))


def _list(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        listed = _listed(tasks)
    console = context.console
    if console.json:
        console.data(listed)
        return DONE
    for state in listed.runtimes:
        console.say(_line(state, listed.suited))
    console.say(str(listed.used))
    console.say(str(listed.advice))
    console.say(f"{bytes_text(listed.free_mb * 1e6)} free for runtimes")
    return DONE


def _tasks(context: CommandContext) -> AbstractContextManager[TaskSession]:
    return task_session(context, TaskKind.RUNTIME)


def _listed(tasks: TaskSession) -> e.RuntimesListed:
    return tasks.ask(c.ListRuntimes(), e.RuntimesListed)


def _install(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        name = args.id
        if name is None:
            listed = _listed(tasks)
            name = listed.suited
            if not name:
                args.usage_error(f"{listed.advice} Give an ID to install one anyway.")
        return _run_accepted(tasks, c.InstallRuntime(runtime=name), args, context)


def _import(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        return _run_accepted(tasks, c.ImportRuntime(paths=tuple(args.paths)), args, context)


def _run_accepted(
    tasks: TaskSession,
    command: c.InstallRuntime | c.ImportRuntime,
    args: argparse.Namespace,
    context: CommandContext,
) -> int:
    """Run a command; once more where the user accepts a file that this build does not pin."""
    status = tasks.run(replace(command, accepted=tuple(args.accept_sha256)))
    error = tasks.failure
    if error is None or error.code != RuntimeNotAccepted.code:
        return status
    if not context.console.is_confirmed("Use it?"):
        return status
    return tasks.run(replace(command, accepted=RuntimeNotAccepted.sums(error)))


def _use(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        return tasks.run(c.UseRuntime(runtime="" if args.id == BUNDLED else args.id))


def _remove(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        return tasks.run(c.RemoveRuntime(runtime=args.id))


def _try(args: argparse.Namespace, context: CommandContext) -> int:
    """Runs in this process: a caller that must survive a crash starts one for it."""
    found = _seen()
    if args.out is not None:
        args.out.write_text(json.dumps(to_plain(found)) + "\n", encoding="utf-8")
    if context.console.json:
        context.console.data(found)
    else:
        where = found.card or "the CPU"
        context.console.say(
            f"torch {found.torch} computes on {where}; loaded in {found.seconds:.1f} s"
        )
    return DONE


def _seen() -> RuntimeTrial:
    choice = start.current()
    if choice.is_fallback:
        raise RuntimeBroken("not-active", why=choice.why)
    begin = time.monotonic()
    import torch

    seconds = time.monotonic() - begin
    if choice.torch and torch.__version__ != choice.torch:
        raise RuntimeBroken("other-torch", found=torch.__version__, torch=choice.torch)
    has_gpu = torch.cuda.is_available()
    with torch_memory.selected():
        for device in ("cpu", "cuda") if has_gpu else ("cpu",):
            ones = torch.ones(2, 3, device=device), torch.ones(3, 2, device=device)
            if float((ones[0] @ ones[1]).sum()) != 12:
                raise RuntimeBroken("wrong-result", device=device)
        name = torch.cuda.get_device_name() if has_gpu else ""
    return RuntimeTrial(
        torch=str(torch.__version__),
        cuda=torch.version.cuda or "",
        card=name,
        seconds=seconds,
    )


def _line(state: RuntimeState, suited: str) -> str:
    size = bytes_text(state.bytes) if state.bytes else f"about {bytes_text(state.about_bytes)}"
    words = [f"{state.id:<8}", f"{state_word(state.state):<13}", f"CUDA {state.cuda}"]
    words += [f"driver {state.driver} or newer"] if state.driver else []
    if state.state == "missing":
        words.append(f"{size} to download, about {bytes_text(state.disk_bytes)} on the disk")
    elif state.done_bytes:
        words.append(bytes_text(state.done_bytes))
    words += [str(state.why)] if state.why else []
    words += (
        ["built for another Python version or operating system"] if not state.suits_program else []
    )
    words += ["recommended for this GPU"] if state.id == suited else []
    words += ["used now"] if state.is_used else []
    words += ["selected for the next start"] if state.is_chosen else []
    return "  ".join(words)
