"""Tries a community model with a packed program, which has no library for it.

    python -m tests.trials.packaging.check_community dist/upreel/upreel-cli

The library is made of the installed one, and pinned in a copy of the resources. Prints a line for
each step; the exit status is 0 if all passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from engine.core import paths
from engine.files.catalogue import PublishedFile, catalogue
from tests.helpers.community import write_network, write_wheel
from tests.trials.packaging.trial import ROOT, SAMPLE, TrialFailed, expect, run_step

_LIMIT_S = 300


def write_resources(folder: Path, library: PublishedFile) -> None:
    """A copy of the resources that pins another file for the library."""
    published = catalogue().file(library.id)
    shutil.copytree(paths.resources(), folder)
    pins = folder / "catalogue.toml"
    text = pins.read_text(encoding="utf-8").replace(published.sha256, library.sha256)
    pins.write_text(text.replace(f"{published.bytes:_}", str(library.bytes)), encoding="utf-8")


def run(command: Sequence[str], *arguments: object, status: int = 0, output: str = "") -> None:
    """Run the program, in the folders of its environment.

    Raises:
        TrialFailed: It ended with another status, or without this output.
    """
    line = [*command, *map(str, arguments)]
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=_LIMIT_S
    )
    said = done.stdout + done.stderr
    expect(done.returncode == status, f"{line}: status {done.returncode}, not {status}\n{said}")
    expect(output in said, f"{line}: no {output!r} in the output\n{said}")


def check(command: Sequence[str], folder: Path) -> None:
    """Run all steps.

    Raises:
        TrialFailed: A step failed.
    """
    library = write_wheel(folder)
    write_resources(folder / "resources", library)
    wheel, model = folder / library.filename, write_network(folder / "4x_film.pth", upscale=4)
    damaged = folder / "damaged" / wheel.name
    damaged.parent.mkdir()
    damaged.write_bytes(wheel.read_bytes()[:-1])
    for name in ("data", "cache", "resources", "models"):
        os.environ[f"UPREEL_{name.upper()}"] = str(folder / name)
    imported = partial(run, command, "models", "import")
    result = ("-o", folder / "out.mkv", "--stop", "0.2")
    upscaled = partial(run, command, "upscale", SAMPLE, "--model", model, *result)
    run_step(
        "without its library a model is refused, and the error names the wheel",
        lambda: imported(model, status=1, output=wheel.name),
    )
    run_step(
        "a wheel that was cut short is refused",
        lambda: imported(damaged, status=1, output="hash-mismatch"),
    )
    run_step("the published wheel is taken", lambda: imported(wheel))
    run_step("the model is recognised", lambda: imported(model, output="RealESRGAN Compact, 4x"))
    run_step("and makes a film", upscaled)


def main() -> int:
    """Run the trial; the exit status."""
    if len(sys.argv) < 2:
        sys.stderr.write("usage: python -m tests.trials.packaging.check_community PROGRAM\n")
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        try:
            check(sys.argv[1:], Path(temporary).resolve())
        except TrialFailed as err:
            sys.stderr.write(f"FAILED: {err}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
