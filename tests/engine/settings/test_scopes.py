"""What other films get of one film's settings."""

from engine.settings.schema import JobSettings, changes_for_others, for_next_films, with_latents_of

FILM = JobSettings(overwrite=True, start="1", stop="2", height=1080)


def test_the_next_film_has_no_permission_and_no_times_of_this_one():
    assert for_next_films(FILM) == JobSettings(height=1080)


def test_others_get_what_has_changed_but_for_what_is_of_one_film():
    assert changes_for_others(JobSettings(start="3", crf=20), FILM) == {"height": 1080, "crf": 16}


def test_latents_are_read_as_before():
    source = JobSettings(latents="raw", latent_rate=25.0, height=720)
    assert with_latents_of(source, JobSettings()) == JobSettings(latents="raw", latent_rate=25.0)
