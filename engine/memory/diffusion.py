"""SeedVR2 jobs: files, sizes, clips and tiles, the largest that fit; what they need and take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from engine.cost import Cost
from engine.geometry import Size
from engine.media import VideoInfo
from engine.memory.budget import Budget
from engine.models.seedvr2 import cost, dit_cost, files, flops
from engine.models.seedvr2.config import VaeConfig
from engine.models.seedvr2.cost_ledger import ITEM
from engine.models.seedvr2.dit_config import DitConfig
from engine.models.seedvr2.frame_layout import layout_of, reference_layout
from engine.models.seedvr2.split_grid import split_tiles
from engine.optimisations import VaeSwitches
from engine.plan import DiffusionPlan, ModelPlan, PicturePlan
from engine.settings.schema import JobSettings
from engine.tiling.grid import tile_grid

BLEND_PX = 32  # of the ramp between decoded tiles
ENCODE_OVERLAP_PX = 64
WARM_UP = 6  # latents, where the carries of tiles do not fit into main memory
PINNED_SHARE = 0.4  # of main memory: with more of it pinned, systems begin to fail elsewhere
_CLIPS = {"cuda": (21, 17, 13, 9, 6, 4, 3, 2, 1), "cpu": (6, 4, 3, 2, 1)}  # latents
_EDGES = (3072, 2048, 1536, 1280, 1024, 896, 768, 640, 512, 448, 384, 320, 256)  # px
_SLICES = 8  # that a tile is encoded for at a time
_STEP = 4  # frames of a latent
_STEADY = 9  # frames: from the third slice on memory does not grow


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a SeedVR2 job.

    Attributes:
        weights: On the device, for as long as the job runs.
        encode: Beside them, on the device, while the encoder works.
        transformer: The same of the transformer.
        decode: The same of the decoder.
        host: In main memory, device or not: carries that wait, canvases, frames on their way.
    """

    weights: int
    encode: int
    transformer: int
    decode: int
    host: int

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return self.weights + max(self.encode, self.transformer, self.decode)


def choose(
    video: VideoInfo, picture: PicturePlan, settings: JobSettings, where: ModelPlan
) -> ModelPlan:
    """A SeedVR2 job at its largest.

    Args:
        video: Of the source.
        picture: Of the result.
        settings: What the user wants.
        where: Model, device, number format and threads.

    Raises:
        WeightsError: A file is not there, or is none of SeedVR2's.
    """
    found = files.files_of(where.model, settings)
    turned = (video.rotation - picture.rotation) % 360 in (90, 270)
    size = picture.size.transposed() if turned else picture.size
    layout = reference_layout(size) if settings.padding == "black" else layout_of(size)
    clip = _clip_latents(settings, where.device)
    whole = _in_frames(clip, settings) if settings.join != "latents" else (clip, _shared(clip))
    diffusion = DiffusionPlan(
        dit=found.dit,
        vae=found.vae,
        text=found.text,
        size=size,
        padded=layout.padded,
        reflected=layout.reflected,
        clip=whole[0],
        shared=whole[1],
        join=settings.join,  # type: ignore[arg-type]  # one of the setting's choices
        encode_tile=_edge(settings.encode_tile, layout.padded),
        decode_tile=_edge(settings.decode_tile, layout.padded),
        warm_up=0 if where.device == "cuda" else WARM_UP,  # there is one memory
        vae_dtype=_vae_dtype(settings, where.device),
        blocks_on_device=None if settings.blocks_on_device < 0 else settings.blocks_on_device,
        attention=settings.attention,
        products=settings.products,
        strength=settings.strength,
        seed=settings.seed,
        noise_order=settings.noise_order,
        input_noise=settings.input_noise,
        latent_noise=settings.latent_noise,
        colour=settings.colour,
        shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
    )
    return replace(where, clip_frames=_STEP, tile=size, diffusion=diffusion)


