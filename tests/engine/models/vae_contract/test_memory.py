"""Bytes and operations of each VAE, measured without values, against those that torch counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from engine.core.geometry import Size
from engine.models.video_vae.measuring import ClipUse, Valueless, clip_use
from engine.models.video_vae.vae_use import FIGURES, SLICES, Side, VaeUse
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.temporal_conv import adds_in_place
from engine.settings.optimisations import VaeSwitches
from engine.settings.requirements import CPU
from tests.helpers.dispatch import DispatchMode
from tests.helpers.extended import extended, rest_extended
from tests.helpers.memory import BFLOAT16, Allocations
from tests.helpers.vaes import (
    EACH,
    EACH_OF_ALL,
    EVERY,
    ROWS,
    SIDES,
    AnyVaeRow,
    VaeRow,
    clip_of,
    latent_of,
)

MIB = 2**20
MORE = 1.06  # times the bytes that a call takes may be planned, and what its row allows
OFF = VaeSwitches.all_off()
CHANGED = {"usual": VaeSwitches(), "all off": OFF} | {
    entry.name: VaeSwitches().changed(entry.name, not entry.default)
    for entry in VaeSwitches.optimisations()
    if entry.works_on(CPU) and entry.name != "compile"  # test_compiled.py
}
DTYPES = pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=[BFLOAT16, pytest.mark.extended])]
)
TWO = pytest.mark.parametrize(
    "row", rest_extended(EVERY.values(), ROWS["seedvr2"], ROWS["wan 2.2"]), ids=str
)


# --- what torch counts


def _added(into: Tensor, frames: Tensor, weight: Tensor, *_more: Any, **_named: Any) -> int:
    return 2 * into.numel() * weight[0].numel()


def _attended(q: Tensor, k: Tensor, *_more: Any, **_named: Any) -> int:
    return 4 * q.numel() * k.shape[-2]


# Formulas of torch, and of what it does not count: convolutions that add up in place, attention.
FORMULAS = {
    **flop_registry,
    torch.ops.mkldnn._convolution_pointwise_: _added,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attended,
}


class Operations(DispatchMode):
    """Counts floating-point operations; torch's own counter takes three times as long."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = FORMULAS.get(func.overloadpacket)
        if formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=result))
        return result


def taken(step: Callable[[], object]) -> tuple[int, int]:
    """Most bytes at once, and floating-point operations, of a step."""
    with torch.no_grad(), Allocations() as found, Operations() as ran:
        step()
    return found.peak_bytes, ran.total


def assert_close(row: AnyVaeRow, what: str, planned: int, found: int) -> None:
    assert found <= planned <= MORE * found + row.slack_bytes, f"{what} {planned / found:.3f}"


@cache
def weights_of(name: str) -> Mapping[str, Tensor]:
    row = EVERY[name]
    weights: Mapping[str, Tensor] = row.plain(row.wide, dtype=torch.float32).state_dict()
    return weights


def fast_of(row: AnyVaeRow, use: VaeUse) -> Any:
    dtype, switches = getattr(torch, use.dtype), use.switches
    return row.code.loader.fast(row.wide, weights_of(row.name), dtype=dtype, switches=switches)


@cache
def figures_of(name: str, use: VaeUse) -> dict[str, dict[str, int]]:
    """Bytes and operations of slices of each call, measured without values."""
    row = EVERY[name]
    with Valueless(row.code, row.wide, use) as measured:
        calls = row.code.pieces(row.wide, use.slice_frames)
        return {call: measured.slices(call, size_of(row)) for call in calls}


def operations_of(figures: dict[str, int], name: str) -> int:
    return figures[f"{name} convolutions"] + figures[f"{name} products"]


def size_of(row: AnyVaeRow) -> Size:
    return Size(row.side, row.side)


# --- calls, slice by slice


