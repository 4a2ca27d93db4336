"""The part of FakeEngine that measures; it stands still until it is told to go on."""

from __future__ import annotations

from engine import commands, events
from engine.errors import ErrorInfo
from engine.report import BenchReport, MeasuredSwitch

STOPPED = ErrorInfo(code="cancelled", message="The benchmark was stopped.")
SWITCHES = (
    MeasuredSwitch(
        name="vae.upsampler_fold",
        title="Upsampler as one convolution",
        exactness="exact",
        is_default=True,
        time=0.71,
        memory=0.64,
        error=2e-7,
        claim="chunked upsampling -30-50 % memory",
    ),
    MeasuredSwitch(
        name="run.cudnn_benchmark",
        title="cuDNN benchmark",
        exactness="exact",
        is_default=False,
        claim="15-30 % faster",
        note="cannot be measured here because there is no card",
    ),
    MeasuredSwitch(
        name="dit.fused_steps",
        title="Fused steps",
        exactness="rounding",
        is_default=True,
        time=1.03,
        memory=1.0,
        error=0.0,
        claim="5-10 % faster",
    ),
    MeasuredSwitch(
        name="all",
        title="All together",
        exactness="rounding",
        is_default=True,
        time=0.62,
        memory=0.58,
        error=4e-7,
    ),
)
FIGURES = (("Convolution", "212 GFLOP/s"), ("Memory", "11.2 GB/s"), ("Lite", "4.1 frames/s"))


def make_report(*, quick: bool) -> BenchReport:
    """Plausible figures."""
    return BenchReport(
        machine={"processor": "Some CPU, 8 cores", "torch": "2.13"},
        switches=() if quick else SWITCHES,
        figures=FIGURES,
        markdown="# Measured\n\n| what | time |\n",
        seconds=42.0,
        notes=("Times are CPU seconds.",),
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
