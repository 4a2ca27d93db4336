"""States of the NVIDIA runtime, for `tools.screenshots.render`.

All text comes from the window and the engine; the GPU, the sizes and the speed of downloads are
made up here: no GPU was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import ErrorInfo
from engine.core.messages import message
from engine.protocol import events
from engine.protocol.delivery import RuntimeState
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, TaskKind
from tools.screenshots import queue_states

if TYPE_CHECKING:
    from tools.screenshots.player import Player

RUNTIME = TaskKind.RUNTIME
GPU, DRIVER = "NVIDIA GeForce RTX 5070 Ti", "581.29"
_CU130 = RuntimeState(
    id="cu130",
    title="NVIDIA runtime, CUDA 13.0",
    torch="2.13.0+cu130",
    cuda="13.0",
    driver="580.0",
    bytes=1_900_000_000,
    disk_bytes=5_700_000_000,
    suits_card=True,
)
_CU126 = replace(
    _CU130,
    id="cu126",
    title="NVIDIA runtime, CUDA 12.6",
    torch="2.13.0+cu126",
    cuda="12.6",
    driver="528.33",
    bytes=2_500_000_000,
    disk_bytes=7_500_000_000,
    suits_card=False,
)
_HERE: dict[str, Any] = {
    "state": "here",
    "done_bytes": 5_640_000_000,
    "path": Path("runtimes/cu130"),
}
_DONE = {"torch": "2.13.0+cu130", "runtime": "cu130", "gpu": GPU}


def _say(player: Player, changes: dict[str, Any] | None = None, **others: Any) -> None:
    """Emit the states of runtimes, on a machine with that GPU."""
    title = message("runtime-advice.runtime", cuda="13.0")
    listed = events.RuntimesListed(
        runtimes=(replace(_CU130, **(changes or {})), _CU126),
        used=message("torch-choice.none-chosen"),
        advice=message("runtime-advice.suits", title=title, gpu=GPU, driver=DRIVER),
        suited="cu130",
        free_mb=212_000.0,
        card=GPU,
        driver=DRIVER,
    )
    listed = replace(listed, **others)
    player.say([_telemetry(listed.card), listed])


def _telemetry(name: str) -> events.Telemetry:
    """The GPU as its driver reports it, which does not need the runtime."""
    gpu = GpuReading(
        name=name,
        total_mb=16303,
        ours_mb=0,
        others_mb=1126,
        load_percent=2,
        temperature_c=38,
        driver=DRIVER,
    )
    return events.Telemetry(
        gpu=gpu if name else None,
        ram_total_mb=32768,
        ram_ours_mb=640,
        ram_others_mb=9216,
        cpu_percent=6.0,
    )


def progress(player: Player, phase: Phase, done: float = 0.0, total: float = 0.0) -> None:
    """Emit how far the task of a runtime is; MB."""
    speed = 11.3 if phase == "download" else 148.0
    event = events.TaskProgress(
        kind=RUNTIME,
        subject="cu130",
        phase=phase,
        done=done,
        total=total,
        per_second=speed if total else 0.0,
        seconds_left=(total - done) / speed if total else 0.0,
    )
    player.say([event])


def _failed(player: Player, phase: Phase, error: ErrorInfo) -> None:
    player.say([events.TaskFailed(kind=RUNTIME, subject="cu130", phase=phase, error=error)])


def offer(player: Player) -> None:
    """The offer of the runtime that suits the GPU."""
    _say(player)


def _offer_opened(player: Player) -> None:
    """The offer in a narrow window, where a button shows it."""
    player.program.window.resize(910, 472)
    offer(player)
    player.settle()
    player.program.window.columns.queue_sheet.open_up()


def _downloading(player: Player) -> None:
    queue_states.running(player)
    _say(player)
    progress(player, "download", 684.0, 1900.0)


def _partial(player: Player) -> None:
    _say(player, {"state": "partial", "done_bytes": 684_000_000})


def _unpacking(player: Player) -> None:
    _say(player, {"state": "partial", "done_bytes": 1_900_000_000})
    progress(player, "unpack", 2310.0, 5640.0)


def _trying(player: Player) -> None:
    _say(player, _HERE)
    progress(player, "try")


def _cut(player: Player) -> None:
    _say(player, {"state": "partial", "done_bytes": 684_000_000})
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
    _failed(player, "download", error)


def _disk_full(player: Player) -> None:
    _say(player, free_mb=4100.0)
    error = ErrorInfo(
        code="disk-full",
        case="runtime",
        params={
            "folder": r"C:\Users\Ann\AppData\Local\Upreel\runtimes",
            "free": "4.1 GB",
            "needed": "7.6 GB",
        },
    )
    _failed(player, "download", error)


def _wrong_file(player: Player) -> None:
    _say(player)
    name = "torch-2.13.0-cp312-cp312-win_amd64.whl"
    error = ErrorInfo(
        code="hash-mismatch",
        case="no-known-wheel",
        params={"name": name, "wheels": "torch-2.13.0+cu130-cp312-cp312-win_amd64.whl"},
    )
    player.say([events.TaskFailed(kind=RUNTIME, subject=name, phase="import", error=error)])


def _ready(player: Player) -> None:
    _say(player, _HERE | {"is_chosen": True})
    notice = Notice(code="runtime-changed", case="on-gpu", severity="info", params=_DONE)
    player.say([events.TaskDone(kind=RUNTIME, subject="cu130", phase="use", notice=notice)])


def _restarting(player: Player) -> None:
    queue_states.running(player)
    _ready(player)
    player.program.runtime.act("restart")


def broken(player: Player) -> None:
    """The installed runtime cannot be used."""
    _say(
        player,
        _HERE | {"state": "broken", "is_chosen": True, "why": _WHY},
        used=message("torch-choice.not-used", runtime="cu130", why=_WHY),
    )


_WHY = message("reason.runtime.file-damaged", name="torch/lib/c10.dll")


def _old_driver(player: Player) -> None:
    driver, needed = "560.94", "580.0"
    advice = message("runtime-advice.driver", gpu=GPU, driver=driver, needed=needed, size="1.9 GB")
    _say(player, suited="", driver=driver, driver_needed=needed, advice=advice)


def _old_gpu(player: Player) -> None:
    gpu = "NVIDIA GeForce GTX 1080"
    advice = message("runtime-advice.none", gpu=gpu, driver=DRIVER)
    _say(player, suited="", card=gpu, advice=advice)


def _page(state: Callable[[Player], None]) -> Callable[[Player], None]:
    """The page in front of a window in that state."""

    def show(player: Player) -> None:
        state(player)
        player.program.runtime.open_view()

    return show


def _in_use(player: Player) -> None:
    used = message("torch-choice.chosen", runtime="cu130")
    _say(player, _HERE | {"is_chosen": True, "is_used": True}, used=used)


def _no_gpu(player: Player) -> None:
    advice = message("runtime-advice.no-gpu")
    _say(player, {"suits_card": False}, suited="", card="", driver="", advice=advice)


def _settings(state: Callable[[Player], None]) -> Callable[[Player], None]:
    def show(player: Player) -> None:
        state(player)
        player.program.window.actions_["settings"].trigger()

    return show


STATES: dict[str, Callable[[Player], None]] = {
    "runtime_offer": offer,
    "runtime_offer_opened": _offer_opened,
    "runtime_downloading": _downloading,
    "runtime_partial": _partial,
    "runtime_unpacking": _unpacking,
    "runtime_trying": _trying,
    "runtime_cut": _cut,
    "runtime_disk_full": _disk_full,
    "runtime_wrong_file": _wrong_file,
    "runtime_ready": _ready,
    "runtime_restarting": _restarting,
    "runtime_broken": broken,
    "runtime_old_driver": _old_driver,
    "runtime_old_gpu": _old_gpu,
    "runtime_page": _page(offer),
    "runtime_page_downloading": _page(_downloading),
    "runtime_page_in_use": _page(_in_use),
    "runtime_page_ready": _page(_ready),
    "runtime_page_broken": _page(broken),
    "runtime_page_cut": _page(_cut),
    "runtime_page_no_card": _page(_no_gpu),
    "runtime_settings": _settings(_in_use),
    "runtime_settings_no_card": _settings(_no_gpu),
}
