"""States of the benchmark's page, of the settings and of help, for `tools.screenshots.render`.

Every figure in the table is made up: what a machine is measured at takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLineEdit

from app.i18n import current_language
from engine.bench.report import promise_of, unmeasured
from engine.core.errors import ErrorInfo
from engine.core.messages import message, title
from engine.protocol import events
from engine.protocol.report import BenchReport, MeasuredRate, MeasuredSwitch
from engine.protocol.tasks import TaskKind

if TYPE_CHECKING:
    from tools.screenshots.player import Player

BENCHMARK = TaskKind.BENCHMARK
_ARCHIVE = "upreel-measured-2026-12-01.zip"


def _row(
    name: str,
    figures: tuple[float, float, float] | None,
    *,
    claim: str = "",
    exactness: str = "exact",
    is_default: bool = True,
) -> MeasuredSwitch:
    time, memory, error = figures or (None, None, None)
    return MeasuredSwitch(
        name=name,
        title=title(f"switch.{name}"),
        exactness=exactness,
        is_default=is_default,
        time=time,
        scatter=None if time is None else 0.02,
        memory=memory,
        error=error,
        claim=promise_of(claim) if claim else None,
        note=None if figures else message("bench.needs-gpu"),
    )


def _rate(cost: str, value: str, unit: str = "megapixels", **params: object) -> MeasuredRate:
    return MeasuredRate(
        title=message(f"bench.cost.{cost}", **params),
        value=message(f"bench.value.{unit}", value=value),
    )


_REPORT = BenchReport(
    machine={"processor": "AMD Ryzen 7 7700", "threads": "16", "torch": "2.13.0+cpu"},
    switches=(
        _row("vae.all", (0.61, 0.58, 3e-6)),
        _row("vae.upsampler_fold", (0.71, 0.66, 3e-6)),
        _row("vae.fused_norm", (0.88, 0.93, 3e-6), claim="group-norm-silu"),
        _row("vae.ring_buffers", (0.98, 0.72, 3e-6)),
        _row("vae.chunked_upsampling", (1.01, 0.68, 3e-6), claim="chunked-upsampling"),
        _row("vae.temporal_winograd", (1.09, 1.23, 3e-6), exactness="rounding", is_default=False),
        _row("dit.all", (0.84, 0.90, 5e-7)),
        _row("dit.fused_steps", (0.87, 1.0, 5e-7), claim="fused-activation"),
        _row("dit.compile", None, claim="torch-compile", exactness="rounding", is_default=False),
        _row("run.cudnn_benchmark", None, claim="cudnn-benchmark"),
        *unmeasured(),
    ),
    figures=(
        _rate("read", "165"),
        _rate("lite-at-scale", "4.71", scale=2, dtype="float32"),
        _rate("lite-at-scale", "2.41", scale=4, dtype="float32"),
        _rate("restore", "298"),
        _rate("resize", "179"),
        _rate("write", "92.1", codec="H.264"),
        _rate("open", "0.0062", "seconds", codec="H.264"),
        _rate("decode", "343", codec="H.264"),
        _rate("write", "31.7", codec="HEVC"),
    ),
    markdown="# Measured",
    seconds=312.0,
    notes=(message("bench.model.vae-half", frames=17, size="64x64", dtype="float32"),),
)


def _empty(player: Player) -> None:
    player.program.window.actions_["bench"].trigger()


def _running(player: Player) -> None:
    _empty(player)
    player.program.bench.view.run_requested.emit(False)
    step = title("switch.vae.fused_norm")
    player.say([events.TaskProgress(kind=BENCHMARK, done=7, total=31, step=step)])


def _done(player: Player) -> None:
    _empty(player)
    player.say([events.TaskDone(kind=BENCHMARK, result=_REPORT)])


def _measuring(player: Player) -> None:
    page = player.program.bench
    page.ask_file = lambda: Path(_ARCHIVE)
    _empty(player)
    page.view.archive_requested.emit()
    about = {"kind": BENCHMARK, "subject": _ARCHIVE, "step": message("bench.measuring.vae")}
    player.say([events.TaskProgress(**about, done=3, total=16)])


def _measured(player: Player) -> None:
    _measuring(player)
    player.say([events.TaskDone(kind=BENCHMARK, subject=_ARCHIVE)])


def _filtered(player: Player) -> None:
    _done(player)
    field = player.program.bench.view.findChild(QLineEdit, "benchFilter")
    field.setText("compil" if current_language() == "en" else "编译")


def _failed(player: Player) -> None:
    _empty(player)
    error = ErrorInfo(code="out-of-memory", case="running")
    player.say([events.TaskFailed(kind=BENCHMARK, error=error)])


def _busy(player: Player) -> None:
    player.add("sample", "upreel_sample.mp4")
    player.play(player.recording.part(0.4))
    _empty(player)


def _settings(player: Player) -> None:
    player.program.window.actions_["settings"].trigger()


def _help(player: Player) -> None:
    player.program.window.actions_["help"].trigger()


def _about(player: Player) -> None:
    _help(player)
    player.program.window.help.show_page("about")


STATES: dict[str, Callable[[Player], None]] = {
    "bench_empty": _empty,
    "bench_running": _running,
    "bench_done": _done,
    "bench_measuring": _measuring,
    "bench_measured": _measured,
    "bench_filtered": _filtered,
    "bench_failed": _failed,
    "bench_busy": _busy,
    "settings": _settings,
    "help": _help,
    "help_about": _about,
}
