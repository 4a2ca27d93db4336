"""Self-test: whether this machine can do the work, and what helps where it cannot.

Every check looks at one thing and really tries it; one that breaks is itself a finding.
"""

from __future__ import annotations

import importlib.util
import logging
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.core import paths, windows_paths
from engine.core.errors import EngineError
from engine.core.units import bytes_text
from engine.hardware import devices, features, nvml
from engine.hardware.gpu_checks import card_link, card_programs, card_spilling
from engine.hardware.pretended_gpu import from_environment
from engine.models import registry
from engine.planner.preset_choice import offered
from engine.protocol.report import DoctorLine
from engine.settings.presets import Preset
from engine.settings.store import load_engine_settings
from engine.settings.switches import (
    default_switches,
    environment_changes,
    switches_of,
    text_of,
)

logger = logging.getLogger(__name__)

_GB = 10**9
_LONGEST_WINDOWS_PATH = 259
_LONGEST_JOB_FILE = 60  # "20260101-120000-abcdef/segments/000123.nut.part" and some air
_REINSTALL = "Install Upreel again."


def examine() -> tuple[DoctorLine, ...]:
    """Look at everything: some seconds, most of them for loading torch."""
    return tuple(line for check in CHECKS for line in _lines(check))


def _lines(check: Callable[[], Iterator[DoctorLine]]) -> list[DoctorLine]:
    name = check.__name__.lstrip("_")
    found: list[DoctorLine] = []
    try:
        found.extend(check())
    except EngineError as err:
        found.append(_problem(name, err.message, err.hint))
    except Exception as err:  # whatever is broken on a broken machine is what we are looking for
        logger.warning("check %s", name, exc_info=True)
        found.append(_problem(name, f"{type(err).__name__}: {err}", _REINSTALL))
    return found


def _ok(name: str, message: str) -> DoctorLine:
    return DoctorLine(name=name, state="ok", message=message)


def _warning(name: str, message: str, hint: str) -> DoctorLine:
    return DoctorLine(name=name, state="warning", message=message, hint=hint)


def _problem(name: str, message: str, hint: str) -> DoctorLine:
    return DoctorLine(name=name, state="problem", message=message, hint=hint)


# --- the program


def _python() -> Iterator[DoctorLine]:
    bits = 64 if sys.maxsize > 2**32 else 32
    text = f"{platform.python_version()}, {bits} bit, {platform.platform()}"
    if sys.version_info < (3, 11) or bits < 64:
        yield _problem("python", text, "Upreel needs Python 3.11 or newer with 64 bits.")
    else:
        yield _ok("python", text)


def _torch() -> Iterator[DoctorLine]:
    try:
        import torch
    except (ImportError, OSError) as err:
        hint = "On Windows, install the newest Microsoft Visual C++ runtime; else " + _REINSTALL
        yield _problem("torch", f"It does not load: {err}", hint)
        return
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "for the processor"
    yield _ok("torch", f"{torch.__version__}, {build}, {torch.get_num_threads()} threads")
    yield from _arithmetic(torch)


def _arithmetic(torch: Any) -> Iterator[DoctorLine]:
    """A convolution against the plain sum of products that it stands for."""
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
    text = f"largest error of a convolution {error:.1e}"
    if error < 1e-4:
        yield _ok("arithmetic", text)
    else:
        yield _problem("arithmetic", text, "torch computes wrongly on this processor: reinstall.")


def _convolutions() -> Iterator[DoctorLine]:
    """Which form the video models take, on the card too where torch can use one."""
    import torch

    from engine.ops.conv.trial import probe_convolution

    places = [("processor", "cpu", torch.float32)]
    if torch.cuda.is_available():
        places += [
            ("card, float16", "cuda", torch.float16),
            ("card, bfloat16", "cuda", torch.bfloat16),
        ]
    for title, device, dtype in places:
        choice = probe_convolution(device, dtype)
        name = f"convolutions ({title})"
        if choice.is_sound:
            yield _ok(name, choice.text)
        else:
            hint = "Update the NVIDIA driver." if device == "cuda" else _REINSTALL
            yield _problem(name, choice.reason, hint)


def _video() -> Iterator[DoctorLine]:
    import av

    yield _ok("av", str(av.__version__))
    libraries = sorted(av.library_versions.items())
    text = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in libraries)
    yield _ok("ffmpeg libraries", text)


def _window() -> Iterator[DoctorLine]:
    hint = "The command line works without it."
    if importlib.util.find_spec("PySide6") is None:
        yield _warning("window", "PySide6 is not installed: the window cannot open.", hint)
        return
    try:
        yield _ok("window", f"PySide6 {metadata.version('PySide6-Essentials')}")
    except metadata.PackageNotFoundError:  # a packed program has no lists of its packages
        yield _ok("window", "PySide6 is there")


def _encoders() -> Iterator[DoctorLine]:
    from engine.video.write.codecs import encoder_works
    from engine.video.write.encoders import ON_GPU, ON_PROCESSOR

    for codec, encoder in ON_PROCESSOR.items():
        name = f"encoder {encoder.name}"
        if encoder_works(encoder.name):
            yield _ok(name, f"writes {encoder.title}")
        elif codec == "h264":
            yield _problem(name, "It does not open, and most results need it.", _REINSTALL)
        else:
            yield _warning(name, f"It does not open: no {encoder.title} files.", _REINSTALL)
    if not nvml.handles():
        return
    for encoder in ON_GPU.values():
        name = f"encoder {encoder.name}"
        if encoder_works(encoder.name):
            yield _ok(name, f"writes {encoder.title} on the card")
        else:
            hint = "A newer driver may help; the processor encodes meanwhile."
            yield _warning(name, "The card or its driver does not open it.", hint)


