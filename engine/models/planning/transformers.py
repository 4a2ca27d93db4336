"""Plans of models that restore shots by a transformer between encoder and decoder.

SeedVR2 and SwiftVR decide different things, but their blocks, formats of products and pinned copies
are stated, counted and shown in one way. Loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.core.units import memory_text
from engine.models.contracts import ShotPlan, StageWork, Step
from engine.models.gpu_passes import Passes
from engine.models.planning.candidates import Axis, chosen, step_to
from engine.models.planning.memory import Room
from engine.protocol.plan import Notice, WeightsPlan

COLOURS = 3
EXACT = 4  # bytes of a value of finished frames
SMOOTHING_BYTES = 32  # of one frame's colours that are smoothed, for each px
_POOLED = ("lab", "wavelet_adaptive", "hsv")  # methods that look at all frames of a block
# Results of a frame that exist while its colours are corrected, by method.
_RESULTS = {"none": 3, "wavelet": 7, "adain": 7, "lab": 12, "hsv": 12, "wavelet_adaptive": 12}
_FEWER_BLOCKS = 3 / 4  # of those that stay, after a lack of memory


# TRAP: no slots here. A class cannot have two parents with slots, and SeedVR2's plan has `VaePlan`
# as the other one.
@dataclass(frozen=True, kw_only=True)
class TransformerPlan(ShotPlan):
    """Plan of a transformer and of the VAE around it.

    Attributes:
        dit: File of the transformer.
        vae: File of the VAE.
        size: Size of the frames that are made, as stored.
        padded: Size of the frames that the model takes.
        film: Frames of the video, at most; 0 where that is not known.
        vae_dtype: Type of the VAE.
        blocks_on_device: Blocks that stay on the device; None: all of them.
        pin_bytes: Main memory for copies of the other blocks.
        attention: Backend of the attention, as the setting of its name has it.
        products: Format of matrix products; "none" for the type of the plan.
        strength: Share of the restoration in the result, %.
        colour: Method of the correction of colours.
    """

    dit: WeightsPlan
    vae: WeightsPlan
    size: Size
    padded: Size
    film: int = 0
    vae_dtype: str = "float32"
    blocks_on_device: int | None = None
    pin_bytes: int = 0
    attention: str = "auto"
    products: str = "none"
    strength: int = 100
    colour: str = "two-scale"

    @property
    def canvas(self) -> Size:
        """Size of the frames that the model makes."""
        return self.size

    @property
    def is_pooled(self) -> bool:
        """Whether colours are corrected over all frames of a block together."""
        return self.colour in _POOLED

    @property
    def step_values(self) -> dict[str, str]:
        """Blocks."""
        return self.block_values

    @property
    def block_values(self) -> dict[str, str]:
        """Settings for its blocks."""
        stay = self.blocks_on_device
        return {"blocks_on_device": "-1" if stay is None else str(stay)}

    def line_with(self, *parts: str) -> str:
        """The plan in one line, with what else a family says of it after types and files."""
        found = [self.model, self.device, f"{self.dtype} (VAE {self.vae_dtype})", *parts]
        if self.device == "cuda":
            blocks = "all" if self.blocks_on_device is None else self.blocks_on_device
            found.append(f"{blocks} blocks on the GPU")
        if self.strength < 100:
            found.append(f"strength {self.strength} %")
        return ", ".join(found)

    def colour_bytes(self, frames: int, *, corrects: bool) -> int:
        """Bytes of results of n frames, and of smoothed colours.

        Args:
            frames: Frames that are finished at a time.
            corrects: Whether they are being corrected; later one result of each is left.
        """
        results = _RESULTS.get(self.colour, 3) if corrects else 1
        each = results * COLOURS * EXACT * self.size.pixels
        return frames * each + SMOOTHING_BYTES * self.size.pixels


P = TypeVar("P", bound=TransformerPlan)


# --- what is decided


def blocks_axis(values: Sequence[int | None], layers: int, streamed: Callable[[P], int]) -> Axis[P]:
    """Numbers of blocks on the device.

    Args:
        values: Numbers worth trying, all of them (None) first.
        layers: The largest number after a lack of memory.
        streamed: Bytes of the blocks of a plan that do not stay.
    """

    def put(plan: P, blocks: int | None) -> P:
        """Plan with n blocks on the device, and copies of no more than the others."""
        other = replace(plan, blocks_on_device=blocks)
        return replace(other, pin_bytes=min(plan.pin_bytes, streamed(other)))

    return Axis(
        field="blocks_on_device",
        values=values,
        more_code="more-blocks-on-card",
        less_code="fewer-blocks-on-card",
        text=_blocks_text,
        put=put,
        fewer=(None, *range(layers, -1, -1)),
        share=_FEWER_BLOCKS,
    )


def _blocks_text(plan: TransformerPlan) -> Message:
    whole = plan.blocks_on_device is None
    return message("step.whole-model" if whole else "step.blocks", blocks=plan.blocks_on_device)


def with_copies(plan: P, room: Room, streamed: int) -> P:
    """Plan with copies of streamed weights in pinned memory, as far as they fit.

    Args:
        plan: The plan.
        room: Available memory.
        streamed: Bytes of the blocks that do not stay.
    """
    plan = replace(plan, pin_bytes=0)
    copies = min(streamed, room.spare_ram(plan), room.most_pinned) if streamed else 0
    return replace(plan, pin_bytes=max(0, copies))


def format_steps(plan: TransformerPlan, kinds: Iterable[str]) -> Iterator[Step]:
    """Plans that multiply in another format."""
    for kind in kinds:
        if kind == plan.products:
            continue
        text = message("step.matmul", format=kind)
        if kind == "none":
            text = message("step.matmul-plain", dtype=plan.dtype)
        step = step_to(replace(plan, products=kind), f"matmul-{kind}", text, is_more=False)
        yield replace(step, setting=f"matmul={kind}", params={"matmul": kind})


# --- what it takes


@dataclass(frozen=True, slots=True)
class DitFlops:
    """Floating-point operations of a forward; one multiply-add is two."""

    linear: int
    attention: int
    ends: int  # part of `linear` before and after the blocks, which no narrow format multiplies

    @property
    def total(self) -> int:
        """All of them."""
        return self.linear + self.attention


def transformer_stage(
    plan: TransformerPlan,
    forwards: Sequence[tuple[float, DitFlops, Passes]],
    streamed: int,
    **more: Any,
) -> StageWork:
    """Work of a transformer, with the weights that are copied meanwhile.

    Args:
        plan: Plan of the job.
        forwards: Numbers of forwards of a kind, and the work of one.
        streamed: Bytes of the blocks that are copied to the GPU for each of them.
        more: Further attributes of `StageWork`.
    """

    def total(value: Callable[[DitFlops, Passes], float]) -> float:
        return sum(count * value(flops, passes) for count, flops, passes in forwards)

    count = sum(one for one, _, _ in forwards)
    pinned = min(plan.pin_bytes, streamed) if plan.pins else 0
    is_narrow = plan.products != "none"
    return StageWork(
        kind="transformer",
        dtype=plan.dtype,
        operations=total(lambda flops, _: flops.total),
        products=total(lambda flops, _: flops.total),
        narrow=total(lambda flops, _: flops.linear - flops.ends) if is_narrow else 0.0,
        narrow_format=plan.products,
        attended=total(lambda flops, _: flops.attention),
        attention=plan.attention,
        tf32=plan.switches.run.tf32,
        is_counted=True,
        passed_bytes=total(lambda _, passes: passes.moved),
        launches=total(lambda _, passes: passes.launches),
        pinned_bytes=count * pinned,
        paged_bytes=count * (streamed - pinned),
        hides_copies=plan.switches.run.weights_stream,
        **more,
    )


# --- what is shown


def chosen_model(plan: TransformerPlan, title: str) -> Notice:
    """File of the transformer, and types."""
    case = "file" if plan.vae_dtype == plan.dtype else "file-and-vae"
    about = {"title": title, "name": plan.dit.name, "dtype": plan.dtype}
    return chosen("model", case, **about, vae_dtype=plan.vae_dtype)


def chosen_blocks(plan: TransformerPlan, layers: int, every: str = "whole") -> Iterator[Notice]:
    """Blocks that stay on a GPU, and copies of the others.

    Args:
        plan: The plan.
        layers: Blocks of the transformer.
        every: Case of the notice where a number of blocks was asked for and all of them stay.
    """
    if plan.device != "cuda":
        return
    stay = plan.blocks_on_device
    case = "whole" if stay is None else "some" if stay < layers else every
    yield chosen("blocks", case, blocks=layers if stay is None else stay, layers=layers)
    if stay is not None and plan.pin_bytes:
        yield chosen("copies", size=memory_text(plan.pin_bytes))


def chosen_strength(plan: TransformerPlan) -> tuple[Notice, ...]:
    """Strength, where a part of the source stays."""
    return (chosen("strength", percent=plan.strength),) if plan.strength < 100 else ()


def type_changes(old: TransformerPlan, new: TransformerPlan) -> Iterator[Message]:
    """Differences of two plans in the types of VAE and transformer."""
    for before, after in ((old.vae_dtype, new.vae_dtype), (old.dtype, new.dtype)):
        if before != after:
            yield message("change.dtype", before=before, after=after)


def block_changes(old: TransformerPlan, new: TransformerPlan) -> Iterator[Message]:
    """Differences of two plans in blocks and pinned copies."""
    if old.blocks_on_device != new.blocks_on_device:
        code = "change.blocks-of-all" if old.blocks_on_device is None else "change.blocks"
        yield message(code, before=old.blocks_on_device, after=new.blocks_on_device)
    if old.pin_bytes != new.pin_bytes:
        yield message("change.fewer-copies")
