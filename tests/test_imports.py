import subprocess
import sys

import pytest

LIGHT = [
    "engine.api",
    "engine.cli.main",
    "engine.__main__",
    "engine.planner.plan_job",
    "engine.tiling.grid",
    "engine.jobs.engine_thread",
    "engine.models.registry",
    "engine.models.lite.cost",
    "engine.models.identify",
    "engine.models.seedvr2.vae.cost",
    "engine.models.seedvr2.dit.config",
    "engine.models.seedvr2.plan",
    "engine.models.seedvr2.vae.tiling",
    "engine.ops.attention.windows",
    "engine.video.shots",
    "engine.model_files.formats.safetensors_file",
    "app.application",
    "app.main_window",
]


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_loads_without_torch_and_av(module):
    loaded = loaded_by(module)
    assert not {"torch", "av"} & loaded
    if module in ("engine.api", "engine.cli.main", "app.application"):
        late = {"httpx", "httpcore", "anyio", "truststore"}
        assert not late & loaded, "HTTP is loaded with the first download"
    assert module.startswith("app.") or "PySide6" not in loaded


def test_import_rows_are_kept():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
