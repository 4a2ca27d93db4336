"""Self-test: whether this machine can do the work, and what helps where it cannot.

Every check tests one thing by using it; an exception in a check is itself a finding. Messages:
`doctor.*` in the catalogue.
"""

from __future__ import annotations

import importlib.util
import logging
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.core import paths
from engine.core.errors import EngineError, is_code_refusal
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware import (
    code_policy,
    commit,
    devices,
    gpu_reading,
    gpu_table,
    known_faults,
    nvml,
    pc_state,
    shared_memory,
    torch_memory,
)
from engine.hardware.devices import fastest, from_environment
from engine.hardware.gpu_table import GIB
from engine.models import registry
from engine.planner.preset_choice import offered
from engine.protocol.report import STATES, DoctorLine, State
from engine.settings import switches
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from engine.settings.store import load_engine_settings

logger = logging.getLogger(__name__)

_GB = 10**9
_LONGEST_JOB_FILE = 60  # "20260101-120000-abcdef/segments/000123.nut.part" and some reserve
_MUCH_MB = 2048  # GPU memory of other programs that is worth a warning


def examine() -> tuple[DoctorLine, ...]:
    """Run all checks: some seconds, most of them for loading torch."""
    return tuple(line for check in CHECKS for line in _lines(check))


def _lines(check: Callable[[], Iterator[DoctorLine]]) -> list[DoctorLine]:
    name = check.__name__.lstrip("_")
    found: list[DoctorLine] = []
    try:
        found.extend(check())
    except EngineError as err:
        found.append(_failed(name, err))
    except Exception as err:  # on a broken machine anything may be broken
        logger.warning("check %s", name, exc_info=True)
        found.append(_problem(name, "exception", kind=type(err).__name__, reason=err))
    return found


def _line(state: State, name: str, case: str, /, **params: object) -> DoctorLine:
    return DoctorLine(name=name, state=state, message=message(f"doctor.{case}", **params))


_ok, _warning, _problem = (partial(_line, state) for state in STATES)


def _failed(name: str, err: EngineError) -> DoctorLine:
    return _problem(name, "error", problem=err.message, advice=err.hint)


# --- the program


def _python() -> Iterator[DoctorLine]:
    bits = 64 if sys.maxsize > 2**32 else 32
    facts = {"version": platform.python_version(), "bits": bits, "system": platform.platform()}
    if sys.version_info < (3, 11) or bits < 64:
        yield _problem("python", "python.too-old", **facts)
    else:
        yield _ok("python", "python.here", **facts)


def _torch() -> Iterator[DoctorLine]:
    try:
        import torch
    except (ImportError, OSError) as err:
        case = "torch.blocked" if is_code_refusal(err) else "torch.missing"
        yield _problem("torch", case, reason=err)
        return
    facts = {"version": torch.__version__, "threads": torch.get_num_threads()}
    if torch.version.cuda:
        yield _ok("torch", "torch.for-gpu", **facts, cuda=torch.version.cuda)
    else:
        yield _ok("torch", "torch.for-processor", **facts)
    yield from _arithmetic(torch)


def _arithmetic(torch: Any) -> Iterator[DoctorLine]:
    """Compares a convolution with the sum of products that defines it."""
    generator = torch.Generator().manual_seed(1)
    picture = torch.rand(1, 16, 24, 40, generator=generator)
    kernel = torch.rand(8, 16, 3, 3, generator=generator) - 0.5
    with torch.inference_mode():
        fast = torch.nn.functional.conv2d(
            picture.contiguous(memory_format=torch.channels_last), kernel
        )
        patches = picture[0].double().unfold(1, 3, 1).unfold(2, 3, 1)
        plain = torch.einsum("chwij,ocij->ohw", patches, kernel.double())
    error = float((fast[0].double() - plain).abs().max())
    if error < 1e-4:
        yield _ok("arithmetic", "arithmetic.right", error=f"{error:.1e}")
    else:
        yield _problem("arithmetic", "arithmetic.wrong", error=f"{error:.1e}")


