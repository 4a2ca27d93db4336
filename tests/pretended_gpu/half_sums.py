"""Accuracy of sums in half precision: VAEs of published sizes, and the golden films.

    python -m tests.pretended_gpu.half_sums [NAME...]     computes all of it, or some of `PARTS`

Figures are kept in half_sums.json beside this file, and docs/benchmarks/half-sums.md is written of
them. It needs g++ and takes an hour on two cores.

The program's code for a GPU runs on the pretended GPU, with values. Convolutions of our kernel are
added up in the order of its source and rounded where matrix units round
(`tests.helpers.kernel_sums`); those of cuDNN in float32, and rounded once.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.vae.load import load_vae
from engine.ops.kernels.conv_tiles import PROMOTE, PROMOTE_TURING
from engine.settings.optimisations import VaeSwitches
from tests.golden import files
from tests.golden.cases_pipeline import Film, film_of
from tests.helpers.kernel_sums import kernel_sums
from tests.helpers.vaes import ROWS, clip_of, latent_of
from tests.pretended_gpu.kernels import PretendedModule
from tests.pretended_gpu.machine import pretended_gpu
from tests.reference.seedvr2_film import Models, upscale_as_reference

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "half-sums.md"
KNOWN = Path(__file__).with_suffix(".json")
GOLDEN = Path(__file__).parents[1] / "golden" / "seedvr2"
SEEDS = range(5)
SIDE, FRAMES, LATENTS = 64, 5, 2  # px of a square frame, frames that are encoded, and decoded
TODAY = "cuDNN, float32"
USUAL, TURING = 16, 8  # products of an instruction, and of one of an RTX 20
SUMS: dict[str, tuple[int | None, int]] = {  # `Program.promote` and products of an instruction
    TODAY: (None, USUAL),  # cuDNN computes convolutions
    "kernel, float32": (0, USUAL),
    **{f"kernel, every {count}": (count, USUAL) for count in (32, 64, 96, 128)},
    **{f"kernel on RTX 20, every {count}": (count, TURING) for count in (32, 64, 96, 128)},
}
OURS = f"kernel, every {PROMOTE}", f"kernel on RTX 20, every {PROMOTE_TURING}"
FILMS = {  # type of the transformer, and products of an instruction of GPUs that have it so
    "films, transformer in bfloat16": (torch.bfloat16, USUAL),
    "films, transformer in float16": (torch.float16, TURING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Error of one result."""

    of: str  # VAE and direction, or one of FILMS
    sums: str  # see SUMS
    case: str  # seed of the weights, or name of the film
    relative: float  # RMS of the error, in units of that of the exact result
    of_range: float  # the same, in units of its largest value less its smallest


class KernelSums(PretendedModule):
    """A module whose convolutions are rounded as the kernel's."""

    promote: ClassVar[int] = 0  # in the place of the macro, so that one VAE serves for all
    depth: ClassVar[int] = USUAL

    def sums(self, clip: Tensor, weight: Tensor, strides: tuple[int, int], zeros: int) -> Tensor:
        """Convolution of a clip in the kernel's order; see the base."""
        about = {"chunk": self.macros["CHUNK"], "promote": self.promote, "depth": self.depth}
        return kernel_sums(clip, weight, strides=strides, zeros=zeros, **about).double()


@contextmanager
def gpu() -> Iterator[None]:
    """A pretended GPU whose convolutions are added up so."""
    modules: dict[str, Any] = {"modules": KernelSums, "total_bytes": 2**36}
    with torch.inference_mode(), pretended_gpu(**modules):
        yield


def each_sums(wanted: Iterable[str]) -> Iterator[tuple[VaeSwitches, Iterator[str]]]:
    """Switches of a VAE, and the wanted kinds of sums with which it then computes."""

    def kinds(*, kernel: bool) -> Iterator[str]:
        for name in wanted:
            promote, depth = SUMS[name]
            if (promote is not None) == kernel:
                KernelSums.promote, KernelSums.depth = promote or 0, depth
                yield name

    yield VaeSwitches(convolution="3d"), kinds(kernel=False)
    yield VaeSwitches(convolution="kernel"), kinds(kernel=True)


