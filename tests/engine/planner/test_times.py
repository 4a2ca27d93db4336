"""Predicted times: more work takes longer, better GPUs are not slower, jobs correct them."""

import itertools
from dataclasses import replace

import pytest

from engine.core.geometry import Size
from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import counted_gpu, find, gpu_specs, named
from engine.models.lite.plan import LitePlan
from engine.planner import times
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Learned, Rates, load_rates
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media, a_plan

GB = 10**9
FRAME = Size(640, 360)
LITE = LitePlan(weights="lite_x2_faithful.safetensors", frame=FRAME, tile=FRAME)
MODELS = ("lite", "seedvr2-3b", "seedvr2-7b", "wan-2x")


def planned(model="lite", *, budget=None, rates=None, frames=250, **wanted):
    settings = JobSettings(model=model, scale=2, **wanted)
    request = Request(media=a_media(frame_count=frames), settings=settings)
    return plan_job(request, budget or a_budget(), rates or Rates())


BUDGETS = [pretended_budget(gpu, ram_bytes=64 * GB, threads=4) for gpu in (None, gpu_specs()[0])]


GPUS = pretended_budget(named("RTX 4090"), named("RTX 4080"), ram_bytes=64 * GB)
HERE = "lite-x2-cpu-libx264"
ONE, OTHER = (f"lite-x2-cuda-libx264 on {gpu.title}" for gpu in GPUS.gpus)
MEASURED = {gpu.title: {"lite-float16": 1.0} for gpu in GPUS.gpus}
ONE_MEASURED = {GPUS.title: MEASURED[GPUS.title]}


def of_jobs(errors, **more):
    """Rates after jobs whose times were off by these factors, by kind."""
    return Rates(jobs={kind: Learned(factor=1.0, error=e) for kind, e in errors.items()}, **more)


def test_how_far_off_a_time_may_be():
    cpu, one, other = BUDGETS[0], *GPUS.gpus
    for budget, known, low, high in (
        # a processor: off by 2 when guessed, by 1.3 after the speed test
        (cpu, Rates(), 1 / 2, 2),
        (cpu, Rates(costs={"lite-2-float32": 1.0}), 1 / 1.3, 1.3),
        (cpu, Rates(costs={"lite-4-float32": 1.0, "read": 1.0}), 1 / 2, 2),
        # after jobs by twice their error, which is 0.08 to 0.5
        (cpu, of_jobs({HERE: 0.1}), 1 / 1.2, 1.2),
        (cpu, of_jobs({HERE: 0.03}), 1 / 1.08, 1.08),
        (cpu, of_jobs({HERE: 0.3}), 1 / 1.5, 1.5),
        # GPUs: the widest of their ranges, whichever of them has it
        (one, Rates(), 0.65, 2.5),
        (one, Rates(gpus=MEASURED), 0.7, 1.6),
        (one, of_jobs({ONE: 0.1}), 1 / 1.2, 1.2),
        (other, of_jobs({ONE: 0.1}), 0.65, 2.5),
        (GPUS, Rates(gpus=MEASURED), 0.7, 1.6),
        (GPUS, Rates(gpus=ONE_MEASURED), 0.65, 2.5),
        (GPUS, of_jobs({ONE: 0.1}, gpus=MEASURED), 0.7, 1.6),
        (GPUS, of_jobs({ONE: 0.1, OTHER: 0.2}), 1 / 1.4, 1.4),
        (GPUS, of_jobs({ONE: 0.2, OTHER: 0.1}), 1 / 1.4, 1.4),
    ):
        device, dtype = ("cuda", "float16") if budget.cuda else ("cpu", "float32")
        plan = a_plan(work=replace(LITE, device=device, dtype=dtype))
        found = times.spread(plan, budget, known)
        assert (found.low, found.high) == pytest.approx((low, high), rel=0.005), known
        is_guess = high == (2.5 if budget.cuda else 2)
        assert times.is_measured(plan, budget, known) != is_guess, known


def test_more_frames_take_longer():
    for model, budget in itertools.product((*MODELS, "none"), BUDGETS):
        found = [planned(model, budget=budget, frames=count).seconds for count in (100, 200, 5000)]
        assert found == sorted(set(found)), model


def test_no_stage_takes_longer_than_all_and_all_no_longer_than_their_sum():
    for budget in BUDGETS:
        plan = planned(budget=budget)
        work = plan.seconds - times.fixed_seconds(plan, Rates())
        each = [stage.seconds for stage in plan.stages]
        assert max(each) <= work * (1 + 1e-9)
        assert work <= sum(each) * (1 + 1e-9)