def _convolutions() -> Iterator[DoctorLine]:
    """The variant of convolutions in video models, on the GPU too where torch can use one."""
    import torch

    from engine.ops.conv.trial import probe_convolution

    places = [("CPU", "cpu", torch.float32)]
    if torch.cuda.is_available():
        places += [
            ("GPU, float16", "cuda", torch.float16),
            ("GPU, bfloat16", "cuda", torch.bfloat16),
        ]
    for title, device, dtype in places:
        with torch_memory.selected():
            choice = probe_convolution(device, dtype)
        name = f"convolutions ({title})"
        if choice.is_sound:
            yield _ok(name, "convolutions.right", choice=choice.text)
        elif device == "cuda":
            yield _problem(name, "convolutions.wrong-on-gpu", reason=choice.reason)
        else:
            yield _problem(name, "convolutions.wrong", reason=choice.reason)


def _kernels() -> Iterator[DoctorLine]:
    """Families of CUDA kernels that fail on the GPU, where models use operators of torch instead.

    The log has the reason of each, once.
    """
    import torch

    if not torch.cuda.is_available():
        return
    from engine.ops.kernels import conv, conv_tiles
    from engine.ops.kernels.families import FAMILIES

    with torch_memory.selected():
        gpu = torch.device("cuda", torch.cuda.current_device())
        for dtype in (torch.float16, torch.bfloat16):
            name = f"kernels (GPU, {str(dtype).removeprefix('torch.')})"
            families = [one for one in FAMILIES if dtype in one.dtypes]
            failed = [one.title for one in families if not one.working(gpu, dtype)]
            count = len(families) + (dtype == conv_tiles.DTYPE)
            if dtype == conv_tiles.DTYPE and not conv.working(gpu):
                failed.append(conv.TITLE)
            if failed:
                yield _warning(name, "kernels.fail", names=tuple(failed))
            else:
                yield _ok(name, "kernels.work", count=count)


def _video() -> Iterator[DoctorLine]:
    import av

    yield _ok("av", "version", version=av.__version__)
    libraries = sorted(av.library_versions.items())
    text = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in libraries)
    yield _ok("ffmpeg libraries", "version", version=text)


def _window() -> Iterator[DoctorLine]:
    if importlib.util.find_spec("PySide6") is None:
        yield _warning("window", "window.missing")
        return
    try:
        yield _ok("window", "window.here", version=metadata.version("PySide6-Essentials"))
    except metadata.PackageNotFoundError:  # a frozen program has no package metadata
        yield _ok("window", "window.frozen")


def _encoders() -> Iterator[DoctorLine]:
    from engine.video.write.codecs import encoder_works
    from engine.video.write.encoders import ON_GPU, ON_PROCESSOR

    for codec, encoder in ON_PROCESSOR.items():
        name = f"encoder {encoder.name}"
        if encoder_works(encoder.name):
            yield _ok(name, "encoder.works", codec=encoder.title)
        elif codec == "h264":
            yield _problem(name, "encoder.main-one-fails")
        else:
            yield _warning(name, "encoder.fails", codec=encoder.title)
    if not nvml.handles():
        return
    for encoder in ON_GPU.values():
        name = f"encoder {encoder.name}"
        if encoder_works(encoder.name):
            yield _ok(name, "encoder.works-on-gpu", codec=encoder.title)
        else:
            yield _warning(name, "encoder.fails-on-gpu")


# --- its files


def _resources() -> Iterator[DoctorLine]:
    folder = paths.resources()
    missing = tuple(
        name for name in ("icons", "presets", "samples", "weights") if not (folder / name).is_dir()
    )
    if missing:
        yield _problem("resources", "resources.missing", names=missing, folder=folder)
    else:
        yield _ok("resources", "folder", folder=folder)


def _weights() -> Iterator[DoctorLine]:
    for family in registry.families():
        for name, trial in family.self_tests():
            try:
                state, found = trial()
                yield DoctorLine(name=name, state=state, message=found)
            except EngineError as err:
                yield _failed(name, err)


