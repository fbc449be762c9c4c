"""The golden paths by `runyard` and by the SDK, on the local engine."""

from pathlib import Path

import pytest

import runyard as ry
from tests.core_process import CoreProcess
from tests.golden_paths import Place, follow_a_log, follow_jobs, keep_what_a_secret_wrote, serve_a_trained_model


@pytest.fixture
def place(core: CoreProcess, server: str, tmp_path: Path) -> Place:
    return Place(client=ry.get_client(), environment={"RUNYARD_ENDPOINT": core.url}, folder=tmp_path)


def test_outcome_is_the_exit_code_when_a_job_ends(place: Place) -> None:
    follow_jobs(place)


def test_every_line_is_followed_when_a_run_is_stopped(place: Place) -> None:
    follow_a_log(place)


def test_model_of_a_job_is_served_when_it_was_logged(place: Place) -> None:
    serve_a_trained_model(place)


def test_volume_has_what_a_run_wrote_when_a_later_one_reads_it(place: Place) -> None:
    keep_what_a_secret_wrote(place)
