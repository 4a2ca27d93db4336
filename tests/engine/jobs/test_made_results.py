"""The list of results: it never stops a job, and stays small."""

from engine.core import paths
from engine.core.file_access import content_mark
from engine.jobs import made_results


def test_a_list_that_cannot_be_written_or_read_stops_nothing(tmp_path, caplog):
    result = tmp_path / "film.mp4"
    result.write_bytes(b"a film")
    (paths.data_folder() / "results.txt").mkdir(parents=True)
    made_results.note(result)
    assert made_results.marks() == frozenset()
    assert "could not be recorded as a result" in caplog.text
    caplog.clear()


def test_an_empty_folder_and_what_has_gone_are_no_results(tmp_path, caplog):
    (tmp_path / "empty").mkdir()
    made_results.note(tmp_path / "empty")
    made_results.note(tmp_path / "gone.mp4")
    assert made_results.marks() == frozenset()
    caplog.clear()


def test_of_a_long_list_the_latest_count(tmp_path, monkeypatch):
    monkeypatch.setattr(made_results, "_MOST_BYTES", 200)
    files = [tmp_path / f"{number}.mp4" for number in range(9)]
    for file in files:
        file.write_text(file.name)
        made_results.note(file)
    marks = made_results.marks()
    assert content_mark(files[-1]) in marks
    assert content_mark(files[0]) not in marks


def test_films_that_differ_at_one_end_or_in_size_are_different(tmp_path):
    def mark(content: bytes) -> str:
        file = tmp_path / "film.mp4"
        file.write_bytes(content)
        return content_mark(file)

    middle = bytes(300_000)
    contents = [b"a" + middle + b"z", b"b" + middle + b"z", b"a" + middle + b"y", b"a" + middle]
    assert len({mark(content) for content in contents}) == len(contents)
    assert mark(b"") != mark(b"a")
