"""Runs the program as a user does, and asks FFmpeg's own tools, as independent judges."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from engine.hardware.telemetry import counted_peak_bytes

ROOT = Path(__file__).parents[2]
NEEDS_FFMPEG = pytest.mark.programs("ffmpeg", "ffprobe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A finished run of the program."""

    status: int
    out: str
    err: str
    peak_bytes: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0

    @property
    def code(self) -> str:
        """Code of the first error on standard error, "" without one."""
        found = re.search(r"^error\[([a-z-]+)\]:", self.err, re.MULTILINE)
        return found[1] if found else ""

    @property
    def has_hint(self) -> bool:
        """True when the error states the next step."""
        return bool(re.search(r"^  hint: \S", self.err, re.MULTILINE))


def command(*words: str | Path, module: str = "engine") -> list[str]:
    """The program's command line, or another program of the tests."""
    return [sys.executable, "-m", module, *map(str, words)]


def start(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    module: str = "engine",
    **streams: Any,
) -> subprocess.Popen[str]:
    """Start the program at low priority; `before` runs in the child first."""

    def prepare() -> None:
        os.nice(10)
        if before is not None:
            before()

    return subprocess.Popen(
        command(*words, module=module),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        preexec_fn=prepare,
        text=True,
        **streams,
    )


def run(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    folder: Path | None = None,
    module: str = "engine",
) -> Ended:
    """Run the program to its end and measure it; output goes through files in `folder`."""
    import tempfile

    begin = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8") as err,
    ):
        process = start(*words, env=env, before=before, module=module, stdout=out, stderr=err)
        status, used, peak = _ended(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in (out, err):
            stream.seek(0)
        return Ended(
            status=process.returncode,
            out=out.read(),
            err=err.read(),
            peak_bytes=peak,
            cpu_s=used.ru_utime + used.ru_stime,
            wall_s=time.monotonic() - begin,
        )


def _ended(process: int) -> tuple[int, Any, int]:
    """Wait for a process: its status, what it used, and its own peak of memory.

    The peak in what it used begins with that of the tests; Linux's count is looked at meanwhile.
    """
    peak = 0
    while True:
        ended, status, used = os.wait4(process, os.WNOHANG)
        if ended:
            return status, used, peak
        peak = max(peak, counted_peak_bytes(process))
        time.sleep(0.01)


def is_killed_at(
    wanted: Mapping[str, str],
    *words: str | Path,
    delay_s: float = 0.0,
    env: Mapping[str, str] | None = None,
) -> bool:
    """Run and kill it `delay_s` after an event with these entries; False when it ended before."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start(*words, "--json", env=env, **streams) as process:
        for line in process.stdout or ():
            if wanted.items() <= json.loads(line).items():
                break
        time.sleep(delay_s)
        is_running = process.poll() is None
        process.kill()
    return is_running


def upscale(source: Path, output: Path, *words: str) -> Ended:
    """Make `output` and insist on success."""
    ended = run("upscale", source, "-o", output, *words)
    assert ended.status == 0, ended.err
    return ended


def ffmpeg(*words: str | Path) -> bytes:
    """Standard output of FFmpeg's own program."""
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, words)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def make_film(path: Path, size: str, seconds: float, *, sound: bool = False) -> Path:
    """A moving test picture at 25 frames/s in H.264."""
    sine = ("-f", "lavfi", "-i", f"sine=440:sample_rate=48000:duration={seconds}", "-c:a", "aac")
    ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25:duration={seconds}"),
        *(sine if sound else ()),
        *("-c:v", "libx264", "-preset", "fast", path),
    )
    return path


def ffprobe(path: Path, *words: str) -> dict[str, Any]:
    """ffprobe's JSON output."""
    done = subprocess.run(
        ["ffprobe", "-v", "error", "-of", "json", *words, str(path)],
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def film_stream(path: Path) -> dict[str, Any]:
    """ffprobe's description of the first video stream, frames counted by decoding."""
    found = ffprobe(path, "-select_streams", "v:0", "-count_frames", "-show_streams")
    stream: dict[str, Any] = found["streams"][0]
    return stream


def frame_times(path: Path) -> list[Fraction]:
    """Exact time of every decoded frame, s, from ffprobe."""
    base = Fraction(film_stream(path)["time_base"])
    found = ffprobe(
        path, "-select_streams", "v:0", "-show_entries", "frame=pts,best_effort_timestamp"
    )
    return [
        int(frame.get("pts", frame.get("best_effort_timestamp"))) * base
        for frame in found["frames"]
    ]


def tags_of(path: Path) -> dict[str, str]:
    """Colour tags that ffprobe sees; "unknown" ones are left out."""
    stream = film_stream(path)
    names = ("color_range", "color_space", "color_transfer", "color_primaries")
    return {n: stream[n] for n in names if stream.get(n, "unknown") != "unknown"}


def packet_hashes(path: Path, streams: str) -> list[str]:
    """MD5 of every packet's payload of some streams ("a:0", "s:1"), in file order."""
    found = ffprobe(path, "-select_streams", streams, "-show_packets", "-show_data_hash", "md5")
    return [packet["data_hash"] for packet in found["packets"]]


def frame_hashes(path: Path) -> list[str]:
    """MD5 of every decoded frame, by FFmpeg's own decoder."""
    text = ffmpeg("-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framemd5", "-")
    lines = text.decode().splitlines()
    return [line.split(",")[-1].strip() for line in lines if not line.startswith("#")]


def files_in(folder: Path) -> Sequence[str]:
    """Names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def compiled_folder() -> Path:
    """Folder of what g++ has made for the tests of this user: later processes and runs take it."""
    folder = Path(tempfile.gettempdir()) / f"upreel-compiled-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == os.getuid()
    return folder


def compiled(folder: Path, text: str, *options: str, parts: Sequence[Path] = ()) -> Path:
    """Shared library that g++ makes of a source, once in a folder.

    Args:
        folder: Folder of the library.
        text: The source, in C++20.
        options: Options of the compiler.
        parts: Files that it includes, and libraries that it is linked with.
    """
    program = Path(shutil.which("g++") or "g++").resolve()
    about = repr((text, options, str(program), program.stat().st_mtime_ns))
    digest = hashlib.sha256(about.encode())
    for part in parts:
        digest.update(part.read_bytes())
    file = folder / f"{digest.hexdigest()[:24]}.so"
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=folder) as private:  # others may make it, too
            source, made = Path(private) / "source.cpp", Path(private) / file.name
            source.write_text(text, "utf-8")
            libraries = [part for part in parts if part.suffix == ".so"]
            words = ["-std=c++20", "-fPIC", "-shared", "-w", source, *libraries, *options]
            subprocess.run(["g++", *map(str, words), "-o", str(made)], check=True)
            made.replace(file)
    return file
