"""Tries a published wheel of torch as a runtime of a packed program: installed, tried, used.

    python -m tests.trials.packaging.check_torch --windows-paths wine dist/upreel/upreel-cli.exe
    python -m tests.trials.packaging.check_torch --wheel FILE dist/upreel/upreel-cli

Without a FILE, pip downloads the wheel for the CPU and Windows; its SHA-256 has to be in
installer/windows.lock. The program gets data folders of its own and a catalogue that pins this
wheel in place of those for NVIDIA GPUs. At the end the import of torch is timed, five times each in
turn: with bytecode from the installation, with files as Python itself writes them, and with none.
Prints a line for each step; the exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from statistics import median
from typing import Final

from engine.runtimes.catalogue import Runtime
from tests.helpers import runtimes
from tests.trials.packaging.check_runtime import Program, cached
from tests.trials.packaging.trial import ROOT, SAMPLE, TrialFailed, expect, run_step

_PYTHON: Final = "3.12"  # version of the packed Windows program
_TIMES: Final = 5
_MOST: Final = 1.2  # times as long as with bytecode as Python itself writes it
_MAGIC_BYTES, _HEADER_BYTES = 4, 16  # of a file of bytecode
_KINDS: Final = ("installation", "Python", "none")


def downloaded(folder: Path) -> Path:
    """The wheel of torch for the CPU and Windows that the lock names.

    Raises:
        TrialFailed: It cannot be downloaded, or its SHA-256 is not in the lock.
    """
    lock = (ROOT / "installer" / "windows.lock").read_text(encoding="utf-8")
    version = next(line.split()[0] for line in lock.splitlines() if line.startswith("torch=="))
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)),
        *("--platform", "win_amd64", "--python-version", _PYTHON, "--only-binary=:all:", version),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(not done.returncode, f"no wheel: {done.stderr[-1500:]}")
    (wheel,) = folder.glob("torch-*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    expect(f"--hash=sha256:{digest}" in lock, f"{wheel.name}: {digest} is not in the lock")
    return wheel


def pinned(wheel: Path) -> Runtime:
    """The entry of a catalogue that knows this wheel, with the version that its torch states."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("torch/version.py").decode("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("__version__"))
    version = line.partition("=")[2].strip(" '\"")
    return runtimes.runtime(wheel, id="cpu", title="torch for the CPU", torch=version, cuda="")


def check(program: Program, wheel: Path, torch: str) -> None:
    """Run all steps.

    Raises:
        TrialFailed: A step failed.
    """

    def install() -> None:
        program.run("import", program.path(wheel), output=f"uses torch {torch}")
        program.expect("here", "is installed and selected")
        program.expect_bytecode()

    def try_again() -> None:
        program.run("try", output=f"torch {torch} computes on the CPU")
        lines = json.loads(program.whole("doctor", "--json"))["lines"]
        (found,) = (line for line in lines if line["name"] == "runtime")
        expect(found["state"] == "ok" and torch in found["message"], f"doctor: {found}")

    def use() -> None:
        result = program.folder / "result.mkv"
        program.whole(
            *("upscale", program.path(SAMPLE), "-o", program.path(result), "--model", "lite")
        )
        compare = [sys.executable, "-m", "engine", "verify", str(SAMPLE), str(result)]
        done = subprocess.run(compare, cwd=ROOT, capture_output=True, text=True, check=False)
        expect(not done.returncode, f"The result differs:\n{done.stdout}{done.stderr}")

    run_step("the wheel is verified, unpacked, compiled, tried and selected", install)
    run_step("the next start uses it, and the self-test finds every file", try_again)
    run_step("a video with Lite, equal to its source", use)
    run_step("the import of torch, by its bytecode", lambda: _time_imports(program))


def _time_imports(program: Program) -> None:
    """Print medians of the import's seconds, and of CPU seconds of the process, by kind.

    Raises:
        TrialFailed: Bytecode of the installation takes longer than allowed.
    """
    folder = program.runtime
    kept = {kind: folder.parent.parent / f"runtime-{kind}" for kind in _KINDS}
    for kind in _KINDS[1:]:
        shutil.copytree(folder, kept[kind], copy_function=os.link)
        for module in kept[kind].rglob("*.py"):
            for path in cached(module):
                content = path.read_bytes()
                path.unlink()  # a link to that of the installation
                if kind == "Python":
                    path.write_bytes(_as_of_python(content, module))
    folder.rename(kept["installation"])
    times = {kind: list[tuple[float, float]]() for kind in _KINDS}
    for _ in range(_TIMES):
        for kind in _KINDS:
            kept[kind].rename(folder)
            before = _cpu_seconds()
            found = json.loads(program.run("try", "--json"))
            times[kind].append((found["seconds"], _cpu_seconds() - before))
            folder.rename(kept[kind])
    kept["installation"].rename(folder)
    wall, cpu = ({kind: median(t[i] for t in times[kind]) for kind in _KINDS} for i in (0, 1))
    for kind in _KINDS:
        print(f"        bytecode of {kind}: {wall[kind]:.2f} s, process {cpu[kind]:.2f} s CPU")
    share = min(one["installation"] / one["Python"] for one in (wall, cpu))
    expect(share <= _MOST, f"{share:.2f} times as long as with bytecode of Python's own")


def _as_of_python(content: bytes, module: Path) -> bytes:
    """A file of bytecode with time and size of its source, which an import compares."""
    about = module.stat()
    header = struct.pack("<III", 0, int(about.st_mtime), about.st_size & 0xFFFFFFFF)
    return content[:_MAGIC_BYTES] + header + content[_HEADER_BYTES:]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--windows-paths", action="store_true", help="the program reads Z:\\tmp for /tmp"
    )
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="of torch for the CPU")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="command that starts it")
    args = parser.parse_args()
    if not args.program:
        parser.error("the program is missing")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        try:
            wheel = args.wheel.resolve() if args.wheel else downloaded(folder)
            about = pinned(wheel)
            known = runtimes.catalogue(about)
            program = Program(args.program, folder, known, windows_paths=args.windows_paths)
            program.environment["PYTHONDONTWRITEBYTECODE"] = "1"  # as a packed one, also a checkout
            check(program, wheel, about.torch)
        except TrialFailed as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
