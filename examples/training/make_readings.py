"""Prints made-up sensor readings of machines as CSV, the same ones every time: `make_readings.py > readings.csv`."""

import random

ROWS = 600
STATES = {"healthy": (61.0, 2.2, 4.1), "worn": (70.0, 3.6, 3.7), "failing": (79.0, 5.3, 3.0)}
"""Mean temperature (°C), vibration (mm/s) and oil pressure (bar) of a machine in each state."""
DEVIATIONS = (4.2, 0.7, 0.4)


def main() -> None:
    """Print the header and a row per reading; the states take turns."""
    chance = random.Random(20)  # noqa: S311 - not for cryptography
    print("temperature,vibration,pressure,state")
    for row in range(ROWS):
        state = list(STATES)[row % len(STATES)]
        pairs = zip(STATES[state], DEVIATIONS, strict=True)
        print(",".join(f"{chance.gauss(mean, deviation):.2f}" for mean, deviation in pairs), state, sep=",")


if __name__ == "__main__":
    main()
