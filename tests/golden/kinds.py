"""Which golden files there are, and who checks each: the table that grows with the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.golden import cases_dit, cases_gguf, cases_pipeline, cases_sampler, cases_vae
from tests.golden.cases_colour import check_colour
from tests.golden.cases_prepare import check_blend, check_padding, check_resize
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
    ("sampler_*.safetensors", cases_sampler.check_samples),
    ("timestep_transform.json", cases_sampler.check_shift),
    ("pipeline_*.safetensors", cases_pipeline.check_pipeline),
    ("resize_pad_normalise.safetensors", check_resize),
    ("temporal_padding.json", check_padding),
    ("temporal_blend.safetensors", check_blend),
    ("color_correction.safetensors", check_colour),
    ("gguf_*.safetensors", cases_gguf.check_blocks),
)

# Files of models and stages that do not exist yet: told, and counted neither way.
MISSING: tuple[tuple[str, str], ...] = (
    ("wan*.safetensors", "the Wan VAEs"),
    ("manifest_wan*.json", "the Wan VAEs"),
    ("ops.safetensors", "the Wan VAEs"),
    ("cases.json", "the Wan VAEs"),
    ("checkpoints.json", "the Wan VAEs"),
    ("diffusers_keymap_*.json", "the Wan VAEs"),
    ("latent_stats.json", "the Wan VAEs"),
    ("comfyui_*", "latent files of ComfyUI"),
)

# Facts about the files beside them; there is nothing in them that could be wrong here.
DATA = ("README.md", "manifest.toml", "published_files.json", "reference_timing.json")


def check_of(name: str) -> Check | None:
    """Who checks a file of this name; None when nobody does."""
    return next((check for pattern, check in CHECKS if fnmatchcase(name, pattern)), None)


def missing_for(name: str) -> str:
    """What has to be built before a file of this name can be checked; "" for other files."""
    return next((what for pattern, what in MISSING if fnmatchcase(name, pattern)), "")
