"""Tries download, import, damage and removal of an NVIDIA runtime with a whole program.

    python -m tests.trials.packaging.check_runtime dist/upreel/upreel-cli
    python -m tests.trials.packaging.check_runtime python -m engine
    python -m tests.trials.packaging.check_runtime --windows-paths wine dist/upreel/upreel-cli.exe

A stub wheel of a few kilobytes comes from a server on this machine that cuts connections, sends
wrong bytes and is slow. The program gets data folders of its own. Prints a line for each step; the
exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core import paths
from engine.runtimes import bytecode
from engine.runtimes.catalogue import RuntimeCatalogue
from tests.helpers import runtimes
from tests.helpers.servers import Fault, FaultyServer, faulty_server
from tests.trials.packaging.packed_program import LIMIT_S, PackedProgram, RunningCommand
from tests.trials.packaging.trial import SAMPLE, TrialFailed, expect

_CUT = 700  # bytes


class Program(PackedProgram):
    """The program under test; its commands are those of `runtime`."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        known: RuntimeCatalogue,
        *,
        windows_paths: bool,
    ) -> None:
        resources = folder / "resources"
        super().__init__(command, folder, windows_paths=windows_paths, resources=resources)
        shutil.copytree(paths.resources(), resources)
        (resources / "runtime.toml").write_text(runtimes.as_toml(known), "utf-8")
        if "-m" in command:  # a checkout uses an installed runtime only on request
            self.environment["UPREEL_RUNTIME"] = "installed"

    def start(self, *arguments: str) -> RunningCommand:
        """Start a subcommand of `runtime`."""
        return super().start("runtime", *arguments)

    def whole(self, *arguments: str) -> str:
        """Run any command to its end; its stdout.

        Raises:
            TrialFailed: It ended with another status than 0.
        """
        return self.wait(super().start(*arguments))

    def upscale(self) -> None:
        """Upscale a second of the sample: needs a complete torch.

        Raises:
            TrialFailed: It fails.
        """
        source = self.folder / "resources" / "samples" / SAMPLE.name
        options = ("-o", self.path(self.folder / "result.mkv"), "--stop", "1", "--overwrite")
        self.whole("upscale", self.path(source), "--model", "lite", *options)

    @property
    def runtime(self) -> Path:
        """Folder of the installed runtime."""
        return next(self.data.glob("runtimes/*/runtime.json")).parent

    def expect_bytecode(self) -> None:
        """Check that every module of the runtime has bytecode, but what this Python refused.

        Raises:
            TrialFailed: One has none.
        """
        modules = list(self.runtime.rglob("*.py"))
        refused = self.runtime / bytecode.REFUSED
        names = json.loads(refused.read_text("utf-8"))["modules"] if refused.is_file() else []
        lacking = {str(one.relative_to(self.runtime)) for one in modules if not cached(one)}
        lacking -= set(names)
        expect(len(modules) > 2 and not lacking, f"of {len(modules)} modules, {lacking} have none")

    def state(self) -> tuple[str, str]:
        """State of the runtime, and the reason for the torch in use."""
        listed = json.loads(self.run("list", "--json"))
        return listed["runtimes"][0]["state"], listed["used"]

    def expect(self, state: str, used: str) -> None:
        """Compare both with what is expected.

        Raises:
            TrialFailed: One of them differs.
        """
        found = self.state()
        is_expected = found[0] == state and used in found[1]
        expect(is_expected, f"{found} instead of {state!r} and {used!r}")


