"""Fits a classifier to sensor readings: softmax regression by gradient descent, standard library only.

The handler is `train`. `readings` is an input: the run names a stored file, the launcher downloads it.
"""

import csv
import json
import math
from pathlib import Path
from typing import Any

Row = tuple[list[float], int]


def train(context: Any, readings: Path, epochs: int = 300, learning_rate: float = 0.5) -> dict[str, Any]:
    """Fit a model; returns its accuracy on readings it has not seen, and the model as a file."""
    features, states, rows = read_rows(readings)
    means, deviations = measure(rows)
    scaled = [(scale(values, means, deviations), state) for values, state in rows]
    tests, examples = scaled[::5], [row for at, row in enumerate(scaled) if at % 5]
    print(f"{len(rows)} readings of {len(features)} sensors, {len(states)} states; {len(tests)} kept for the test")

    weights = [[0.0] * (len(features) + 1) for _ in states]
    for epoch in range(1, epochs + 1):
        loss = improve(weights, examples, learning_rate)
        if epoch % (epochs // 10 or 1) == 0:
            print(f"epoch {epoch:3}: loss {loss:.4f}")
            context.log_metric("loss", round(loss, 6))

    right = sum(find_best(classify(weights, values)) == state for values, state in tests)
    accuracy = round(right / len(tests), 4)
    context.log_metric("accuracy", accuracy)
    print(f"accuracy {accuracy:.1%} on {len(tests)} readings")

    model = Path("model.json")
    fitted = {"features": features, "states": states, "means": means, "deviations": deviations, "weights": weights}
    model.write_text(json.dumps(fitted))
    return {"accuracy": accuracy, "model": model}


def read_rows(path: Path) -> tuple[list[str], list[str], list[Row]]:
    """The names of the sensors, the names of the states, and the rows: readings and the number of their state."""
    with path.open(newline="") as file:
        header, *lines = list(csv.reader(file))
    states = sorted({line[-1] for line in lines})
    return header[:-1], states, [([float(cell) for cell in line[:-1]], states.index(line[-1])) for line in lines]


def measure(rows: list[Row]) -> tuple[list[float], list[float]]:
    """The mean and the standard deviation of each sensor."""
    columns = list(zip(*(values for values, _ in rows), strict=True))
    means = [math.fsum(column) / len(column) for column in columns]
    spreads = [
        math.fsum((value - mean) ** 2 for value in column) / len(column)
        for column, mean in zip(columns, means, strict=True)
    ]
    return means, [math.sqrt(spread) or 1.0 for spread in spreads]


def scale(values: list[float], means: list[float], deviations: list[float]) -> list[float]:
    """The readings in standard deviations from the mean, and a constant for the bias."""
    return [*((value - mean) / each for value, mean, each in zip(values, means, deviations, strict=True)), 1.0]


def improve(weights: list[list[float]], rows: list[Row], learning_rate: float) -> float:
    """One step of gradient descent over all rows; returns the loss before it (mean cross-entropy)."""
    gradients = [[0.0] * len(each) for each in weights]
    loss = 0.0
    for values, state in rows:
        chances = classify(weights, values)
        loss -= math.log(max(chances[state], 1e-12))
        for number, gradient in enumerate(gradients):
            error = chances[number] - (number == state)
            for at, value in enumerate(values):
                gradient[at] += error * value
    for each, gradient in zip(weights, gradients, strict=True):
        for at, slope in enumerate(gradient):
            each[at] -= learning_rate * slope / len(rows)
    return loss / len(rows)


def classify(weights: list[list[float]], values: list[float]) -> list[float]:
    """The probability of each state (softmax)."""
    scores = [sum(weight * value for weight, value in zip(each, values, strict=True)) for each in weights]
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def find_best(chances: list[float]) -> int:
    """The number of the most probable state."""
    return max(range(len(chances)), key=chances.__getitem__)
