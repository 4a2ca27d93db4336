"""The family Wan: Wan 2x, and files of latents of Wan 2.1 and 2.2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from engine.core.messages import Message
from engine.hardware.budget import Budget
from engine.models import overflow
from engine.models.contracts import FileUse, ModelFamily, StageWork, Step, WorkRequest
from engine.models.identify import WAN2X_VAE, WAN21_VAE, WAN22_VAE
from engine.models.planning.candidates import (
    chosen,
    early_tiles,
    shot_notices,
    tile_changes,
    tile_choices,
    tile_of,
    vae_stage,
)
from engine.models.planning.memory import MemoryRequirement, Room
from engine.models.upscalers import ShotModel
from engine.models.video_vae.measured_memory import VaeModel
from engine.models.wan import candidates, files, requirements
from engine.models.wan.latents.format import WanLatents
from engine.models.wan.plan import WanPlan
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.receptive_field import decoder_reach, encoder_reach
from engine.models.wan.vae.split import LATENTS_PER_VISIT
from engine.models.wan.vae_memory import VAES
from engine.protocol.plan import Notice
from engine.settings.switches import Switches


class WanFamily(ModelFamily[WanPlan]):
    """Wan 2x."""

    name = "wan"
    title = "Wan 2x"
    models: ClassVar[dict[str, str]] = {"wan-2x": "Wan 2x"}
    plan = WanPlan
    latents = WanLatents()
    wants_gpu = True

    # what is planned

    def choose(self, request: WorkRequest) -> WanPlan:
        """Whole frames, and carries on the device, where the user chose nothing else.

        Raises:
            WeightsError: A file that the user named is not there, or is none of Wan 2x.
        """
        settings, size, device = request.settings, request.video.size, request.device
        found = files.files_of_wan(request.model, settings.vae)
        config = found.config
        padded = requirements.padded_size(config, size)
        return WanPlan(
            model=request.model,
            device=device,
            dtype=overflow.vae_dtype(
                settings.vae_precision,
                device,
                found.vae,
                has_bf16=request.budget.gpu_has_bf16,
            ),
            threads=request.budget.threads,
            vae=found.vae,
            size=size,
            padded=padded,
            factor=config.upscale,
            encode_tile=tile_of(settings.encode_tile, padded),
            decode_tile=tile_of(
                max(settings.decode_tile, candidates.least_edge(config))
                if settings.decode_tile
                else 0,
                padded.scaled(config.upscale),
            ),
            warm_up=0 if device == "cuda" else candidates.warm_up(config),  # there is one memory
            shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
        )

    def fitted(self, work: WanPlan, room: Room) -> WanPlan:
        """The fastest plan that the room holds; the smallest one where it holds none."""
        return candidates.fitted(work, room)

    def smaller(self, work: WanPlan, stage: str = "") -> WanPlan | None:
        """Plan with smaller tiles."""
        return candidates.smaller(work, stage)

    def gentler(self, work: WanPlan, than: WanPlan) -> WanPlan:
        """The largest plan with half the tiles."""
        return candidates.gentler(work, than)

    def less_on_host(self, work: WanPlan) -> WanPlan | None:
        """Tiles that begin early instead of waiting with their carry."""
        return candidates.less_on_host(work)

    def wider(self, work: WanPlan, budget: Budget, part: str = "") -> WanPlan | None:
        """Plan with wider sums, or values."""
        return overflow.widened(work, work.vae, has_bf16=budget.gpu_has_bf16)

    def with_switches(self, work: WanPlan, switches: Switches) -> WanPlan:
        """Plan without sums in half precision where they are known to overflow."""
        return replace(work, switches=overflow.allowed(switches, work.vae))

    # what it takes

    def needs(self, work: WanPlan) -> MemoryRequirement:
        """Bytes that a job takes."""
        return requirements.needs(work)

    def frames_around(self, work: WanPlan) -> tuple[int, int]:
        """Frames that encoder and decoder look back at."""
        config = files.wan_config(work.vae, work.model)
        return config.temporal_factor * (encoder_reach(config) + decoder_reach(config)), 0

    def stage_work(self, work: WanPlan, frames: int) -> dict[str, StageWork]:
        """Both halves of the VAE, and the carries that wait elsewhere meanwhile."""
        parked, share = requirements.parked_bytes(work, frames)
        return {
            stage: vae_stage(made, work.dtype, work.switches, parked[stage], share)
            for stage, made in requirements.stage_work(work, frames).items()
        }

    def loading_seconds(self, work: WanPlan) -> float:
        """Folding the weights."""
        return files.FOLD_S * work.vae.bytes

    # what is shown

    def choices(self, work: WanPlan) -> Iterator[Notice]:
        """The file, tiles, and where carries wait."""
        title = self.models[work.model]
        name = work.vae.name
        yield chosen("model", "file", title=title, name=name, dtype=work.dtype)
        yield from tile_choices(work, requirements.tiles(work), "tiles")
        if work.parks:
            yield chosen("parks")
        yield from early_tiles(work, LATENTS_PER_VISIT if work.is_tiled else 0)

    def steps(self, work: WanPlan) -> Iterator[Step]:
        """Other tiles."""
        return candidates.steps(work)

    def changes(self, old: WanPlan, new: WanPlan) -> Iterator[Message]:
        """Tiles, then where carries wait."""
        return tile_changes(old, new)

    def notices(self, work: WanPlan, budget: Budget) -> Iterator[Notice]:
        """Notice of what the model was trained on."""
        yield from shot_notices(self.title, work)
        yield Notice(code="trained-on-stills", severity="info")

    # what runs

    def load_shots(self, work: WanPlan) -> ShotModel:
        """The VAE, on its device."""
        from engine.models.wan.upscaler import load_wan_upscaler

        return load_wan_upscaler(work)

    # what else it has

    def use_of(self, content: str) -> FileUse | None:
        """The VAEs."""
        models = {
            WAN21_VAE: "wan21-vae",
            WAN22_VAE: "wan22-vae",
            WAN2X_VAE: "wan-2x",
        }
        return FileUse(kind="vae", models=(models[content],)) if content in models else None

    def check_file(self, content: str, path: Path) -> None:
        """The VAEs by what their loader checks."""
        from engine.models.wan.vae.load import LOADER

        LOADER.check(path)

    def vaes(self) -> tuple[VaeModel, ...]:
        """Wan 2.1, Wan 2.2 and Wan 2x, which encodes as Wan 2.1 does."""
        return (
            _vae("wan21-vae", "Wan 2.1 VAE", WAN21),
            _vae("wan22-vae", "Wan 2.2 VAE", WAN22),
            replace(_vae("wan-2x", "Wan 2x", WAN2X), sides=("decode",)),
        )


def _vae(model: str, title: str, config: WanConfig) -> VaeModel:
    return VaeModel(
        id=model,
        title=title,
        config=config,
        published=model,
        code=VAES,
        config_of=lambda weights: files.wan_config(weights, model),
    )


FAMILY = WanFamily()