def figure(of: str, sums: str, case: object, found: Tensor, exact: Tensor) -> Figure:
    """Error of a result."""
    error = (found.double() - exact.double()).square().mean().sqrt()
    units = exact.double().square().mean().sqrt(), exact.max() - exact.min()
    relative, of_range = (float(f"{float(error / unit):.4g}") for unit in units)
    return Figure(of=of, sums=sums, case=str(case), relative=relative, of_range=of_range)


def vae_figures(name: str) -> Iterator[Figure]:
    """A VAE with random weights of half precision in both directions.

    They are compared with the plain variant in float32, whose own error is a thousandth of theirs.
    """
    row = ROWS[name]
    config, places = row.published, SIDE // row.published.spatial_factor
    for seed in SEEDS:
        about: dict[str, Any] = {"dtype": torch.float16, "seed": seed}
        plain = row.plain(config, **about)
        clip = clip_of(config, FRAMES, places, places, **about)
        latent = latent_of(config, LATENTS, places, places, **about)
        weights = plain.state_dict()
        plain.float()
        exact = {"encode": plain.encode(clip.float()), "decode": plain.decode(latent.float())}
        del plain
        wanted = [sums for sums, (_, depth) in SUMS.items() if depth == USUAL or sums == OURS[1]]
        found: dict[str, dict[str, Tensor]] = {}
        for switches, kinds in each_sums(wanted):
            with gpu():
                on_gpu: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
                vae = row.code.loader.fast(config, weights, switches=switches, **on_gpu)
                for sums in kinds:
                    encoded, decoded = vae.encode(clip).cpu(), vae.decode(latent).cpu()
                    found[sums] = {"encode": encoded, "decode": decoded}
                del vae
        for sums, results in found.items():
            for side, one in results.items():
                yield figure(f"{name}, {side}", sums, seed, one, exact[side])


class _OfHalf:
    """A VAE of half precision on the GPU, between frames and latents of float32 on the CPU."""

    def __init__(self, vae: Any) -> None:
        self.config, self._vae = vae.config, vae

    def encode(self, frames: Tensor) -> Tensor:
        """Unscaled latent of frames."""
        found: Tensor = self._vae.encode(frames.half())
        return found.cpu().float()

    def decode(self, latent: Tensor) -> Tensor:
        """Frames of an unscaled latent."""
        found: Tensor = self._vae.decode(latent.half())
        return found.cpu().float()


def film_figures(name: str, folder: Path = GOLDEN) -> Iterator[Figure]:
    """The golden films with VAE and transformer in half precision, against the golden frames."""
    dtype, width = FILMS[name]
    wanted = [sums for sums, (count, depth) in SUMS.items() if not count or depth == width]
    for path in sorted(folder.glob("pipeline_*.safetensors")):
        film = film_of(path)
        exact = film.tensors["assembled_thwc_before_postprocess"].movedim(-1, 1)
        found: dict[str, Tensor] = {}
        for switches, kinds in each_sums(wanted):
            with gpu():
                on_gpu: dict[str, Any] = {"form": "fast", "device": "cuda"}
                weights = files.weights_of(path, "vae"), files.weights_of(path, film.kind)
                vae = load_vae(weights[0], dtype=torch.float16, switches=switches, **on_gpu)
                vae.enable_slicing()
                dit = load_dit(weights[1], dtype=dtype, **on_gpu)
                for sums in kinds:
                    found[sums] = _made(film, _OfHalf(vae), partial(_predicted, dit, dtype))
        for sums, one in found.items():
            yield figure(name, sums, path.stem, one, exact)


def _made(film: Film, vae: Any, predict: Any) -> Tensor:
    """Frames of a film before their colours are corrected."""
    models = Models(vae=vae, dit=predict, text=film.tensors["input.text_embedding"])
    seen: dict[str, Tensor] = {}
    draw = film.draw()
    upscale_as_reference(film.frames, models, film.options, draw=draw, trace=seen.__setitem__)
    return seen["assembled"]


