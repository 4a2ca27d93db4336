"""Every figure that has a limit: its name, unit, limit and how far it may move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One benchmark with a limit.

    Attributes:
        name: Group and figure, as "start.help".
        unit: Its unit. "s" and "ms" are those of the reference machine (see `calibration`).
        limit: Worst value that is allowed.
        tolerance: Share by which it may be worse than the baseline; more than the figure's own
            spread. None: the figure spreads too much to be compared, only its limit counts.
        more_is_better: For quality.
        about: Description for people.
    """

    name: str
    unit: str
    limit: float
    about: str
    tolerance: float | None = 0.10
    more_is_better: bool = False

    @property
    def group(self) -> str:
        """Group of figures that are measured together, in one process or in turns."""
        return self.name.partition(".")[0]

    def is_past_limit(self, value: float) -> bool:
        """Whether the limit forbids a value."""
        return value < self.limit if self.more_is_better else value > self.limit

    def is_worse(self, value: float, baseline: float) -> bool:
        """Whether a value is worse than the baseline by more than the tolerance."""
        if self.tolerance is None:
            return False
        if self.more_is_better:
            return value < baseline * (1 - self.tolerance)
        return value > baseline * (1 + self.tolerance)


def _spread(name: str, unit: str, limit: float, *, about: str) -> Figure:
    """One that spreads too much between runs of one tree to be compared."""
    return Figure(name=name, unit=unit, limit=limit, about=about, tolerance=None)


def _quality(name: str, unit: str, limit: float) -> Figure:
    """One that hardly spreads: the same weights make the same pictures everywhere."""
    return Figure(
        name=f"quality.{name}",
        unit=unit,
        limit=limit,
        about="mean of four photographs",
        tolerance=0.002,
        more_is_better=True,
    )


FIGURES = (
    Figure(name="start.window_import", unit="s", limit=0.35, about="CPU, import app.application"),
    Figure(name="start.engine_import", unit="s", limit=0.35, about="CPU, import engine.api"),
    Figure(name="start.help", unit="s", limit=0.30, about="CPU, command line's --help"),
    Figure(name="window.first_paint", unit="s", limit=0.60, about="process start to first paint"),
    Figure(name="window.first_paint_cpu", unit="s", limit=0.60, about="CPU until first paint"),
    Figure(name="window.loading_gap", unit="ms", limit=250, about="event loop while torch loads"),
    _spread("window.largest_gap", "ms", 50, about="event loop during a Lite job"),
    _spread("idle.cpu", "%", 0.5, about="CPU of a core, empty queue, a minute after the start"),
    _spread("idle.cpu_after_job", "%", 0.5, about="CPU of a core, a finished film is selected"),
    Figure(name="idle.ram", unit="MiB", limit=330, about="main memory with torch, no job so far"),
    _spread("idle.theme", "ms", 100, about='CPU, change of theme, "More choices" unfolded'),
    _spread("idle.language", "ms", 100, about='CPU, change of language, "More choices" unfolded'),
    _spread("idle.drop", "ms", 100, about="event loop while fifty films come and are planned"),
    _spread("planning.lite", "ms", 25, about="CPU, first plan of Lite"),
    Figure(name="planning.seedvr2_first", unit="ms", limit=200, about="CPU, first plan"),
    Figure(name="planning.seedvr2_size", unit="ms", limit=60, about="CPU, another frame size"),
    Figure(name="planning.seedvr2_again", unit="ms", limit=50, about="CPU, the same again"),
    Figure(name="models.lite_2x", unit="s", limit=0.04, about="CPU, 2 frames 240x136, float32"),
    Figure(name="models.lite_4x", unit="s", limit=0.055, about="CPU, 2 frames 240x136, float32"),
    Figure(name="models.lite_2x_bfloat16", unit="s", limit=0.022, about="CPU, as lite_2x"),
    Figure(
        name="models.seedvr2_vae_encode", unit="s", limit=0.25, about="CPU, half width, 5x64x64"
    ),
    Figure(
        name="models.seedvr2_vae_decode", unit="s", limit=0.50, about="CPU, half width, 5x64x64"
    ),
    Figure(name="models.wan_vae_encode", unit="s", limit=0.50, about="CPU, Wan 2.1, 5x64x64"),
    Figure(name="models.wan_2x_decode", unit="s", limit=0.80, about="CPU, Wan 2x, 5x64x64"),
    Figure(name="models.transformer", unit="s", limit=0.12, about="CPU, 512 wide, 5x320x192"),
    Figure(name="models.transformer_bfloat16", unit="s", limit=0.075, about="CPU, as transformer"),
    _spread("models.passes", "s", 0.1, about="CPU, norms and passes over tokens"),
    _quality("lite_2x_psnr", "dB", 34.0),
    _quality("lite_2x_ssim", "", 0.945),
    _quality("lite_4x_psnr", "dB", 28.9),
    _quality("lite_4x_ssim", "", 0.830),
    Figure(name="jobs.lite_cpu", unit="s", limit=5, about="CPU, sample clip, 2x"),
    Figure(name="jobs.lite_peak", unit="MB", limit=550, about="main memory of the process"),
    Figure(name="jobs.seedvr2_cpu", unit="s", limit=15, about="CPU, 9 frames 96x64, half width"),
    Figure(name="jobs.seedvr2_peak", unit="MB", limit=1600, about="main memory of the process"),
    Figure(name="package.size", unit="MB", limit=1000, about="dist/upreel"),
)
GROUPS = tuple(dict.fromkeys(figure.group for figure in FIGURES))


def named(names: list[str]) -> tuple[Figure, ...]:
    """The figures of some names or groups; all without a name.

    Raises:
        ValueError: There is no such figure.
    """
    unknown = [name for name in names if name not in GROUPS and name not in _NAMES]
    if unknown:
        raise ValueError(f"There is no figure {unknown[0]!r}; known: {', '.join(_NAMES)}.")
    chosen = [f for f in FIGURES if not names or f.name in names or f.group in names]
    return tuple(chosen)


_NAMES = tuple(figure.name for figure in FIGURES)
