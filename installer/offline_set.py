"""Makes the offline set, for machines without a network: the setup and an NVIDIA runtime.

    python -m installer.offline_set --setup release/upreel-1.2.3-setup.exe --runtime cu130 --out DIR

Downloads the wheels of the runtime by their pins in resources/runtime.toml into DIR/downloads, and
compiles offline_set.iss with Inno Setup: `upreel-1.2.3-offline-cu130.exe` and its `-1.bin` and so
on, each below 2 GiB. A second run resumes the download. Needs Inno Setup 6.4 or newer on Windows.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import EngineError
from engine.delivery.runtimes import RuntimeStore
from engine.files.transfer import Listener
from engine.runtimes.catalogue import load
from installer import project
from installer.project import ROOT, PackagingError

SCRIPT = ROOT / "installer" / "offline_set.iss"
CATALOGUE = ROOT / "resources" / "runtime.toml"
_INNO_SETUP = ("iscc", "C:/Program Files (x86)/Inno Setup 6/ISCC.exe", "Inno Setup 6.4 or newer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the set; the exit status."""
    parser = argparse.ArgumentParser(description="Make the set for machines without a network.")
    parser.add_argument("--setup", type=Path, required=True, metavar="SETUP.exe")
    parser.add_argument("--runtime", required=True, metavar="ID", help="as in runtime.toml: cu130")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        match = re.fullmatch(r"upreel-([\d.]+)-setup\.exe", args.setup.name)
        if match is None or not args.setup.is_file():
            raise PackagingError(f"{args.setup} is no setup of Upreel")
        compiler = project.find_tool(*_INNO_SETUP)
        args.out.mkdir(parents=True, exist_ok=True)
        wheels = download(args.catalogue, args.runtime, args.out.resolve() / "downloads")
        given = defines(match[1], args.setup.resolve(), args.runtime, wheels)
        project.run_tool([compiler, "/Qp", *given, f"/O{args.out.resolve()}", str(SCRIPT)])
    except (PackagingError, EngineError, OSError, subprocess.TimeoutExpired) as err:
        print(f"no offline set: {err}", file=sys.stderr)
        return 1
    for path in sorted(args.out.glob("upreel-*")):
        print(f"{path.stat().st_size:>13,}  {path.name}")
    return 0


def download(catalogue: Path, runtime: str, folder: Path) -> list[Path]:
    """The wheels of a runtime, verified by their SHA-256.

    Raises:
        EngineError: The catalogue cannot be read, the runtime is unknown, or the download failed.
    """
    os.environ["UPREEL_DATA"] = str(folder)
    store = RuntimeStore(load(catalogue))
    return list(store.download(runtime, Listener()))


def defines(version: str, setup: Path, runtime: str, wheels: Sequence[Path]) -> list[str]:
    """Definitions of offline_set.iss.

    Raises:
        PackagingError: The runtime has several wheels; the script takes one.
    """
    if len(wheels) != 1:
        raise PackagingError(f"{runtime} is made of {len(wheels)} wheels, the script takes one")
    given = {"Version": version, "Setup": setup, "Runtime": runtime, "Wheel": wheels[0]}
    return [f"/D{name}={value}" for name, value in given.items()]


if __name__ == "__main__":
    sys.exit(main())
