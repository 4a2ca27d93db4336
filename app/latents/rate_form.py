"""How many frames of a latent are shown a second: what the models were made for, or any number."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app import labels
from app.engine_messages import setting_title
from app.i18n import tr
from app.settings.editors import make_editor
from app.widgets.segmented import SegmentedControl
from app.widgets.translation import Translated
from engine.protocol.events import LatentRead

_RATES = ("16", "24")  # frames/s, of Wan 2.1 and Wan 2.2 5B
_OTHER = "other"
_NAME = "latent_rate"


class RateForm(Translated, QWidget):
    """Two rates and a field for others, and how long the film becomes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._read: LatentRead | None = None
        self._rate = 0.0
        self._row = SegmentedControl([*_RATES, _OTHER])
        self._row.setObjectName("latentRate")
        self._row.setFixedWidth(210)
        self._field = make_editor(_NAME)
        self._field.setFixedWidth(128)
        self._words = QLabel()
        self._words.setProperty("kind", "secondary")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._row)
        row.addWidget(self._field)
        row.addWidget(self._words, 1)
        self._row.chosen.connect(self._choose)
        self._field.changed.connect(lambda _name, rate: self._take(rate))
        self.retranslate_ui()

    @property
    def rate(self) -> float:
        """Frames a second; 0 while no file was read."""
        return self._rate

    def show_read(self, read: LatentRead) -> None:
        """Another file: begin with what its model was made for."""
        self._read, self._rate = read, float(read.frame_rate)
        key = f"{self._rate:g}"
        self._row.set_current(key if key in _RATES else _OTHER)
        self._show()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._row.set_labels({_OTHER: tr("Other")})
        self._row.set_tips({"16": "Wan 2.1", "24": "Wan 2.2 5B"})
        self._row.setAccessibleName(setting_title(_NAME))
        self._field.retranslate_ui()
        self._show()

    def _choose(self, key: str) -> None:
        if key != _OTHER:
            self._rate = float(key)
        self._show()
        if key == _OTHER:
            self._field.setFocus()

    def _take(self, rate: float) -> None:
        made_for = float(self._read.frame_rate) if self._read is not None else 0.0
        self._rate = rate or made_for
        self._show()

    def _show(self) -> None:
        self._field.setVisible(self._row.current == _OTHER)
        self._field.set_value(self._rate)
        if self._read is None or not self._rate:
            self._words.setText(tr("frames/s"))
            return
        length = labels.duration(self._read.frames / self._rate)
        is_short = self._row.current == _OTHER  # the field has the unit
        self._words.setText(f"→ {length}" if is_short else f"{tr('frames/s')} → {length}")
