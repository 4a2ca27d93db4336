import pickle
import traceback

from tblib import pickling_support

from engine.core.errors import EngineError, OutputExists


def test_the_hint_is_printed_below_an_error() -> None:
    error = OutputExists("before-start", name="a.mkv")
    error.add_note("a note")
    *_, sentence, hint, note = traceback.format_exception(error)
    assert sentence.endswith("OutputExists: a.mkv already exists.\n")
    assert hint.strip() == error.hint
    assert note.strip() == "a note"
    assert EngineError("reported", problem="a", help="").__notes__ == []


def test_errors_reach_other_processes_with_their_class() -> None:
    """Dask's way, which sets the notes of a copy; one that cannot be set makes it an Exception."""
    error = OutputExists("before-start", name="a.mkv")
    pickling_support.install(error)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, OutputExists)
    assert (str(copy), copy.__notes__) == (str(error), error.__notes__)


def test_an_error_comes_back_from_its_data() -> None:
    error = OutputExists("before-start", name="a.mkv")
    copy = error.info().as_error
    assert isinstance(copy, OutputExists)
    assert (str(copy), copy.hint) == (str(error), error.hint)
