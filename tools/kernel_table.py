"""Table of what convolution kernels take on each architecture, as the assembler reports it.

    python -m tools.kernel_table [ARCHITECTURE...]      all of them, or some

For the main kinds of layers of the VAEs: threads and shared memory of a block, bytes that it reads,
and registers of a thread with the bytes of them that are spilled. It needs NVRTC and no GPU; two
minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from engine.ops.kernels import build, nvrtc
from engine.ops.kernels.conv_tiles import PROMOTE, Program, Taps, tile_for

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LAYERS = {
    "3x3x3, 512": Taps(512, 512, 3, 3, 3),
    "3x3x3, 96 (Wan 2.1)": Taps(96, 96, 3, 3, 3),
    "3x3x3, 320 (Wan 2.2)": Taps(320, 320, 3, 3, 3),
    "phases, 512": Taps(512, 512, 3, 2, 2),
    "stride 2, 512": Taps(512, 512, 3, 3, 3, 2),
    "1x1x1, 512": Taps(512, 512, 1, 1, 1),
    "latents, 16 to 512": Taps(512, 16, 3, 3, 3),
    "last of an encoder, 512 to 32": Taps(32, 512, 3, 3, 3),
    "last of a decoder, 128 to 3": Taps(3, 128, 3, 3, 3),
}


def programs() -> Iterator[tuple[str, Program]]:
    """The kernels of all kinds of layers with each kind of sums, and their names."""
    for name, taps in LAYERS.items():
        store = 8 if taps.outer % 8 == 0 else 1
        usual = Program(taps=taps, tile=tile_for(taps.outer), store=store)
        yield f"{name}, promoted every {PROMOTE}", usual
        yield f"{name}, float32", replace(usual, promote=0)
    full = Program(taps=Taps(512, 512, 3, 3, 3), tile=tile_for(512), norm="group", group=16)
    yield "3x3x3, 512, with norm and statistics", full
    yield "3x3x3, 512, with norm and statistics, float32", replace(full, promote=0)


def usage(program: Program, arch: str) -> nvrtc.Usage:
    """Resources of a kernel on an architecture."""
    return nvrtc.find().usage(build.source("conv"), arch, program.options())["convolve"]


def main() -> None:
    """Print the table."""
    chosen = sys.argv[1:] or ARCHITECTURES
    print(
        "| layer, sums | threads | shared memory | bytes for 1,000 products |",
        " | ".join(chosen),
        "|",
    )
    print("|---" * (4 + len(chosen)) + "|")
    for name, program in programs():
        found = [usage(program, arch) for arch in chosen]
        cells = [f"{one.registers}, {one.spilled_bytes} spilled" for one in found]
        sizes = f"{program.tile.threads} | {program.shared_bytes:,}"
        sizes += f" | {1000 * program.bytes_a_product:.1f}"
        print(f"| {name} | {sizes} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
