"""Memory and operations of jobs with SwiftVR, from plans alone.

Calls of the autoencoder are measured (`VAES`), the transformer is counted (`dit.cost`). What a
shot keeps around them is counted here, from sizes; the tests compare the sums.
"""

from __future__ import annotations

from functools import lru_cache

from engine.models.contracts import StageWork
from engine.models.planning.candidates import vae_stage
from engine.models.planning.memory import (
    DTYPE_BYTES,
    SOURCE_BYTES,
    MemoryRequirement,
    PhaseMemory,
    peak_use,
)
from engine.models.planning.transformers import COLOURS, EXACT, transformer_stage
from engine.models.swiftvr import files
from engine.models.swiftvr.chunks import DROPPED, REACH, STEP, latents_of
from engine.models.swiftvr.dit import cost
from engine.models.swiftvr.dit.config import Grid
from engine.models.swiftvr.dit.cost import DitUse
from engine.models.swiftvr.plan import GRID, SwiftVrPlan
from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import Piece, VaeUse

_HELD = STEP + 1  # frames that come in together at most, and wait for the next ones
_LIBRARY_BYTES = 48 * 2**20  # that libraries of products take on a GPU for as long as a job runs
_SMALL_BYTES = 2**18  # indices, and what allocators round up


def _pieces(config: ReaeConfig, slice_frames: int) -> dict[str, Piece]:
    """Inputs of the calls of a shot, see `MeasuredVae`: all latents have four frames."""
    latents, each = slice_frames // config.temporal_factor, config.temporal_factor
    frames = latents * each
    return {
        "encode_slice": Piece(channels=COLOURS, factor=1, first=frames, later=frames, single=each),
        "decode_slice": Piece(
            channels=config.latent_channels,
            factor=config.spatial_factor,
            first=latents,
            later=latents,
        ),
    }


VAES = MeasuredVae("engine.models.swiftvr.load", _pieces, lambda _config: "swiftvr")


# --- memory


@lru_cache(maxsize=4096)
def needs(plan: SwiftVrPlan) -> MemoryRequirement:
    """Memory of a job."""
    _, _, vae = files.configs(plan)
    stay, buffers, coming = cost.resident_parts(_dit_use(plan), plan.blocks_on_device)
    on_gpu = plan.device == "cuda"
    found = {
        name: peak_use(uses, on_gpu=on_gpu) for name, uses in _stages(plan, vae, buffers).items()
    }
    on_host = plan.pin_bytes
    if plan.products != "none" and on_gpu:  # packed weights are not those of a file
        on_host = max(on_host, coming)
    if coming > plan.pin_bytes and on_gpu:
        on_host += buffers  # in which blocks are put together
    waiting = min(_waiting_frames(), plan.film or _waiting_frames())
    return MemoryRequirement(
        weights=VAES.weights(vae, _vae_use(plan)) + stay + (_LIBRARY_BYTES if on_gpu else 0),
        working={name: found[name].device for name in ("encode", "transformer", "decode")},
        finishing=found["finishing"].device,
        between=found["between"].device,
        hosts={name: use.host + on_host for name, use in found.items()},
        finished=finished_frames(plan),
        waiting=waiting,
        sources=waiting * plan.size.pixels * SOURCE_BYTES,
        measuring=VAES.measuring(vae, _vae_use(plan)),
    )


