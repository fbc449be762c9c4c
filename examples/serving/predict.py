"""Serves the model of the training example: readings in, the state of the machine and its probability out.

`load` is the init function, called once before the first request. `predict` is the handler, called for each request
with the values of its JSON body by name.
"""

import json
import math
from pathlib import Path
from typing import Any


def load(context: Any, model: Path) -> None:
    """Read the model; `model` is the key of a stored file, which arrives as a local path."""
    context.model = json.loads(model.read_text())


def predict(context: Any, temperature: float, vibration: float, pressure: float) -> dict[str, Any]:
    """The most probable state of a machine with these readings."""
    model = context.model
    readings = {"temperature": temperature, "vibration": vibration, "pressure": pressure}
    pairs = zip(model["features"], model["means"], model["deviations"], strict=True)
    values = [*((readings[name] - mean) / deviation for name, mean, deviation in pairs), 1.0]
    scores = [sum(weight * value for weight, value in zip(each, values, strict=True)) for each in model["weights"]]
    powers = [math.exp(score - max(scores)) for score in scores]
    best = max(range(len(powers)), key=powers.__getitem__)
    return {"state": model["states"][best], "probability": round(powers[best] / sum(powers), 4)}