# --- its files


def _resources() -> Iterator[DoctorLine]:
    folder = paths.resources()
    missing = [
        name for name in ("icons", "presets", "samples", "weights") if not (folder / name).is_dir()
    ]
    if missing:
        yield _problem("resources", f"{', '.join(missing)} missing in {folder}", _REINSTALL)
    else:
        yield _ok("resources", str(folder))


def _weights() -> Iterator[DoctorLine]:
    for family in registry.families():
        for name, trial in family.self_tests():
            try:
                yield _ok(name, trial())
            except EngineError as err:
                yield _problem(name, err.message, err.hint)


def _folders() -> Iterator[DoctorLine]:
    for name, folder in (
        ("jobs folder", paths.jobs_folder()),
        ("logs folder", paths.logs_folder()),
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
        hint = "Give yourself the right to write there, or set UPREEL_DATA to another folder."
        return _problem(name, f"{folder} cannot be written: {err.strerror or err}", hint)
    return _ok(name, str(folder))


def _path_length() -> DoctorLine:
    folder = str(paths.jobs_folder())
    longest = len(folder) + _LONGEST_JOB_FILE
    text = f"up to {longest} characters in the jobs folder"
    is_long_form = folder.startswith(windows_paths.LONG)
    if longest <= _LONGEST_WINDOWS_PATH or is_long_form or _takes_long_paths():
        return _ok("path length", text)
    hint = "Set UPREEL_DATA to a folder with a shorter path, or allow long paths in Windows."
    return _problem("path length", f"{text}, Windows takes {_LONGEST_WINDOWS_PATH}", hint)


def _takes_long_paths() -> bool:
    if sys.platform != "win32":
        return True
    import winreg

    place = r"SYSTEM\CurrentControlSet\Control\FileSystem"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0])
    except OSError:
        return False


def _settings() -> Iterator[DoctorLine]:
    settings = load_engine_settings()
    threads = settings.threads or devices.cpu_threads()
    yield _ok("settings", f"{threads} threads, {settings.memory_share:.0%} of the free memory")


def _optimisations() -> Iterator[DoctorLine]:
    card = next(iter(devices.gpus()), None)
    place = ("cpu", None) if card is None else ("cuda", card.capability)
    found = switches_of("", *place).changes_from(default_switches(*place))
    chosen = {key: word for key, word in environment_changes().items() if isinstance(word, str)}
    changes = text_of({**found, **chosen})
    yield _ok("optimisations", f"by environment: {changes}" if changes else "all as usual")


# --- the machine


def _disk() -> Iterator[DoctorLine]:
    folder = paths.data_folder()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{bytes_text(free)} free for unfinished jobs"
    hint = "Free some space: a job keeps its finished parts there."
    if free >= 5 * _GB:
        yield _ok("disk", text)
    elif free >= _GB:
        yield _warning("disk", text, hint)
    else:
        yield _problem("disk", text, hint)


def _memory() -> Iterator[DoctorLine]:
    total, available = devices.ram()
    text = f"{bytes_text(available)} of {bytes_text(total)} available"
    if available >= 2 * _GB:
        yield _ok("memory", text)
    else:
        yield _warning("memory", text, "Close other programs; large films are cut into tiles.")


def _processor() -> Iterator[DoctorLine]:
    bf16 = "with" if features.cpu_has_bf16() else "without"
    text = f"{devices.cpu_name()}, {devices.cpu_threads()} threads, {bf16} bfloat16"
    yield _ok("processor", text)


def _card() -> Iterator[DoctorLine]:
    answers, why_not = nvml.state()
    cards = devices.gpus()
    if not cards:
        reason = "the driver knows none" if answers else f"no driver ({why_not})"
        yield _ok("card", f"no NVIDIA card: {reason}; the processor does the work")
        return
    import torch

    for card in cards:
        memory = f"{bytes_text(card.free_bytes)} of {bytes_text(card.total_bytes)} free"
        text = f"{card.name}, driver {card.driver}, {memory}"
        if torch.cuda.is_available():
            yield _ok("card", text)
        elif torch.version.cuda:
            yield _problem("card", f"{text}; torch cannot use it", "Update the NVIDIA driver.")
        else:
            hint = "Upreel works on the processor until the NVIDIA build of torch is there."
            yield _warning("card", f"{text}; this torch is built for the processor", hint)


def _runtime() -> Iterator[DoctorLine]:
    from engine.runtimes import advice

    gpu = advice.DetectedGpu()
    for found in devices.gpus()[:1]:
        gpu = advice.DetectedGpu(name=found.name, driver=found.driver, capability=found.capability)
    yield from advice.lines(gpu)


def _presets() -> Iterator[DoctorLine]:
    found = offered(from_environment())
    three = (f"{p.goal} {_model_of(p)}" for p in found.presets if not p.is_own)
    yield _ok("presets", f"{found.card or 'processor'}: {', '.join(three)}")
    for failure in found.failures:
        hint = failure.hint or "Remove the file, or save the preset anew."
        yield _warning("presets", failure.message, hint)


def _model_of(preset: Preset) -> str:
    precision = preset.changes.get("precision", "auto")
    model = str(preset.changes["model"]).replace("auto", "lite")
    return f"{model}{'' if precision == 'auto' else f' {precision}'}"


CHECKS = (
    _python,
    _torch,
    _runtime,
    _convolutions,
    _video,
    _window,
    _encoders,
    _resources,
    _weights,
    _folders,
    _settings,
    _optimisations,
    _disk,
    _memory,
    _processor,
    _card,
    card_link,
    card_programs,
    card_spilling,
    _presets,
)