def _stages(plan: SwiftVrPlan, vae: ReaeConfig, buffers: int) -> dict[str, tuple[PhaseMemory, ...]]:
    """Memory of each stage without weights: its own, and what the others keep."""
    use, item, size = _vae_use(plan), DTYPE_BYTES[plan.vae_dtype], plan.padded
    encode = VAES.peak(vae, "encode_slice", use, size)
    decode = VAES.peak(vae, "decode_slice", use, size)
    frame, picture = COLOURS * size.pixels, COLOURS * plan.size.pixels * EXACT
    latent = size.pixels // vae.spatial_factor**2 * vae.latent_channels * item
    chunk = GRID.length + 1
    kept = (2 * GRID.length + 2) * latent + _SMALL_BYTES
    held = _HELD * frame * item + kept
    window = max(encode.window, decode.window)
    carries = encode.carry + decode.carry
    placing = _HELD * (picture if plan.size != plan.padded else 0) + 2 * picture
    sampling = 3 * chunk * latent + 2 * chunk * latent // item * DTYPE_BYTES[plan.dtype]
    short, long = (
        sampling + cost.forward_bytes(_dit_use(plan), dit_grid(plan, latents)) + buffers
        for latents in (GRID.length, chunk)
    )
    restored = held + encode.carry + 2 * chunk * latent
    shown = STEP * frame * (EXACT + (item if item < EXACT else 0))
    ready = restored + decode.carry + window + shown
    finished = finished_frames(plan)
    colours, later = (plan.colour_bytes(finished, corrects=one) for one in (True, False))
    return {
        "encode": (
            PhaseMemory(
                held
                + STEP * frame * item
                + decode.carry
                + window
                - encode.window
                + max(encode.first, encode.later)
            ),
            PhaseMemory(held + carries + window + placing),
        ),
        # nothing was decoded before the first chunk, and nothing is encoded after the last one
        "transformer": (
            PhaseMemory(held + encode.carry + long),
            PhaseMemory(held + carries + short),
            PhaseMemory(kept + decode.carry + long),
        ),
        "decode": (
            PhaseMemory(restored + window - decode.window + max(decode.first, decode.later)),
            PhaseMemory(ready + colours),
        ),
        "finishing": (PhaseMemory(ready + later),),
        "between": (PhaseMemory(held + carries + window),),
    }


def finished_frames(plan: SwiftVrPlan) -> int:
    """Frames that are finished at a time."""
    return STEP if plan.is_pooled else 1


def _waiting_frames() -> int:
    """Frames of the source that wait for their result: of a chunk, and of a latent after it."""
    return STEP * (GRID.length + 2) + DROPPED + _HELD


# --- operations


def stage_work(plan: SwiftVrPlan, frames: int) -> dict[str, StageWork]:
    """Work of a shot of n frames."""
    _, _, vae = files.configs(plan)
    latents = latents_of(frames)
    encode, decode = (
        VAES.work(vae, call, _vae_use(plan), plan.padded).later * latents
        for call in ("encode_slice", "decode_slice")
    )
    return {
        "encode": vae_stage(encode, plan.vae_dtype, plan.switches),
        "transformer": _transformer_stage(plan, frames),
        "decode": vae_stage(decode, plan.vae_dtype, plan.switches),
    }


def _transformer_stage(plan: SwiftVrPlan, frames: int) -> StageWork:
    """Work of the transformer, with the weights that come meanwhile."""
    use, lengths = _dit_use(plan), (GRID.length + 1, GRID.length)
    grids = [dit_grid(plan, latents) for latents in lengths]
    forwards = [
        (count, cost.forward_flops(use.config, use.rows, grid), cost.forward_passes(use, grid))
        for count, grid in zip(chunks(frames), grids, strict=True)
    ]
    return transformer_stage(plan, forwards, streamed_bytes(plan))


def chunks(frames: int) -> tuple[int, int]:
    """Chunks of a shot of n frames: those as long as the first, the last among them, and others."""
    rest = latents_of(frames) - GRID.length - 1
    return (1, 0) if rest <= 0 else (2, -(-rest // GRID.length) - 1)


def frames_around() -> tuple[int, int]:
    """Frames of a shot before some (at most) and after them (on average) that are computed too."""
    return STEP * (2 * REACH + 2 * GRID.length), STEP * (GRID.length + 1) // 2


def streamed_bytes(plan: SwiftVrPlan) -> int:
    """Bytes of weights that are copied to the GPU for every chunk, and may be pinned."""
    if plan.blocks_on_device is None or plan.device != "cuda":
        return 0
    return cost.resident_parts(_dit_use(plan), plan.blocks_on_device)[2]


def dit_grid(plan: SwiftVrPlan, latents: int = GRID.length + 1) -> Grid:
    """Time, height and width of a chunk's latents."""
    factor = ReaeConfig.spatial_factor
    return latents, plan.padded.height // factor, plan.padded.width // factor


def _dit_use(plan: SwiftVrPlan) -> DitUse:
    config, rows, _ = files.configs(plan)
    return DitUse(
        config=config, rows=rows, dtype=plan.dtype, device=plan.device, products=plan.products
    )


def _vae_use(plan: SwiftVrPlan) -> VaeUse:
    return VaeUse(
        dtype=plan.vae_dtype,
        device="cuda" if plan.device == "cuda" else "cpu",
        switches=plan.switches.vae,
    )
