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
    assert not {"torch", "av"} & loaded_by(module)


@pytest.mark.parametrize("module", ["engine.api", "engine.cli.main", "app.application"])
def test_http_is_loaded_with_the_first_download(module):
    assert not {"httpx", "httpcore", "anyio", "truststore"} & loaded_by(module)


def test_engine_loads_without_qt():
    assert "PySide6" not in loaded_by("engine.api")


def test_import_rows_are_kept():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