@DTYPES
@TWO
def test_slices_of_every_call_take_what_is_measured(row: AnyVaeRow, dtype: str) -> None:
    use = VaeUse(dtype=dtype)
    fast, measured = fast_of(row, use), figures_of(row.name, use)
    for call, piece in row.code.pieces(row.wide, 4).items():
        side = row.side // piece.factor
        given = [
            torch.zeros(1, piece.channels, steps, side, side, dtype=getattr(torch, dtype))
            for steps in (piece.first, piece.later, piece.later)
        ]
        if not piece.is_clip:
            last = torch.channels_last
            given = [x[0].movedim(0, 1).contiguous(memory_format=last) for x in given]
        left: list[Any] = [torch.empty(0), Carry()]  # the result and the carry of a slice

        def step(call: str = call, given: list[Tensor] = given, left: list[Any] = left) -> None:
            for one in given:
                left[:] = getattr(fast, call)(one, left[1].handed_over())

        fast.release()
        found, ran = taken(step)
        figures = measured[call]
        assert_close(row, call, max(figures["first"], figures["later"]), found)
        assert figures["carry"] == left[1].bytes_held
        assert figures["window"] == fast.workspace.bytes_held
        assert figures["result"] == left[0].nbytes
        assert operations_of(figures, "first") + 2 * operations_of(figures, "later") == ran


@pytest.mark.parametrize("row", rest_extended(EVERY.values(), *ROWS.values()), ids=str)
def test_frames_of_other_sizes_take_a_little_less_than_is_planned(row: AnyVaeRow) -> None:
    """They are planned by means of square ones."""
    use, size = VaeUse(), Size(96, 80)
    call = "decode_low" if row.name in ROWS else "decode_slice"
    planned, work = (ask(row.wide, call, use, size) for ask in (row.code.peak, row.code.work))
    with Valueless(row.code, row.wide, use) as measured:
        found = measured.slices(call, size)
    for figure in FIGURES:
        most = 1.1 * found[figure] + row.slack_bytes
        assert found[figure] <= getattr(planned, figure) <= most, figure
    for name in SLICES:
        one = getattr(work, name)
        assert one.operations == pytest.approx(operations_of(found, name), rel=0.01), name


# Without any switch they are counted in test_published.py.
TABLES = [("seedvr2", "usual"), ("seedvr2", "temporal_winograd"), ("wan 2.1", "usual")]
TABLES += [("wan 2.2", "temporal_winograd"), ("wan 2x", "usual")]


@DTYPES
@pytest.mark.parametrize(
    ("name", "table"), rest_extended(product(EVERY, ("usual", "temporal_winograd")), *TABLES)
)
def test_tables_are_counted(name: str, table: str, dtype: str) -> None:
    """An image leaves some behind, which are kept with those of encoder and decoder."""
    row, kind, switches = EVERY[name], getattr(torch, dtype), CHANGED[table]
    double = {key: value.double() for key, value in weights_of(name).items()}
    clip = clip_of(row.wide, row.frames(1), 1, 1).to(kind)
    latent = latent_of(row.wide, 1, 1, 1).to(kind)
    fast, use = None, VaeUse(dtype=dtype, switches=switches)
    with Allocations() as found:
        fast = row.code.loader.fast(row.wide, double, dtype=kind, switches=switches)
    assert row.code.weights(row.wide, use) == pytest.approx(found.left_bytes, rel=0.005)
    with Allocations() as made:
        fast.posterior(clip)
        fast.decode(latent)
        fast.release()
    total = row.code.weights(row.wide, replace(use, is_image=True))
    assert total == pytest.approx(found.left_bytes + made.left_bytes, rel=0.005)


# --- clips


def measured_clip(row: AnyVaeRow, use: VaeUse, side: Side, latents: int, *, whole: bool) -> ClipUse:
    frames = row.frames(latents)
    return clip_use(row.code, row.wide, use, side, size_of(row), frames, whole=whole)


