"""Two small jobs from file to verified file by the command line: CPU time and main memory.

`python -m tools.figures.jobs write FOLDER` writes the models and the video of the SeedVR2 job,
`python -m tools.figures.jobs upscale ...` is the command line, which then reports its time.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tools.figures.child import Children, FigureFailed, report

_MB = 1e6
_SETTINGS = "seedvr2.json"
_REJECTED = 1  # exit status: random weights make no likeness of the source


def measure(children: Children) -> dict[str, float]:
    """CPU seconds and main memory of one job of each; the models are written the first time."""
    if not (children.folder / _SETTINGS).is_file():
        made = children.figures("-m", "tools.figures.jobs", "write", str(children.folder))
        (children.folder / _SETTINGS).write_text(json.dumps(made), "utf-8")
    settings = json.loads((children.folder / _SETTINGS).read_text("utf-8"))
    sample = Path("resources", "samples", "upreel_sample.mp4")
    jobs = {
        "lite": (sample, {"model": "lite", "scale": 2}),
        "seedvr2": (children.folder / "film.mp4", settings),
    }
    found: dict[str, float] = {}
    for name, job in jobs.items():
        cpu, peak = _run(children, *job)
        found |= {f"jobs.{name}_cpu": cpu, f"jobs.{name}_peak": peak / _MB}
    return found


def _run(children: Children, source: Path, settings: dict[str, Any]) -> tuple[float, float]:
    """CPU seconds and most bytes of a job.

    Raises:
        FigureFailed: It did not come to its end.
    """
    output = children.folder / "result.mp4"
    words = [f"--set={name}={value}" for name, value in {**settings, "overwrite": "yes"}.items()]
    command = ("-m", "tools.figures.jobs", "upscale", str(source), "-o", str(output), "--json")
    ours = children.with_new_data()  # else the job of the other tree would be continued
    lines = ours.run(*command, *words, accepts=(0, _REJECTED))
    reports = [line for line in lines if line.get("event") == "Report"]
    if not reports or "cpu" not in lines[-1]:
        raise FigureFailed(f"The job of {source.name} made no result.")
    return lines[-1]["cpu"], reports[-1]["peak_bytes"]


def _upscale(words: list[str]) -> int:
    """The command line; then the CPU time of all of it, with both threads of the jobs."""
    from engine.cli.main import main

    status = main(words)
    report({"cpu": sum(os.times()[:2])})
    return status


def _write(folder: Path) -> None:
    from engine.bench.jobs import make_clip
    from engine.bench.workload import write_seedvr2
    from engine.core.geometry import Size

    settings = write_seedvr2(folder, codec="h264")
    make_clip(folder / "film.mp4", Size(96, 64), 9)
    kept = ("model", "scale", "codec", "vae", "dit", "text_embedding")
    sys.stdout.write(json.dumps({name: getattr(settings, name) for name in kept}) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write(Path(sys.argv[2]))
    else:
        sys.exit(_upscale(sys.argv[1:]))
