"""`models` on the real engine, with a web server on loopback."""

import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.cli.main import main
from engine.files.model_files import Store
from tests.helpers.servers import PLACE, Fault, FaultyServer, published, store_of

Output = pytest.CaptureFixture[str]


@pytest.fixture
def server(server: FaultyServer) -> FaultyServer:
    for name in ("vae", "text"):
        server.files[f"/some/body/main/{name}.pt"] = name.encode()
    return server


@pytest.fixture(autouse=True)
def store(tmp_path: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    others = (
        published(name.encode(), id=name, kind=name, filename=f"{name}.pt", bytes=len(name))
        for name in ("vae", "text")
    )
    store = store_of(tmp_path / "models", server, published(about_bytes=90_000), *others)
    monkeypatch.setattr("engine.files.catalogue.catalogue", lambda: store.catalogue)
    return store


def test_a_model_comes_with_what_it_needs(store: Store, capsys: Output) -> None:
    assert main(["models", "list", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [file["state"] for file in answer["files"]] == ["missing"] * 3
    assert answer["files"][0]["repository"] == "some/body"
    assert answer["free_mb"] > 0
    assert main(["models", "download", "seedvr2-3b"]) == 0
    said = capsys.readouterr()
    assert f"tiny is installed: {store.target('tiny.safetensors')} (102 kB)" in said.out
    states = {file.id: file.state for file in store.states()}
    assert states == dict.fromkeys(("tiny", "vae", "text"), "here")
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:6] == ["tiny", "installed", "about", "90.0", "kB", "Apache-2.0"]
    assert lines[0].endswith("tiny.safetensors")
    assert lines[-1].endswith("free for models")
    for words in (["models"], ["models", "fly"], ["models", "download"]):
        assert main(words) == 2


def test_a_model_that_is_a_vae_comes_alone(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
) -> None:
    server.files["/some/body/main/vae/other.pt"] = b"vae"
    first = published(
        b"vae", id="big", kind="vae", models=("wan-2x",), filename="big.pt", place="vae/other.pt"
    )
    second = published(b"vae2", id="small", kind="vae", models=("wan-2x",), filename="small.pt")
    store = store_of(tmp_path / "models", server, first, second)
    monkeypatch.setattr("engine.files.catalogue.catalogue", lambda: store.catalogue)
    assert main(["models", "download", "wan-2x"]) == 0
    assert "big is installed" in capsys.readouterr().out
    assert [file.state for file in store.states()] == ["here", "missing"]
    assert main(["models", "download", "wan-3x"]) == 1
    assert "error[unknown-weights]" in capsys.readouterr().err


def test_a_failed_download_does_not_stop_others(
    server: FaultyServer, store: Store, capsys: Output
) -> None:
    server.faults = [Fault(status=404)]
    assert main(["models", "download", "tiny", "--json"]) == 1
    said = capsys.readouterr()
    assert "[download-failed]: tiny.safetensors could not be downloaded from 127.0.0.1" in said.err
    events = [json.loads(line) for line in said.out.splitlines()]
    assert {e["kind"] for e in events} == {"model-file"}
    ends = {e["subject"]: e["event"] for e in events if e["event"] != "TaskProgress"}
    assert ends == {"tiny": "TaskFailed", "vae": "TaskDone", "text": "TaskDone"}
    assert main(["models", "download", "tiny"]) == 0


def test_verify_finds_what_was_damaged(store: Store, capsys: Output) -> None:
    assert main(["models", "verify"]) == 0
    assert "No model files installed." in capsys.readouterr().err
    assert main(["models", "download", "tiny"]) == 0
    assert main(["models", "verify"]) == 0
    assert "tiny is verified" in capsys.readouterr().out
    path = store.target("tiny.safetensors")
    assert main(["models", "verify", str(path)]) == 0
    path.write_bytes(b"damaged")
    assert main(["models", "verify", str(path)]) == 1
    assert path.exists(), "a path is only looked at"
    assert main(["models", "verify", "tiny"]) == 1
    assert "error[hash-mismatch]" in capsys.readouterr().err
    assert not path.exists()
    assert main(["models", "verify", "tinier"]) == 1
    assert "error[unknown-weights]" in capsys.readouterr().err


def test_import_and_remove(store: Store, tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "mine.safetensors"
    save_file({"text": np.ones((8, 5120), np.float16)}, path)
    assert main(["models", "import", str(path), "--link"]) == 0
    said = capsys.readouterr()
    assert "mine.safetensors is installed as own-" in said.out
    assert "warning[own-weights]" in said.err
    own = store.states()[-1]
    assert main(["models", "remove", own.id]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["models", "remove", own.id, "--yes"]) == 0
    assert path.exists()
    assert len(store.states()) == 3
    assert main(["models", "import", str(tmp_path / "none")]) == 1
    assert "error[weights-missing]" in capsys.readouterr().err


def test_ctrl_c_keeps_the_partial_file(server: FaultyServer, store: Store, capsys: Output) -> None:
    server.always = Fault(stall_after=5000)

    def interrupt() -> None:
        while store.state("tiny").done_bytes < 5000:
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["models", "download", "tiny", "--only"]) == 130
    thread.join()
    assert "Cancelled." in capsys.readouterr().err
    state = store.state("tiny")
    assert (state.state, state.done_bytes) == ("partial", 5000)
    server.always = Fault()
    assert main(["models", "download", "tiny", "--only"]) == 0
    assert server.ranges[-1] == "bytes=5000-"
    assert {path for path, _ in server.asked} == {PLACE}, "the file alone"
