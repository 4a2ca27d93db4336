"""What the engine lists, with plausible figures: files, runtimes, updates, presets, reports."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.bench.report import promise_of, unmeasured
from engine.core.errors import ErrorInfo
from engine.core.geometry import Size
from engine.core.messages import message, title
from engine.protocol import events
from engine.protocol.delivery import RuntimeState, UpdateState
from engine.protocol.machines import MachineInfo, MachinesState
from engine.protocol.media import LATENT, MediaInfo
from engine.protocol.model_file_state import Kind, PublishedState
from engine.protocol.report import BenchReport, MeasuredRate, MeasuredSwitch
from engine.settings.presets import Preset

MB = 10**6
GB = 10**9
OFFLINE = ErrorInfo(
    code="download-failed",
    case="server",
    params={
        "host": "huggingface.co",
        "name": "a.safetensors",
        "why": message("reason.transfer.silent"),
        "help": message("help.transfer.connection"),
    },
)
_LARGE = {"seedvr2-7b": "7B", "seedvr2-7b-sharp": "7B sharp"}


def make_files() -> tuple[PublishedState, ...]:
    """A catalogue with round figures; nothing of it is here."""
    small = [
        _file(f"seedvr2-3b-{precision}", "dit", ("seedvr2-3b",), precision, size)
        for precision, size in (("fp16", 6800), ("fp8", 3400), ("q8", 3600), ("q4", 1900))
    ]
    large = [
        _file(f"{model}-{precision}", "dit", (model,), precision, size)
        for model in _LARGE
        for precision, size in (("fp16", 16400), ("fp8", 8400), ("q4", 4600))
    ]
    models = ("seedvr2-3b", *_LARGE)
    vae = _file("seedvr2-vae", "vae", models, "fp16", 500)
    text = _file("seedvr2-text", "text", models, "bf16", 1)
    wan = [
        _file("wan-2x-fp32", "vae", ("wan-2x",), "fp32", 508),
        _file("wan21-vae-fp32", "vae", ("wan21-vae",), "fp32", 507),
        _file("wan21-vae-16bit", "vae", ("wan21-vae",), "16-bit", 254),
        _file("wan22-vae-fp32", "vae", ("wan22-vae",), "fp32", 2819),
    ]
    return (*small, *large, vae, text, *wan)


def _file(
    name: str, kind: Kind, models: tuple[str, ...], precision: str, megabytes: int
) -> PublishedState:
    return PublishedState(
        id=name,
        title=name,
        kind=kind,
        models=models,
        precision=precision,
        filename=f"{name}.safetensors",
        bytes=megabytes * MB,
        sha256="0" * 64,
        licence="Apache-2.0",
        repository="author/SeedVR2",
    )


GPU = "NVIDIA GeForce RTX 5070 Ti"


def make_runtime(**changes: Any) -> RuntimeState:
    """One with round figures, that suits GPU and program; not installed."""
    made = RuntimeState(
        id="cu130",
        title="NVIDIA runtime, CUDA 13.0",
        torch="2.13.0+cu130",
        cuda="13.0",
        driver="580.0",
        bytes=1_900_000_000,
        disk_bytes=5_700_000_000,
        suits_card=True,
    )
    return replace(made, **changes)


def make_older(**changes: Any) -> RuntimeState:
    """A second one, for older drivers."""
    older = make_runtime(id="cu126", torch="2.13.0+cu126", cuda="12.6", driver="528.33")
    return replace(older, bytes=2_500_000_000, disk_bytes=7_500_000_000, **changes)


def make_listed(*runtimes: RuntimeState, **changes: Any) -> events.RuntimesListed:
    """What a packed program lists on a machine with a GPU."""
    title = message("runtime-advice.runtime", cuda="13.0")
    made = events.RuntimesListed(
        runtimes=runtimes or (make_runtime(), make_older()),
        used=message("torch-choice.none-chosen"),
        advice=message("runtime-advice.suits", title=title, gpu=GPU, driver="581.29"),
        suited="cu130",
        free_mb=212_000.0,
        card=GPU,
        driver="581.29",
    )
    return replace(made, **changes)


NO_GPU = make_listed(advice=message("runtime-advice.no-gpu"), suited="", card="", driver="")


NO_MACHINES = MachinesState(name="Office", address="192.168.1.20:47110")
STUDIO = MachineInfo(
    fingerprint="5a" * 32,
    name="Studio",
    address="192.168.1.30:50122",
    state="idle",
    devices=("RTX 4090", "RTX 3080"),
    free_bytes=31 * GB,
)
ATTIC = MachineInfo(fingerprint="a7" * 32, name="Attic", address="192.168.1.31:50122")


OWN = UpdateState(version="0.1.0", is_in_build=True, installed_as="setup")
NEWER = replace(
    OWN,
    was_checked=True,
    newer="0.2.0",
    date="2026-12-01",
    notes={"en": "- Faster.\n- **Smaller.**", "zh_CN": "- 更快。"},
    setup="upreel-0.2.0-setup.exe",
    bytes=182_400_000,
)


PRESET_GPU = "RTX 5070 Ti, 16 GB"
TAKEN = ErrorInfo(code="settings-error", case="not-a-preset", params={"name": "a.toml"})


def make_presets() -> tuple[Preset, ...]:
    """Presets for a GPU of 16 GB."""
    goals = {
        "fast": {"model": "lite"},
        "balanced": {"model": "seedvr2-3b", "precision": "auto"},
        "best": {"model": "seedvr2-7b-sharp", "precision": "q4"},
    }
    return tuple(
        Preset(
            name=goal,
            title=f"{PRESET_GPU}: {goal.capitalize()}",
            goals=(goal,),
            tier="gpu",
            description=f"What {goal} means.",
            changes=changes,
        )
        for goal, changes in goals.items()
    )


def _switch(
    name: str, exactness: Any, *, is_default: bool = True, **measured: Any
) -> MeasuredSwitch:
    about = title(f"switch.{name}")
    return MeasuredSwitch(
        name=name, title=about, exactness=exactness, is_default=is_default, **measured
    )


_FOLD = {"time": 0.71, "scatter": 0.02, "memory": 0.64, "error": 2e-7, "error_without": 3e-7}
_FUSED = {"time": 1.03, "memory": 1.0, "error": 0.0, "claim": promise_of("fused-activation")}
_CUDNN = {"claim": promise_of("cudnn-benchmark"), "note": message("bench.needs-gpu")}
SWITCHES = (
    _switch("vae.upsampler_fold", "exact", **_FOLD),
    _switch("run.cudnn_benchmark", "exact", is_default=False, **_CUDNN),
    _switch("dit.fused_steps", "rounding", **_FUSED),
    _switch("vae.all", "rounding", time=0.62, memory=0.58, error=4e-7),
    next(line for line in unmeasured() if line.name == "claim.cuda-graphs"),
)


def _figure(name: str, kind: str, value: str, **params: Any) -> MeasuredRate:
    shown = message(f"bench.value.{kind}", value=value)
    return MeasuredRate(title=message(f"bench.cost.{name}", **params), value=shown)


_VAE_COST = message("bench.cost.vae", dtype="float16")
FIGURES = (
    _figure("read", "megapixels", "65.2"),
    _figure("lite-at-scale", "megapixels", "0.71", scale=2, dtype="bfloat16"),
    _figure("open", "seconds", "0.283", codec="HEVC"),
    _figure("on-gpu", "gflops", "41200", cost=_VAE_COST, gpu="RTX 5070 Ti"),
)


def make_report(*, quick: bool) -> BenchReport:
    """Plausible figures."""
    return BenchReport(
        machine={"processor": "Some CPU", "threads": "8", "card": "none", "torch": "2.13"},
        switches=() if quick else SWITCHES,
        figures=FIGURES,
        markdown="# Measured\n\n| what | time |\n",
        seconds=42.0,
        notes=(message("bench.model.tiles", vae="VAE"),),
    )


MISSING = ErrorInfo(
    code="weights-missing",
    case="vae",
    params={"model": "Wan 2.1", "names": "vae.safetensors", "file": "wan21-vae-fp32"},
)


def made_read(path: Path) -> events.LatentRead:
    """21 latents of Wan 2.1, surely as ComfyUI saves them."""
    return events.LatentRead(
        path=path,
        model="wan21-vae",
        channels=16,
        size=Size(832, 480),
        frames=81,
        frame_rate=Fraction(16),
        guess="raw",
        is_sure=True,
    )


def flat(level: int) -> events.Picture:
    """A flat picture."""
    size = Size(52, 30)
    return events.Picture(size=size, rgb=bytes([level]) * (3 * size.pixels))


def as_latent(media: MediaInfo) -> MediaInfo:
    """The same film, known from the head of a .latent file: nothing but pictures."""
    video = replace(media.video, codec=LATENT, frame_rate=Fraction(16), frame_count=81)
    return replace(media, container=LATENT, video=video, streams=())
