from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QWidget

from app.controllers.settings import PresetsController, file_name
from app.jobs.preset_form import PresetForm, title_of
from engine.protocol import commands
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, part
from tests.helpers.fake_states import PRESET_GPU, make_presets


def order(bench: Bench, what: str) -> None:
    part(bench.window, f"preset-{what}", QAction).trigger()
    bench.hear()


def choose(bench: Bench, text: str) -> None:
    control = bench.find("preset")
    at = control.findText(text)
    assert at >= 0, text
    control.setCurrentIndex(at)
    control.activated.emit(at)
    bench.hear()


def test_the_list_is_asked_for_at_the_start_and_named_for_the_card(bench, qtbot):
    assert bench.asked(commands.ListPresets)
    over = QWidget()
    qtbot.addWidget(over)
    form = PresetForm(over)
    form.resize(320, 80)
    height = form.sizeHint().height()
    box = part(form, "preset", QComboBox)
    assert (box.currentText(), box.isEnabled()) == ("Checking your hardware …", False)
    form.show_presets(make_presets(), PRESET_GPU)
    assert form.sizeHint().height() == height, "nothing moves when they are known"
    assert box.isEnabled()
    form.show_presets((), "")
    assert form.isHidden()
    assert bench.find("presetFor").whole == f"for {PRESET_GPU}"
    box = bench.find("preset")
    shown = [box.itemText(at) for at in range(box.count())]
    assert shown == ["Custom", "Fast", "Balanced", "Best"]


def test_a_preset_for_several_goals_says_so():
    shared = Preset(name="balanced", title="GPU: all", goals=("fast", "balanced", "best"))
    assert title_of(shared) == "Fast / Balanced / Best (identical on this computer)"


def test_a_preset_changes_what_it_names_and_nothing_else(bench):
    job_id = bench.add()
    bench.window.choices.choose({"crf": 20})
    choose(bench, "Best")
    (*_, last) = bench.asked(commands.ChangeJob)
    assert last.job_id == job_id
    assert last.settings == JobSettings(model="seedvr2-7b-sharp", precision="q4", crf=20)
    box = bench.find("preset")
    assert box.currentText() == "Best"
    assert bench.find("presetAbout").text() == "What best means."
    assert box.findText("Custom") < 0
    bench.choose(precision="fp16")
    assert box.currentText() == "Custom"
    bench.choose(precision="q4", vae="mine.safetensors")
    assert box.currentText() == "Best"
    bench.choose(model="wan-2x", vae="mine.safetensors")
    choose(bench, "Best")
    assert bench.window.choices.settings.vae == "", "a VAE stays with its family"
    bench.do("start")
    assert not box.isVisible(), "text is left"


def test_choices_are_kept_under_a_title_replaced_when_asked_and_deleted(bench):
    bench.add()
    choose(bench, "Best")
    box, remove = bench.find("preset"), part(bench.window, "preset-remove", QAction)
    assert not remove.isEnabled(), "comes with the program"
    bench.patch.setattr(PresetsController, "ask_title", lambda *_: "Tapes")
    bench.choose(crf=20)
    for is_sure, saved in ((True, 1), (False, 1), (True, 2)):
        bench.patch.setattr(PresetsController, "confirm", lambda *_, is_sure=is_sure: is_sure)
        order(bench, "save")
        assert len(bench.asked(commands.SavePreset)) == saved
        assert box.currentText() == "Tapes"
    last = bench.asked(commands.SavePreset)[-1]
    assert (last.title, last.settings.crf) == ("Tapes", 20)
    assert [c.name for c in bench.asked(commands.RemovePreset)] == ["tapes"]
    assert remove.isEnabled()
    order(bench, "remove")
    assert box.findText("Tapes") < 0


def test_a_preset_is_given_away_and_a_bad_one_is_refused_in_words(bench, tmp_path):
    bench.add()
    own = Preset(name="x", title="VHS: Oma/Opa", is_own=True)
    assert file_name(own) == "VHS- Oma-Opa", "what every disk takes"
    assert file_name(make_presets()[0]) == "gpu Fast"
    choose(bench, "Fast")
    bench.patch.setattr(PresetsController, "ask_file", lambda *_: tmp_path / "p.toml")
    order(bench, "export")
    (command,) = bench.asked(commands.ExportPreset)
    assert (command.name, command.path) == ("fast", tmp_path / "p.toml")
    order(bench, "import")
    assert bench.find("presetProblem").isVisible()
    choose(bench, "Best")
    assert not bench.find("presetProblem").isVisible()


def test_a_preset_of_another_version_is_not_taken_in_part(bench):
    bench.add()
    old = Preset(name="old", title="Old", changes={"crf": 20, "gone": 1}, is_own=True)
    bench.engine.tasks.presets = (*make_presets(), old)
    bench.tasks.list(TaskKind.PRESET)
    choose(bench, "Old")
    assert bench.find("presetProblem").isVisible()
    assert bench.window.choices.settings == JobSettings()
    assert bench.find("preset").currentText() == "Custom"
