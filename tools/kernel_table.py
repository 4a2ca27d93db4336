"""Table of what convolution kernels take on each architecture, as the assembler reports it.

    python -m tools.kernel_table > docs/benchmarks/kernels.md
    python -m tools.kernel_table sm_86 sm_120       some architectures alone

It needs NVRTC and no GPU; some minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from engine.ops.kernels import build, nvrtc
from engine.ops.kernels.conv_tiles import PROMOTE, Norm, Program, Taps, promote_for, tile_for

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LAYERS = {
    "3x3x3, 512": Taps(512, 512, 3, 3, 3),
    "3x3x3, 256": Taps(256, 256, 3, 3, 3),
    "3x3x3, 128": Taps(128, 128, 3, 3, 3),
    "3x3x3, 96 (Wan 2.1)": Taps(96, 96, 3, 3, 3),
    "3x3x3, 320 (Wan 2.2)": Taps(320, 320, 3, 3, 3),
    "phases, 512": Taps(512, 512, 3, 2, 2),
    "stride 2, 512": Taps(512, 512, 3, 3, 3, 2),
    "1x1x1, 512": Taps(512, 512, 1, 1, 1),
    "latents, 16 to 512": Taps(512, 16, 3, 3, 3),
    "last of an encoder, 512 to 32": Taps(32, 512, 3, 3, 3),
    "last of a decoder, 128 to 3": Taps(3, 128, 3, 3, 3),
    "last of a decoder, 96 to 3 (Wan 2.1)": Taps(3, 96, 3, 3, 3),
}


# What layers of VAEs do besides, by layer: norm of the input, channels of a group of the result.
BESIDES: dict[str, tuple[str, Norm, int]] = {
    "3x3x3, 512, GroupNorm, statistics": ("3x3x3, 512", "group", 16),
    "3x3x3, 256, GroupNorm, statistics": ("3x3x3, 256", "group", 8),
    "3x3x3, 128, GroupNorm, statistics": ("3x3x3, 128", "group", 4),
    "3x3x3, 96, RMS norm": ("3x3x3, 96 (Wan 2.1)", "rms", 0),
    "3x3x3, 320, RMS norm": ("3x3x3, 320 (Wan 2.2)", "rms", 0),
    "stride 2, 512, statistics": ("stride 2, 512", "none", 16),
    "latents, 16 to 512, statistics": ("latents, 16 to 512", "none", 16),
    "last of an encoder, GroupNorm": ("last of an encoder, 512 to 32", "group", 0),
    "last of a decoder, GroupNorm": ("last of a decoder, 128 to 3", "group", 0),
    "last of a decoder, RMS norm": ("last of a decoder, 96 to 3 (Wan 2.1)", "rms", 0),
}


_HEAD = """# Registers of the convolution kernel

This page is written by `python -m tools.kernel_table > docs/benchmarks/kernels.md`, here with NVRTC
{nvrtc}; it needs no GPU. Columns of architectures show registers of a thread, and bytes of them
that are spilled. Promoted sums are in float16 for {few} products on sm_75, for {usual} on others.
"""


def programs() -> Iterator[tuple[str, Program]]:
    """The kernels of all kinds of layers with each kind of sums, and their names."""
    plain = {name: (name, "none", 0) for name in LAYERS}
    for name, (layer, norm, group) in (plain | BESIDES).items():
        taps = LAYERS[layer]
        store = 8 if taps.outer % 8 == 0 else 1
        tile = tile_for(taps.outer)
        usual = Program(taps=taps, tile=tile, store=store, norm=norm, group=group)
        yield f"{name}, promoted", usual
        yield f"{name}, float32", replace(usual, promote=0)


def promote_of(arch: str) -> int:
    """Products that are added up in half precision on an architecture."""
    major, minor = divmod(int(arch.removeprefix("sm_")), 10)
    return promote_for((major, minor))


def usage(program: Program, arch: str) -> nvrtc.Usage:
    """Resources of a kernel on an architecture, with its promotion."""
    if program.promote:
        program = replace(program, promote=promote_of(arch))
    return nvrtc.find().usage(build.source("conv"), arch, program.options())["convolve"]


def main() -> None:
    """Print the table."""
    chosen = sys.argv[1:] or ARCHITECTURES
    if not sys.argv[1:]:
        version = ".".join(map(str, nvrtc.find().version))
        print(_HEAD.format(nvrtc=version, few=promote_of("sm_75"), usual=PROMOTE))
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