def _folders() -> Iterator[DoctorLine]:
    for name, folder in (
        ("job folder", paths.jobs_folder()),
        ("log folder", paths.logs_folder()),
        ("cache folder", paths.cache_folder()),
    ):
        yield _written(name, folder)
    yield _path_length()


def _written(name: str, folder: Path) -> DoctorLine:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"upreel")
    except OSError as err:
        reason = err.strerror or err
        return _problem(name, "folder-unwritable", folder=folder, reason=reason)
    return _ok(name, "folder", folder=folder)


def _path_length() -> DoctorLine:
    folder = str(paths.jobs_folder())
    longest = len(folder) + _LONGEST_JOB_FILE
    is_long_form = folder.startswith(paths.LONG_PREFIX)
    if longest <= paths.LONGEST_PATH or is_long_form or paths.takes_long_paths():
        return _ok("path length", "path-length.fits", longest=longest)
    return _problem("path length", "path-length.too-long", longest=longest)


def _settings() -> Iterator[DoctorLine]:
    settings = load_engine_settings()
    threads = settings.threads or devices.cpu_threads()
    shares = {"share": settings.memory_share, "vram": settings.vram_limit}
    texts = {name: f"{share:.0%}" for name, share in shares.items()}
    yield _ok("settings", "settings", threads=threads, **texts)


def _optimisations() -> Iterator[DoctorLine]:
    gpu = devices.in_use()
    place = ("cpu", None) if gpu is None else ("cuda", gpu.capability)
    found = switches.switches_of("", *place).changes_from(switches.default_switches(*place))
    chosen = {
        key: word for key, word in switches.environment_changes().items() if isinstance(word, str)
    }
    changes = switches.text_of({**found, **chosen})
    case = "optimisations.by-environment" if changes else "optimisations.usual"
    yield _ok("optimisations", case, changes=changes)


# --- the machine


def _disk() -> Iterator[DoctorLine]:
    folder = paths.data_folder()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free >= 5 * _GB:
        yield _ok("disk", "disk.enough", free=bytes_text(free))
    elif free >= _GB:
        yield _warning("disk", "disk.little", free=bytes_text(free))
    else:
        yield _problem("disk", "disk.little", free=bytes_text(free))


def _memory() -> Iterator[DoctorLine]:
    total, available = devices.ram()
    sizes = {"available": bytes_text(available), "total": bytes_text(total)}
    if available >= 2 * _GB:
        yield _ok("memory", "memory.enough", **sizes)
    else:
        yield _warning("memory", "memory.little", **sizes)


def _commit() -> Iterator[DoctorLine]:
    """Memory that the system still promises, where it has a limit for that."""
    promised, (_, available) = commit.commit(), devices.ram()
    if promised is None:
        return
    sizes = {"left": promised.left_bytes, "limit": promised.limit_bytes, "available": available}
    texts = {name: bytes_text(size) for name, size in sizes.items()}
    if promised.left_bytes >= available:
        yield _ok("commit limit", "commit.enough", **texts)
    else:
        advice = message(f"advice.{promised.cause}")
        yield _warning("commit limit", "commit.little", **texts, advice=advice)


def _processor() -> Iterator[DoctorLine]:
    case = "with-bfloat16" if devices.cpu_has_bf16() else "without-bfloat16"
    facts = {"name": devices.cpu_name(), "threads": devices.cpu_threads()}
    yield _ok("processor", f"processor.{case}", **facts)


def _gpu() -> Iterator[DoctorLine]:
    gpus = devices.gpus()
    if not gpus:
        failure = nvml.failure()
        yield _ok("GPU", "gpu.no-driver" if failure else "gpu.none", reason=failure)
        return
    import torch

    for gpu in gpus:
        facts = {"name": gpu.name, "driver": gpu.driver}
        facts |= {"free": bytes_text(gpu.free_bytes), "total": bytes_text(gpu.total_bytes)}
        if torch.cuda.is_available():
            yield _ok("GPU", "gpu.usable", **facts)
        elif torch.version.cuda:
            yield _problem("GPU", "gpu.unusable", **facts)
        else:
            yield _warning("GPU", "gpu.torch-for-processor", **facts)


