"""The comparison of figures with those of another tree; measuring itself is a command."""

import json
import subprocess
from pathlib import Path

import pytest

from tools.figures import __main__ as program
from tools.figures import trees
from tools.figures.child import FigureFailed
from tools.figures.comparison import Line, compare
from tools.figures.figure import FIGURES, Figure, named

SPEED = Figure(name="start.help", unit="s", about="")
PEAK = Figure(name="jobs.peak", unit="MB", limit=600, about="", tolerance=None)
CLOCK = Figure(name="window.gap", unit="ms", about="", is_on_clock=True)
QUALITY = Figure(
    name="quality.psnr", unit="dB", limit=34, about="", tolerance=0.01, more_is_better=True
)


@pytest.mark.parametrize(
    ("figure", "before", "now", "verdict"),
    [
        (SPEED, 0.20, 0.219, ""),
        (SPEED, 0.20, 0.221, "worse"),
        (SPEED, 0.20, 0.1, ""),
        (SPEED, None, 0.2, "not measured there"),
        (SPEED, 0.20, None, "not measured"),
        (PEAK, 300, 599, ""),
        (PEAK, 300, 601, "past its limit"),
        (PEAK, None, 601, "past its limit"),
        (QUALITY, 36.0, 35.7, ""),
        (QUALITY, 36.0, 35.6, "worse"),
        (QUALITY, 36.0, 40.0, ""),
        (QUALITY, 34.1, 33.9, "past its limit"),
    ],
)
def test_what_became_worse(figure, before, now, verdict):
    line = Line(figure=figure, before=before, now=now)
    assert line.verdict == verdict
    assert line.is_fault == (verdict in ("worse", "past its limit"))


def test_medians_are_compared_and_on_the_clock_the_least():
    before = {"start.help": [0.3, 0.2, 9.0], "window.gap": [50, 20, 70]}
    now = {"start.help": [0.2, 0.1, 7.0], "window.gap": [90, 10]}
    speed, gap = compare([SPEED, CLOCK], before, now)
    assert (speed.before, speed.now, speed.ratio) == (0.3, 0.2, pytest.approx(1.5))
    assert (gap.before, gap.now, gap.ratio) == (20, 10, 2)
    assert compare([SPEED], None, now)[0].verdict == ""


def test_seconds_of_work_have_no_limit_of_one_processor():
    for figure in FIGURES:
        assert figure.limit is not None or figure.unit in ("s", "ms"), figure.name
        is_work = figure.unit in ("s", "ms") and figure.tolerance is not None
        assert figure.limit is None or not is_work, figure.name


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Values of `start` by tree and turn; the other tree is an empty folder."""
    turns: dict[str, list[dict[str, float] | str]] = {"here": [], "there": []}
    order: list[str] = []

    def measure(children):
        where = "there" if children.root == tmp_path else "here"
        order.append(where)
        found = turns[where].pop(0)
        if isinstance(found, str):
            raise FigureFailed(found)
        return found

    class Other:
        def __enter__(self):
            return tmp_path

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(program, "tree_of", lambda _commit: Other())
    monkeypatch.setitem(program.MEASURES, "start", program.Group(measure, 2))
    return turns, order


def helps(*seconds: float) -> list[dict[str, float]]:
    return [{"start.help": value, "start.engine_import": 9.0} for value in seconds]


def run(*arguments: str) -> int:
    return program.main([*arguments, "--only", "start.help"])


def test_trees_are_measured_in_turns_and_the_first_turn_compiles(measured, capsys):
    turns, order = measured
    turns["here"] += helps(5.0, 0.2, 0.2)
    turns["there"] += helps(5.0, 0.21, 0.23)
    assert run("--against", "other") == 0
    assert order == ["here", "there", "there", "here", "here", "there"]
    shown = capsys.readouterr().out
    assert "No figure became worse" in shown
    assert "1.100" in shown


def test_a_suspect_gets_more_turns(measured, capsys):
    turns, _ = measured
    turns["here"] += helps(5.0, 0.25, 0.25, 5.0, 0.2, 0.2)
    turns["there"] += helps(5.0, 0.2, 0.2, 5.0, 0.21, 0.21)
    assert run("--against", "other") == 0
    capsys.readouterr()
    turns["here"][:] = helps(5.0, 0.25, 0.25, 5.0, 0.25, 0.25)
    turns["there"][:] = helps(5.0, 0.2, 0.2, 5.0, 0.2, 0.2)
    assert run("--against", "other", "--json") == 1
    (row,) = json.loads(capsys.readouterr().out)["figures"]
    assert (row["verdict"], row["ratio"], len(row["turns_now"])) == ("worse", 0.8, 4)


def test_a_measurement_that_fails_here_fails_the_check(measured, capsys):
    turns, _ = measured
    turns["here"] += ["The process ended."]
    assert run() == 1
    assert "start failed: The process ended." in capsys.readouterr().out


def test_a_measurement_that_fails_there_is_told_only(measured, capsys):
    turns, _ = measured
    turns["here"] += helps(5.0, 0.2, 0.2)
    turns["there"] += ["No such module."]
    assert run("--against", "other") == 0
    assert "start failed there: No such module." in capsys.readouterr().out


def test_an_unknown_figure_is_named():
    with pytest.raises(ValueError, match="speed"):
        named(["speed"])


@pytest.mark.programs("git")
def test_the_other_tree_is_measured_by_the_code_of_this_one_and_goes(tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    figures = repository / "tools" / "figures"
    figures.mkdir(parents=True)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *who, *words], cwd=repository, check=True, capture_output=True, text=True
        )
        return done.stdout

    git("init", "-q")
    for text in ("old", "new"):
        (repository / "engine.py").write_text(text)
        (figures / "measure.py").write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", text)
    (figures / "more.py").write_text("not committed")
    monkeypatch.setattr(trees, "ROOT", repository)
    with trees.tree_of("HEAD~1") as folder:
        assert (folder / "engine.py").read_text() == "old"
        assert (folder / "tools" / "figures" / "measure.py").read_text() == "new"
        assert (folder / "tools" / "figures" / "more.py").is_file()
    assert not Path(folder).exists()
    assert len(git("worktree", "list").splitlines()) == 1
    with pytest.raises(trees.NoSuchCommit, match="nothing"), trees.tree_of("nothing"):
        pass
