"""Settings that a user has for other programs: no process of this one reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.clips import make_clip
from tests.helpers.program import ROOT

VARIABLES = {
    "DASK_CONFIG": "{folder}",
    "DASK_DISTRIBUTED__SCHEDULER__PRELOAD": '["nope_module"]',
    "DASK_DISTRIBUTED__ADMIN__EVENT_LOOP": "uvloop",
    "TORCH_LOGS": "garbage",
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "PYTORCH_JIT": "0",
    "PYTORCH_CUDA_ALLOC_CONF": "garbage",
    "TRITON_INTERPRET": "1",
    "GOMP_CPU_AFFINITY": "x",  # torch waits for ever
    "NPY_ENABLE_CPU_FEATURES": "garbage",
}
KEPT = {"CUDA_VISIBLE_DEVICES": "0", "TORCHINDUCTOR_CACHE_DIR": "x", "SSL_CERT_FILE": "y"}
CODE = """
import os, engine
import dask.config, distributed
assert dask.config.get("distributed.scheduler.preload") == [], "a variable"
assert dask.config.get("mine", None) is None, "a file"
dask.config.refresh()
assert dask.config.get("mine", None) is None, "the file, later"
assert os.path.exists({folder!r})
print(*sorted(os.environ), sep="|")
"""


@pytest.fixture(params=["mine: 1", "{broken: [yaml"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / ".config" / "dask"
    folder.mkdir(parents=True)
    (folder / "distributed.yaml").write_text(request.param)
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    foreign = {name: value.format(folder=folder) for name, value in VARIABLES.items()}
    own = {"UPREEL_DATA": str(tmp_path / "d"), "UPREEL_CACHE": str(tmp_path / "c")}
    return {**os.environ, **home, **foreign, **own, **KEPT, "PYTHONPATH": str(ROOT)}


def test_the_configuration_of_dask_and_torch_is_not_read(environ: dict[str, str]) -> None:
    code = CODE.format(folder=environ["DASK_CONFIG"])
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.strip().split("|"))
    assert not names & VARIABLES.keys()
    assert names >= KEPT.keys()


@pytest.mark.slow
@pytest.mark.parametrize("program", [["-m", "engine"], ["main.py", "--headless"]])
def test_a_job_with_workers_ends_whatever_the_user_has_for_other_programs(
    program: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    film = make_clip(tmp_path / "film.mkv", frames=24, size=(64, 48))
    settings = ("workers=2", "segment_seconds=0.5", "model=lite")
    options = [word for one in settings for word in ("--set", one)]
    del environ["CUDA_VISIBLE_DEVICES"]
    done = subprocess.run(
        [sys.executable, *program, "upscale", film, "-o", tmp_path / "out.mkv", *options],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.mkv").is_file()
    assert "malformed" not in done.stderr, "no process has read it"