def _gpu_libraries() -> Iterator[DoctorLine]:
    """Versions of CUDA, cuDNN and driver, and what is known to go wrong with them."""
    yield from known_faults.lines()


def _gpu_link() -> Iterator[DoctorLine]:
    """Speed at which weights come from main memory."""
    for gpu in devices.gpus():
        link = gpu_reading.link_of(gpu)
        if link is None:
            continue
        spec = gpu_table.find(gpu.name, gpu.total_bytes)
        board = max(spec.link_bandwidth if spec else 0.0, link.gpu_bandwidth)
        lanes = max(spec.lanes if spec else 0, link.gpu_width)
        facts = {"name": gpu.name, "link": gpu_reading.link_text(link), "lanes": lanes}
        facts |= {"rate": f"{link.bandwidth / 1e9:.0f}", "most": f"{board / 1e9:.0f}"}
        if link.width >= lanes:
            yield _ok("GPU link", "gpu-link.full", **facts)
        else:
            yield _warning("GPU link", "gpu-link.narrow", **facts)


def _gpu_programs() -> Iterator[DoctorLine]:
    """Other programs that use memory of the GPU."""
    found = gpu_reading.other_programs()
    if not devices.gpus():
        return
    names = tuple(f"{program.name} {_size(program.mb)}".strip() for program in found)
    if sum(program.mb or 0 for program in found) >= _MUCH_MB:
        yield _warning("GPU programs", "gpu-programs.much", names=names)
    elif names:
        yield _ok("GPU programs", "gpu-programs.little", names=names)
    else:
        yield _ok("GPU programs", "gpu-programs.none")


def _size(mb: int | None) -> str:
    return "" if mb is None else f"{mb * 2**20 / GIB:.1f} GB"


def _gpu_spilling() -> Iterator[DoctorLine]:
    """Whether Windows' move of GPU memory to main memory would be noticed."""
    if sys.platform != "win32" or not devices.gpus():
        return
    if shared_memory.own_bytes() is not None:
        yield _ok("GPU spilling", "gpu-spilling.counted")
    else:
        yield _warning("GPU spilling", "gpu-spilling.not-counted")


def _pc_state() -> Iterator[DoctorLine]:
    """Time limit and scheduling of the GPU, screens, and the source of power."""
    yield from pc_state.lines()


def _runtime() -> Iterator[DoctorLine]:
    from engine.runtimes import advice

    yield from advice.lines(devices.in_use())


def _code_policy() -> Iterator[DoctorLine]:
    """Whether Windows may block libraries of torch."""
    yield from code_policy.lines()


def _presets() -> Iterator[DoctorLine]:
    found = offered(fastest(from_environment()))
    presets = tuple(f"{'/'.join(p.goals)} {_choices_of(p)}" for p in found.presets if not p.is_own)
    if found.gpu:
        yield _ok("presets", "presets.for-gpu", gpu=found.gpu, presets=presets)
    else:
        yield _ok("presets", "presets.for-processor", presets=presets)
    for failure in found.failures:
        advice = failure.hint or message("doctor.presets.remove")
        yield _warning("presets", "error", problem=failure.message, advice=advice)


def _choices_of(preset: Preset) -> str:
    """The model of a preset and, in brackets, what else is not as usual."""
    usual = asdict(JobSettings())
    other = (f"{k}={v}" for k, v in preset.changes.items() if k != "model" and v != usual[k])
    found = ", ".join(other)
    model = str(preset.changes["model"]).replace("auto", preset.automatic)
    return f"{model} ({found})" if found else model


_PROGRAM = (
    _python,
    _torch,
    _code_policy,
    _runtime,
    _convolutions,
    _kernels,
    _video,
    _window,
    _encoders,
)
_FILES = (_resources, _weights, _folders, _settings, _optimisations)
_GPU = (_gpu, _gpu_libraries, _gpu_link, _gpu_programs, _gpu_spilling)
_MACHINE = (_disk, _memory, _commit, _processor, *_GPU, _pc_state, _presets)
CHECKS = (*_PROGRAM, *_FILES, *_MACHINE)
