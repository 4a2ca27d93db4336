"""`runtime` on the real engine, with a stand-in for the runtime."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.core.messages import message
from engine.delivery import runtime_service as runtime_trial
from engine.protocol.report import RuntimeTrial
from engine.runtimes import installation as folders
from engine.runtimes import start
from engine.runtimes.catalogue import catalogue
from tests.helpers import runtimes

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wheel(tmp_path: Path, resources: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    wheel = runtimes.wheel(tmp_path / "published")
    known = runtimes.catalogue(runtimes.runtime(wheel), index="http://127.0.0.1:9")
    (resources / "runtime.toml").write_text(runtimes.as_toml(known), "utf-8")
    trial = RuntimeTrial(torch=runtimes.VERSION, cuda="99.9")
    monkeypatch.setattr(runtime_trial, "try_runtime", lambda folder, control: trial)
    catalogue.cache_clear()
    yield wheel
    catalogue.cache_clear()


def test_import_list_use_remove(wheel: Path, capsys: Output) -> None:
    assert main(["runtime", "import", str(wheel)]) == 0
    assert "it found no GPU" in capsys.readouterr().out
    assert main(["runtime", "list"]) == 0
    said = capsys.readouterr().out
    assert "installed" in said
    assert "selected for the next start" in said
    assert str(start.current().why) in said
    assert "no runtime is needed" in said
    assert main(["runtime", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["runtimes"][0]["is_chosen"]
    assert all(isinstance(listed[name], str) for name in ("used", "advice"))
    assert main(["runtime", "use", "bundled"]) == 0
    assert folders.chosen() == ""
    assert main(["runtime", "remove", "cu999"]) == 0
    assert main(["runtime", "remove", "cu999"]) == 1
    assert "error[weights-missing]" in capsys.readouterr().err


def test_failures_are_reported(tmp_path: Path, resources: Path, capsys: Output) -> None:
    (tmp_path / "a.whl").write_bytes(b"PK")
    for words, status, text in (
        (["install"], 2, "no runtime is needed. Give an ID"),  # there is no GPU
        (["install", "cu1"], 1, "error[unknown-runtime]"),
        (["import", str(tmp_path / "a.whl")], 1, "error[hash-mismatch]"),
    ):
        assert main(["runtime", *words]) == status
        assert text in capsys.readouterr().err
    catalogue.cache_clear()
    (resources / "runtime.toml").write_text("index =", "utf-8")
    assert main(["runtime", "list"]) == 1
    assert "list of NVIDIA runtimes cannot be read" in capsys.readouterr().err


def test_try_tells_what_this_process_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
) -> None:
    out = tmp_path / "trial.json"
    assert main(["runtime", "try", "--out", str(out)]) == 0
    assert "computes on" in capsys.readouterr().out
    assert json.loads(out.read_text("utf-8"))["torch"]
    broken = start.TorchChoice(
        why=message("reason.runtime.file-damaged", name="c10.dll"), is_fallback=True
    )
    monkeypatch.setattr(start, "_choice", broken)
    assert main(["runtime", "try"]) == 1
    assert "c10.dll" in capsys.readouterr().err
