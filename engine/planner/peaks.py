"""Predicted memory of a plan, stage by stage, from the plan alone."""

from __future__ import annotations

from engine.core.geometry import Size
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models import registry
from engine.models.planning.memory import MemoryRequirement, PhaseMemory
from engine.protocol.media import subsampling
from engine.protocol.plan import PicturePlan, Plan, WorkPlan
from engine.video.write.encoders import ENCODERS

_DEINTERLACED = 9  # frames that wait for their cycle of telecine, and for their neighbours
QUEUE_CLIPS = 2  # waiting between two stages; pipeline.run makes the queues of this length
_THREADS = ("read", "write")  # stages with a thread of their own
_PLANES_IN = 4  # bytes of a px as decoded: up to 4:4:4 of 16 bit, less for most
_FLOAT = 4
_COPIES = 3  # of a frame that an encoder is given, at most
_FILLED = 33  # bytes of a px while colours beneath transparent ones are filled in
# large frames become smaller in bands: lines of the result in each, its filter's reach included
_REDUCED_LINES = 70
_REDUCED_COPIES = 5  # of a band, at most: while values of sRGB become light


def program_bytes(plan: Plan) -> int:
    """Main memory of the program before it works; a job on a GPU has a process of its own."""
    has_own = plan.work.device == "cuda" and not plan.workers
    measuring = max(registry.family_of(one).needs(one).measuring for one in plan.passes)
    return PROGRAM_BYTES * (2 if has_own else 1) + plan.window_bytes + measuring


def job_peak(plan: Plan) -> PhaseMemory:
    """Most memory at once: of the GPU, and of the whole program with its worker processes."""
    found = stage_peaks(plan)
    device = max(peak.device for peak in found.values())
    first = found.pop("latents", PhaseMemory(0)).host  # it has ended before the others begin
    together = _together(found)
    if plan.workers:  # this process reads ahead of them
        together = found["read"].host + len(plan.workers) * (PROGRAM_BYTES + together)
    return PhaseMemory(device, program_bytes(plan) + max(first, together))


def most_ram(plan: Plan, budget: Budget) -> int:
    """Main memory that a job may take next to its memory of all GPUs, bytes."""
    return budget.ram_beside(job_peak(plan).device * max(1, len(plan.workers)))


def worker_bytes(plan: Plan) -> int:
    """Most main memory of one worker process."""
    found = stage_peaks(plan)
    found.pop("latents", None)
    return PROGRAM_BYTES + _together(found)


def stage_peaks(plan: Plan) -> dict[str, PhaseMemory]:
    """Memory by stage: "latents" where a video is made of them first, then "read" to "write".

    A first pass has its weights in all stages of the device's thread.
    """
    work, picture = plan.work, plan.picture
    planes_in = plan.source_size.pixels * _PLANES_IN
    planes_out = picture.size.pixels * (3 if picture.bit_depth > 8 else 2)
    needs = registry.family_of(work).needs(work)
    read = 16 + needs.waiting + work.clip_frames * (QUEUE_CLIPS + 2)
    read += _DEINTERLACED if plan.deinterlacing is not None else 0
    written = needs.finished * (QUEUE_CLIPS + 2)
    return {
        **_latents(plan),
        "read": PhaseMemory(0, planes_in * read),
        **_of_model(plan, needs),
        "write": PhaseMemory(
            0,
            encoder_bytes(picture, min(plan.frames, plan.segment_frames))
            + (planes_out + planes_in) * written,
        ),
    }


def encoder_bytes(picture: PicturePlan, given: int) -> int:
    """Main memory that an encoder keeps at most: frames that it looks ahead, and its own.

    Args:
        picture: The encoding.
        given: Frames that the encoder gets: those of a segment.
    """
    spec = ENCODERS[picture.encoder]
    across, down = subsampling(picture.chroma)
    samples = 1 if picture.chroma == "gray" else 1 + 2 / (across * down)
    encoders = 2 if picture.has_alpha and spec.has_alpha_apart else 1
    samples += picture.has_alpha and encoders == 1
    frames = spec.frames + min(spec.speed_of(picture.options).frames, _COPIES * given)
    frame = samples * (2 if picture.bit_depth > 8 else 1)
    own = spec.megabytes + min(picture.threads, spec.most_threads) * spec.megabytes_per_thread
    return encoders * (
        round(picture.size.pixels * (spec.bytes_per_pixel + frames * frame)) + own * 10**6
    )


