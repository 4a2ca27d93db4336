"""`runtime`: builds of torch for NVIDIA GPUs; `update`: a newer version of the program."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil

from engine.cli.context import DONE, FAILED, CommandContext
from engine.cli.formatting import state_word
from engine.cli.options import add_verb
from engine.cli.session import TaskSession, task_session
from engine.core.control import Control
from engine.core.errors import RuntimeBroken
from engine.core.messages import message
from engine.core.serialization import to_plain
from engine.core.units import bytes_text
from engine.delivery.updates import start_update
from engine.delivery.wheels import long_path
from engine.hardware import torch_memory
from engine.hardware.process import below_normal_priority
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.delivery import RuntimeState, UpdateState
from engine.protocol.report import RuntimeTrial
from engine.protocol.tasks import TaskKind
from engine.runtimes import bytecode, start
from engine.runtimes import installation as folders

_RUNTIME = """examples:
  python -m engine runtime list
  python -m engine runtime install                 the recommended one for your GPU
  python -m engine runtime import D:/torch-2.13.0+cu130-cp312-cp312-win_amd64.whl
  python -m engine runtime use bundled             use the built-in torch again

A runtime is used from the next start on. UPREEL_RUNTIME=bundled|installed|ID selects one for a
single start; if Upreel runs from source, this is the only way.
"""
_UPDATE = """examples:
  python -m engine update check                    show whether a newer version exists
  python -m engine update install                  download its setup and start it

