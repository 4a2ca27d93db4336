"""Bar chart of figures as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from engine.bench.report import Row, machine_of, measured, time_text, write_file
from engine.core.errors import SettingsError
from engine.protocol.report import MeasuredSwitch

_WIDTH, _LEFT, _RIGHT = 900, 300, 130  # px: of the chart, of the names, of the figures
_ROW, _TOP, _BOTTOM = 30, 86, 34
_INK, _GREY, _PAPER, _LINE = "#22272e", "#6b7280", "#f7f7f5", "#d5d5d0"
_FASTER, _SLOWER, _EQUAL, _MEMORY = "#2f7d5b", "#c9731c", "#9aa3ad", "#3b6fb6"
_FONT = "Helvetica, Arial, sans-serif"
_OCTAVES = 1.5  # of ratios on either side of 1; longer bars end at the edge, with an arrow
_TICKS = (0.5, 1.0, 2.0)
_UNITS = {"megapixels_per_second": "Mpx/s", "frames_per_second": "fps"}
_RATIO_LEGEND = (
    "time with the switch divided by time without it: green is faster, amber slower, "
    "grey no difference; thin blue: memory"
)
_SPEED_LEGEND = "longer is faster, on a logarithmic scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """One row of the chart; positions are shares of the width for bars.

    Attributes:
        name: On the left.
        figure: On the right, as text.
        begin: Value at which the bar begins.
        end: Value at which it ends.
        colour: Colour of the bar.
        second: End of a thin second bar with the same beginning; None: none.
    """

    name: str
    figure: str
    begin: float
    end: float
    colour: str
    second: float | None = None


def write_chart(path: Path, rows: Sequence[Row]) -> None:
    """Write a chart of the switches, or of speeds where there are no switches."""
    check_chart(path)
    write_file(path, svg_of(rows))


def check_chart(path: Path) -> None:
    """Refuse other formats."""
    if path.suffix.lower() != ".svg":
        raise SettingsError("not-svg", name=path.name)


def svg_of(rows: Sequence[Row]) -> str:
    """The chart as SVG."""
    machine = machine_of(rows)
    facts = (f"{name} {machine.get(name, 'none')}" for name in ("processor", "card", "torch"))
    footer = ", ".join(facts)
    ratios = [_ratio_bar(line) for line in measured(rows) if line.time is not None]
    if ratios:
        return "\n".join(_page("Optimisations", _RATIO_LEGEND, footer, ratios, _TICKS))
    speeds = _speed_bars(rows)
    if not speeds:
        raise SettingsError("nothing-to-draw")
    return "\n".join(_page("Speed", _SPEED_LEGEND, footer, speeds, ()))


def _ratio_bar(line: MeasuredSwitch) -> ChartBar:
    value = line.time or 1.0
    is_equal = abs(value - 1) <= max(2 * (line.scatter or 0.0), 0.01)
    end = _position(value)
    return ChartBar(
        name=line.name + (" (off)" if line.exactness and not line.is_default else ""),
        figure=time_text(line) + (" →" if end in (0.0, 1.0) else ""),
        begin=_position(1.0),
        end=end,
        colour=_EQUAL if is_equal else _FASTER if value < 1 else _SLOWER,
        second=None if line.memory is None else _position(line.memory),
    )


def _position(ratio: float) -> float:
    """Position of a ratio on a logarithmic scale with 1 in the middle."""
    return min(max(0.5 + math.log2(max(ratio, 1e-3)) / (2 * _OCTAVES), 0.0), 1.0)


def _speed_bars(rows: Sequence[Row]) -> list[ChartBar]:
    name = next((name for name in _UNITS if any(name in row for row in rows)), "")
    found = [row for row in rows if name in row]
    logs = [math.log10(max(float(row[name]), 1e-9)) for row in found] or [0.0]
    begin, span = min(logs) - 0.3, max(logs) - min(logs) + 0.3
    return [
        ChartBar(
            name=_speed_title(row),
            figure=f"{row[name]:.3g} {_UNITS[name]}",
            begin=0.0,
            end=(log - begin) / span,
            colour=_MEMORY,
        )
        for row, log in zip(found, logs, strict=False)
    ]


def _speed_title(row: Row) -> str:
    """Case and work, from the texts of the row."""
    texts = [value for name, value in row.items() if isinstance(value, str) and name != "dtype"]
    return " ".join(texts[1:] or texts)[:38]


def _page(
    title: str, legend: str, footer: str, bars: Sequence[ChartBar], ticks: Sequence[float]
) -> Iterator[str]:
    bottom = _TOP + _ROW * len(bars)
    height = bottom + _BOTTOM
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}" '
        f'font-family="{_FONT}" font-size="13" fill="{_INK}">'
    )
    yield f"  <title>{escape(title)}</title>"
    yield f'  <rect width="{_WIDTH}" height="{height}" rx="8" fill="{_PAPER}" stroke="{_LINE}"/>'
    yield _text(20, 32, title, 'font-size="17" font-weight="bold"')
    yield _text(20, 54, legend, f'fill="{_GREY}"')
    for ratio in ticks:
        x, colour = _x(_position(ratio)), _INK if ratio == 1 else _LINE
        yield f'  <path d="M{x} {_TOP - 6} V{bottom}" stroke="{colour}" stroke-width="1"/>'
        yield _text(x, _TOP - 10, f"{ratio:g}", 'text-anchor="middle" font-size="12"')
    for top, bar in zip(range(_TOP, bottom, _ROW), bars, strict=True):
        yield _text(20, top + 15, bar.name)
        yield _box(bar.begin, bar.end, (top + 3, 13), bar.colour)
        if bar.second is not None:
            yield _box(bar.begin, bar.second, (top + 18, 4), _MEMORY)
        yield _text(_WIDTH - 20, top + 15, bar.figure, 'text-anchor="end"')
    yield _text(20, height - 12, footer, f'font-size="12" fill="{_GREY}"')
    yield "</svg>\n"


def _box(begin: float, end: float, span: tuple[int, int], colour: str) -> str:
    left, right = sorted((_x(begin), _x(end)))
    top, height = span
    return (
        f'  <rect x="{left}" y="{top}" width="{max(right - left, 1.0):.1f}" height="{height}" '
        f'rx="2" fill="{colour}"/>'
    )


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    space = " " if attributes else ""
    return f'  <text x="{x:g}" y="{y:g}"{space}{attributes}>{escape(text)}</text>'


def _x(share: float) -> float:
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)
