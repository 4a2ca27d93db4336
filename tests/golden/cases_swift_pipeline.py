"""SwiftVR as a whole: files and streams, chunks, single operations, and what is stated of all.

Files come in as one, frame by frame and in uneven pieces. Half precision is compared with float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.geometry import Size
from engine.models.load import FORMS, Form
from engine.models.swiftvr.chunks import STEP, ChunkGrid, latents_of
from engine.models.swiftvr.dit.config import SWIFT_DIT, SwiftDitConfig, windows
from engine.models.swiftvr.dit.fast import layer_norm
from engine.models.swiftvr.dit.plain import (
    SwiftBlock,
    SwiftDit,
    axis_angles,
    latent_of,
    rotations,
    turned,
)
from engine.models.swiftvr.load import load_reae
from engine.models.swiftvr.vae.plain import PIXELS, Enlarge, MemoryBlock, Reae, SoftClamp
from engine.ops.attention.rope import sinusoids
from engine.ops.conv.causal_conv import Carry
from engine.ops.norm.cache_blocks import inverse_rms
from tests.golden import cases_swift_vae, files
from tests.golden.cases_dit import ROUNDING
from tests.golden.cases_swift_dit import case_of, dit_next_to
from tests.golden.cases_swift_vae import rms_of_range
from tests.golden.outcome import Outcome, compared, right
from tests.reference.swiftvr import (
    Models,
    finished_size,
    prepared,
    restored_file,
    restored_stream,
    to_bytes,
)

LIMITS: dict[Form, float] = {"plain": 5e-5, "fast": 2e-4}
HALF = 10 ** (-42 / 20)  # root mean square of bfloat16 in units of the range: 42 dB
STATED = 1e-3  # statistics are written down with three or four digits
_PIECES = ((), (1,), (3, 5))  # frames that are pushed at a time
_UNIT_LIMIT = 2e-5

Units = Mapping[str, Callable[[], Tensor]]


def models_next_to(path: Path, form: Form, dtype: torch.dtype = torch.float32) -> Models:
    """Both tiny models next to a file of cases."""
    vae = load_reae(files.weights_of(path, cases_swift_vae.KIND), form=form, dtype=dtype)
    return Models(vae, dit_next_to(path, form, dtype))


@torch.inference_mode()
def check_pipeline(path: Path) -> Iterator[Outcome]:
    """Latents before and after the transformer, and the video, of a whole file."""
    tensors, about = files.tensors(path), case_of(path)
    frames, grid = tensors["frames"].to(torch.uint8), ChunkGrid(about["clip_len"] // STEP)
    given = Size(*about["resolution"]) if about["resolution"] else None
    size = finished_size(frames, given, about["upscale"] or 1)
    for form in FORMS:
        loaded = models_next_to(path, form)
        for pieces in _PIECES:
            models = Models(loaded.vae, loaded.dit)
            found = {"video": restored_file(models, frames, size, grid, pieces)}
            found["lq"] = torch.cat(models.encoded, dim=2).transpose(1, 2)
            found["restored"] = torch.cat(models.restored, dim=2).transpose(1, 2)
            for name in ("lq", "restored", "video"):
                case = f"{path.name} {name} [{form}, pieces {pieces}]"
                yield compared(case, found[name], tensors[name], LIMITS[form])
    exact = _in_dtype(path, frames, (size, grid), torch.float64)
    found_half = _in_dtype(path, frames, (size, grid), torch.bfloat16)
    error = rms_of_range(found_half, exact)
    yield Outcome(case=f"{path.name} video [bfloat16]", error=error, limit=HALF)
    mean, deviation = exact.mean(), exact.std()
    for name, value in (("video_mean", mean), ("video_std", deviation)):
        error = abs(float(value) - about[name])
        yield Outcome(case=f"{path.name} {name}", error=error, limit=STATED)


def _in_dtype(
    path: Path, frames: Tensor, about: tuple[Size, ChunkGrid], dtype: torch.dtype
) -> Tensor:
    form: Form = "plain" if dtype == torch.float64 else "fast"
    return restored_file(models_next_to(path, form, dtype), frames, *about, dtype=dtype)


@torch.inference_mode()
def check_stream(path: Path) -> Iterator[Outcome]:
    """The other mode, in its own steps."""
    tensors, about = files.tensors(path), case_of(path)
    frames = tensors["frames"].to(torch.uint8)
    size = finished_size(frames, None, about["upscale"])
    for form in FORMS:
        models = models_next_to(path, form)
        video, counts = restored_stream(models, frames, size, about["steps"], about["overlap"])
        yield compared(f"{path.name} video [{form}]", video, tensors["video"], LIMITS[form])
        is_right = counts == about["frames_out_per_step_and_flush"]
        yield right(f"{path.name} frames of each step [{form}]", is_right)


def check_chunks(path: Path) -> Iterator[Outcome]:
    """Chunks of files of many lengths: kind, first frame, frames, latents of the last, trims."""
    for row in json.loads(path.read_text("utf-8")):
        frames, grid = row["frames"], ChunkGrid(row["clip_len"] // STEP)
        found = list(_chunks(frames, grid))
        yield right(f"{path.name} {frames} frames in {row['clip_len']}", found == row["chunks"])


def _chunks(frames: int, grid: ChunkGrid) -> Iterator[list[object]]:
    count = latents_of(frames)
    number = 0
    while (chunk := grid.ready(number, count, ended=True)) is not None:
        is_last = chunk.stop == count
        kind = "last" if is_last else "middle" if number else "first"
        first, length = STEP * chunk.start, STEP * (chunk.stop - chunk.start)
        length = frames - first if is_last else length
        before = chunk.stop - chunk.start - 1 if is_last else 0
        front = chunk.start - chunk.front + chunk.zeros
        assert front == (grid.length - before if is_last else 0)
        yield [kind, first, length, before, int(number == 0)]
        number += 1


def check_facts(path: Path) -> Iterator[Outcome]:
    """Shapes of all cases; a case whose file is missing is left out, one at least must be there."""
    about = json.loads(path.read_text("utf-8"))
    for case, facts in about["cases"].items():
        file = path.parent / f"{case}.safetensors"
        if not file.is_file():
            continue
        tensors = files.tensors(file)
        stated = {name: facts[name] for name in tensors if name in facts}
        shapes = {name: list(tensors[name].shape) for name in stated}
        yield right(f"{path.name} {case} shapes", shapes == stated)
        deviations = {"std": "z" if "encode" in case else "velocity", "raw_std": "raw"}
        for name, tensor in deviations.items():
            if name in facts:
                error = abs(float(tensors[tensor].std()) - facts[name])
                yield Outcome(case=f"{path.name} {case} {name}", error=error, limit=STATED)


# --- single operations


@torch.inference_mode()
def check_units(path: Path) -> Iterator[Outcome]:
    """Every result in a file of single operations."""
    tensors = files.tensors(path)
    vae = load_reae(files.weights_of(path, cases_swift_vae.KIND), form="plain")
    dit = dit_next_to(path, "plain")
    assert isinstance(vae, Reae)
    assert isinstance(dit, SwiftDit)
    units = {**_general(tensors), **_of_vae(tensors, vae), **_of_dit(tensors, dit)}
    given = {"x", "past", "t", "positions", "grid_offset", "grid", "size_pad", "weight", "bias"}
    for name, wanted in tensors.items():
        if name in units:
            limit = _UNIT_LIMIT * max(1.0, float(wanted.abs().max()))
            if name.startswith("sinusoid"):  # of angles that grow with the time step
                limit += float(tensors[f"{name.removesuffix('.y')}.t"].max()) * ROUNDING
            yield compared(f"{path.name} {name}", units[name](), wanted, limit)
        elif name.rpartition(".")[2] not in given:
            yield Outcome(case=f"{path.name} {name}", problem="unknown operation")


def _general(t: Mapping[str, Tensor]) -> Units:
    def prepare(name: str) -> Tensor:
        height, width = (int(side) for side in t[f"{name}.size_pad"][:2])
        return prepared(t[f"{name}.x"].to(torch.uint8), Size(width, height))[None]

    def rms() -> Tensor:
        norm = nn.RMSNorm(t["rms.weight"].shape, SWIFT_DIT.eps)
        norm.weight.copy_(t["rms.weight"])
        found: Tensor = norm(t["rms.x"])
        fast = t["rms.x"] * inverse_rms(t["rms.x"], SWIFT_DIT.eps) * t["rms.weight"]
        torch.testing.assert_close(fast, found)
        return found

    def normed(name: str) -> Tensor:
        x = t[f"{name}.x"]
        weight = t.get(f"{name}.weight", torch.ones(x.shape[-1]))
        return layer_norm(x, weight, t.get(f"{name}.bias", 0 * weight), SWIFT_DIT.eps)

    prepares = {name.removesuffix(".x") for name in t if name.startswith("prepare_")}
    prepares = {name for name in prepares if "." not in name}
    return {
        "unshuffle.y": lambda: F.pixel_unshuffle(t["unshuffle.x"], PIXELS),
        "shuffle.y": lambda: F.pixel_shuffle(t["shuffle.x"], PIXELS),
        "gelu.y": lambda: F.gelu(t["gelu.x"], approximate="tanh"),
        "rms.y": rms,
        "layer_norm.y": lambda: normed("layer_norm"),
        "layer_norm_affine.y": lambda: normed("layer_norm_affine"),
        "to_bytes.y": lambda: to_bytes(t["to_bytes.x"]).float(),
        **{f"{name}.y": lambda name=name: prepare(name) for name in prepares},
    }


def _of_vae(t: Mapping[str, Tensor], vae: Reae) -> Units:
    def along(layer: nn.Module, name: str) -> Tensor:
        """Frames [T, C, h, w] as a clip."""
        found: Tensor = layer(t[f"{name}.x"].movedim(0, 1)[None], Carry())
        return found[0].movedim(1, 0)

    def each(name: str) -> Tensor:
        """Frames [N, C, h, w] that are the next one of a clip each, after their past or none."""
        block, carry = vae.encoder[4], Carry()
        if f"{name}.past" in t:
            carry.keep(block, t[f"{name}.past"].unsqueeze(2))
            carry = carry.done().begin()
        found: Tensor = block(t[f"{name}.x"].unsqueeze(2), carry)
        return found.squeeze(2)

    def chain() -> Tensor:
        block = vae.encoder[4]
        assert isinstance(block, MemoryBlock)
        return block(t["memory_chain.x"].transpose(1, 2), Carry()).transpose(1, 2)

    layers: dict[str, nn.Module] = {
        "pool2": vae.encoder[2],
        "pool1": vae.encoder[12],
        "grow1": vae.decoder[7],
        "grow2": vae.decoder[13],
        "grow2b": vae.decoder[19],
        "down1": vae.encoder[3],
        "down3": vae.encoder[13],
        "nearest": Enlarge(),
    }
    return {
        "soft_clamp.y": lambda: SoftClamp()(t["soft_clamp.x"], Carry()),
        "memory_first.y": lambda: each("memory_first"),
        "memory.y": lambda: each("memory"),
        "memory_chain.y": chain,
        **{
            f"{name}.y": lambda name=name, one=one: along(one, name) for name, one in layers.items()
        },
    }


def _of_dit(t: Mapping[str, Tensor], dit: SwiftDit) -> Units:
    config = dit.config
    condition = dit.condition_embedder(dit.prompt)
    grid = _grid(t["self_attention.grid"])
    turns = rotations(config, grid).to(torch.complex64)

    def block(number: int) -> SwiftBlock:
        found = dit.blocks[number]
        assert isinstance(found, SwiftBlock)
        return found

    def tokens(name: str) -> Tensor:
        return t[f"{name}.x"][0].view(*grid, -1)

    def flat(found: Tensor) -> Tensor:
        return found.flatten(0, 2)[None]

    def rotated() -> Tensor:
        *sides, offset = (int(value) for value in t["rotate.grid_offset"])
        where = _grid(torch.tensor(sides))
        x = t["rotate.x"][0]
        by = rotations(config, where, offset).to(torch.complex64)
        return turned(x.view(*where, *x.shape[1:]), by).flatten(0, 2)[None]

    def waves(name: str, features: int) -> Tensor:
        times = t[f"{name}.t"].tolist()
        return torch.stack([sinusoids(one, features, cosines_first=True) for one in times])

    units: dict[str, Callable[[], Tensor]] = {
        "sinusoid.y": lambda: waves("sinusoid", config.time_features),
        "sinusoid256.y": lambda: waves("sinusoid256", SWIFT_DIT.time_features),
        "condition.temb": lambda: condition.time[None],
        "condition.modulation": lambda: condition.modulation[None],
        "condition.text": lambda: condition.text[None],
        "rotate.y": rotated,
        "ffn0.y": lambda: block(0).ffn(t["ffn0.x"]),
        "patch.y": lambda: dit.patch_embedding(t["patch.x"]).flatten(2).transpose(1, 2),
        "unpatch.y": lambda: latent_of(
            t["unpatch.x"][0].view(*_grid(t["unpatch.grid"]), -1), config
        ),
    }
    for name, sizes in (("rope", config), ("rope128", SWIFT_DIT)):
        for which, wave in (("cos", torch.cos), ("sin", torch.sin)):
            make = _waves(t[f"{name}.positions"], sizes, wave)
            units[f"{name}.{which}"] = make
    for number in (0, 1):
        layout = windows(config, grid, bool(number))
        one = block(number)
        units |= {
            f"self_attention{number}.y": lambda one=one, layout=layout, number=number: flat(
                one.attn1(tokens(f"self_attention{number}"), layout, turns)
            ),
            f"cross_attention{number}.y": lambda one=one, number=number: flat(
                one.attn2(t[f"cross_attention{number}.x"][None], condition.text)
            ),
            f"block{number}.y": lambda one=one, layout=layout, number=number: flat(
                one(tokens(f"block{number}"), condition, layout, turns)
            ),
        }
    return units


def _waves(
    positions: Tensor, config: SwiftDitConfig, wave: Callable[[Tensor], Tensor]
) -> Callable[[], Tensor]:
    def make() -> Tensor:
        parts = [axis_angles(positions.double(), part) for part in config.rope_parts]
        return wave(torch.cat(parts, dim=1)).repeat_interleave(2, 1).float()

    return make


def _grid(sides: Tensor) -> tuple[int, int, int]:
    time, rows, columns = (int(side) for side in sides)
    return time, rows, columns
