"""Tries the published NVRTC for Windows under Wine: no GPU, no driver, no torch.

    pip download --platform win_amd64 --no-deps nvidia-cuda-nvrtc==13.0.88
    python -m tests.trials.packaging.check_nvrtc WHEEL --python DIR --prefix DIR

`python` and `prefix` are those of `tools.windows_build.build`. Every family of kernels is compiled
for the generations of GPUs that people have, from a folder with letters that no European code page
has. NVRTC without its builtins must fail first: else the trial would not notice that fault. Prints
a line for each step; the exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.trials.packaging.trial import ROOT, TrialFailed, expect
from tools.windows_build.wine import Wine, WineMissing

_ARCHITECTURES: Final = ("sm_75", "sm_86", "sm_89", "sm_120")
_LIMIT_S: Final = 900
_COMPILE: Final = """
import json, sys
from pathlib import Path
root, library, orders, out = sys.argv[1:]
sys.path.insert(0, root)
from engine.ops.kernels import nvrtc
if "unloaded" in out:
    nvrtc.builtins_beside = lambda path: []
found = {}
compiler = nvrtc.Nvrtc(Path(library))
for name, arch, source, options in json.loads(Path(orders).read_text("utf-8")):
    try:
        cubin = compiler.compile(source, (*nvrtc.options_for(arch), *options))
        found[f"{name} {arch}"] = len(cubin) if cubin.startswith(b"\\x7fELF") else "no cubin"
    except nvrtc.CompileFailed as err:
        found[f"{name} {arch}"] = str(err)
Path(out).write_text(json.dumps({"version": compiler.version, "found": found}), "utf-8")
"""


def orders() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Name, architecture, source and options of everything to compile."""
    import torch

    from engine.ops.kernels import build, conv
    from engine.ops.kernels.families import FAMILIES

    asked: list[tuple[str, tuple[str, ...]]] = []
    compiled_there = build.compiled

    def noted(device: torch.device, name: str, options: tuple[str, ...]) -> Any:
        asked.append((name, options))
        return compiled_there(device, name, options)

    with patch.object(build, "compiled", noted):
        for family in FAMILIES:
            dtype = torch.float16 if torch.float16 in family.dtypes else family.dtypes[0]
            vector = build.LOAD_BYTES // dtype.itemsize
            family.compile(build.VALUELESS, dtype, vector, family.usual(vector))
        expect(conv.working(build.VALUELESS), "the convolution is not compiled")
    return [
        (name, arch, build.source(name), options)
        for name, options in asked
        for arch in _ARCHITECTURES
    ]


def compiled(wine: Wine, python: Path, library: Path, work: list[Any], out: Path) -> dict[str, Any]:
    """Size of each cubin, or what the compiler says, by name and architecture.

    Raises:
        TrialFailed: The process fails.
    """
    script, text = out.with_suffix(".py"), out.with_suffix(".orders")
    script.write_text(_COMPILE, encoding="utf-8")
    text.write_text(json.dumps(work), encoding="utf-8")
    paths = map(wine.path, (ROOT, library, text, out))
    folders = {
        name: wine.path(out.parent / name.lower()) for name in ("UPREEL_DATA", "UPREEL_CACHE")
    }
    done = wine.run(
        python / "python.exe", wine.path(script), *paths, timeout=_LIMIT_S, environment=folders
    )
    expect(out.is_file(), f"status {done.returncode}\n{done.stdout}{done.stderr}"[-2000:])
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def check(wine: Wine, python: Path, wheel: Path, folder: Path) -> None:
    """Run all steps.

    Raises:
        TrialFailed: A step failed.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dll")]
        archive.extractall(folder, names)
    library = next(path for path in folder.rglob("nvrtc64_*.dll") if ".alt." not in path.name)
    work = orders()
    found = compiled(wine, python, library, work[:1], folder / "unloaded.json")
    (text,) = found["found"].values()
    expect("builtins" in str(text), f"without its builtins NVRTC says {text!r}")
    _log(f"NVRTC {found['version']} in {library.parent.name}: fails without its builtins")
    found = compiled(wine, python, library, work, folder / "loaded.json")["found"]
    failed = {name: result for name, result in found.items() if not isinstance(result, int)}
    expect(not failed, json.dumps(failed, indent=1))
    _log(f"{len(found)} of {len(work)} compiled: {json.dumps(found)}")


def _log(step: str) -> None:
    print(f"{time.monotonic() - _BEGIN:5.1f} s  {step}", flush=True)


_BEGIN = time.monotonic()


def main() -> int:
    """Parse the arguments and run the trial; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("--python", type=Path, required=True, metavar="DIR")
    parser.add_argument("--prefix", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve() / "Kerne für 库"
        folder.mkdir()
        try:
            wine = Wine(args.prefix)
            check(wine, args.python.resolve(), args.wheel, folder)
        except (TrialFailed, WineMissing) as err:
            print(f"FAILED: {err}", file=sys.stderr)
            return 1
    _log("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