def _together(found: dict[str, PhaseMemory]) -> int:
    """Stages of the device's thread take turns, reading and writing go on at the same time."""
    turns = max(peak.host for name, peak in found.items() if name not in _THREADS)
    return turns + sum(found[name].host for name in _THREADS)


def _of_model(plan: Plan, needs: MemoryRequirement) -> dict[str, PhaseMemory]:
    """Stages of the model, each with the frames of the source that it takes, and "restore"."""
    work, on_gpu = plan.work, plan.work.device == "cuda"
    source = _rgb(plan, plan.source_size, work.clip_frames)
    kinds = len(plan.passes)  # of frames of the source that are there: as read, and cleaned
    sizes = {
        name: needs.weights + max(size, _filling(plan)) + source
        for name, size in needs.working.items()
    }
    held = source
    if work.takes_shots:  # frames that are finished are not those that were taken last
        finished = _rgb(plan, plan.source_size, needs.finished)
        sizes[[*sizes][-1]] += kinds * finished
        held += source + (kinds - 1) * finished
    else:
        sizes = {name: size + (kinds - 1) * source for name, size in sizes.items()}
        held *= kinds
    restoring = _restoring(plan, work.canvas, needs.finished)
    sizes["restore"] = needs.weights + needs.finishing + held + restoring
    hosts = {**needs.hosts, "restore": needs.hosts.get("finishing", 0)}
    if plan.first_pass is not None:
        sizes, hosts = _with_first(plan, plan.first_pass, needs, sizes, hosts)
    return {
        stage: PhaseMemory(size if on_gpu else 0, hosts.get(stage, 0) + (0 if on_gpu else size))
        for stage, size in sizes.items()
    }


def _with_first(
    plan: Plan,
    first: WorkPlan,
    needs: MemoryRequirement,
    sizes: dict[str, int],
    hosts: dict[str, int],
) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of the device and of main memory, by stage, with those of a first pass.

    Cleaned frames wait in main memory for their result, which may take its colours from them.
    """
    own, frame = registry.family_of(first).needs(first), plan.source_size.pixels * _FLOAT * 3
    taken = plan.work.clip_frames + plan.work.takes_shots  # the first slice of a shot has one more
    working, others = own.working["upscale"], taken - first.clip_frames
    if others > 0:  # its results are joined
        working = max(working + others * frame, 2 * taken * frame)
    source = _rgb(plan, plan.source_size, taken)
    cleaning = source + max(working, _filling(plan))
    sizes = {"clean": needs.weights + needs.between + cleaning, **sizes}
    hosts = {**hosts, "clean": needs.hosts.get("between", 0)}
    waiting = needs.waiting * frame if plan.work.takes_shots else 0
    return (
        {name: size + own.weights for name, size in sizes.items()},
        {name: hosts.get(name, 0) + waiting for name in sizes},
    )


def _filling(plan: Plan) -> int:
    """Bytes of filling in colours beneath transparent pixels, before anything else is done."""
    return plan.source_size.pixels * _FILLED if plan.picture.has_alpha else 0


def _rgb(plan: Plan, size: Size, frames: int) -> int:
    """Bytes of frames in RGB, with alpha where the picture has it."""
    return frames * size.pixels * _FLOAT * (4 if plan.picture.has_alpha else 3)


def _restoring(plan: Plan, large: Size, frames: int) -> int:
    """Bytes of making exact sizes and code values of large frames, in addition to these."""
    picture = plan.picture.size
    whole = _rgb(plan, picture, frames)
    resized = whole if large.pixels != picture.pixels else 0
    if plan.picture.has_alpha:
        resized += whole
    codes = 2 * whole if plan.picture.chroma in ("444", "rgb") else 3 * whole // 2
    return resized + max(codes, _reducing(large, plan.stored_size))


def _reducing(large: Size, picture: Size) -> int:
    """Bytes of a band of a frame while it becomes smaller; see ops.resize."""
    if large.width <= picture.width and large.height <= picture.height:
        return 0
    lines = min(large.height, -(-_REDUCED_LINES * large.height // picture.height))
    return _REDUCED_COPIES * 3 * lines * large.width * _FLOAT


def _latents(plan: Plan) -> dict[str, PhaseMemory]:
    """Peak of a source of latents, which becomes a video first."""
    work = registry.decoding(plan)
    if work is None:
        return {}
    found, is_cpu = registry.family_of(work).needs(work), work.device == "cpu"
    ram = found.host + (found.device if is_cpu else 0)
    return {"latents": PhaseMemory(0 if is_cpu else found.device, ram)}
