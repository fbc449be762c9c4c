"""What the server sets before it starts."""

import subprocess
import sys

import pytest

ALLOCATED_KIB = 400 * 256
PROGRAM = """
import sys
from pathlib import Path
from runyard.bootstrap import map_large_buffers

def read_resident_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])

if sys.argv[1] == "mapped":
    map_large_buffers()
before, kept = read_resident_kib(), []
for _ in range(2):
    buffers = []
    for _ in range(400):
        buffers.append(bytearray(256 * 1024))
        kept.append(bytes(2000))
    del buffers
print(read_resident_kib() - before)
"""


@pytest.mark.parametrize("how", ["mapped", "default"])
def test_memory_of_large_buffers_is_given_back_when_they_are_freed(how: str) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    is_kept = int(ended.stdout) > ALLOCATED_KIB / 2
    assert is_kept is (how == "default")
