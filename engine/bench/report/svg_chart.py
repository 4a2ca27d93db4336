"""Figures as a picture: bars, written as SVG by ourselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from engine.bench.report.markdown import machine_of
from engine.bench.report.switch_table import Row, measured, time_text
from engine.core.errors import OutputUnwritable, SettingsError
from engine.protocol.report import MeasuredSwitch

_WIDTH, _LEFT, _RIGHT = 900, 300, 130  # px: of the picture, of names, of figures
_ROW, _TOP, _BOTTOM = 30, 86, 34
_INK, _QUIET, _PAPER, _EDGE = "#22272e", "#6b7280", "#f7f7f5", "#d5d5d0"
_HELPS, _COSTS, _EQUAL, _MEMORY = "#2f7d5b", "#c9731c", "#9aa3ad", "#3b6fb6"
_FONT = "Helvetica, Arial, sans-serif"
_OCTAVES = 1.5  # of ratios on either side of 1: what goes beyond ends at the edge, with an arrow
_TICKS = (0.5, 1.0, 2.0)
_UNITS = {"megapixels_per_second": "Mpx/s", "frames_per_second": "frames/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of the picture.

    Attributes:
        name: On the left.
        figure: On the right, as text.
        begin: Where the bar begins, 0 to 1 of the room for bars.
        end: Where it ends.
        colour: Of the bar.
        second: Where a thin second bar ends that begins at the same place; None: none.
        cut: It would be longer than there is room.
    """

    name: str
    figure: str
    begin: float
    end: float
    colour: str
    second: float | None = None
    cut: bool = False


def write_picture(path: Path, rows: Sequence[Row]) -> None:
    """Bars of the optimisations, else of the speeds.

    Raises:
        SettingsError: Another kind of picture is wanted, or there is nothing to draw.
        OutputUnwritable: The file cannot be written.
    """
    check_picture(path)
    text = svg_of(rows)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        raise OutputUnwritable(
            f"{path} cannot be written.", hint=err.strerror or str(err), path=path
        ) from err


def check_picture(path: Path) -> None:
    """Refuse what is not written here.

    Raises:
        SettingsError: The name does not end in .svg.
    """
    if path.suffix.lower() != ".svg":
        raise SettingsError(
            f"The picture is drawn as SVG, not as {path.suffix or 'a file without an ending'}.",
            hint="Let its name end in .svg: browsers open it, and can save it as PNG.",
        )


def svg_of(rows: Sequence[Row]) -> str:
    """The picture.

    Raises:
        SettingsError: No figure among the rows can be drawn.
    """
    lines = [line for line in measured(rows) if line.time is not None]
    machine = machine_of(rows)
    facts = (machine.get(name, "none") for name in ("processor", "card", "torch"))
    below = "processor {}, card {}, torch {}".format(*facts)
    if lines:
        legend = "time with it over time without it: green helps, amber costs, grey is within the "
        legend += "scatter; thin blue: memory"
        bars = [_ratio(line) for line in lines]
        return _page("Optimisations", legend, below, bars, _TICKS)
    bars = _speeds(rows)
    if not bars:
        raise SettingsError(
            "Nothing was measured that can be drawn.", hint="Try bench optimisations or models."
        )
    return _page("Speed", "longer is faster, on a logarithmic scale", below, bars, ())


def _ratio(line: MeasuredSwitch) -> Bar:
    value = line.time or 1.0
    noise = 2 * (line.scatter or 0.0)
    colour = _EQUAL if abs(value - 1) <= max(noise, 0.01) else _HELPS if value < 1 else _COSTS
    return Bar(
        name=line.name + ("" if line.is_default else " (off)"),
        figure=time_text(line),
        begin=_place(1.0),
        end=_place(value),
        colour=colour,
        second=None if line.memory is None else _place(line.memory),
        cut=_place(value) in (0.0, 1.0),
    )


def _place(ratio: float) -> float:
    """Where a ratio lies, 0 to 1: half of the time is as far from 1 as twice of it."""
    return min(max(0.5 + math.log2(max(ratio, 1e-3)) / (2 * _OCTAVES), 0.0), 1.0)


def _speeds(rows: Sequence[Row]) -> list[Bar]:
    name = next((name for name in _UNITS if any(name in row for row in rows)), "")
    found = [row for row in rows if name in row]
    logs = [math.log10(max(float(row[name]), 1e-9)) for row in found]
    least, span = (
        min(logs, default=0.0) - 0.3,
        max(logs, default=0.0) - min(logs, default=0.0) + 0.3,
    )
    return [
        Bar(
            name=_title(row),
            figure=f"{row[name]:.3g} {_UNITS[name]}",
            begin=0.0,
            end=(log - least) / span,
            colour=_MEMORY,
        )
        for row, log in zip(found, logs, strict=True)
    ]


def _title(row: Row) -> str:
    """Case and what it was, as far as words tell."""
    words = [value for name, value in row.items() if isinstance(value, str) and name != "dtype"]
    return " ".join(words[1:] or words)[:38]


def _page(title: str, legend: str, below: str, bars: list[Bar], ticks: tuple[float, ...]) -> str:
    height = _TOP + _ROW * len(bars) + _BOTTOM
    drawn = (part for number, bar in enumerate(bars) for part in _drawn(bar, _TOP + _ROW * number))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}" '
        f'font-family="{_FONT}" font-size="13" fill="{_INK}">',
        f"  <title>{escape(title)}</title>",
        f'  <rect width="{_WIDTH}" height="{height}" rx="8" fill="{_PAPER}" stroke="{_EDGE}"/>',
        _text(20, 32, title, 'font-size="17" font-weight="bold"'),
        _text(20, 54, legend, f'fill="{_QUIET}"'),
        *(part for ratio in ticks for part in _tick(ratio, _TOP + _ROW * len(bars))),
        *drawn,
        _text(20, height - 12, below, f'font-size="12" fill="{_QUIET}"'),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _tick(ratio: float, bottom: int) -> list[str]:
    x, colour = _x(_place(ratio)), _INK if ratio == 1 else _EDGE
    return [
        f'  <path d="M{x} {_TOP - 6} V{bottom}" stroke="{colour}" stroke-width="1"/>',
        _text(x, _TOP - 10, f"{ratio:g}", 'text-anchor="middle" font-size="12"'),
    ]


def _drawn(bar: Bar, y: int) -> list[str]:
    parts = [_text(20, y + 15, bar.name), _box(bar.begin, bar.end, (y + 3, 13), bar.colour)]
    if bar.second is not None:
        parts.append(_box(bar.begin, bar.second, (y + 18, 4), _MEMORY))
    figure = f"{bar.figure} →" if bar.cut else bar.figure
    parts.append(_text(_WIDTH - 20, y + 15, figure, 'text-anchor="end"'))
    return parts


def _box(begin: float, end: float, span: tuple[int, int], colour: str) -> str:
    left, right = sorted((_x(begin), _x(end)))
    top, height = span
    return (
        f'  <rect x="{left}" y="{top}" width="{max(right - left, 1.0):.1f}" height="{height}" '
        f'rx="2" fill="{colour}"/>'
    )


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'  <text x="{x:g}" y="{y:g}"{" " + more if more else ""}>{escape(text)}</text>'


def _x(share: float) -> float:
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)
