"""States of the benchmark's page and of the settings, for `tools.screenshots.render`.

Every figure in the table is made up: what a machine is measured at takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.report import BenchReport, MeasuredSwitch
from engine.protocol.tasks import TaskKind

if TYPE_CHECKING:
    from tools.screenshots.player import Player

BENCHMARK = TaskKind.BENCHMARK
_NO_CARD = "needs an NVIDIA card"


def _row(
    name: str,
    title: str,
    figures: tuple[float, float, float] | None,
    *,
    claim: str = "",
    exactness: str = "exact",
    is_default: bool = True,
) -> MeasuredSwitch:
    time, memory, error = figures or (None, None, None)
    return MeasuredSwitch(
        name=name,
        title=title,
        exactness=exactness,
        is_default=is_default,
        time=time,
        scatter=None if time is None else 0.02,
        memory=memory,
        error=error,
        claim=claim,
        note="" if figures else _NO_CARD,
    )


_REPORT = BenchReport(
    machine={"processor": "AMD Ryzen 7 7700", "threads": "16", "torch": "2.13.0+cpu"},
    switches=(
        _row("vae.all", "all of the VAE together", (0.61, 0.58, 3e-6)),
        _row("vae.upsampler_fold", "upsampler fold", (0.71, 0.66, 3e-6)),
        _row(
            "vae.fused_norm",
            "norm and activation in one pass",
            (0.88, 0.93, 3e-6),
            claim="15-25 % faster",
        ),
        _row("vae.ring_buffers", "ring buffers", (0.98, 0.72, 3e-6)),
        _row(
            "vae.chunked_upsampling",
            "upsampling in chunks",
            (1.01, 0.68, 3e-6),
            claim="30-50 % less memory",
        ),
        _row(
            "vae.temporal_winograd",
            "Winograd over time",
            (1.09, 1.23, 3e-6),
            exactness="rounding",
            is_default=False,
        ),
        _row("vae.cuda_graph", "CUDA graph", None, claim="10-30 % faster", is_default=False),
        _row("dit.all", "all of the transformer together", (0.84, 0.90, 5e-7)),
        _row(
            "dit.fused_steps",
            "norms, rotation and activation in one pass each",
            (0.87, 1.0, 5e-7),
            claim="fused activation: 5-10 % faster",
        ),
        _row(
            "dit.compile",
            "torch.compile",
            None,
            claim="15-40 % faster",
            exactness="rounding",
            is_default=False,
        ),
        _row("run.cudnn_benchmark", "cuDNN benchmark", None, claim="15-30 % faster"),
    ),
    figures=(
        ("read", "165 million pixels a second of the CPU"),
        ("lite-2-float32", "4.71 million pixels a second of the CPU"),
        ("lite-4-float32", "2.41 million pixels a second of the CPU"),
        ("restore", "298 million pixels a second of the CPU"),
        ("resize", "179 million pixels a second of the CPU"),
        ("libx264", "92.1 million pixels a second of the CPU"),
        ("open-libx264", "0.0062 s a segment"),
        ("decode-libx264", "343 million pixels a second of the CPU"),
        ("libx265", "31.7 million pixels a second of the CPU"),
    ),
    markdown="# Measured",
    seconds=312.0,
    notes=("VAE, half as wide, 17 frames of 64x64, float32, encoded and decoded",),
)


def _empty(player: Player) -> None:
    player.program.window.do("bench")


def _running(player: Player) -> None:
    _empty(player)
    player.program.bench.view.run_requested.emit(False)
    step = "norm and activation in one pass"
    player.say([events.TaskProgress(kind=BENCHMARK, done=7, total=31, step=step)])


def _done(player: Player) -> None:
    _empty(player)
    player.say([events.TaskDone(kind=BENCHMARK, result=_REPORT)])


def _failed(player: Player) -> None:
    _empty(player)
    error = ErrorInfo(
        code="out-of-memory",
        message="Memory ran out.",
        hint="Close other programs, then try again.",
    )
    player.say([events.TaskFailed(kind=BENCHMARK, error=error)])


def _busy(player: Player) -> None:
    player.add("sample", "upreel_sample.mp4")
    player.play(player.recording.part(0.4))
    _empty(player)


def _settings(player: Player) -> None:
    player.program.window.do("settings")


STATES: dict[str, Callable[[Player], None]] = {
    "bench_empty": _empty,
    "bench_running": _running,
    "bench_done": _done,
    "bench_failed": _failed,
    "bench_busy": _busy,
    "settings": _settings,
}
