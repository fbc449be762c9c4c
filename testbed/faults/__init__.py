"""A fault-injection proxy: lost connections, resets, stalls, delays, refused connections, errors, repeated events.

Put it between a client and any HTTP/1.1 server. It knows Kubernetes only where a fault must look like one (a
Status body, the last event of a watch). Standard library only. `proxy.py` is the door, `plan.py` the faults.

    plan = FaultPlan(seed=7, rates={"cut": 0.1}, rules=[Rule(LoseAnswer(), method="POST")])
    async with FaultProxy(server, plan=plan, certificate=(chain, key), upstream_ca=ca) as proxy:
        ...  # a client that talks to proxy.url
        assert proxy.counts["cut"] > 0
"""

from testbed.faults.http1 import Request
from testbed.faults.journal import Entry
from testbed.faults.plan import (
    Answer,
    Cut,
    Delay,
    Expire,
    Fault,
    FaultPlan,
    LoseAnswer,
    Refuse,
    Repeat,
    Reset,
    Rule,
    Spread,
    Stall,
)
from testbed.faults.proxy import FaultProxy

__all__ = [
    "Answer",
    "Cut",
    "Delay",
    "Entry",
    "Expire",
    "Fault",
    "FaultPlan",
    "FaultProxy",
    "LoseAnswer",
    "Refuse",
    "Repeat",
    "Request",
    "Reset",
    "Rule",
    "Spread",
    "Stall",
]