def assert_clips_are_close(row: AnyVaeRow, use: VaeUse, latents: int, *, whole: bool) -> None:
    fast, dtype = fast_of(row, use), getattr(torch, use.dtype)
    adds_in_place("cpu", torch.float32)  # its trial, once in a process, convolves too
    fast.disable_slicing() if whole else fast.enable_slicing(use.slice_frames)
    side = row.side // row.wide.spatial_factor
    clip = clip_of(row.wide, row.frames(latents), side, side, dtype=dtype)
    latent = latent_of(row.wide, latents, side, side, dtype=dtype)
    runs = (fast.posterior, clip), (fast.decode, latent)
    for way, (run, given) in zip(SIDES, runs, strict=True):
        if latents == 1:  # its tables for images are made once
            run(given)
        fast.release()
        found, ran = taken(lambda run=run, given=given: run(given))
        measured = measured_clip(row, use, way, latents, whole=whole)
        assert_close(row, way, measured.peak_bytes, found)
        assert measured.operations == ran


LENGTHS = [(name, 1, True) for name in ROWS] + [("seedvr2", 3, False), ("wan 2x", 3, False)]
CLIPS = [(name, *clip) for name, clip in product(EVERY, ((1, True), (2, True), (3, False)))]


@DTYPES
@pytest.mark.parametrize(("name", "latents", "whole"), rest_extended(CLIPS, *LENGTHS))
def test_clips_of_every_length_take_what_is_measured(
    name: str, latents: int, whole: bool, dtype: str
) -> None:
    assert_clips_are_close(EVERY[name], VaeUse(dtype=dtype), latents, whole=whole)


DEFAULT = [("seedvr2", "temporal_winograd"), ("wan 2.1", "in_place"), ("wan 2.2", "all off")]
REST = [case for case in product(EVERY, CHANGED) if case not in DEFAULT and case[1] != "usual"]


@pytest.mark.parametrize(("name", "changed"), [*DEFAULT, *extended(*REST)])
def test_every_switch_takes_what_is_measured(name: str, changed: str) -> None:
    assert_clips_are_close(EVERY[name], VaeUse(switches=CHANGED[changed]), 3, whole=False)


FORMS = [("seedvr2", "all off", "2d"), ("wan 2.1", "temporal_winograd", "3d")]
OTHER_FORMS = [
    case
    for case in product(EVERY, ("all off", "temporal_winograd"), ("2d", "3d"))
    if case not in FORMS
]


@BFLOAT16
@pytest.mark.parametrize(("name", "changed", "form"), [*FORMS, *extended(*OTHER_FORMS)])
def test_both_forms_of_convolution_take_what_is_measured(
    name: str, changed: str, form: Any
) -> None:
    switches = replace(CHANGED[changed], convolution=form)
    use = VaeUse(dtype="bfloat16", switches=switches)
    assert_clips_are_close(EVERY[name], use, 3, whole=False)


# --- operations


def counted(row: AnyVaeRow, switches: VaeSwitches, side: Side, latents: int, **cut: Any) -> int:
    """Operations of a clip in very small sizes, at once or in slices."""
    use = VaeUse(switches=switches, slice_frames=cut.get("slice_frames", 4))
    frames, whole = row.frames(latents), "slice_frames" not in cut
    return clip_use(row.code, row.config, use, side, Size(32, 32), frames, whole=whole).operations


@pytest.mark.parametrize("slice_frames", [4, *extended(8)])
@EACH_OF_ALL
def test_slices_take_as_many_operations_as_the_clip_at_once(
    row: AnyVaeRow, slice_frames: int
) -> None:
    for side in SIDES:
        whole = counted(row, OFF, side, 4)
        assert counted(row, OFF, side, 4, slice_frames=slice_frames) == whole


