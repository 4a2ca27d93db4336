"""Make the set for machines without a network: the setup and an NVIDIA runtime.

    python -m installer.offline_set --setup release/upreel-1.2.3-setup.exe --runtime cu130 --out DIR

Fetches the wheels of the runtime by their pins in resources/runtime.toml, and has Inno Setup make
`upreel-1.2.3-offline-cu130.exe` of offline_set.iss with its `-1.bin` and so on, each below 2 GiB.
Needs Inno Setup 6.4 or newer on Windows. `fetched` in DIR is left over; a second run goes on there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

from engine.core.errors import EngineError
from engine.downloads.transfer import Listener
from engine.runtimes.catalogue import load
from engine.runtimes.store import RuntimeStore

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "installer" / "offline_set.iss"
CATALOGUE = ROOT / "resources" / "runtime.toml"
_LIMIT_S = 3600


class SetError(Exception):
    """The set cannot be made."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make it; the exit status."""
    parser = argparse.ArgumentParser(description="Make the set for machines without a network.")
    parser.add_argument("--setup", type=Path, required=True, metavar="SETUP.exe")
    parser.add_argument("--runtime", required=True, metavar="ID", help="as in runtime.toml: cu130")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        match = re.fullmatch(r"upreel-([\d.]+)-setup\.exe", args.setup.name)
        if match is None or not args.setup.is_file():
            raise SetError(f"{args.setup} is no setup of Upreel")
        compiler = find_compiler()
        args.out.mkdir(parents=True, exist_ok=True)
        wheels = fetch(args.catalogue, args.runtime, args.out.resolve() / "fetched")
        pack(compiler, defines(match[1], args.setup.resolve(), args.runtime, wheels), args.out)
    except (SetError, EngineError, OSError, subprocess.TimeoutExpired) as err:
        print(f"no offline set: {err}", file=sys.stderr)
        return 1
    for path in sorted(args.out.glob("upreel-*")):
        print(f"{path.stat().st_size:>13,}  {path.name}")
    return 0


def find_compiler() -> str:
    """Inno Setup's compiler: on the path, or where its own setup puts it.

    Raises:
        SetError: It is not there.
    """
    usual = PureWindowsPath("C:/Program Files (x86)/Inno Setup 6/ISCC.exe")
    found = shutil.which("iscc") or (str(usual) if Path(usual).is_file() else None)
    if found is None:
        raise SetError("Inno Setup's ISCC is not there; install Inno Setup 6.4 or newer")
    return found


def fetch(catalogue: Path, runtime: str, folder: Path) -> list[Path]:
    """The wheels of a runtime, checked by their SHA-256.

    Raises:
        EngineError: There is none of that name, it is not pinned, or it does not come.
    """
    os.environ["UPREEL_DATA"] = str(folder)
    return list(RuntimeStore(load(catalogue)).download(runtime, Listener()))


def defines(version: str, setup: Path, runtime: str, wheels: Sequence[Path]) -> list[str]:
    """What offline_set.iss is told.

    Raises:
        SetError: The runtime is of several wheels; the script takes one.
    """
    if len(wheels) != 1:
        raise SetError(f"{runtime} is made of {len(wheels)} wheels, the script takes one")
    given = {"Version": version, "Setup": setup, "Runtime": runtime, "Wheel": wheels[0]}
    return [f"/D{name}={value}" for name, value in given.items()]


def pack(compiler: str, defined: Sequence[str], out: Path) -> None:
    """Run the compiler.

    Raises:
        SetError: It failed.
    """
    command = [compiler, "/Qp", *defined, f"/O{out.resolve()}", str(SCRIPT)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        raise SetError(f"ISCC: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
