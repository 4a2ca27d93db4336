"""States of "Download and start", for `tools.screenshots.render`.

The plan is the engine's, for a GPU of the table; that such a GPU is in this machine, and how far
downloads are, is made up here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.core.errors import ErrorInfo
from engine.core.messages import message
from engine.core.units import bytes_text, minutes_message
from engine.protocol import events
from engine.protocol.plan import Notice, Plan
from engine.protocol.tasks import TaskKind
from tools.screenshots import model_states, plan_states, runtime_states

if TYPE_CHECKING:
    from tools.screenshots.player import Player

_RUNTIME_BYTES = 1_900_000_000
_BYTES_PER_S = 50e6 / 8  # as the planner assumes


def _needed(player: Player) -> None:
    """A video whose model and NVIDIA runtime are not here."""
    player.say([player.model_files])
    runtime_states.offer(player)
    said = player.recording.on_gpu
    plan = next(e.plan for e in said if isinstance(e, events.PlanChosen))
    plan = replace(plan, is_pretended=False, notices=(_notice(plan),))
    plan_states.show(player, said, plan_states.FITS, plan)


def _needed_by_one(player: Player) -> None:
    """Another video waits, which can start."""
    _needed(player)
    name = "Grandma's birthday, tape 3 of 7, digitised.avi"
    player.add("second", name)
    player.play(player.recording.until(events.JobStarted), "second")
    player.program.window.queue_column.view.select("sample")


def _notice(plan: Plan) -> Notice:
    found = next(notice for notice in plan.notices if notice.code == "weights-missing")
    total = sum(weights.bytes for weights in plan.work.weights_files) + _RUNTIME_BYTES
    about = {
        "needs_runtime": "cu130",
        "runtime_size": bytes_text(_RUNTIME_BYTES),
        "size": bytes_text(total),
        "time": minutes_message(total / _BYTES_PER_S),
    }
    return replace(found, case="runtime-and-model", params={**found.params, **about})


def _coming(player: Player) -> None:
    _needed(player)
    player.program.window.actions_["download_start"].trigger()
    runtime_states.progress(player, "download", 684.0, 1900.0)
    for file in player.program.model_files.files:
        if file.id in player.program.model_files.running and file.kind == "dit":
            player.say([model_states.progress(file.id, 2185.0, file.bytes / 1e6)])


def _failed(player: Player) -> None:
    _coming(player)
    error = ErrorInfo(
        code="download-failed",
        case="server",
        params={
            "host": "download.example.org",
            "name": "torch-2.13.0+cu130-cp312-cp312-win_amd64.whl",
            "why": message("reason.transfer.silent"),
            "help": message("help.transfer.connection"),
        },
    )
    failed = events.TaskFailed(
        kind=TaskKind.RUNTIME, subject="cu130", phase="download", error=error
    )
    player.say([failed])


def _broken_runtime(player: Player) -> None:
    model_states.partly_here(player)
    runtime_states.broken(player)


STATES: dict[str, Callable[[Player], None]] = {
    "download_needed": _needed,
    "download_needed_by_one": _needed_by_one,
    "download_coming": _coming,
    "download_failed": _failed,
    "models_broken_runtime": _broken_runtime,
}