@EACH
def test_the_plain_variant_runs_what_is_counted_without_switches(row: VaeRow) -> None:
    plain, side = row.plain(dtype=torch.float32), 32 // row.config.spatial_factor
    clip = clip_of(row.config, row.frames(2), side, side)
    latent = latent_of(row.config, 2, side, side)
    runs = (plain.posterior, clip), (plain.decode, latent)
    for way, (run, given) in zip(SIDES, runs, strict=True):
        _, ran = taken(lambda run=run, given=given: run(given.float()))
        assert counted(row, OFF, way, 2) == ran


BOOLEAN = [field.name for field in fields(VaeSwitches) if field.type == "bool"]


@pytest.mark.extended  # what ships is asked for in test_published.py
@pytest.mark.parametrize("name", EVERY)
def test_only_switches_that_say_so_change_the_count(name: str) -> None:
    """Each in the way it is meant: fewer operations."""
    row = EVERY[name]
    base = counted(row, OFF, "decode", 3)
    for switch in BOOLEAN:
        found = counted(row, OFF.changed(switch, True), "decode", 3)
        assert found < base if switch in row.saving else found == base, switch


# --- clips and slices of any length


def beyond_the_result(vae: Any, run: Callable[[Tensor], Tensor], given: Tensor) -> int:
    """Peak bytes without those of the result."""
    vae.release()  # buffers of a longer slice would hide some of it
    with torch.no_grad(), Allocations() as found:
        result = run(given)
    return found.peak_bytes - result.untyped_storage().nbytes()


@pytest.mark.parametrize("variant", ["fast", *extended("plain")])
@EACH_OF_ALL
def test_longer_clips_take_no_more_memory_and_longer_slices_do(
    row: AnyVaeRow, variant: str
) -> None:
    vae = row.plain(dtype=torch.float32)
    vae = row.fast(vae, dtype=torch.float32) if variant == "fast" else vae
    vae.enable_slicing(4)
    for run, of in ((vae.posterior, clip_of), (vae.decode, latent_of)):
        lengths = (row.frames(4), row.frames(6)) if of is clip_of else (4, 6)
        given = [of(row.config, length, 2, 4).float() for length in lengths]
        short, long = (beyond_the_result(vae, run, one) for one in given)
        assert 0 < long <= short
    vae.disable_slicing()
    assert beyond_the_result(vae, vae.decode, given[1]) > 1.2 * long


def test_what_is_alive_together_adds_up_and_may_stay() -> None:
    before = torch.zeros(MIB // 4)
    with Allocations():
        counted_earlier = torch.empty(MIB, dtype=torch.uint8)
    with Allocations() as found:
        del counted_earlier
        for _ in range(3):  # what is released before the next is taken counts once
            del_me = torch.empty(MIB, dtype=torch.uint8)
            del del_me
        before += before + (before + 1)  # two sums of a MiB, within operators
        del before  # what was there before does not count
        kept = torch.empty(2 * MIB, dtype=torch.uint8)
        passing = torch.empty(3 * MIB, dtype=torch.uint8)
        del passing
        more = torch.empty(MIB, dtype=torch.uint8)
    assert (found.peak_bytes, found.left_bytes) == (5 * MIB, 3 * MIB)
    assert kept.nbytes + more.nbytes == found.left_bytes


@TWO
def test_what_is_planned_holds_for_our_kernel_too(row: AnyVaeRow) -> None:
    """At published sizes: tables in its order, and frames beside each other, take no more."""
    size, found = Size(256, 256), {}
    for form in ("2d", "kernel"):
        use = VaeUse(dtype="float16", device="cuda")
        with Valueless(row.code, row.published, use, form) as measured:
            weights = measured.meter.now
            for call in row.code.pieces(row.published, use.slice_frames):
                for name, figure in measured.slices(call, size).items():
                    found[form, call, name] = weights + figure
    planned = {key[1:]: figure for key, figure in found.items() if key[0] == "2d"}
    for (call, name), most in planned.items():
        if name in FIGURES:
            assert found["kernel", call, name] <= 1.001 * most, (call, name)
