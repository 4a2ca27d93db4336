"""The family SeedVR2: restores shots at the size of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

from engine.core.messages import Message, message
from engine.files import catalogue
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.hardware.budget import Budget
from engine.models import overflow
from engine.models.contracts import (
    BenchRequest,
    BenchWork,
    FileUse,
    ModelFamily,
    StageWork,
    Step,
    WorkRequest,
)
from engine.models.identify import SEEDVR2_TRANSFORMERS, SEEDVR2_VAE, TEXT_EMBEDDING
from engine.models.planning.candidates import (
    chosen,
    early_tiles,
    shot_notices,
    tile_changes,
    tile_choices,
    tile_of,
)
from engine.models.planning.memory import MemoryRequirement, Room
from engine.models.planning.transformers import (
    block_changes,
    chosen_blocks,
    chosen_model,
    type_changes,
)
from engine.models.seedvr2 import candidates, files, requirements
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.plan import (
    STEP,
    Join,
    SeedVr2Plan,
    latents_of,
    layout_of,
    reference_layout,
    shared_of,
    working_size,
)
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae_memory import VAES
from engine.models.upscalers import ShotModel
from engine.models.video_vae.measured_memory import VaeModel
from engine.protocol.plan import Notice, WeightsPlan
from engine.settings.schema import JobSettings
from engine.settings.switches import Switches

_FOLD_S = 2.2e-8  # CPU seconds to fold the weights of a byte of the VAE, measured in float32


class SeedVr2Family(ModelFamily[SeedVr2Plan]):
    """SeedVR2 in its published sizes."""

    name = "seedvr2"
    title = "SeedVR2"
    models: ClassVar[dict[str, str]] = {
        "seedvr2-3b": "SeedVR2 3B",
        "seedvr2-7b": "SeedVR2 7B",
        "seedvr2-7b-sharp": "SeedVR2 7B sharp",
    }
    plan = SeedVr2Plan
    wants_gpu = True

    # what is planned

    def model_of(self, settings: JobSettings) -> str:
        """Model of a request; with "auto" the user's own transformer file decides."""
        if settings.model == "auto" and settings.dit:
            return files.model_of(Path(settings.dit))
        return settings.model if settings.model in self.models else ""

    def automatic(self, settings: JobSettings, budget: Budget) -> tuple[str, ...]:
        """The model that is closest to its sources, on a GPU; 3B where it runs in float16.

        No user has reported the 7B in float16, whose range it may exceed: until it was seen there,
        it is for those who choose it.
        """
        has_gpu = budget.cuda or budget.needed_runtime is not None
        if not has_gpu or settings.device == "cpu":
            return ()
        return ("seedvr2-7b-sharp" if budget.gpu_has_bf16 else "seedvr2-3b",)

    def choose(self, request: WorkRequest) -> SeedVr2Plan:
        """The longest clips, whole frames and all blocks, where the user chose nothing else.

        Raises:
            WeightsError: A file is not there, or is none of SeedVR2's.
        """
        settings, device = request.settings, request.device
        on_gpu = device == "cuda"
        gpu_bytes = request.budget.gpu_memory_bytes if on_gpu else 0
        found = files.files_of(request.model, settings, gpu_bytes=gpu_bytes)
        result = request.stored_size
        size = working_size(result, request.video.size, settings.working_size)
        layout = reference_layout(size) if settings.padding == "black" else layout_of(size)
        clip, shared = _clip(settings, device, request.frames)
        stay = settings.blocks_on_device
        return SeedVr2Plan(
            model=request.model,
            device=device,
            dtype=request.wide_dtype,
            threads=request.budget.threads,
            dit=found.dit,
            vae=found.vae,
            text=found.text,
            size=size,
            result=None if size == result else result,
            padded=layout.padded,
            reflected=layout.reflected,
            clip=clip,
            shared=shared,
            join=cast(Join, settings.join),  # one of the choices of that setting
            film=request.frames,
            encode_tile=tile_of(settings.encode_tile, layout.padded),
            decode_tile=tile_of(settings.decode_tile, layout.padded),
            warm_up=0 if on_gpu else candidates.WARM_UP,  # there is one memory
            vae_dtype=overflow.vae_dtype(
                settings.vae_precision,
                device,
                found.vae,
                has_bf16=request.budget.gpu_has_bf16,
            ),
            blocks_on_device=None if stay < 0 else stay,
            attention=settings.attention,
            products=settings.matmul,
            strength=settings.strength,
            seed=settings.seed,
            noise_order=settings.noise_order,
            input_noise=settings.input_noise,
            latent_noise=settings.latent_noise,
            colour=settings.colour,
            shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
        )

    def fitted(self, work: SeedVr2Plan, room: Room) -> SeedVr2Plan:
        """The fastest plan that the room holds; the smallest one where it holds none."""
        return candidates.fitted(work, room)

    def smaller(self, work: SeedVr2Plan, stage: str = "") -> SeedVr2Plan | None:
        """Plan with less on the device: tiles, clips or blocks."""
        return candidates.smaller(work, stage)

    def gentler(self, work: SeedVr2Plan, than: SeedVr2Plan) -> SeedVr2Plan:
        """The largest plan with half the tiles, and no longer clips or more blocks."""
        return candidates.gentler(work, than)

    def less_on_host(self, work: SeedVr2Plan) -> SeedVr2Plan | None:
        """Plan with less RAM."""
        return candidates.less_on_host(work)

    def wider(self, work: SeedVr2Plan, budget: Budget, part: str = "") -> SeedVr2Plan | None:
        """Plan with a wider VAE, or a wider transformer where that is what overflowed.

        A transformer in float32 takes twice the memory, so that blocks are streamed, and is not
        computed by matrix units; bfloat16 has its range.
        """
        has_bf16 = budget.gpu_has_bf16
        if part == "transformer":
            if work.dtype == "bfloat16":
                return None
            return overflow.widened(work, work.dit, has_bf16=False, group="dit")
        return overflow.widened(work, work.vae, has_bf16=has_bf16, field="vae_dtype")

    def with_switches(self, work: SeedVr2Plan, switches: Switches) -> SeedVr2Plan:
        """Plan without sums in half precision where they are known to overflow."""
        switches = overflow.allowed(switches, work.vae)
        return replace(work, switches=overflow.allowed(switches, work.dit, "dit"))

    # what it takes

    def needs(self, work: SeedVr2Plan) -> MemoryRequirement:
        """Bytes that a job takes."""
        return requirements.needs(work)

    def frames_around(self, work: SeedVr2Plan) -> tuple[int, int]:
        """Frames that encoder, clips and decoder look back at, and an unfinished clip."""
        return requirements.frames_around(work)

    def stage_work(self, work: SeedVr2Plan, frames: int) -> dict[str, StageWork]:
        """Both halves of the VAE, and the transformer with weights that are copied meanwhile."""
        return requirements.stage_work(work, frames)

    def as_tested(self, work: SeedVr2Plan) -> SeedVr2Plan:
        """The plan in half precision, with the attention that a trial chooses."""
        return replace(super().as_tested(work), products="none", attention="auto")

    def loading_seconds(self, work: SeedVr2Plan) -> float:
        """Folding the weights of the VAE."""
        return _FOLD_S * work.vae.bytes

    # what is shown

    def choices(self, work: SeedVr2Plan) -> Iterator[Notice]:
        """File, clips, tiles and blocks."""
        yield chosen_model(work, self.models[work.model])
        if work.device == "cuda" and work.dtype == "float16":
            yield chosen("no-bf16", "3b" if work.model == "seedvr2-3b" else "7b")
        if work.result is not None:
            sizes = {"size": work.size, "result": work.result}
            yield chosen("working-size", "resized", share=work.share, **sizes)
        case = "one-frame" if work.frames == 1 else "shared" if work.shared_frames else "frames"
        yield chosen("clips", case, frames=work.frames, shared=work.shared_frames)
        is_whole = work.decodes_whole_tiles
        if work.better_takes:
            case = "tile-statistics" if is_whole else "shorter-clips"
            yield chosen("given-up", case, times=f"{work.better_takes:.1f}")
        tiles = {"encode": work.encode_tile, "decode": work.decode_tile}
        if work.parks and work.device == "cuda" and None in tiles.values():
            yield chosen("parks")
        decoded = "independent-tiles" if is_whole else "tiles"
        yield from tile_choices(work, requirements.tiles(work), decoded)
        yield from chosen_blocks(work, files.configs(work)[0].layers, "text-streamed")
        spans = {"encode": work.encode_span, "decode": work.decode_span}
        cut = [span for direction, span in spans.items() if tiles[direction] is not None]
        yield from early_tiles(work, min(cut, default=0))

    def steps(self, work: SeedVr2Plan) -> Iterator[Step]:
        """Other clips, tiles and blocks."""
        return candidates.steps(work)

    def changes(self, old: SeedVr2Plan, new: SeedVr2Plan) -> Iterator[Message]:
        """Clips, tiles, blocks."""
        yield from type_changes(old, new)
        if old.clip != new.clip:
            yield message("change.clips", before=old.frames, after=new.frames)
        yield from tile_changes(old, new)
        yield from block_changes(old, new)
        if (old.encode_span, old.decode_span) != (new.encode_span, new.decode_span):
            yield message("change.shorter-spans")

    def notices(self, work: SeedVr2Plan, budget: Budget) -> Iterator[Notice]:
        """Notices of features missing on this device, and of effects of tiles."""
        yield from shot_notices(self.title, work)
        if work.decodes_whole_tiles:
            yield Notice(code="decoder-in-tiles", severity="info")

    def smaller_file(self, settings: JobSettings) -> str:
        """The smallest file of the model, where another one is chosen."""
        if settings.dit:
            return ""
        known = catalogue.precisions_of(settings.model)
        smallest = known[-1] if known else ""
        # plain fp8 of the 7B is worse than its size: q4 is smaller and nearer to the truth
        return "" if smallest in ("fp8", settings.precision) else smallest

    def smaller_model(self, settings: JobSettings) -> str:
        """3B in the place of 7B."""
        return "seedvr2-3b" if settings.model.startswith("seedvr2-7b") else ""

    # what runs

    def load_shots(self, work: SeedVr2Plan) -> ShotModel:
        """VAE, transformer and text embedding."""
        from engine.models.seedvr2.upscaler import load_seedvr2

        return load_seedvr2(work)

    # what else it has

    def use_of(self, content: str) -> FileUse | None:
        """Transformers, the VAE and text embeddings."""
        every = tuple(self.models)
        if content in SEEDVR2_TRANSFORMERS:
            is_small = content == SEEDVR2_TRANSFORMERS[0]
            return FileUse(kind="dit", models=every[:1] if is_small else every[1:])
        if content == SEEDVR2_VAE:
            return FileUse(kind="vae", models=every)
        return FileUse(kind="text", models=every) if content == TEXT_EMBEDDING else None

    def check_file(self, content: str, path: Path) -> None:
        """Each kind by what its loader checks."""
        from engine.models.seedvr2.dit.load import check_dit
        from engine.models.seedvr2.text_embedding import load_text_embedding
        from engine.models.seedvr2.vae.load import LOADER

        if content == TEXT_EMBEDDING:
            load_text_embedding(path, DIT_3B)  # those of 7B are as wide
        elif content == SEEDVR2_VAE:
            LOADER.check(path)
        else:
            check_dit(path)

    def vaes(self) -> tuple[VaeModel, ...]:
        """The VAE."""
        return (
            VaeModel(
                id="seedvr2-vae",
                title="SeedVR2 VAE",
                config=VAE,
                published="seedvr2-3b",
                code=VAES,
                config_of=_vae_config_of,
            ),
        )

    def benchmarks(self, request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
        """Both kinds of transformer."""
        from engine.models.seedvr2.dit.random_dit import dit_benchmarks

        return dit_benchmarks(request)


def _vae_config_of(weights: WeightsPlan) -> VaeConfig:
    from engine.models.seedvr2.vae.load import vae_config_of

    with SafetensorsFile(weights.path) as file:
        return vae_config_of(file)


def _clip(settings: JobSettings, device: str, film: int) -> tuple[int, int]:
    """Length of clips and what neighbours share: latents, or frames where those are joined."""
    latents = candidates.CLIPS["cuda" if device == "cuda" else "cpu"][0]
    if settings.clip_frames:
        latents = latents_of(settings.clip_frames)
    if film:
        latents = min(latents, latents_of(film))
    if settings.join == "latents":
        return latents, shared_of(latents)
    frames = 1 + (latents - 1) * STEP
    shared = settings.join_frames if settings.join == "frames" else 0
    return frames, min(shared, (frames - 1) // 2)


FAMILY = SeedVr2Family()