def _predicted(dit: Any, dtype: torch.dtype, latent: Tensor, text: Tensor, time: float) -> Tensor:
    """What a transformer on the GPU predicts, between latents of float32 on the CPU."""
    found: Tensor = dit(latent.to("cuda", dtype), text.to("cuda", dtype), time)
    return found.cpu().float()


PARTS = {
    **{name: partial(vae_figures, name) for name in ("seedvr2", "wan 2.1", "wan 2.2")},
    **{name: partial(film_figures, name) for name in FILMS},
}


def known() -> list[Figure]:
    """Figures of the last computation."""
    return [Figure(**one) for one in json.loads(KNOWN.read_text("utf-8"))]


def page(figures: Sequence[Figure]) -> str:
    """The page of documentation."""
    lines = [_HEAD.format(n=PROMOTE, few=PROMOTE_TURING)]
    for of in dict.fromkeys(one.of for one in figures):
        usual = {one.case: one for one in figures if (one.of, one.sums) == (of, TODAY)}
        for sums in SUMS:
            found = [one for one in figures if (one.of, one.sums) == (of, sums)]
            if found:
                worst = max(one.relative for one in found), max(one.of_range for one in found)
                levels = " | ".join(f"{-20 * math.log10(one):.1f} dB" for one in worst)
                today = {one.case: usual[one.case] for one in found}
                ratio = _rms(found) / _rms(today.values())
                most = max(one.relative / today[one.case].relative for one in found)
                lines.append(
                    f"| {of} | {sums} | {len(found)} | {levels} | {ratio:.2f} | {most:.2f} |"
                )
    return "\n".join(lines) + "\n"


def _rms(figures: Iterable[Figure]) -> float:
    squares = [one.relative**2 for one in figures]
    return math.sqrt(sum(squares) / len(squares))


_HEAD = """# Accuracy of sums in half precision

This page is written by `python -m tests.pretended_gpu.half_sums`; a test compares it with
`tests/pretended_gpu/half_sums.json`. **No GPU has computed it**: the program's code for a GPU runs
on the pretended GPU, and convolutions of Upreel's kernel are added up in the order of its source
and rounded where matrix units round, which a test compares with the source bit for bit. Sums of
cuDNN are taken as float32, rounded once.

VAEs have the published sizes and random weights (5 seeds, frames of 64x64); films are the
five golden ones, with a small VAE and transformer, compared with the golden frames. With
"every {n}", {n} products are added up in float16 before they are added to a float32 sum. Matrix
units round the sum after each 16 products, those of RTX 20 after each 8. The program adds up {n}
products, on RTX 20 {few}. Distances of the error are the smallest of all cases. The last two
columns are its ratio to the error with sums of cuDNN: root mean squares of all cases, and the
largest of one case.

In VAEs alone, promoted sums have 1.2 to 1.5 times the error, which stays at least 52 dB below the
frames. In a whole film with the published type of the transformer (bfloat16) they change nothing,
because the transformer's error is larger. RTX 20 lack bfloat16; their transformer in float16 is
more precise, so that more of the VAE's error is seen.

| of | sums | cases | below the RMS | PSNR | ratio | largest ratio |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Compute some parts, print and keep their figures, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*PARTS, []])
    figures = {(one.of, one.sums, one.case): one for one in known()}
    for name in parser.parse_args().names or PARTS:
        for one in PARTS[name]():
            sys.stdout.write(f"{one}\n")
            sys.stdout.flush()
            figures[one.of, one.sums, one.case] = one
            lines = ",\n".join(f" {json.dumps(asdict(each))}" for each in figures.values())
            KNOWN.write_text(f"[\n{lines}\n]\n", "utf-8")
    PAGE.write_text(page(list(figures.values())), "utf-8")


if __name__ == "__main__":
    main()