def check(program: Program, server: FaultyServer, wheel: Path) -> None:
    """Run all steps.

    Raises:
        TrialFailed: A step failed.
    """
    good = server.files[f"/{runtimes.PLACE}"]
    own = program.path(wheel)
    _log("no runtime is installed")
    program.expect("missing", "No NVIDIA runtime is selected")
    _log("a connection that is cut repeatedly: received bytes stay")
    server.always = Fault(cut_after=_CUT)
    server.faults = [Fault(cut_after=_CUT), *[Fault(cut_after=0)] * 2]
    child = program.start("install", "cu999")
    _wait(lambda: len(server.asked) >= 2)
    child.kill()
    program.expect("partial", "No NVIDIA runtime is selected")
    server.always, server.faults = Fault(), []
    _log("a wrong byte in the download: refused, nothing is unpacked")
    server.files[f"/{runtimes.PLACE}"] = good[:-30] + bytes([good[-30] ^ 1]) + good[-29:]
    program.run("install", "cu999", status=1, output="hash-mismatch")
    program.expect("missing", "No NVIDIA runtime is selected")
    server.files[f"/{runtimes.PLACE}"] = good
    _log("two installations at once: the second is refused as busy")
    server.always = Fault(drip=1)
    first = program.start("install", "cu999")
    _wait(lambda: program.state()[0] == "busy")
    program.run("install", "cu999", status=1, output="runtime-busy")
    server.always = Fault()
    server.hurry.set()
    program.wait(first, output=f"uses torch {runtimes.VERSION}")
    _log("the next start uses the runtime")
    program.expect("here", "is installed and selected")
    program.run("try", output=f"torch {runtimes.VERSION}")
    _log("every module has bytecode")
    program.expect_bytecode()
    _log("a runtime in use cannot be removed")
    program.run("remove", "cu999", status=1, output="runtime-busy")
    _log("a damaged library: the program uses its own torch, and repairs it")
    (program.runtime / "torch/lib/c10.dll").write_bytes(b"cut")
    program.expect("broken", "c10.dll is missing or damaged")
    program.upscale()
    program.run("install", "cu999")
    program.expect("here", "is installed and selected")
    _log("back to its own torch, then removed")
    program.run("use", "bundled")
    program.run("remove", "cu999")
    program.expect("missing", "No NVIDIA runtime is selected")
    _log("import of the wheel file without the server; another file is refused")
    server.always = Fault(status=500)
    other = wheel.with_name("torch-0-py3-none-any.whl")
    other.write_bytes(good + b"1")
    program.run("import", program.path(other), status=1, output="hash-mismatch")
    program.run("import", own, output=f"uses torch {runtimes.VERSION}")
    program.expect("here", "is installed and selected")
    _log("a torch that Windows refuses is not broken: its own torch works, then it is tried again")
    module = program.runtime / "torch/__init__.py"
    whole = module.read_text(encoding="utf-8")
    _replace(module, "raise OSError('[WinError 4551] An Application Control policy ...')")
    program.run("try", status=1, output="runtime-blocked")
    program.expect("blocked", "blocks its libraries")
    program.upscale()
    program.run("use", "cu999", status=1, output="runtime-blocked")
    _replace(module, whole)
    program.run("use", "cu999")
    program.expect("here", "is installed and selected")
    _log("a torch that ends the process is not used again")
    _replace(module, "import os; os._exit(3)")
    for _ in range(2):
        program.run("try", status=3)
    program.expect("broken", "crashed twice")


def cached(module: Path) -> list[Path]:
    """Files with bytecode of a module."""
    return list(module.parent.glob(f"__pycache__/{module.stem}.*.pyc"))


def _replace(module: Path, text: str) -> None:
    """Replace a module by one of the same length, and its bytecode, which imports do not compare.

    No installation does that: it replaces the whole folder.
    """
    module.write_text(text.ljust(module.stat().st_size), encoding="utf-8")
    for path in cached(module):
        path.unlink()


def _log(step: str) -> None:
    print(f"{time.monotonic() - _BEGIN:5.1f} s  {step}", flush=True)


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TrialFailed("the program did not reach the expected state")
        time.sleep(0.05)


_BEGIN = time.monotonic()


def main() -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--windows-paths", action="store_true", help="the program reads Z:\\tmp for /tmp"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="command that starts it")
    args = parser.parse_args()
    if not args.program:
        parser.error("the program is missing")
    with tempfile.TemporaryDirectory() as temporary, faulty_server() as server:
        folder = Path(temporary).resolve()
        wheel = runtimes.wheel(folder / "published")
        server.files[f"/{runtimes.PLACE}"] = wheel.read_bytes()
        known = runtimes.catalogue(runtimes.runtime(wheel), index=server.url)
        program = Program(args.program, folder, known, windows_paths=args.windows_paths)
        try:
            check(program, server, wheel)
        except TrialFailed as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    _log("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
