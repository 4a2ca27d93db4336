"""A job of one process needs no wing: see engine/core/wings.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.wings import NAMES
from tests.helpers.clips import make_clip

WITHOUT_WINGS = """
import sys
from importlib.abc import MetaPathFinder

wings = sys.argv[2].split()

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        for wing in wings:
            if (name + ".").startswith(f"engine.{wing}."):
                raise ModuleNotFoundError(f"No module named {name!r}", name=f"engine.{wing}")

sys.meta_path.insert(0, Absent())

import queue
from pathlib import Path
from engine import api
from engine.cli import parser
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import EngineSettings, JobSettings

class Sink(queue.Queue):
    emit = queue.Queue.put

def wait(*kinds):
    while not isinstance(event := sink.get(timeout=100), kinds):
        pass
    return event

parser.build()
sink, source = Sink(), Path(sys.argv[1])
engine = api.Engine(sink, settings=EngineSettings(threads=1), jobs_folder=source.parent / "jobs")
engine.start()
settings = JobSettings(model="lite", scale=2, treatment="faithful", crf=30)
engine.send(c.AddJob(job_id="a", source=source, settings=settings))
engine.send(c.StartQueue())
end = wait(e.JobFinished, e.JobFailed, e.JobRejected)
print(type(end).__name__, getattr(end, "report", None) and end.report.passed)
if "bench" in wings:
    engine.send(c.RunBenchmark())
    print(wait(e.Warned).notice.code)
engine.close()
"""


@pytest.mark.parametrize("absent", [" ".join(NAMES)])
def test_a_job_of_one_process_runs_without_wings(tmp_path: Path, absent: str) -> None:
    source = make_clip(tmp_path / "clip.mp4", frames=3)
    code = [sys.executable, "-c", WITHOUT_WINGS, str(source), absent]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:1] == ["JobFinished True"]
    if "bench" in absent:
        assert done.stdout.splitlines()[1:] == ["internal-error"]  # no service answers


@pytest.mark.parametrize("wing", NAMES)
def test_nothing_of_the_core_names_a_wing(wing: str) -> None:
    """Text too, as an import by name would not be seen by the import contract."""
    engine = Path(__file__).parents[1] / "engine"
    others = [file for file in engine.rglob("*.py") if engine / wing not in file.parents]
    assert [file for file in others if f"engine.{wing}" in file.read_text("utf-8")] == []
