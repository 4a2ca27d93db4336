"""States of the benchmark's page and of the settings, for `app.screenshots`.

Every figure in the table is made up: what a machine is measured at takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine import events
from engine.errors import ErrorInfo
from engine.report import BenchReport, MeasuredSwitch

if TYPE_CHECKING:
    from app.screenshots_player import Player

_NO_CARD = "Cannot be measured here because this machine has no NVIDIA card."


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
        memory=memory,
        error=error,
        claim=claim,
        note="" if figures else _NO_CARD,
    )


_REPORT = BenchReport(
    machine={"processor": "AMD Ryzen 7 7700", "threads": "16", "torch": "2.13.0+cpu"},
    switches=(
        _row(
            "vae.upsampler_fold",
            "Upsampler as one convolution",
            (0.71, 0.66, 2e-7),
            claim="30-50 % less memory",
        ),
        _row(
            "vae.fused_norm",
            "GroupNorm and SiLU in one pass",
            (0.88, 0.93, 2e-7),
            claim="15-25 % faster",
        ),
        _row("vae.ring_buffers", "Ring buffers in the place of joined frames", (0.95, 0.72, 0.0)),
        _row(
            "vae.temporal_winograd",
            "Fewer products along time",
            (1.04, 1.02, 3e-6),
            exactness="rounding",
            is_default=False,
        ),
        _row(
            "dit.fused_steps",
            "Steps between products in one pass",
            (0.93, 0.97, 2e-7),
            claim="5-10 % faster",
        ),
        _row("dit.grouped_windows", "Windows of one shape in one call", (0.62, 1.01, 0.0)),
        _row(
            "run.cudnn_benchmark",
            "cuDNN tries which convolution is the fastest",
            None,
            claim="15-30 % faster",
            is_default=False,
        ),
        _row(
            "dit.compile",
            "The transformer by torch.compile",
            None,
            claim="15-40 % faster",
            exactness="rounding",
            is_default=False,
        ),
        _row("all", "All that are on, together", (0.41, 0.58, 4e-7), exactness="rounding"),
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
    notes=("Each ratio is the median of five pairs in turns; CPU seconds.",),
)


def _empty(player: Player) -> None:
    player.program.window.do("bench")


def _running(player: Player) -> None:
    _empty(player)
    player.program.bench.view.run_wanted.emit(False)
    player.say([events.BenchProgress(done=7, total=31, doing="GroupNorm and SiLU in one pass")])


def _done(player: Player) -> None:
    _empty(player)
    player.say([events.BenchDone(report=_REPORT)])


def _failed(player: Player) -> None:
    _empty(player)
    error = ErrorInfo(
        code="out-of-memory",
        message="Memory ran out.",
        hint="Close other programs, then try again.",
    )
    player.say([events.BenchFailed(error=error)])


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
