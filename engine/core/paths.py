"""Folders of the program: resources, jobs, logs, cache.

The environment variables `UPREEL_RESOURCES`, `UPREEL_DATA`, `UPREEL_CACHE` and `UPREEL_MODELS`
name other folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

from engine.core import windows_paths

APP = "Upreel"


def resources() -> Path:
    """Folder of icons, weights and the sample clip: source tree, editable install or frozen."""
    named = os.environ.get("UPREEL_RESOURCES")
    if named:
        return Path(named)
    frozen = getattr(sys, "_MEIPASS", None)
    return Path(frozen or Path(__file__).parents[2]) / "resources"


def resource(*parts: str) -> Path:
    """One file of the resources."""
    return resources().joinpath(*parts)


def data_folder() -> Path:
    """Folder of this user's jobs, settings and models."""
    named = os.environ.get("UPREEL_DATA")
    return Path(named) if named else _own_folder("user_data_dir")


def cache_folder() -> Path:
    """Folder of reproducible files: measured speeds, compiled kernels."""
    named = os.environ.get("UPREEL_CACHE")
    return Path(named) if named else _own_folder("user_cache_dir")


_chosen_jobs_folder = ""


def choose_jobs_folder(folder: str) -> None:
    """Let this process keep its jobs in another folder; "" for the one of delivery."""
    global _chosen_jobs_folder
    _chosen_jobs_folder = folder


def jobs_folder() -> Path:
    """Folder with one folder for each job."""
    return windows_paths.openable(Path(_chosen_jobs_folder or own_jobs_folder()))


def own_jobs_folder() -> Path:
    """The one of delivery: jobs that were begun there stay there."""
    return windows_paths.openable(data_folder() / "jobs")


def models_folder() -> Path:
    """Folder of the downloaded and imported model files; may be on another disk."""
    named = os.environ.get("UPREEL_MODELS")
    return windows_paths.openable(Path(named) if named else data_folder() / "models")


def runtimes_folder() -> Path:
    """Folder of the NVIDIA runtimes, one folder for each version of each."""
    return data_folder() / "runtimes"


def logs_folder() -> Path:
    """Folder of the logs."""
    return data_folder() / "logs"


def numbered(path: Path, taken: Collection[Path] = ()) -> Path:
    """The first of `path (2)`, `path (3)`, ... that is not taken and does not exist yet."""
    number, free = 2, path.with_stem(f"{path.stem} (2)")
    while free in taken or free.exists():
        number += 1
        free = path.with_stem(f"{path.stem} ({number})")
    return free


def _own_folder(kind: str) -> Path:
    """Folder that the system provides; platformdirs is not needed where all folders are named."""
    import platformdirs

    return Path(getattr(platformdirs, kind)(APP, appauthor=False))