Upreel checks for updates only with these commands and the button of the window. A setup is accepted
only if its description is signed with Upreel's key and its SHA-256 matches.
"""


_PROGRESS_EVERY_S = 0.1
_MAY_BE_BLOCKED = message("runtime-advice.may-be-blocked")
_Ended = tuple[int, UpdateState]  # exit status, and the state of the update


def register(add: Callable[..., Any]) -> None:
    """Put `runtime` and `update` with their verbs on the command line."""
    text = "list, download, import, select or remove NVIDIA builds of torch"
    command = add("runtime", _run_runtime, text, _RUNTIME)
    verbs = command.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    add_verb(verbs, "list", _list, "show which runtimes are installed, which one is used, and why")
    verb = add_verb(
        verbs, "install", _install, "download a runtime, test it and use it from now on"
    )
    verb.add_argument(
        "id", nargs="?", metavar="ID", help="default: the recommended one for your GPU"
    )
    verb = add_verb(
        verbs, "import", _import, "install a runtime from official wheels that you already have"
    )
    verb.add_argument("paths", nargs="+", type=Path, metavar="WHEEL|FOLDER")
    verb = add_verb(verbs, "use", _use, "select an installed runtime for the next start")
    verb.add_argument("id", metavar=f"ID|{start.BUNDLED}")
    verb = add_verb(verbs, "remove", _remove, "remove a runtime")
    verb.add_argument("id", metavar="ID")
    verb = add_verb(verbs, "try", _try, "test the torch that this process uses")
    verb.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    verb = add_verb(
        verbs, "compile", _compile, "compile the modules of an installed runtime for fast starts"
    )
    verb.add_argument("--out", type=Path, metavar="FILE", help="write the progress, for a caller")
    command = add(
        "update",
        _run_update,
        "check for a newer version of Upreel, download and install it",
        _UPDATE,
    )
    verbs = command.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    add_verb(verbs, "check", _check_update, "show whether a newer version exists")
    add_verb(verbs, "download", _download_update, "download its setup, or resume the download")
    add_verb(
        verbs, "install", _install_update, "start its setup; close other windows of Upreel first"
    )


def _run_runtime(args: argparse.Namespace, context: CommandContext) -> int:
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
    if listed.smart_app_control == "on":
        console.say(str(_MAY_BE_BLOCKED))
    console.say(f"{bytes_text(listed.free_mb * 1e6)} free for runtimes")
    return DONE


def _tasks(context: CommandContext) -> AbstractContextManager[TaskSession]:
    return task_session(context, TaskKind.RUNTIME)


def _listed(tasks: TaskSession) -> e.RuntimesListed:
    return tasks.ask(c.ListRuntimes(), e.RuntimesListed)


def _install(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        listed, name = _listed(tasks), args.id
        if listed.smart_app_control == "on" and not any(one.is_used for one in listed.runtimes):
            context.console.note(str(_MAY_BE_BLOCKED))
        if name is None:
            name = listed.suited
            if not name:
                args.usage_error(f"{listed.advice} Give an ID to install one anyway.")
        return tasks.run(c.InstallRuntime(runtime=name))


def _import(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        return tasks.run(c.ImportRuntime(paths=tuple(args.paths)))


def _use(args: argparse.Namespace, context: CommandContext) -> int:
    with _tasks(context) as tasks:
        return tasks.run(c.UseRuntime(runtime="" if args.id == start.BUNDLED else args.id))


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


def _compile(args: argparse.Namespace, context: CommandContext) -> int:
    """Runs in this process, below others, and ends with the one that has started it.

    The file gets bytes of modules that are done, and all; a third word, so that a part of the text
    is never taken for all of it.
    """
    choice = start.current()
    folder = choice.folder
    installed = folders.read(folder) if folder is not None else None
    if folder is None or installed is None:
        raise RuntimeBroken("not-active", why=choice.why)
    total, next_s = bytecode.module_bytes(installed), 0.0
    caller = psutil.Process().parent()
    with below_normal_priority(psutil.Process()):
        for done in bytecode.compile_modules(long_path(folder), installed, Control()):
            if args.out is not None and time.monotonic() > next_s:
                if caller is None or not caller.is_running():
                    return FAILED
                args.out.write_text(f"{done} {total} bytes", encoding="utf-8")
                next_s = time.monotonic() + _PROGRESS_EVERY_S
    count = bytecode.missing(folder, installed)
    context.console.say(f"{installed.torch}: {count} modules are not compiled")
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
    words = [f"{state.id:<8}", f"{state_word(state.state):<18}", f"CUDA {state.cuda}"]
    words += [f"driver {state.driver} or newer"] if state.driver else []
    if state.state == "missing":
        size, disk = bytes_text(state.bytes), bytes_text(state.disk_bytes)
        words.append(f"{size} to download, about {disk} on the disk")
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


# --- update


def _run_update(args: argparse.Namespace, context: CommandContext) -> int:
    with task_session(context, TaskKind.UPDATE, prints_events=False) as tasks:
        status, state = args.verb(tasks)
    if status != DONE:
        return int(status)
    _show_update(state, context)
    if args.verb is _install_update and state.newer:
        path = start_update()
        context.console.note(f"{path.name} was started. Close all open windows of Upreel.")
    return DONE


def _check_update(tasks: TaskSession) -> _Ended:
    return _ended(tasks, c.CheckUpdate())


def _download_update(tasks: TaskSession) -> _Ended:
    status, state = _check_update(tasks)
    if status == DONE and state.newer:
        return _ended(tasks, c.DownloadUpdate())
    return status, state


def _install_update(tasks: TaskSession) -> _Ended:
    status, state = _check_update(tasks)
    if status != DONE or not state.newer:
        return status, state
    if state.installed_as == "setup" and not state.is_ready:
        status, state = _ended(tasks, c.DownloadUpdate())
    return _ended(tasks, c.InstallUpdate()) if status == DONE else (status, state)


def _ended(tasks: TaskSession, command: c.UpdateCommand) -> _Ended:
    """Exit status, and the state of the update."""
    status = tasks.run(command)
    return status, tasks.ask(c.ShowUpdate(), e.UpdateKnown).state


def _show_update(state: UpdateState, context: CommandContext) -> None:
    console = context.console
    if console.json:
        console.data(state)
        return
    if not state.newer:
        console.say(f"Upreel {state.version} is the newest version.")
        return
    where = (
        "its setup is downloaded" if state.is_ready else f"{bytes_text(state.bytes)} to download"
    )
    console.say(f"Upreel {state.newer} of {state.date}; {where}. You have {state.version}.")
    console.say(*state.notes["en"].strip().splitlines())
