import io
import time
from dataclasses import replace

import pytest

from engine.cli.console import Console
from engine.cli.progress import TaskLine, progress_on, progress_text
from engine.protocol.events import StageProgress, StagesTimed, TaskProgress, WorkerProgress
from engine.protocol.tasks import TaskKind
from tests.helpers.command_line import Terminal


def at(done: int, stage: str = "upscale", fps: float = 12.5, left: float = 80.0) -> StageProgress:
    return StageProgress(
        job_id="a", stage=stage, done=done, total=100, frames_per_second=fps, seconds_left=left
    )


def test_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = progress_on(Console(stream, stream))
    for done in range(1, 101):
        now[0] += 0.3
        progress.show(at(done))
        progress.show(at(done, "read"))
    progress.show(at(100))
    progress.show(at(100, "mux", fps=0, left=0))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "upscaling: 34/100 frames, 34 %, 12.5 fps, 1 min 20 s left"
    assert lines[-1] == "joining: 100 %"
    assert len(lines) == 4


def test_a_gpu_has_its_name_next_to_the_progress_of_all() -> None:
    stream = io.StringIO()
    progress = progress_on(Console(stream, stream))
    for worker, gpu in ((1, "RTX 4090, 24 GB"), (2, ""), (3, "a\n[red]b\x1b[31m")):
        progress.show_worker(
            WorkerProgress(job_id="a", worker=worker, frame=48, frames_per_second=1.25, name=gpu)
        )
    progress.show(at(100))
    words = stream.getvalue()
    assert "RTX 4090, 24 GB at frame 48, 1.2 fps, process 2 at frame 48, 1.2 fps" in words
    assert r"a\n[red]b\x1b[31m at frame 48" in words


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    stream = Terminal()
    progress = progress_on(Console(stream, stream))
    progress.show(at(10))
    progress.show(at(40))
    progress.show(at(50, "verify"))
    progress.clear()
    progress.clear()
    text = stream.getvalue()
    assert "verifying" in text
    assert text.count("\n") <= 3
    progress.show_worker(
        WorkerProgress(
            job_id="a", worker=1, frame=4, frames_per_second=1.0, name="a\n[link=file:b]c\x1b[31m"
        )
    )
    progress.show(at(60))
    progress.clear()
    assert "60/100 frames" in stream.getvalue()
    assert r"a\n[link=file:b]c\x1b[31m at frame 4" in stream.getvalue()


def test_what_the_gpu_waits_for_stands_next_to_the_progress() -> None:
    stream = io.StringIO()
    progress = progress_on(Console(stream, stream))
    times = StagesTimed(job_id="a", seconds={}, waits_for="write", waiting=0.43)
    progress.show_times(times)
    progress.show(at(100))
    progress.show_times(replace(times, waits_for=""))
    progress.show(at(100, "mux"))
    first, second = stream.getvalue().splitlines()
    assert first.endswith("left, the GPU waits for the encoder (43% of the time)")
    assert "waits" not in second


def test_a_terminal_that_shows_the_log_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress_on(Console(stream, stream, is_verbose=True)).show(at(100))
    assert stream.getvalue().startswith("upscaling: 100/100 frames, 100 %")


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    progress_on(Console(stream, stream)).show(at(100))
    assert stream.getvalue().startswith("upscaling: 100/100 frames, 100 %")


def progress(**values: float) -> TaskProgress:
    kind = TaskKind.MODEL_FILE
    return TaskProgress(kind=kind, subject="tiny", phase="download", **values)


def test_downloads_are_in_megabytes() -> None:
    assert progress_text(progress(done=0, total=0)) == "downloading tiny: waiting"
    far = progress(done=8192.5, total=16384, per_second=23.44, seconds_left=349)
    expected = "downloading tiny: 8192 of 16384 MB (50%), 23.4 MB/s, 5 min 49 s left"
    assert progress_text(far) == expected
    assert progress_text(progress(done=0.25, total=0)) == "downloading tiny: 0.2 MB"


def test_a_line_is_written_over_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    line = TaskLine(stream)
    line.show(progress(done=1, total=100, per_second=2))
    line.show(progress(done=2, total=100))
    line.clear()
    long, short, empty = stream.getvalue().removesuffix("\r").split("\r")[1:]
    assert long == "downloading tiny: 1 of 100 MB (1%), 2.0 MB/s"
    assert short.rstrip() == "downloading tiny: 2 of 100 MB (2%)"
    assert len(short) == len(long)
    assert empty.isspace()
