from dataclasses import replace

from app.models.models_page import ModelsPage
from app.runtimes.runtime_labels import title_of
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from tests.app.conftest import Bench, part, texts
from tests.helpers.fake_states import make_listed

FILES = ["seedvr2-text", "seedvr2-vae", "seedvr2-7b-sharp-q4"]


def _open(bench: Bench, *, automatic: str, precision: str = "") -> ModelsPage:
    preset = Preset(
        name="best",
        title="Best",
        goals=("balanced", "best"),
        changes={"model": "auto"},
        automatic=automatic,
        precision=precision,
    )
    bench.do("models")
    bench.emit(events.PresetsListed(presets=(preset,), card="RTX 5070 Ti, 16 GB"))
    return bench.program.models.view


def test_one_button_gets_what_the_presets_use_on_this_gpu(bench):
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    card = part(view, "recommended")
    assert "Recommended for RTX 5070 Ti, 16 GB" in texts(card)
    part(view, "getRecommended").click()
    bench.hear()
    asked = [command.file for command in bench.asked(commands.DownloadModelFile)]
    assert sorted(asked) == sorted(FILES)
    assert part(view, f"model-file-{FILES[-1]}").isVisible(), "progress and errors are seen"
    assert not part(view, "getRecommended").isEnabled()


def test_everything_is_here_and_there_is_no_button(bench):
    tasks = bench.engine.tasks
    for file in FILES:
        tasks.put(file, "here")
        tasks.files[file] = replace(tasks.files[file], state="here")
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    bench.hear()
    assert "Everything is here" in texts(part(view, "recommended"))
    assert not part(view, "getRecommended").isVisible()


def test_a_machine_without_a_usable_gpu_is_recommended_lite(bench):
    view = _open(bench, automatic="lite")
    assert "Recommended: Lite, built in" in texts(part(view, "recommended"))
    assert not part(view, "getRecommended").isVisible()


def test_all_models_are_folded_and_stay_open_once_opened(bench):
    view = _open(bench, automatic="lite")
    row = part(view, "model-file-seedvr2-3b-fp8")
    assert not row.isVisible()
    part(view, "allModels").click()
    view.close()
    bench.do("models")
    assert row.isVisible()


def test_the_runtime_that_is_missing_comes_with_the_files(bench):
    bench.engine.tasks.runtimes = make_listed()
    bench.engine.tasks.list(TaskKind.RUNTIME)
    bench.hear()
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    runtime = bench.program.runtime_model.status.runtime
    assert runtime is not None
    assert title_of(runtime) in texts(part(view, "recommended"))
    part(view, "getRecommended").click()
    bench.hear()
    assert [one.runtime for one in bench.asked(commands.InstallRuntime)] == [runtime.id]
