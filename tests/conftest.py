"""The one hypothesis profile of all tests.

Examples have no deadline, and slow data generation is not a failure: on a fresh checkout the first text that hypothesis
draws builds its Unicode tables, and the machine runs several test processes at once.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("runyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("runyard")
