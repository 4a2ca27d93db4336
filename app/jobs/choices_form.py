"""Choices of a job: preset, model, size, output and what is folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.bound import bind
from app.engine_messages import choice_hint, choice_text, setting_title, text
from app.i18n import tr
from app.jobs import result_form
from app.jobs.chosen_text import ChosenText
from app.jobs.found_files import is_latent
from app.jobs.more_choices import MoreChoices
from app.jobs.output_form import FormatForm, StrengthForm, TargetForm
from app.jobs.preset_form import PresetForm, chosen_by
from app.jobs.result_form import ResultForm
from app.settings.editors import ChoiceEditor, title_of
from app.state.job_row import JobRow, JobState
from app.widgets.controls import SegmentedControl
from app.widgets.layouts import STRETCH, Stretch, column, row
from app.widgets.parts import button, elided, label, named
from app.widgets.reveal import bring_into_view
from engine.core.errors import ErrorInfo, SettingsError
from engine.core.messages import message
from engine.protocol.events import DeviceChoice, DevicesListed
from engine.protocol.plan import Plan
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings, about, model_family, with_values

_WAIT_MS = 200  # after the last change, before the engine plans again
_NEVER_STARTED = (JobState.READING, JobState.WAITING, JobState.REJECTED)
_TREATMENTS = about("treatment").choices


class ChoicesForm(QWidget):
    """Shows and edits the settings of the selected job, or of the next files."""

    edited = Signal(str)  # job_id: its plan no longer holds
    # Soon after: job_id, JobSettings, Path | None, list of the jobs that were selected then.
    changed = Signal(str, object, object, list)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "scrolled")
        self.settings = JobSettings()
        self.output: Path | None = None
        self._job_id = self._name = ""
        self._selected: Sequence[str] = ()
        self._changing = 0  # of those that are selected
        self._changed: Sequence[str] = ()  # those that were selected at the last change
        self._can_change, self._was_started = True, False
        self._is_of_latents = self._is_image = False
        self._plan: Plan | None = None
        self._listed: DevicesListed | None = None
        self._subject = elided(kind="secondary")
        self._target = TargetForm()
        self.presets = PresetForm()
        self._model = ChoiceEditor("model")
        self._first_label, self._first = title_of("first_model"), ChoiceEditor("first_model")
        self._first_models: Mapping[str, str] = {}
        self._limits = label(kind="secondary", name="modelLimits", wraps=True)
        self._treatment_label = title_of("treatment")
        self._chosen_treatment = label(kind="secondary")
        self._treatment = named(SegmentedControl(_TREATMENTS), "setting-treatment")
        self._strength = StrengthForm()
        self.file = FormatForm()
        self._file_title, self._file_line = (
            title_of("container"),
            button(name="fileLine", kind="link", on=self._open_file),
        )
        self.result = ResultForm()  # lies elsewhere, where it never scrolls away
        self._details = QWidget()  # what presets choose, and what few change
        controls = self._model.control, self._first.control, *self.file.controls
        self.more = MoreChoices(self._details, controls)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_WAIT_MS)
        self._timer.timeout.connect(self._send)
        self._editors, self._chosen = QWidget(), ChosenText()
        self._lay_out()
        self._connect()
        self.show_job(None, JobSettings())
        bind(self, self._show_texts)

    @property
    def first_control(self) -> QWidget:
        """Control that gets the keyboard focus to change the choices."""
        return self._target.first_control

    def show_job(self, row: JobRow | None, settings: JobSettings) -> None:
        """Show a job, or `settings` for the next files when there is none."""
        job_id = row.job_id if row is not None else ""
        is_other = job_id != self._job_id
        if is_other:
            self.flush()
        if is_other or not self._timer.isActive():
            self.settings = row.settings if row is not None else settings
            self.output = row.output if row is not None else None
            self._show_values(is_other)
        self._job_id = job_id
        self._can_change = row is None or row.state.can_change
        self._was_started = row is not None and row.state not in _NEVER_STARTED
        self._name = row.name if row is not None else ""
        self._is_of_latents = row is not None and is_latent(row.source)
        media = row.media if row is not None else None
        self._is_image = media is not None and media.kind == "image"
        self._show_subject()
        self._editors.setVisible(self._can_change)
        self._chosen.setVisible(not self._can_change)
        if row is not None and not self._can_change:
            self._chosen.show_job(row)
        plan = row.plan if row is not None else None
        self._show_chosen(plan)
        error = row.error if row is not None else None
        self.more.show_refusal(refused_time(error, self.settings), error)
        self.file.show_plan(plan)
        self._show_file()
        is_old = row is not None and row.current_plan is not plan
        self.result.show_output(plan, self.output, self._can_change, is_old=is_old)

    def show_selected(self, job_ids: Sequence[str], changing: int) -> None:
        """Which videos are selected: a change is for all of them, whatever is selected after it.

        Args:
            job_ids: All that are selected.
            changing: Number of those whose settings can be changed.
        """
        self._selected, self._changing = job_ids, changing
        self._show_subject()

    def choose(self, values: dict[str, object]) -> bool:
        """Take choices that were made elsewhere; False where the shown job's are fixed."""
        if not self._can_change:
            return False
        self._apply(values)
        self._show_values(False)
        self.flush()
        return True

    def show_presets(self, presets: Sequence[Preset], gpu: str) -> None:
        """Show the presets, and the GPU that they are made for."""
        self.presets.show_presets(presets, gpu)
        self._show_family()

    def show_availability(self, words: dict[str, str]) -> None:
        """Show the state of each model's files after its name."""
        self._model.show_notes(words)

    def show_first_models(self, files: Mapping[str, str]) -> None:
        """Paths and titles of files to clean frames with; without any there is no choice."""
        self._first_models = files
        self._show_first()

    def show_devices(self, event: DevicesListed) -> None:
        """Show the devices for jobs, and the choices that do not work there."""
        self._listed = event
        self._show_family()

    def flush(self) -> None:
        """Send a pending change at once: Start was pressed."""
        if self._timer.isActive():
            self._timer.stop()
            self._send()

    def _show_texts(self) -> None:
        self._treatment.set_labels({key: choice_text("treatment", key) for key in _TREATMENTS})
        self._treatment.set_tips(
            {
                "auto": tr("Chosen according to the source quality"),
                "faithful": tr("For clean sources: sharpens, changes nothing else"),
                "restore": tr("Also removes compression artefacts and noise"),
            }
        )
        self._treatment.setAccessibleName(setting_title("treatment"))
        self._show_chosen(self._plan)  # and the limits of the model
        self._show_file()
        self._show_subject()

    def _show_chosen(self, plan: Plan | None) -> None:
        """Show the values that "automatic" has chosen."""
        self._plan = plan
        model = treatment = ""
        if plan is not None and self.settings.model == "auto":
            model = plan.work.model
        if plan is not None and self.settings.treatment == "auto":
            treatment = plan.work.decided.get("treatment", "")
        self._model.show_automatic(model)
        self._chosen_treatment.setText(choice_text("treatment", treatment) if treatment else "")
        self._show_family()

    def _show_subject(self) -> None:
        if not self._name:
            self._subject.setText(tr("For files added next"))
        elif self._can_change and len(self._selected) > 1:
            total, count = len(self._selected), self._changing
            some = tr("Changes apply to {count} of {total} selected", count=count, total=total)
            every = tr("Changes apply to {count} videos", count=count)
            self._subject.setText(every if count == total else some)
        elif self._was_started:
            self._subject.setText(tr("Settings used for {name}", name=self._name))
        else:
            self._subject.setText(tr("For {name}", name=self._name))

    def _show_values(self, is_other: bool) -> None:
        show_target = self._target.show_preset if is_other else self._target.show_settings
        show_target(self.settings)
        self._model.set_value(self.settings.model)
        self._show_first()
        self._treatment.set_current(self.settings.treatment)
        self._strength.show_settings(self.settings)
        self.presets.show_settings(self.settings)
        self._show_family()
        self.file.show_settings(self.settings)
        self.more.show_settings(self.settings)

    def _show_first(self) -> None:
        """The files, that of the job among them, though it may be gone or not be imported."""
        chosen = self.settings.first_model
        values = {"": "", chosen: "", **self._first_models}
        self._first.show_values(values)
        self._first.set_value(chosen)
        for part in (self._first_label, self._first):
            part.setVisible(len(values) > 1)

    def _show_file(self) -> None:
        """The format in one line, which opens its choices."""
        self._file_line.setText(self.file.summary)
        self._file_line.setAccessibleName(f"{self._file_title.text()}: {self.file.summary}")

    def _open_file(self) -> None:
        self.more.unfold()
        bring_into_view(self.file.controls[0], takes_focus=True)

    def _show_family(self) -> None:
        """Only the choices that the model looks at."""
        plan = self._plan
        meant = plan.work.model if plan is not None else self.presets.automatic
        model = meant if self.settings.model == "auto" else self.settings.model
        family = model_family(model)
        self._limits.setText(choice_hint("model", model))
        self._limits.setVisible(bool(self._limits.text()))
        for part in (self._treatment_label, self._chosen_treatment, self._treatment):
            part.setVisible(family == "lite")
        self._strength.setVisible(family in about("strength").families)
        if self._listed is not None:
            self.more.show_devices(self._listed, self.settings)
        self.more.show_families({family, "latents"} if self._is_of_latents else {family})
        if self._listed is not None:
            self.more.show_unavailable(self._reasons(self._listed, model))

    def _reasons(self, listed: DevicesListed, model: str) -> dict[str, dict[str, str]]:
        """Why values of settings cannot be chosen on the chosen device and with a model."""
        found: dict[str, dict[str, str]] = {}
        for device in self._devices(listed):
            for name, values in device.unavailable.items():
                reasons = {value: text(why) for value, why in values.items()}
                found.setdefault(name, {}).update(
                    {
                        value: tr("Not available on this computer: {why}.", why=why)
                        for value, why in reasons.items()
                    }
                )
        if not self.settings.dit:
            why = text(message("reason.choice.unpublished"))
            found["precision"] = dict.fromkeys(listed.unpublished.get(model, ()), why)
        return found

    def _devices(self, listed: DevicesListed) -> Sequence[DeviceChoice]:
        """GPUs that the job runs on."""
        chosen, excluded = self.settings.device, self.settings.excluded
        if chosen == "all":
            found = [one for one in listed.devices[:-1] if one.value not in excluded]
        else:
            found = [one for one in listed.devices if one.value == chosen]
        return found or [listed.automatic]

    def _lay_out(self) -> None:
        column(
            row(label("Output", "section"), (self._subject, 1)),
            self._editors,
            self._chosen,
            Stretch(1),
            spacing=6,
            margins=(16, 14, 16, 4),
            on=self,
        )
        column(
            title_of("model"),
            self._model,
            self._first_label,
            self._first,
            6,
            self.file,
            spacing=8,
            on=self._details,
        )
        column(
            self._target,
            self.presets,
            self._limits,
            row(self._treatment_label, STRETCH, self._chosen_treatment),
            self._treatment,
            self._strength,
            row(self._file_title, STRETCH, self._file_line),
            self.more,
            spacing=8,
            on=self._editors,
        )

    def _connect(self) -> None:
        self._target.changed.connect(self._apply)
        self.file.changed.connect(self._apply)
        self.result.output_chosen.connect(self._choose_output)
        self.presets.chosen.connect(self._choose_preset)
        self._model.changed.connect(lambda _name, model: self._choose_model(model))
        self._first.changed.connect(lambda name, file: self._apply({name: file}))
        self._strength.changed.connect(self._apply)
        self.more.changed.connect(lambda name, value: self._apply({name: value}))
        self._treatment.chosen.connect(lambda value: self._apply({"treatment": value}))

    def _choose_model(self, model: str) -> None:
        """Another model; a VAE of the user's own belongs to the family it was chosen for."""
        is_kin = model_family(model) == model_family(self.settings.model)
        self._apply({"model": model} if is_kin else {"model": model, "vae": ""})
        self.more.show_settings(self.settings)

    def _choose_preset(self, preset: Preset) -> None:
        try:
            requested = chosen_by(preset, self.settings)
        except SettingsError as err:
            self.presets.show_problem(err.info())
            self.presets.show_settings(self.settings)
            return
        self.choose({name: getattr(requested, name) for name in (*preset.changes, "vae")})

    def _apply(self, values: dict[str, object]) -> None:
        self.settings = with_values(self.settings, values)
        self._show_file()
        container = values.get("container")
        if self.output is not None and container is not None:
            self.output = result_form.renamed(self.output, str(container), self._is_image)
        self._show_family()
        self.file.show_settings(self.settings)
        self.presets.show_settings(self.settings)
        self._send_soon()

    def _choose_output(self, output: Path | None) -> None:
        self.output = output
        self._send_soon()

    def _send_soon(self) -> None:
        self._timer.start()
        self._changed = self._selected
        self.edited.emit(self._job_id)

    def _send(self) -> None:
        self.changed.emit(self._job_id, self.settings, self.output, list(self._changed))


def refused_time(error: ErrorInfo | None, settings: JobSettings) -> str:
    """The setting of the time that an error is about; "" where it is about something else."""
    if error is None or error.code != SettingsError.code:
        return ""
    match error.case:
        case "start-after-film":
            return "start"
        case "end-before-start":
            return "stop"
        case "not-a-time" | "negative-time":
            return "start" if error.params["text"] == settings.start else "stop"
    return ""
