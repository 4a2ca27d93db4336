"""The family SwiftVR: restores shots at the size of the result, in one pass without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from engine.core.errors import WrongModel
from engine.core.messages import Message
from engine.core.units import bytes_text
from engine.files import catalogue
from engine.files.model_files import Store
from engine.files.transfer import Listener
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
from engine.models.identify import SWIFTVR_PROMPT, SWIFTVR_TRANSFORMER, SWIFTVR_VAE
from engine.models.planning.candidates import shot_notices
from engine.models.planning.memory import MemoryRequirement, Room
from engine.models.planning.transformers import (
    block_changes,
    chosen_blocks,
    chosen_model,
    type_changes,
)
from engine.models.swiftvr import candidates, files, requirements
from engine.models.swiftvr.chunks import STEP
from engine.models.swiftvr.dit.config import SWIFT_DIT
from engine.models.swiftvr.plan import GRID, SwiftVrPlan, padded_size
from engine.models.upscalers import ShotModel
from engine.protocol.model_file_state import Kind
from engine.protocol.plan import Notice
from engine.settings.switches import Switches

_PROMPT = "swiftvr-prompt"  # in the catalogue
# CPU seconds to fold the weights of a byte of a file, measured in float32 on a CPU: those of the
# autoencoder, and those of a published transformer for a prompt of which all rows differ. A GPU is
# assumed to take as long; it was not measured there.
_FOLD_VAE_S, _FOLD_DIT_S = 1.4e-9, 6e-10
_KINDS: dict[str, Kind] = {SWIFTVR_VAE: "vae", SWIFTVR_TRANSFORMER: "dit", SWIFTVR_PROMPT: "text"}


class SwiftVrFamily(ModelFamily[SwiftVrPlan]):
    """SwiftVR."""

    name = "swiftvr"
    title = "SwiftVR"
    models: ClassVar[dict[str, str]] = {"swiftvr": "SwiftVR"}
    plan = SwiftVrPlan
    wants_gpu = True

    # what is planned

    def choose(self, request: WorkRequest) -> SwiftVrPlan:
        """All blocks on the device, where the user chose nothing else.

        Raises:
            WeightsError: A file is not there, or is none of SwiftVR.
        """
        settings, device = request.settings, request.device
        refused = candidates.refused(device, request.budget.capability)
        found = files.files_of(request.model, settings, refused=refused)
        size, stay = request.stored_size, settings.blocks_on_device
        products = files.products_of(found.dit)
        if products == "none":
            products = settings.matmul if settings.matmul in candidates.PRODUCTS else "fp8"
        return SwiftVrPlan(
            model=request.model,
            device=device,
            dtype=request.wide_dtype,
            threads=request.budget.threads,
            dit=found.dit,
            vae=found.vae,
            text=found.text,
            size=size,
            padded=padded_size(size),
            film=request.frames,
            vae_dtype=overflow.vae_dtype(
                settings.vae_precision,
                device,
                found.vae,
                has_bf16=request.budget.gpu_has_bf16,
            ),
            blocks_on_device=None if stay < 0 else stay,
            attention=settings.attention,
            products=products,
            strength=settings.strength,
            colour=settings.colour,
            shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
        )

    def fitted(self, work: SwiftVrPlan, room: Room) -> SwiftVrPlan:
        """The fastest plan that the room holds; the smallest one where it holds none."""
        return candidates.fitted(work, room)

    def smaller(self, work: SwiftVrPlan, stage: str = "") -> SwiftVrPlan | None:
        """Plan with fewer blocks on the device."""
        return candidates.smaller(work)

    def less_on_host(self, work: SwiftVrPlan) -> SwiftVrPlan | None:
        """Plan with less pinned memory."""
        return candidates.less_on_host(work)

    def wider(self, work: SwiftVrPlan, budget: Budget, part: str = "") -> SwiftVrPlan | None:
        """Plan with a wider autoencoder, or a wider transformer where that is what overflowed.

        Sums of the transformer are in float32 already; bfloat16 has the range of float32.
        """
        if part == "transformer":
            return replace(work, dtype="float32") if work.dtype == "float16" else None
        has_bf16 = budget.gpu_has_bf16
        return overflow.widened(work, work.vae, has_bf16=has_bf16, field="vae_dtype")

    def with_switches(self, work: SwiftVrPlan, switches: Switches) -> SwiftVrPlan:
        """Plan without sums in half precision where they are known to overflow."""
        return replace(work, switches=overflow.allowed(switches, work.vae))

    # what it takes

    def needs(self, work: SwiftVrPlan) -> MemoryRequirement:
        """Bytes that a job takes."""
        return requirements.needs(work)

    def frames_around(self, work: SwiftVrPlan) -> tuple[int, int]:
        """Frames that encoder, chunks and decoder look back at, and an unfinished chunk."""
        return requirements.frames_around()

    def stage_work(self, work: SwiftVrPlan, frames: int) -> dict[str, StageWork]:
        """Both halves of the autoencoder, and the transformer with weights that come meanwhile."""
        return requirements.stage_work(work, frames)

    def as_tested(self, work: SwiftVrPlan) -> SwiftVrPlan:
        """The plan in half precision, with the attention that a trial chooses."""
        return replace(super().as_tested(work), products="none", attention="auto")

    def loading_seconds(self, work: SwiftVrPlan) -> float:
        """Folding the weights of the autoencoder, and of a transformer that was not converted."""
        found = _FOLD_VAE_S * work.vae.bytes
        if work.text is not None:
            _, rows, _ = files.configs(work)
            found += _FOLD_DIT_S * work.dit.bytes * rows / files.MOST_ROWS
        return found

    # what is shown

    def choices(self, work: SwiftVrPlan) -> Iterator[Notice]:
        """File, what the model does, and blocks."""
        yield chosen_model(work, self.models[work.model])
        yield from chosen_blocks(work, files.configs(work)[0].layers)

    def steps(self, work: SwiftVrPlan) -> Iterator[Step]:
        """Other blocks, and other formats."""
        return candidates.steps(work)

    def changes(self, old: SwiftVrPlan, new: SwiftVrPlan) -> Iterator[Message]:
        """Types, blocks, pinned memory."""
        yield from type_changes(old, new)
        yield from block_changes(old, new)

    def notices(self, work: SwiftVrPlan, budget: Budget) -> Iterator[Notice]:
        """Notices of what the model does to grain, faces and texture, and of its large file."""
        yield from shot_notices(self.title, work)
        yield Notice(code="redraws-more", severity="info", params={"title": self.title})
        if work.dit.published:  # no converted file
            size, file = bytes_text(work.dit.bytes), work.dit.published
            params = {"title": self.title, "size": size, "file": file}
            yield Notice(code="convert-once", severity="info", params=params)

    # what runs

    def load_shots(self, work: SwiftVrPlan) -> ShotModel:
        """Autoencoder and transformer."""
        from engine.models.swiftvr.upscaler import load_swiftvr

        return load_swiftvr(work)

    # what else it has

    def benchmarks(self, request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
        """A shot through autoencoder and transformer."""
        from engine.models.swiftvr.upscaler import random_work

        yield f"SwiftVR, {GRID.length * STEP + 1} frames", partial(random_work, request)

    def use_of(self, content: str) -> FileUse | None:
        """Transformer, autoencoder and prompt."""
        if content not in _KINDS:
            return None
        return FileUse(kind=_KINDS[content], models=tuple(self.models))

    def check_file(self, content: str, path: Path) -> None:
        """Each kind by what its loader checks.

        A transformer that was not converted has the names of Wan 2.2 5B: only the published file,
        by its size here and by its SHA-256 where it is used, is one of SwiftVR.
        """
        from engine.models.swiftvr.load import LOADER, check_dit, load_prompt

        if content == SWIFTVR_VAE:
            LOADER.check(path)
        elif content == SWIFTVR_PROMPT:
            load_prompt(path, SWIFT_DIT)
        elif not check_dit(path) and path.stat().st_size not in _published_sizes():
            raise WrongModel("wan22-names", name=path.name, path=str(path))

    def convert(self, file: str, kind: str, store: Store, listener: Listener) -> Path:
        """The transformer with its constants; the prompt is one of them."""
        from engine.models.swiftvr.convert import FORMATS, convert

        about: dict[str, Any] = {"control": listener.control}
        prompt = store.ready(_PROMPT, **about)
        source = store.ready(file, on_progress=listener.on_progress, **about)
        name = f"swiftvr_transformer_{kind}.safetensors"
        wanted = FORMATS[FORMATS.index(kind)]
        return convert(source, prompt, store.folder, name, listener, kind=wanted)


def _published_sizes() -> set[int]:
    """Bytes of the published transformers."""
    return {file.bytes for file in catalogue.catalogue() if "swiftvr" in file.models}


FAMILY = SwiftVrFamily()