def needs(model: ModelPlan) -> Needs:
    """What a job takes; from numbers alone."""
    plan = model.diffusion
    if plan is None:
        raise ValueError(f"{model.model} is no diffusion model")
    dit, vae = files.configs(model.model, plan)
    encode, encode_host = _encode(vae, plan, model)
    decode, decode_host = _decode(vae, plan, model)
    frames_under_way = 3 * _STEP * plan.padded.pixels * 12
    sources = _latents(plan) * _STEP * plan.size.pixels * 2
    return Needs(
        weights=_vae_weights(vae, plan) + _dit_weights(dit, plan, model),
        encode=encode + frames_under_way,
        transformer=_forward(dit, plan, model),
        decode=decode + frames_under_way,
        host=encode_host + decode_host + sources + plan.pin_bytes,
    )


def smaller(model: ModelPlan) -> ModelPlan | None:
    """The same with less on the device: whatever needs most becomes smaller; None at the floor."""
    plan = model.diffusion
    if plan is None:
        return None
    now = needs(model)
    order = sorted(
        ((now.decode, _smaller_decode), (now.encode, _smaller_encode), (now.transformer, _shorter)),
        key=lambda pair: -pair[0],
    )
    steps = [step for _, step in order]
    # the stages take turns: only less of the largest one helps, or less beside all of them
    layers = files.configs(model.model, plan)[0].layers
    fewer = partial(_fewer_blocks, layers=layers)
    steps.insert(0 if now.weights > order[0][0] else 1, fewer)
    for step in steps:
        less = step(plan)
        if less is not None:
            return replace(model, diffusion=less)
    return None


def less_on_host(model: ModelPlan) -> ModelPlan | None:
    """The same with less in main memory; None at the floor."""
    plan = model.diffusion
    if plan is None:
        return None
    if (plan.decode_tile or plan.encode_tile) and not plan.warm_up:
        return replace(model, diffusion=replace(plan, warm_up=WARM_UP))
    shorter = _shorter(plan)
    return None if shorter is None else replace(model, diffusion=shorter)


def wider(model: ModelPlan) -> ModelPlan | None:
    """The same with a VAE whose numbers do not overflow; None where they are as wide as can be."""
    plan = model.diffusion
    if plan is None or plan.vae_dtype == "float32":
        return None
    return replace(model, diffusion=replace(plan, vae_dtype="float32"))


