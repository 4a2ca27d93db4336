"""Run every golden file of a folder through the models: `python -m tests.golden.check DIR`.

One line a case with its error and limit, then `N passed, M failed`; the exit status is 1 when
anything failed, when a file is unknown, and when nothing was checked at all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from tests.golden import (
    cases_dit,
    cases_frames,
    cases_gguf,
    cases_pipeline,
    cases_swift_dit,
    cases_swift_pipeline,
    cases_swift_vae,
    cases_vae,
    cases_wan,
    cases_wan_facts,
    cases_wan_units,
)
from tests.golden.outcome import Outcome

Check = Callable[[Path], Iterator[Outcome]]

# The first pattern that a file's name has decides.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("manifest_vae*.json", cases_vae.check_manifest),
    ("vae*_weights.safetensors", cases_vae.check_weights),
    ("vae*.safetensors", cases_vae.check_cases),
    ("manifest_dit*.json", cases_dit.check_manifest),
    ("dit*_weights.safetensors", cases_dit.check_weights),
    ("dit*_intermediates.safetensors", cases_dit.check_blocks),
    ("dit*.safetensors", cases_dit.check_cases),
    ("window_partitions.json", cases_dit.check_windows),
    ("embeddings.safetensors", cases_dit.check_embeddings),
    ("sampler_*.safetensors", cases_dit.check_samples),
    ("timestep_transform.json", cases_dit.check_shift),
    ("pipeline_*.safetensors", cases_pipeline.check_pipeline),
    ("resize_pad_normalise.safetensors", cases_frames.check_resize),
    ("temporal_padding.json", cases_frames.check_padding),
    ("temporal_blend.safetensors", cases_frames.check_blend),
    ("color_correction.safetensors", cases_frames.check_colour),
    ("gguf_*.safetensors", cases_gguf.check_blocks),
    ("manifest_wan*.json", cases_wan.check_manifest),
    ("wan*_weights.safetensors", cases_wan.check_weights),
    ("wan*_trace.safetensors", cases_wan.check_traces),
    ("wan*_io*.safetensors", cases_wan.check_cases),
    ("ops.safetensors", cases_wan_units.check_units),
    ("diffusers_keymap_wan*.json", cases_wan_facts.check_keymap),
    ("latent_stats.json", cases_wan_facts.check_statistics),
    ("checkpoints.json", cases_wan_facts.check_checkpoints),
    ("cases.json", cases_wan_facts.check_facts),
    ("comfyui_*.latent", cases_wan_facts.check_latent),
    ("comfyui_latent_expected.safetensors", cases_wan_facts.check_expected_latents),
    ("manifest_swift_reae.json", cases_swift_vae.check_manifest),
    ("swift_tiny_reae_weights.safetensors", cases_swift_vae.check_weights),
    ("swift_reae_encode_*.safetensors", cases_swift_vae.check_encode),
    ("swift_reae_decode_*.safetensors", cases_swift_vae.check_decode),
    ("swift_reae_trace.safetensors", cases_swift_vae.check_trace),
    ("manifest_swift_dit.json", cases_swift_dit.check_manifest),
    ("swift_tiny_dit_weights.safetensors", cases_swift_dit.check_weights),
    ("swift_tiny_dit_config.json", cases_swift_dit.check_config),
    ("swift_tiny_prompt.safetensors", cases_swift_dit.check_prompt),
    ("swift_windows.json", cases_swift_dit.check_windows),
    ("swift_dit_trace.safetensors", cases_swift_dit.check_trace),
    ("swift_dit_*.safetensors", cases_swift_dit.check_cases),
    ("swift_pipeline_*.safetensors", cases_swift_pipeline.check_pipeline),
    ("swift_stream.safetensors", cases_swift_pipeline.check_stream),
    ("swift_chunks.json", cases_swift_pipeline.check_chunks),
    ("swift_cases.json", cases_swift_pipeline.check_facts),
    ("swift_ops.safetensors", cases_swift_pipeline.check_units),
)

# Descriptions of the other files; nothing in them can be wrong here.
DATA = ("README.md", "manifest.toml", "published_files.json", "reference_timing.json")


def check_of(name: str) -> Check | None:
    """The check of files with this name; None for an unknown one."""
    return next((check for pattern, check in CHECKS if fnmatchcase(name, pattern)), None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when there was something to check and all of it is right."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.check", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument(
        "--only", metavar="PREFIX", default="", help="only files whose names begin like this"
    )
    wanted = parser.parse_args(arguments)
    counts = {True: 0, False: 0}
    for outcome in check_folder(wanted.folder, wanted.only):
        counts[outcome.passed] += 1
        _say(str(outcome))
    if not any(counts.values()):
        counts[False] += 1
        _say(f"FAIL {wanted.folder}: nothing was checked")
    _say(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0


def check_folder(folder: Path, only: str = "") -> Iterator[Outcome]:
    """All cases of a folder and of the folders in it, in the order of their names."""
    if not folder.is_dir():
        yield Outcome(case=str(folder), problem="there is no such folder")
        return
    entries = sorted(folder.iterdir())
    if not entries:
        yield Outcome(case=str(folder), problem="the folder is empty")
    for path in entries:
        if path.is_dir():
            yield from check_folder(path, only)
        elif path.name.startswith(only):
            yield from check_file(path)


def check_file(path: Path) -> Iterator[Outcome]:
    """All cases of one file; an unknown file is a failure."""
    check = check_of(path.name)
    if check is not None:
        yield from _guarded(path, check)
    elif path.name not in DATA:
        yield Outcome(case=path.name, problem="unknown file")


def _guarded(path: Path, check: Check) -> Iterator[Outcome]:
    """The cases of a file; what ends them early is one more failure."""
    number = 0
    try:
        for number, outcome in enumerate(check(path), start=1):  # noqa: B007  # counted below
            yield outcome
    except Exception as err:  # noqa: BLE001  # whatever ends the check is a failure
        yield Outcome(case=path.name, problem=f"{type(err).__name__}: {err}")
    else:
        if not number:
            yield Outcome(case=path.name, problem="there is no case in this file")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)  # tensors are tiny: a second thread waits longer than it works
    raise SystemExit(main())
