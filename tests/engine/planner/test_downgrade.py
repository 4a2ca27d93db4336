"""From a plan to the next smaller one, and the words for it, in English and in Chinese."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.geometry import Size
from engine.models.lite.plan import LitePlan
from engine.models.planning.memory import Room
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.wan.plan import WanEncodePlan, WanPlan
from engine.planner import peaks
from engine.planner.downgrade import change_of, next_plan, next_work, no_smaller, notice_of
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.plan import LatentPlan, PassName, Reasons, StagePlan, WeightsPlan
from tests.helpers.plans import MB, RoundPlan, a_plan, round_needs

FILE = WeightsPlan(path=Path("a.safetensors"))
SIZE = Size(1920, 1080)
FILES = {"dit": FILE, "vae": FILE, "text": FILE}
SIZES = {"size": SIZE, "padded": SIZE}
SEEDVR2 = SeedVr2Plan(model="seedvr2-3b", **FILES, **SIZES, reflected=0, clip=6, shared=2)
WAN = WanPlan(vae=FILE, **SIZES)
LATENT = LatentPlan(vae=FILE, model="wan21-vae", normalised=False)
FRAME = Size(640, 360)
WEIGHTS = "lite_x2_faithful.safetensors"
LITE = LitePlan(weights=WEIGHTS, frame=FRAME, tile=FRAME, overlap=32, clip_frames=4)


TILED = replace(SEEDVR2, encode_tile=Size(1024, 1024))
SWAPPED = replace(SEEDVR2, blocks_on_device=32)
LARGE, SMALL = Size(1024, 1024), Size(512, 512)
CHANGES = [
    (SEEDVR2, {"clip": 3}, "clips of 9 instead of 21 frames"),
    (replace(SEEDVR2, join="none", clip=21), {"clip": 9}, "clips of 9 instead of 21 frames"),
    (SEEDVR2, {"decode_tile": LARGE}, "decoding in tiles of 1024x1024 instead of whole frames"),
    (TILED, {"encode_tile": SMALL}, "encoding in tiles of 512x512 instead of 1024x1024"),
    (SEEDVR2, {"blocks_on_device": 32}, "32 blocks of the model kept on the GPU instead of all"),
    (SWAPPED, {"blocks_on_device": 24}, "24 instead of 32 blocks of the model kept on the GPU"),
    (SEEDVR2, {"vae_dtype": "bfloat16"}, "values in bfloat16 instead of float32"),
    (SEEDVR2, {"warm_up": 6}, "tiles with extra frames at their start instead of a kept state"),
    (SEEDVR2, {"pin_bytes": 5}, "fewer copies of the model in RAM"),
    (WAN, {"parks": True}, "states of whole frames stored in RAM"),
    (WAN, {"decode_tile": SMALL}, "decoding in tiles of 512x512 instead of whole frames"),
]


# Frames of 1000x1000 px, 12 MB each. While the model works there are both weights, its work and
# four frames, two as read and two as cleaned: 10 + 10 + 30 + 48 = 98 MB; while the first pass works
# there are both weights, 8 MB between, its work and two frames: 10 + 10 + 8 + 46 + 24 = 98 MB.
MEGAPIXEL = Size(1000, 1000)
MODEL = RoundPlan(takes=round_needs(10, encode=10, upscale=30), clip_frames=2)
EQUAL, LESS = round_needs(10, upscale=46), round_needs(10, upscale=45)
SMALLER, WIDER = {"clip_frames": 1}, {"dtype": "float32"}
HALF = {"dtype": "float16"}
ORDER: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], PassName, dict[str, Any]]] = [
    # of two passes the one that needs more becomes smaller, and where they are equal the first one
    ({}, {"takes": LESS}, {"why": "out-of-memory"}, "work", SMALLER),
    ({}, {"takes": EQUAL}, {"why": "out-of-memory"}, "first_pass", SMALLER),
    ({}, {"takes": LESS}, {"why": "spilled"}, "work", SMALLER),
    # if it cannot, the other one
    ({"clip_frames": 1}, {"takes": LESS}, {"why": "spilled"}, "first_pass", SMALLER),
    # the one at work, where that is known
    ({}, {"takes": LESS}, {"why": "spilled", "failed": "first_pass"}, "first_pass", SMALLER),
    ({}, {"takes": EQUAL}, {"why": "spilled", "failed": "work"}, "work", SMALLER),
    # the first one is widened first, whichever needs more
    (HALF, {"takes": LESS, **HALF}, {"why": "overflow"}, "first_pass", WIDER),
    (HALF, {"takes": EQUAL, **HALF}, {"why": "overflow"}, "first_pass", WIDER),
    (HALF, {"takes": LESS}, {"why": "overflow"}, "work", WIDER),
    (HALF, HALF, {"why": "overflow", "failed": "work"}, "work", WIDER),
]


@pytest.mark.usefixtures("round_family")
def test_of_two_passes_one_changes() -> None:
    for work, first, how, name, change in ORDER:
        passes = {"work": replace(MODEL, **work), "first_pass": replace(MODEL, **first)}
        plan = a_plan(source_size=MEGAPIXEL, **passes)
        wanted = replace(plan, **{name: replace(passes[name], **change)})
        after = next_plan(plan, **how)
        assert after is not None
        assert after.passes == wanted.passes, (work, first, how)


@pytest.mark.usefixtures("round_family")
def test_what_is_short_decides_what_changes() -> None:
    upscale, verify = (StagePlan(stage=n, peak_bytes=1, seconds=1) for n in ("upscale", "verify"))
    for device, is_main, change in (
        ("cuda", True, {"threads": 1}),  # less in main memory
        ("cuda", False, SMALLER),
        ("cpu", True, SMALLER),  # a processor has but one memory
    ):
        work = replace(MODEL, device=device, threads=4)
        plan = a_plan(source_size=MEGAPIXEL, work=work, stages=(upscale, verify))
        after = next_plan(plan, "out-of-memory", of_main_memory=is_main)
        assert after is not None
        assert after.work == replace(work, **change)
        found = (after.peak_bytes, after.device_bytes)
        peak = peaks.job_peak(after)
        assert found == (peak.host, peak.device)
        # weights 10, work 30, and a frame of the source or two
        size = (40 + 12 * after.work.clip_frames) * MB
        main, gpu = (size, 0) if device == "cpu" else (0, size)
        now = replace(upscale, peak_bytes=peaks.program_bytes(after) + main, device_bytes=gpu)
        assert after.stages == (now, verify)


def test_every_change_has_a_text() -> None:
    for work, change, text in CHANGES:
        before, after = a_plan(work=work), a_plan(work=replace(work, **change))
        assert str(change_of(before, after)) == text
    before = a_plan(latent=LATENT)
    tiles = replace(before, latent=replace(LATENT, decode_tile=Size(256, 256)))
    assert str(change_of(before, tiles)) == "decoding in tiles of 256x256 instead of whole frames"
    vae = replace(SEEDVR2, device="cuda", dtype="bfloat16", vae_dtype="float16")
    wider = a_plan(work=replace(vae, vae_dtype="bfloat16"))
    assert "too large for float16" in notice_of(a_plan(work=vae), wider, "overflow").message
    wide = replace(before, latent=replace(LATENT, dtype="bfloat16"))
    assert notice_of(wide, before, "overflow").message == (
        "Values became too large for bfloat16: the job continues with values in float32 instead of "
        "bfloat16."
    )


def test_sums_of_latents_become_wider_before_their_values() -> None:
    latent = replace(LATENT, device="cuda", dtype="float16")
    plan, found = a_plan(latent=latent), []
    while (after := next_plan(plan, "overflow", failed="latent")) is not None:
        assert after.work == plan.work
        assert after.latent is not None
        found.append((after.latent.fp16_sums, after.latent.dtype))
        text = notice_of(plan, after, "overflow").message
        plan = after
        if len(found) == 1:
            assert text == (
                "Values became too large for float16: the job continues with convolution sums in "
                "float32."
            )
    assert found == [(False, "float16"), (False, "bfloat16"), (False, "float32")]


def test_lite_takes_fewer_frames_then_smaller_tiles_down_to_a_floor() -> None:
    first = replace(a_plan(work=LITE), reasons=Reasons(limited_by="memory"))
    plan, words = first, []
    while (after := next_plan(plan, "out-of-memory")) is not None:
        words.append(str(change_of(plan, after)))
        assert plan is first or after.peak_bytes <= plan.peak_bytes
        assert after.reasons is None, "those of the first plan"
        plan = after
    assert words[0] == "2 instead of 4 frames at a time"
    assert words[2] == "tiles of 320x180 instead of 640x360"
    assert plan.work.clip_frames == 1
    assert next_plan(plan, "overflow") is None


def test_memory_that_cannot_be_pinned_is_given_up_before_anything_else() -> None:
    work = replace(SEEDVR2, device="cuda", blocks_on_device=0, pin_bytes=2**33)
    plan = a_plan(work=work)
    after = next_plan(plan, "pinning")
    assert after is not None
    assert not after.work.switches.run.pinned_transfers
    assert replace(after, work=work) == plan, "tiles, clips and blocks stay"
    notice = notice_of(plan, after, "pinning")
    assert "the same plan without pinned memory" in notice.message
    assert "12 times as slow" in notice.message
    assert "run.pinned_transfers=off" in notice.hint
    smaller = next_plan(after, "pinning")  # nothing is pinned: that was not the reason
    assert smaller is not None
    assert replace(smaller.work, switches=work.switches) != work
    on_cpu = a_plan(work=LITE)
    assert next_plan(on_cpu, "pinning") == next_plan(on_cpu, "out-of-memory")


def test_a_pass_alone_gives_up_pinning_before_anything_else() -> None:
    work = WanEncodePlan(vae=FILE, **SIZES, device="cuda")
    after = next_work(work, "pinning", no_room)
    assert after is not None
    assert not after.pins
    assert replace(after, switches=work.switches) == work
    for one in (after, replace(work, device="cpu")):  # nothing is pinned
        assert next_work(one, "pinning", no_room) == next_work(one, "out-of-memory", no_room)


def no_room() -> Room:
    raise AssertionError("only wider values need to know it")


def test_a_notice_names_who_holds_the_memory() -> None:
    before, after = a_plan(work=SEEDVR2), a_plan(work=replace(SEEDVR2, clip=3))
    users = (GpuProcess(name="chrome.exe", mb=2048), GpuProcess(name="game.exe", mb=1))
    notice = notice_of(before, after, "spilled", spilled_bytes=2**30, users=users)
    assert notice.message == (
        "Windows moved 1.0 GB of GPU memory to RAM, which is slow: the job continues "
        "with clips of 9 instead of 21 frames."
    )
    assert notice.hint == "chrome.exe uses 2.0 GB of the GPU's memory."
    unknown = notice_of(before, after, "out-of-memory", users=[GpuProcess(name="a.exe", mb=None)])
    assert unknown.hint == "a.exe uses the GPU as well."


def test_the_smallest_plan_that_does_not_fit_states_what_it_needs_and_what_is_free() -> None:
    on_gpu = a_plan(work=replace(LITE, device="cuda"), device_bytes=3 * 2**30)
    error = no_smaller(on_gpu, 2**30, (GpuProcess(name="chrome.exe", mb=2048),))
    assert "needs about 3.0 GB of GPU memory, and 1.0 GB is free" in error.message
    assert error.hint.startswith("chrome.exe uses 2.0 GB of the GPU's memory. Close other")
    assert error.info().params["holders"] == "chrome.exe"
    assert "of RAM" in no_smaller(a_plan(work=LITE, peak_bytes=2**30), 5).message
