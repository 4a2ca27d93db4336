"""Pictures of the window in every state, for judging its looks; looks and screens take turns.

    python -m tools.screenshots.render OUTDIR [--only STATE...]

First the real engine upscales the sample clip (half a minute); its events are then replayed into
windows without a screen, so that every figure and every pixel was really computed. Each screen
and scale factor needs a process of its own, because Qt reads them before anything else.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core import paths
from engine.core.errors import DiskFull, UnreadableMedia
from engine.core.geometry import Size
from engine.core.messages import message
from engine.protocol import commands, events
from engine.settings.schema import JobSettings
from tools.screenshots import (
    bench_states,
    bicubic_model,
    comparison_states,
    download_states,
    excerpt_states,
    latent_states,
    machine_states,
    model_states,
    plan_states,
    queue_states,
    runtime_states,
    update_states,
)
from tools.screenshots.player import Player, Recording
from tools.screenshots.shots import Shot, rotated

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from engine.api import Engine

_PATIENCE_S = 300.0
_SCREEN = {"name": "screen", "x": 0, "y": 0, "logicalDpi": 96, "dpr": 1.0}  # of the offscreen Qt
_SECONDS = 1.5  # moment of the video that is shown


class _Sink:
    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[events.Event] = queue.SimpleQueue()

    def emit(self, event: events.Event) -> None:
        self.queue.put(event)


def main() -> int:
    """Render the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUTDIR")
    parser.add_argument("--recording", type=Path, help="keep the recording here, or use it")
    parser.add_argument("--only", nargs="+", metavar="STATE", help="only these states")
    parser.add_argument("--size", metavar="WxH", help="of the window, in logical pixels")
    parser.add_argument("--shots", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shots is not None:
        _render(pickle.loads(options.shots.read_bytes()), options.out, options.recording)
    else:
        render(_wanted(options), options.out, options.recording)
    return 0


def render(shots: Sequence[Shot], out: Path, recording: Path | None = None) -> None:
    """Save each shot under its name.

    Args:
        shots: Pictures to render.
        out: Folder of the pictures; it is made.
        recording: File of what the engine says; it is made where it does not exist.
    """
    out.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.gettempdir(), "upreel-screenshots")  # the pictures show "~/Videos"
    shutil.rmtree(home, ignore_errors=True)
    (home / "Videos").mkdir(parents=True)
    os.environ["HOME"] = os.environ["USERPROFILE"] = os.environ["UPREEL_DATA"] = str(home)
    try:
        kept = recording or home / "recording.pickle"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(record(home)))
        for scale, room in sorted({(shot.scale, shot.room) for shot in shots}, key=str):
            together = [shot for shot in shots if (shot.scale, shot.room) == (scale, room)]
            (home / "shots.pickle").write_bytes(pickle.dumps(together))
            screen = {"width": round(room.width * scale), "height": round(room.height * scale)}
            (home / "screen.json").write_text(json.dumps({"screens": [_SCREEN | screen]}))
            places = {
                "QT_SCALE_FACTOR": str(scale),
                "QT_QPA_PLATFORM": f"offscreen:configfile={home / 'screen.json'}",
            }
            command = [sys.executable, "-m", "tools.screenshots.render", str(out)]
            command += ["--shots", str(home / "shots.pickle"), "--recording", str(kept)]
            subprocess.run(command, env={**os.environ, **places}, check=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def record(folder: Path) -> Recording:
    """Upscale the sample clip with the real engine and keep its events."""
    from engine.api import Engine

    os.environ["UPREEL_DATA"] = str(folder)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on any machine "auto" is Lite, whose file is here
    sink, recording = _Sink(), Recording()
    engine = Engine(sink)
    engine.start()
    engine.send(commands.Prepare())
    source = paths.resource("samples", "upreel_sample.mp4")
    output = folder / "Videos" / "upreel_sample_x2.mp4"
    engine.send(commands.AddJob(job_id="sample", source=source, output=output))
    engine.send(commands.ShowFrame(job_id="sample", seconds=_SECONDS))
    engine.send(commands.StartQueue())
    _finish(engine, sink, "sample", recording.said, recording.frame)
    engine.send(commands.ReadOverview(job_id="sample"))
    _listen(sink, recording.overview, (events.TaskDone,))
    bicubic_model.write_model(folder / "2x_film.pth")
    settings = JobSettings(model="community", model_file=str(folder / "2x_film.pth"), stop="2")
    output = folder / "Videos" / "upreel_sample_x2_community.mp4"
    engine.send(
        commands.AddJob(job_id="community", source=source, settings=settings, output=output)
    )
    _finish(engine, sink, "community", recording.community, recording.community_frame)
    engine.send(commands.ListModelFiles())
    _listen(sink, recording.model_files, (events.ModelFilesListed,))
    engine.send(commands.ListPresets())
    _listen(sink, recording.presets, (events.PresetsListed,))
    engine.send(commands.StopQueue())
    planned = (events.PlanChosen, events.JobRejected)
    settings = JobSettings(model="seedvr2-3b", strength=80)
    engine.send(commands.AddJob(job_id="seedvr2", source=source, settings=settings))
    _listen(sink, recording.seedvr2, planned)
    settings = JobSettings(model="wan-2x")
    engine.send(commands.AddJob(job_id="wan", source=source, settings=settings))
    _listen(sink, recording.wan, planned)
    engine.close()
    _pretend(recording, folder / "Videos" / "upreel_sample_1080p.mp4")
    return recording


def _finish(
    engine: Engine, sink: _Sink, job_id: str, said: list[events.Event], frame: list[events.Event]
) -> None:
    """Keep what is said until a video is finished, and a frame of its result."""
    _listen(sink, said, (events.JobFinished, events.JobFailed, events.JobRejected))
    if not isinstance(said[-1], events.JobFinished):
        raise SystemExit(f"The sample could not be upscaled: {said[-1]}")
    engine.send(commands.ShowFrame(job_id=job_id, seconds=_SECONDS))
    _listen(sink, frame, (events.PreviewReady,))


def _pretend(recording: Recording, output: Path) -> None:
    """Plans of the engine for GPUs of the table, after the presets that it offers for them."""
    from engine.api import Engine, pretended

    source = paths.resource("samples", "upreel_sample.mp4")
    for gpu, kept, settings in (
        (plan_states.GPU, recording.on_gpu, plan_states.FITS),
        (plan_states.SMALL_GPU, recording.too_much, plan_states.TOO_MUCH),
    ):
        sink = _Sink()
        engine = Engine(sink, pretend=pretended(gpu))
        engine.start()
        engine.send(commands.ListPresets())
        _listen(sink, kept, (events.PresetsListed,))
        add = commands.AddJob(job_id="card", source=source, settings=settings, output=output)
        engine.send(add)
        _listen(sink, kept, (events.PlanChosen, events.JobRejected))
        engine.close()


def _listen(sink: _Sink, kept: list[events.Event], last: tuple[type[events.Event], ...]) -> None:
    while True:
        event = sink.queue.get(timeout=_PATIENCE_S)
        kept.append(event)
        if isinstance(event, last):
            return


def _wanted(options: argparse.Namespace) -> list[Shot]:
    size = Size(*map(int, options.size.split("x"))) if options.size else None
    return [
        replace(shot, size=size or shot.size)
        for shot in rotated(STATES)
        if not options.only or shot.state in options.only
    ]


def _render(shots: Sequence[Shot], out: Path, kept: Path) -> None:
    from app import desktop
    from app.application import make_application

    desktop.allows_motion = lambda: False  # a picture has no moment of a sweep
    app = make_application(["upreel"])
    recording: Recording = pickle.loads(kept.read_bytes())
    for shot in shots:
        with shown(app, recording, shot) as player:
            player.picture(shot.part).save(str(out / shot.name))


@contextmanager
def shown(app: QApplication, recording: Recording, shot: Shot) -> Iterator[Player]:
    """A window in the state of a shot, of that size; the scale is that of the process."""
    from PySide6.QtCore import QEvent

    from app.application import Program
    from app.ui_state import UiState

    with tempfile.TemporaryDirectory() as folder:
        ui_state = UiState(Path(folder) / "window.ini")
        ui_state.language, ui_state.theme = shot.language, shot.theme
        program = Program(app, ui_state=ui_state)
        player = Player(program, recording)
        program.attach(player)
        program.window.resize(shot.size.width, shot.size.height)
        program.window.show()
        player.emit_telemetry()
        player.say(recording.presets)
        STATES[shot.state](player)
        player.settle()
        yield player
        program.bridge.deliver(events.JobCancelled(job_id="sample"))
        program.window.close()
        program.languages.use("en")  # its catalogue must not be used by the next window
        program.window.deleteLater()
        program.deleteLater()
        app.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _other_selected(player: Player) -> None:
    """A video that waits is selected while another one is made: Pause and Cancel name that one."""
    queue_states.running(player)
    player.play([e for e in player.recording.said if isinstance(e, events.PlanChosen)], "second")
    player.program.window.queue_column.view.select("second")


def _paused(player: Player) -> None:
    queue_states.running(player)
    player.say([events.JobPaused(job_id="sample")])


def _finished(player: Player) -> None:
    player.add("sample", "upreel_sample.mp4")
    player.play(player.recording.said)
    player.settle()


def _report(player: Player) -> None:
    from app.jobs.report_dialog import ReportDialog

    _finished(player)
    report = player.program.queue.rows[0].report
    assert report is not None
    ReportDialog(report, player.program.window).show()
    player.settle()


def _failed(player: Player) -> None:
    queue_states.running(player)
    error = DiskFull("while-writing", name="upreel_sample_x2.mp4").info()
    player.say([events.JobFailed(job_id="sample", error=error)])


def _cancelled(player: Player) -> None:
    queue_states.running(player)
    player.say([events.JobCancelled(job_id="sample")])


def _rejected(player: Player) -> None:
    player.add("letter", "letter.docx")
    error = UnreadableMedia("undecodable", name="letter.docx").info()
    player.say([events.JobRejected(job_id="letter", source="", error=error)])


def _refused(player: Player) -> None:
    from engine.protocol.plan import Notice

    queue_states.queued(player)
    chosen = next(e for e in player.recording.said if isinstance(e, events.PlanChosen))
    notices = (
        Notice(
            code="output-exists",
            case="before-start",
            severity="refusal",
            params={"name": chosen.plan.output.name},
        ),
        Notice(
            code="stream-left-out",
            case="other-container",
            severity="warning",
            params={
                "index": "3",
                "stream": message(
                    "stream.with-codec", kind=message("stream.subtitle"), codec="dvb_subtitle"
                ),
                "why": message("reason.stream.codec", title="MP4", codec="dvb_subtitle"),
                "better": "MKV",
            },
        ),
    )
    player.say([replace(chosen, plan=replace(chosen.plan, notices=notices))])


def _log(player: Player) -> None:
    queue_states.running(player)
    player.program.window.actions_["log"].trigger()


STATES: dict[str, Callable[[Player], None]] = {
    "empty": lambda _player: None,
    "running": queue_states.running,
    "other_selected": _other_selected,
    "paused": _paused,
    "finished": _finished,
    "report": _report,
    "failed": _failed,
    "cancelled": _cancelled,
    "rejected": _rejected,
    "refused": _refused,
    "log": _log,
    **queue_states.STATES,
    **model_states.STATES,
    **plan_states.STATES,
    **download_states.STATES,
    **bench_states.STATES,
    **excerpt_states.STATES,
    **comparison_states.STATES,
    **latent_states.STATES,
    **machine_states.STATES,
    **runtime_states.STATES,
    **update_states.STATES,
}


if __name__ == "__main__":
    # Under its importable name, so that a recording can be read in another process.
    from tools.screenshots.render import main as start

    sys.exit(start())