def work(model: ModelPlan, frames: int) -> float:
    """Floating-point operations for so many frames."""
    plan = model.diffusion
    if plan is None:
        return 0.0
    dit, vae = files.configs(model.model, plan)
    latents = _latents(plan)
    done = latents - (plan.shared if plan.join == "latents" else -(-plan.shared // _STEP))
    clip = dit_cost.forward_flops(dit, _grid(plan), files.TEXT_TOKENS).total
    return frames * (clip / max(1, done * _STEP) + _vae_work(vae, plan))


def tiles(model: ModelPlan) -> int:
    """Tiles of the decoder in a frame."""
    plan = model.diffusion
    if plan is None or plan.decode_tile is None:
        return 1
    _, vae = files.configs(model.model, plan)
    return len(_boxes(vae, plan.padded, plan.decode_tile))


def fitted(model: ModelPlan, budget: Budget, host_bytes: int) -> ModelPlan:
    """The largest plan within the budget; the smallest one where none is.

    Args:
        model: At its largest.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    while not fits(model, budget, host_bytes):
        now = needs(model)
        is_host = model.device == "cuda" and now.device <= budget.vram_bytes
        less = less_on_host(model) if is_host else smaller(model)
        less = less or (smaller(model) if is_host else less_on_host(model))
        if less is None:
            break
        model = less
    return _pinned(model, budget, host_bytes)


def _pinned(model: ModelPlan, budget: Budget, host_bytes: int) -> ModelPlan:
    """With copies of streamed weights in main memory, as far as there is room for them."""
    plan = model.diffusion
    if plan is None or plan.blocks_on_device is None or model.device != "cuda":
        return model
    dit, _ = files.configs(model.model, plan)
    stored = _bytes_per_weight(dit, plan, model)
    streamed = dit_cost.streamed_bytes(dit, stored, plan.blocks_on_device, dtype=model.dtype)
    room = budget.ram_bytes - host_bytes - needs(model).host
    pinned = max(0, min(streamed, room, int(PINNED_SHARE * budget.ram_bytes)))
    return replace(model, diffusion=replace(plan, pin_bytes=pinned))


def fits(model: ModelPlan, budget: Budget, host_bytes: int) -> bool:
    """Whether a plan stays within the budget of main memory and of the card."""
    now = needs(model)
    if model.device == "cuda":
        in_ram = host_bytes + now.host <= budget.ram_bytes
        return in_ram and now.device <= budget.vram_bytes
    return host_bytes + now.host + now.device <= budget.ram_bytes


# --- one part each


def _encode(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[int, int]:
    """Bytes on the device and on the host."""
    work = _work(plan, model, plan.encode_tile or plan.padded)
    found = _encode_cost(vae, work)
    device = found.activations + found.workspace + found.carry
    if plan.encode_tile is None:
        return device, 0
    boxes = tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX)
    waiting = _STEP * (_SLICES + plan.warm_up) * plan.padded.pixels * 3 * work.item
    return device, waiting + (0 if plan.warm_up else found.carry * len(boxes))


def _decode(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[int, int]:
    whole = _work(plan, model, plan.padded)
    if plan.decode_tile is None:
        found = _decode_cost(vae, whole)
        return found.activations + found.workspace + found.carry, 0
    low = _low_cost(vae, whole)
    boxes = _boxes(vae, plan.padded, plan.decode_tile)
    high = _high_cost(vae, replace(whole, size=boxes[0]))
    device = low.carry + max(
        low.activations + low.workspace, high.activations + high.workspace + high.carry
    )
    latents = _latents(plan)
    width = vae.block_out_channels[-2]
    features = 2 * (latents + plan.warm_up) * (plan.padded.pixels // 16) * width * whole.item
    canvas = _STEP * latents * plan.padded.pixels * 6
    return device, canvas + features + (0 if plan.warm_up else high.carry * len(boxes))


_encode_cost = lru_cache(maxsize=512)(cost.encode_cost)
_decode_cost = lru_cache(maxsize=512)(cost.decode_cost)
_high_cost = lru_cache(maxsize=512)(cost.decode_high_cost)


@lru_cache(maxsize=512)
def _low_cost(vae: VaeConfig, work: cost.Work) -> Cost:
    """With features that leave for main memory."""
    return cost.decode_low_cost(vae, work, park=True)


def _vae_weights(vae: VaeConfig, plan: DiffusionPlan) -> int:
    return cost.weights_bytes(vae, plan.vae_dtype, VaeSwitches())


def _dit_weights(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.resident_bytes(
        dit, stored, plan.blocks_on_device, dtype=model.dtype, device=model.device
    )


def _forward(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.forward_bytes(
        dit,
        _grid(plan),
        files.TEXT_TOKENS,
        model.dtype,
        model.device,
        widened=plan.products == "none" and stored < ITEM[model.dtype],
    )


def _bytes_per_weight(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> float:
    """As kept on the device: packed formats stay packed, others take the transformer's type."""
    if plan.products != "none":
        return dit_cost.FORMAT_BYTES[plan.products]
    numbers = dit_cost.parameters(dit)
    stored = plan.dit.bytes / numbers if plan.dit.bytes else 2.0
    wide = ITEM[model.dtype]
    return stored if stored < 1.6 else wide


def _vae_work(vae: VaeConfig, plan: DiffusionPlan) -> float:
    """Operations of the VAE for a frame, overlaps and warming up counted."""
    encode, decode = _vae_flops(vae, plan.padded)
    pixels = plan.padded.pixels
    if plan.encode_tile is not None:
        boxes = tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX)
        encode *= sum(box.size.pixels for box in boxes) / pixels * (1 + plan.warm_up / _SLICES)
    if plan.decode_tile is not None:
        sizes = _boxes(vae, plan.padded, plan.decode_tile)
        again = 1 + plan.warm_up / _latents(plan)
        decode *= sum(size.pixels for size in sizes) / pixels * again
    return encode + decode


@lru_cache(maxsize=256)
def _vae_flops(vae: VaeConfig, size: Size) -> tuple[float, float]:
    """Of encoding and of decoding one frame of a long shot."""
    clip = flops.Work(frames=17, size=size, switches=VaeSwitches(), slice_frames=4)
    encode, decode = flops.encode_flops(vae, clip), flops.decode_flops(vae, clip)
    return encode.total / 17, decode.total / 17


def _work(plan: DiffusionPlan, model: ModelPlan, size: Size) -> cost.Work:
    return cost.Work(
        frames=_STEADY + _STEP,
        size=size,
        switches=VaeSwitches(),
        slice_frames=_STEP,
        dtype=plan.vae_dtype,
        device="cuda" if model.device == "cuda" else "cpu",
    )


def _boxes(vae: VaeConfig, frame: Size, tile: Size) -> list[Size]:
    factor = vae.spatial_factor
    latent = Size(frame.width // factor, frame.height // factor)
    cut = split_tiles(vae, latent, tile, BLEND_PX)
    return [box.size.scaled(cut.factor) for box in cut.boxes]


def _grid(plan: DiffusionPlan) -> tuple[int, int, int]:
    return _latents(plan), plan.padded.height // 8, plan.padded.width // 8


def _latents(plan: DiffusionPlan) -> int:
    """Latents of a clip."""
    return plan.clip if plan.join == "latents" else 1 + -(-(plan.clip - 1) // _STEP)


# --- choices


def _clip_latents(settings: JobSettings, device: str) -> int:
    if settings.clip_frames:
        return 1 + -(-(settings.clip_frames - 1) // _STEP)
    return _CLIPS["cuda" if device == "cuda" else "cpu"][0]


def _shared(clip: int) -> int:
    """Latents that clips share: two, or as many as are less than half of them."""
    return min(2, (clip - 1) // 2)


def _in_frames(clip: int, settings: JobSettings) -> tuple[int, int]:
    frames = 1 + (clip - 1) * _STEP
    shared = settings.join_frames if settings.join == "frames" else 0
    return frames, min(shared, (frames - 1) // 2)


def _edge(edge: int, frame: Size) -> Size | None:
    """A tile of that edge; None where it would be the whole frame."""
    if not edge or edge >= max(frame.width, frame.height):
        return None
    edge = max(_EDGES[-1], edge // 16 * 16)
    return Size(min(edge, frame.width), min(edge, frame.height))


def _vae_dtype(settings: JobSettings, device: str) -> str:
    if settings.vae_precision != "auto":
        return settings.vae_precision
    return "float16" if device == "cuda" else "float32"


# --- one step smaller


def _smaller_decode(plan: DiffusionPlan) -> DiffusionPlan | None:
    tile = _next_tile(plan.decode_tile, plan.padded)
    return None if tile is None else replace(plan, decode_tile=tile)


def _smaller_encode(plan: DiffusionPlan) -> DiffusionPlan | None:
    tile = _next_tile(plan.encode_tile, plan.padded)
    return None if tile is None else replace(plan, encode_tile=tile)


def _next_tile(tile: Size | None, frame: Size) -> Size | None:
    longest = max(frame.width, frame.height) if tile is None else max(tile.width, tile.height)
    edge = next(_smaller_edges(longest), None)
    return None if edge is None else Size(min(edge, frame.width), min(edge, frame.height))


def _smaller_edges(longest: int) -> Iterator[int]:
    return (edge for edge in _EDGES if edge < longest)


def _shorter(plan: DiffusionPlan) -> DiffusionPlan | None:
    lengths = [clip for clip in _CLIPS["cuda"] if clip < _latents(plan)]
    if not lengths:
        return None
    if plan.join == "latents":
        return replace(plan, clip=lengths[0], shared=_shared(lengths[0]))
    frames = 1 + (lengths[0] - 1) * _STEP
    return replace(plan, clip=frames, shared=min(plan.shared, (frames - 1) // 2))


def _fewer_blocks(plan: DiffusionPlan, layers: int) -> DiffusionPlan | None:
    """All but the text's weights, then fewer and fewer whole blocks."""
    if plan.blocks_on_device is None:
        return replace(plan, blocks_on_device=layers)
    if plan.blocks_on_device == 0:
        return None
    return replace(plan, blocks_on_device=min(plan.blocks_on_device, layers) * 3 // 4)
