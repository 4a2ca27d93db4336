"""Give a prefix of Wine the two parts of Windows 10 that Wine 8 lacks and the program needs.

    python -m installer.wine_shims PREFIX

For tests only; on Windows these libraries are part of the system, and nothing of it is shipped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from installer.windows_python import CannotAssemble, compile_c
from installer.wine import Wine, WineMissing

ENVIRONMENT: Final = {
    # Intel's OpenMP in torch asks for the order of the cores, which Wine 8 does not tell.
    "KMP_AFFINITY": "disabled",
    "KMP_TOPOLOGY_METHOD": "flat",
}
LIBRARIES: Final = ("icuuc", "bcryptprimitives")


def install(wine: Wine) -> None:
    """Compile the libraries into `system32`, unless they are there.

    Raises:
        CannotAssemble: They do not compile.
    """
    system = wine.drive / "windows" / "system32"
    for name in LIBRARIES:
        if not (system / f"{name}.dll").is_file():
            target = system / f"{name}.dll"
            compile_c(f"{name}.c", target, "-shared", "-ladvapi32")


def main() -> int:
    """Make the prefix if need be and put the libraries in; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path)
    args = parser.parse_args()
    try:
        install(Wine(args.prefix))
    except (CannotAssemble, WineMissing) as err:
        print(f"FAILED: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
