"""What we print as YAML is what kubectl reads: the texts arrive at the apiserver as texts, letter by letter."""

import json
import random
import string

from runyard.spec.yaml.loader import dump_yaml, load_document
from testbed.cluster import Cluster
from tests.unit.spec.yaml.test_printer import LOOKS_TYPED

SEED = 11
WORDS = 1_500
# Digits, signs and the letters that numbers, dates and words of YAML are made of.
CHARACTERS = "0123456789+-.:_eExXoObBnNyYfFtTaAiIsSuUlLrR ~=<\n\t\"'#,[]{}&*!|>%@`?"
STRANGE = ("a\nb\n", "\n a\n", "a \nb", "\u00e9\u2028x", "😀", "\x85", "\ufeff", "a\r\nb", "\u00a0", "x" * 5000, "\x07")


def draw_texts() -> list[str]:
    generator = random.Random(SEED)
    drawn = ("".join(generator.choices(CHARACTERS, k=generator.randint(1, 7))) for _ in range(WORDS))
    return [*LOOKS_TYPED, *STRANGE, *string.printable, *drawn]


def test_texts_arrive_unchanged_when_kubectl_reads_what_we_print(control_plane: Cluster) -> None:
    texts = draw_texts()
    data = {f"key-{number}": text for number, text in enumerate(texts)}
    annotations = {f"example.com/{number}": text for number, text in enumerate(texts)}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "texts", "annotations": annotations},
        "data": data,
    }
    printed = dump_yaml(manifest)
    assert load_document(printed).data == manifest
    answer = json.loads(control_plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=printed))
    assert answer["data"] == data
    assert answer["metadata"]["annotations"] == annotations


def test_keys_arrive_unchanged_when_they_look_like_something_else(control_plane: Cluster) -> None:
    keys = ("on", "yes", "y", "null", "true", "1", "012", "0x1", "1e3", "1_000", "1.5", "2026-07-20", "-", "_", ".5")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"}, "data": dict.fromkeys(keys, "x")}
    printed = dump_yaml(manifest)
    answer = json.loads(control_plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=printed))
    assert answer["data"].keys() == set(keys)
