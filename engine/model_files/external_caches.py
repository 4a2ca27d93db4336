"""Folders of other programs in which model files may lie already: looked into, never changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from engine.protocol.model_file_state import PublishedState

_IN_COMFYUI = ("SEEDVR2", "diffusion_models", "unet", "vae", "checkpoints", "text_encoders")
_USUAL_COMFYUI = ("ComfyUI", "Documents/ComfyUI", "comfy/ComfyUI", "Desktop/ComfyUI")


def comfyui_folders() -> tuple[Path, ...]:
    """Folders of models in ComfyUI, those that are there.

    `UPREEL_COMFYUI` names one or several installations (parted as in PATH) instead of the usual
    places; empty it means none.
    """
    named = os.environ.get("UPREEL_COMFYUI")
    if named is None:
        roots = [Path.home() / place for place in _USUAL_COMFYUI]
    else:
        roots = [Path(text) for text in named.split(os.pathsep) if text]
    bases = [base for root in roots for base in (root / "models", root)]
    found = [base / name for base in bases for name in _IN_COMFYUI]
    return tuple(folder for folder in found if folder.is_dir())


def hub_cache() -> Path:
    """Where the Hugging Face tools keep what they downloaded; need not be there."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name])
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home) / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "huggingface" / "hub"


def borrowed(file: PublishedState) -> Iterator[Path]:
    """Files elsewhere that may be this published one, by name or by the hub's own hash."""
    for folder in comfyui_folders():
        if (folder / file.filename).is_file() and _spelled(folder, file.filename):
            yield folder / file.filename
    for repository in (file.repository, *file.also):
        kept = hub_cache() / ("models--" + repository.replace("/", "--"))
        found = kept.glob(f"snapshots/*/{file.place or file.filename}")
        yield from (path for path in sorted(found) if path.is_file())
        if re.fullmatch(r"[0-9a-f]{64}", file.sha256) and (kept / "blobs" / file.sha256).is_file():
            yield kept / "blobs" / file.sha256


def _spelled(folder: Path, filename: str) -> bool:
    """Names that differ in capitals only are those of two files: Windows takes them for one."""
    return any(path.name == filename for path in folder.iterdir())