def test_a_better_gpu_is_never_slower():
    """The same work on every GPU, and on every GPU that is at least as good in everything."""
    strong = pretended_budget(gpu_specs()[-1], ram_bytes=64 * GB)
    limits = ("half_flops", "single_flops", "bandwidth", "link_bandwidth", "capability")
    better = [
        (one, other)
        for one, other in itertools.permutations(gpu_specs(), 2)
        if all(getattr(one, name) >= getattr(other, name) for name in limits)
    ]
    assert len(better) > 100
    for model in MODELS:
        job = planned(model, budget=strong).work
        seconds = {
            gpu: times.model_seconds(job, 100, replace(strong, gpu=gpu), Rates())
            for gpu in gpu_specs()
        }
        for one, other in better:
            assert seconds[one] <= seconds[other], (model, one.title, other.title)


def test_a_gpu_of_no_table_counts_as_the_middle_one_of_its_generation():
    for capability, generation in (
        *((None, "turing"), ((7, 0), "turing"), ((8, 0), "turing"), ((8, 6), "ampere")),
        *(((9, 0), "ada"), ((12, 1), "blackwell")),
    ):
        found = counted_gpu(None, capability)
        rates = [gpu.half_flops for gpu in gpu_specs() if gpu.generation == generation]
        assert found.generation == generation
        assert min(rates) < found.half_flops < max(rates)
        doubled = counted_gpu(None, capability, 2 * found.multiprocessors)
        assert doubled.half_flops == 2 * found.half_flops
        assert doubled.single_flops == 2 * found.single_flops
        assert doubled.bandwidth == found.bandwidth


def test_streamed_weights_take_time_and_pinned_copies_less():
    budget = pretended_budget(gpu_specs()[-1], ram_bytes=64 * GB)
    work = planned("seedvr2-7b", budget=budget, clip_frames=5).work
    all_there = replace(work, blocks_on_device=None)
    paged = replace(work, blocks_on_device=0, pin_bytes=0)
    pinned = replace(paged, pin_bytes=64 * GB)
    found = [times.model_seconds(one, 100, budget, Rates()) for one in (all_there, pinned, paged)]
    assert found == sorted(set(found))


def test_blending_frames_takes_time_and_leaves_the_time_measured():
    here = gpu_specs()[0]
    rates = Rates(costs={"lite-2-float32": 1.2}, gpus={here.title: {"lite-float16": 1.0}})
    for budget in (a_budget(), pretended_budget(here, ram_bytes=64 * GB)):
        off, mild = (planned(budget=budget, rates=rates, steadiness=how) for how in ("off", "mild"))
        taken = {stage.stage: stage.seconds for stage in mild.stages}
        assert 0 < taken["steady"] < 0.2 * taken["upscale"]
        assert mild.seconds > off.seconds
        assert (off.is_measured, mild.is_measured) == (True, True)


def test_slower_encoding_takes_longer():
    taken = []
    for speed in ("fast", "auto", "medium", "slow"):
        plan = planned(speed=speed, codec="hevc")
        taken.append({stage.stage: stage.seconds for stage in plan.stages}["write"])
    assert taken == sorted(set(taken))
    assert taken[-1] > 3 * taken[1]


def test_what_the_speed_test_measured_counts_on_its_own_gpu_alone():
    here, other = (pretended_budget(gpu_specs()[n], ram_bytes=64 * GB) for n in (-1, 0))
    rates = Rates(gpus={here.title: {"vae-float16": 1.0, "transformer-bfloat16": 1.0}})
    for budget, counts in ((here, True), (other, False)):
        guessed, found = (planned("seedvr2-3b", budget=budget, rates=r) for r in (Rates(), rates))
        assert (found.seconds != guessed.seconds, found.is_measured) == (counts, counts)
    assert planned(rates=Rates(costs={"lite-2-float32": 2.0})).seconds > planned().seconds


def test_finished_jobs_correct_the_prediction():
    first = planned(frames=5000)
    times.learn(first, 3 * first.seconds)
    second = planned(frames=5000, rates=load_rates())
    assert second.seconds == pytest.approx(3 * first.seconds, rel=0.03)
    assert second.is_measured
    for _ in range(6):
        times.learn(first, first.seconds)
    assert planned(frames=5000, rates=load_rates()).seconds < 1.1 * first.seconds


def test_a_gpu_learns_for_itself():
    first, second = (pretended_budget(gpu_specs()[n], ram_bytes=64 * GB) for n in (-1, 0))
    plan = planned("seedvr2-3b", budget=first, frames=5000)
    times.learn(plan, 2 * plan.seconds)
    known = [planned("seedvr2-3b", budget=one, rates=load_rates()) for one in (first, second)]
    assert [plan.is_measured for plan in known] == [True, False]


def test_a_job_that_took_more_of_a_gpu_than_planned_makes_the_next_plan_smaller():
    budget = pretended_budget(find("RTX 4060"), ram_bytes=32 * GB)
    plan = planned("seedvr2-3b", budget=budget, height=1080)
    times.learn(plan, plan.seconds, memory=1.25)
    again = planned("seedvr2-3b", budget=budget, rates=load_rates(), height=1080)
    assert again.device_budget_bytes == pytest.approx(plan.device_budget_bytes / 1.25)
    assert again.device_bytes <= again.device_budget_bytes < plan.device_bytes
    assert again.device_limit_bytes == plan.device_limit_bytes
