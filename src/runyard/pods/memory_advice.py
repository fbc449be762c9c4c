"""What a run that ran out of memory is told: the figures, and the next request to try.

The rule: a quarter more than the largest of peak, limit and request, rounded up to four significant bits (640Mi,
1280Mi, 10Gi). The peak alone is not enough: memory that was refused at the limit was never counted. A run that needs
four times as much gets there in about six tries, a run that needs a little more wastes at most 40 %.
"""

from dataclasses import dataclass
from fractions import Fraction

from runyard.spec.figures import format_amount
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import LARGEST_AMOUNT

GROWTH = Fraction(5, 4)
"""How much more than before the next request is."""
SMALLEST_REQUEST_BYTES = 64 << 20
"""No smaller request is proposed: an interpreter with a library does not fit."""
SIGNIFICANT_BITS = 4


@dataclass(frozen=True, slots=True)
class MemoryAdvice:
    """The next request to try, and the sentence for `status.message`."""

    request: Quantity | None
    """None: there is no figure to begin with, or the largest possible one was not enough."""
    text: str


def advise_memory(peak_bytes: int | None, *, limit_bytes: int | None, request_bytes: int | None) -> MemoryAdvice:
    """What to try after a run ran out of memory. Figures that are not known are None; the advice exceeds all others."""
    known = max(peak_bytes or 0, limit_bytes or 0, request_bytes or 0)
    request = _propose(known)
    if limit_bytes:
        used = f"it used {_shorten(peak_bytes)} and its limit is" if peak_bytes else "it needs more than its limit of"
        happened = f"{used} {_shorten(limit_bytes)}"
    else:
        happened = f"the machine had no more{f' after it used {_shorten(peak_bytes)}' if peak_bytes else ''}"
    advice = f"try resources.mem: {request}" if request else "set resources.mem to what it needs"
    return MemoryAdvice(request, f"out of memory: {happened}; {advice}")


def _propose(known_bytes: int) -> Quantity | None:
    wanted = max(SMALLEST_REQUEST_BYTES, -(-known_bytes * GROWTH.numerator // GROWTH.denominator))
    step = 1 << max(0, wanted.bit_length() - SIGNIFICANT_BITS)
    proposed = Quantity.from_bytes(-(-wanted // step) * step)
    return proposed if known_bytes and proposed <= LARGEST_AMOUNT else None


def _shorten(size: int) -> str:
    """At most three digits; the exact figure is in `status.ends`."""
    return format_amount(Quantity.from_bytes(size), is_bytes=True).partition(" (")[0]
