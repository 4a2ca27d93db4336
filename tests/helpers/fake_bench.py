"""The benchmark of FakeEngine; it advances only on request."""

from __future__ import annotations

from engine.core.errors import ErrorInfo
from engine.core.messages import Message, message, title
from engine.protocol import commands, events
from engine.protocol.report import BenchReport, MeasuredRate, MeasuredSwitch

STOPPED = ErrorInfo(code="cancelled", message="The benchmark was stopped.")


def _claim(name: str) -> Message:
    code = f"claim.{name}"
    return message("bench.claim", title=title(code), promise=message(code))


SWITCHES = (
    MeasuredSwitch(
        name="vae.upsampler_fold",
        title=title("switch.vae.upsampler_fold"),
        exactness="exact",
        is_default=True,
        time=0.71,
        scatter=0.02,
        memory=0.64,
        error=2e-7,
        error_without=3e-7,
    ),
    MeasuredSwitch(
        name="run.cudnn_benchmark",
        title=title("switch.run.cudnn_benchmark"),
        exactness="exact",
        is_default=False,
        claim=_claim("cudnn-benchmark"),
        note="cannot be measured here because there is no card",
    ),
    MeasuredSwitch(
        name="dit.fused_steps",
        title=title("switch.dit.fused_steps"),
        exactness="rounding",
        is_default=True,
        time=1.03,
        memory=1.0,
        error=0.0,
        claim=_claim("fused-activation"),
    ),
    MeasuredSwitch(
        name="vae.all",
        title=title("switch.vae.all"),
        exactness="rounding",
        is_default=True,
        time=0.62,
        memory=0.58,
        error=4e-7,
    ),
)
FIGURES = (
    MeasuredRate(
        title=message("bench.cost.read"), value=message("bench.value.megapixels", value="65.2")
    ),
    MeasuredRate(
        title=message("bench.cost.lite-at-scale", scale=2, dtype="bfloat16"),
        value=message("bench.value.megapixels", value="0.71"),
    ),
    MeasuredRate(
        title=message("bench.cost.open", codec="HEVC"),
        value=message("bench.value.seconds", value="0.283"),
    ),
    MeasuredRate(
        title=message(
            "bench.cost.on-gpu",
            cost=message("bench.cost.vae", dtype="float16"),
            gpu="RTX 5070 Ti",
        ),
        value=message("bench.value.gflops", value="41200"),
    ),
)


def make_report(*, quick: bool) -> BenchReport:
    """Plausible figures."""
    return BenchReport(
        machine={"processor": "Some CPU", "threads": "8", "card": "none", "torch": "2.13"},
        switches=() if quick else SWITCHES,
        figures=FIGURES,
        markdown="# Measured\n\n| what | time |\n",
        seconds=42.0,
        notes=(message("bench.model.tiles", vae="VAE"),),
    )


class FakeBench:
    """Answers RunBench and StopBench."""

    def __init__(self, sink: events.EventSink) -> None:
        self._sink = sink
        self._quick = True

    def answer(self, command: commands.Command) -> bool:
        """Answer at once; False for commands about something else."""
        match command:
            case commands.RunBench(quick=quick):
                self._quick = quick
                self.advance(0)
            case commands.StopBench():
                self._sink.emit(events.BenchFailed(error=STOPPED))
            case _:
                return False
        return True

    def advance(self, done: int) -> None:
        """So many of twelve steps are done."""
        self._sink.emit(events.BenchProgress(done=done, total=12, doing="Convolutions"))

    def finish(self) -> None:
        """The report is there."""
        self._sink.emit(events.BenchDone(report=make_report(quick=self._quick)))

    def fail(self, error: ErrorInfo) -> None:
        """It ended badly."""
        self._sink.emit(events.BenchFailed(error=error))
