"""Makes `job.json` of earlier versions what the present one reads."""

from __future__ import annotations

from typing import Any

VERSION = 2
Data = dict[str, Any]

_OF_EVERY_FAMILY = ("model", "device", "dtype", "clip_frames", "threads", "switches")


def migrated(data: Data) -> Data:
    """A job's data in the present version; those of versions that are not known stay as they are.

    Raises:
        KeyError, TypeError: They are not the data of a job.
    """
    return _from_version_1(data) if data["version"] == 1 else data


def _from_version_1(data: Data) -> Data:
    """Version 1 had one class of plans for all families, with a part for each of two of them."""
    plan = dict(data["plan"])
    plan["work"] = _work(plan.pop("model"), plan["source_size"])
    return {**data, "version": 2, "plan": plan}


def _work(old: Data, source_size: Data) -> Data:
    common = {name: old[name] for name in _OF_EVERY_FAMILY if name in old}
    if old.get("diffusion") is not None:
        return {**common, "family": "seedvr2", **old["diffusion"]}
    if old.get("wan") is not None:
        return {**common, "family": "wan", **old["wan"]}
    if old["model"] == "none":
        return {**common, "family": "copy", "frame": source_size, "tile": source_size}
    return {
        **common,
        "family": "lite",
        "treatment": old["form"],
        "factor": old["scale"],
        "weights": old["weights"],
        "weights_sha256": old["weights_sha256"],
        "frame": source_size,
        "tile": old["tile"],
        "overlap": old["overlap"],
    }
