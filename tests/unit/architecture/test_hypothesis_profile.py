from hypothesis import HealthCheck, settings


def test_speed_of_the_machine_decides_nothing_when_hypothesis_draws() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
