"""The family Wan: Wan 2x, and files of latents of Wan 2.1 and 2.2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.hardware.budget import Budget
from engine.models.contracts import FileUse, ModelFamily, StageWork, Step, WorkRequest
from engine.models.identify import WAN2X_VAE, WAN21_VAE, WAN22_VAE
from engine.models.planning import notices
from engine.models.planning.search import (
    EDGES,
    MemoryRequirement,
    Room,
    next_tile,
    next_tiles,
    tile_of,
)
from engine.models.upscalers import ShotModel
from engine.models.video_vae.measured_memory import VaeModel
from engine.models.wan import files
from engine.models.wan.latents.format import WanLatents
from engine.models.wan.plan import WanPlan
from engine.models.wan.planning import requirements, search
from engine.models.wan.planning.vae_memory import VAES, decode_tiles, encode_tiles
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.receptive_field import decoder_reach, encoder_reach
from engine.models.wan.vae.split import LATENTS_PER_VISIT
from engine.protocol.plan import Notice


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
            dtype=requirements.vae_dtype(settings.vae_precision, device),
            threads=request.budget.threads,
            vae=found.vae,
            size=size,
            padded=padded,
            factor=config.upscale,
            encode_tile=tile_of(settings.encode_tile, padded),
            decode_tile=tile_of(
                max(settings.decode_tile, search.least_edge(config)) if settings.decode_tile else 0,
                padded.scaled(config.upscale),
            ),
            warm_up=0 if device == "cuda" else search.warm_up(config),  # there is one memory
            shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
        )

    def fitted(self, work: WanPlan, room: Room) -> WanPlan:
        """The fastest plan that the room holds; the smallest one where it holds none."""
        return search.fitted(work, room)

    def smaller(self, work: WanPlan, stage: str = "") -> WanPlan | None:
        """A plan with less on the device in the stage that ran out: "encode" or "decode"."""
        now = requirements.needs(work).stages
        short = stage if stage in now else max(now, key=lambda name: now[name])
        most = max(now.values())
        for less in _smaller(work, short):
            needs = requirements.needs(less)
            if needs.stages[short] < now[short] and (stage or needs.device < most):
                return less
        return None

    def less_on_host(self, work: WanPlan) -> WanPlan | None:
        """Tiles that begin early instead of waiting with their carry."""
        if work.warm_up or not (work.encode_tile or work.decode_tile):
            return None
        return replace(work, warm_up=search.warm_up(files.wan_config(work.vae, work.model)))

    def wider(self, work: WanPlan) -> WanPlan | None:
        """In float32."""
        return None if work.dtype == "float32" else replace(work, dtype="float32")

    # what it takes

    def needs(self, work: WanPlan) -> MemoryRequirement:
        """Bytes that a job takes."""
        return requirements.needs(work)

    def frames_around(self, work: WanPlan) -> tuple[int, int]:
        """Frames that encoder and decoder look back at."""
        config = files.wan_config(work.vae, work.model)
        return config.temporal_factor * (encoder_reach(config) + decoder_reach(config)), 0

    def stage_work(self, work: WanPlan, frames: int) -> dict[str, StageWork]:
        """Both halves of the VAE."""
        return {
            stage: StageWork(kind="vae", dtype=work.dtype, operations=operations)
            for stage, operations in requirements.stage_work(work, frames).items()
        }

    def loading_seconds(self, work: WanPlan) -> float:
        """Folding the weights."""
        return files.FOLD_S * work.vae.bytes

    # what is shown

    def choices(self, work: WanPlan) -> Iterator[Notice]:
        """The file, tiles, and where carries wait."""
        title = self.models[work.model]
        name = work.vae.path.name
        yield notices.chosen("model", "file", title=title, name=name, dtype=work.dtype)
        encode, decode = requirements.passes(work)
        yield notices.chosen_tiles("encode", len(encode_tiles(encode)), work.encode_tile)
        yield notices.chosen_tiles("decode", len(decode_tiles(decode)), work.decode_tile)
        yield from notices.tiles_at_once(work.encode_at_once, work.decode_at_once)
        if work.parks:
            yield notices.chosen("parks")
        span = LATENTS_PER_VISIT if work.encode_tile or work.decode_tile else 0
        yield from notices.early_tiles(work, work.warm_up, span)

    def steps(self, work: WanPlan) -> Iterator[Step]:
        """Other tiles."""
        config = files.wan_config(work.vae, work.model)
        encode, decode = search.wan_tiles(config, work.padded)
        for more, word in ((True, "larger"), (False, "smaller")):
            for tile in next_tiles(decode, work.decode_tile, more=more, whole=True):
                yield _step(f"{word}-decode-tiles", replace(work, decode_tile=tile), more)
            for tile in next_tiles(encode, work.encode_tile, more=more, whole=True):
                yield _step(f"{word}-encode-tiles", replace(work, encode_tile=tile), more)
        if work.warm_up and work.device == "cuda" and (work.encode_tile or work.decode_tile):
            yield _step("tiles-that-remember", replace(work, warm_up=0), True)

    def changes(self, old: WanPlan, new: WanPlan) -> Iterator[Message]:
        """Tiles, then where carries wait."""
        yield from notices.tiles_change("decoding", old.decode_tile, new.decode_tile)
        yield from notices.tiles_change("encoding", old.encode_tile, new.encode_tile)
        yield from notices.at_once_change(
            (old.encode_at_once, old.decode_at_once), (new.encode_at_once, new.decode_at_once)
        )
        yield from notices.warm_up_change(old.warm_up, new.warm_up)
        if old.parks != new.parks:
            yield message("change.waiting-states")

    def notices(self, work: WanPlan, budget: Budget) -> Iterator[Notice]:
        """Notice of what the model was trained on."""
        yield from notices.shot_notices(self.title, work)
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


def _step(code: str, work: WanPlan, is_more: bool) -> Step:
    tiles = work.encode_tile, work.decode_tile
    return Step(
        code=code,
        message=notices.tiles_step(code, *tiles),
        work=work,
        is_more=is_more,
        params=notices.tile_edges(*tiles),
    )


def _smaller(plan: WanPlan, stage: str) -> Iterator[WanPlan]:
    """One tile of a stage at a time, then smaller ones, then those of the other stage.

    The carry of that one waits meanwhile. Last comes what can be parked.
    """
    least = search.least_edge(files.wan_config(plan.vae, plan.model))
    canvas = plan.padded.scaled(plan.factor)
    decode, encode = replace(plan, decode_at_once=1), replace(plan, encode_at_once=1)
    decode_tiles = _tiles(plan.decode_tile, canvas, least)
    plans = [
        [decode, *(replace(decode, decode_tile=tile) for tile in decode_tiles)],
        [encode, *(replace(encode, encode_tile=t) for t in _tiles(plan.encode_tile, plan.padded))],
    ]
    if stage == "encode":
        plans.reverse()
    parked = [] if plan.parks or plan.device == "cpu" else [replace(plan, parks=True)]
    yield from (*plans[0], *plans[1], *parked)


def _tiles(tile: Size | None, frame: Size, least: int = EDGES[-1]) -> Iterator[Size]:
    while (tile := next_tile(tile, frame, least)) is not None:
        yield tile


FAMILY = WanFamily()
