"""The link between this machine and a cluster's network namespace."""

import ipaddress
import json
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from testbed.addresses import SLOTS, Addresses
from testbed.errors import TestbedError

_INSIDE_DEVICE = "eth0"


def choose_slot(taken: Iterable[int]) -> int:
    """Return the first slot that no cluster uses and whose addresses are free on this machine."""
    busy = set(taken)
    conflict = None
    for slot in range(SLOTS):
        if slot not in busy:
            conflict = find_conflict(Addresses(slot))
            if conflict is None:
                return slot
    reason = f" (the last one: {conflict})" if conflict else ""
    raise TestbedError(f"none of the {SLOTS} address ranges is free{reason}: see `python -m testbed status`")


def find_conflict(addresses: Addresses) -> str | None:
    """A route of this machine that overlaps with a slot's ranges, as text; None when it is free."""
    wanted = [
        ipaddress.ip_network(text)
        for text in (addresses.link_network, addresses.pod_network, addresses.service_network)
    ]
    for route in json.loads(_output("ip", "-json", "-4", "route", "show", "table", "all")):
        destination = route.get("dst", "default")
        if destination == "default" or route.get("type") in {"broadcast", "multicast"}:
            continue
        network = ipaddress.ip_network(destination, strict=False)
        for range_ in wanted:
            if network.overlaps(range_):
                return f"{range_} overlaps with {destination} on {route.get('dev', '?')}"
    return None


def create_link(addresses: Addresses, *, pid: int) -> None:
    """Create the veth pair between the namespace of a process and this machine."""
    device = addresses.host_device
    _output("ip", "link", "add", device, "type", "veth", "peer", "name", _INSIDE_DEVICE, "netns", str(pid))


def connect(addresses: Addresses, *, pid: int) -> None:
    """Give both ends of the link their addresses, and route the cluster's ranges into it.

    No route leads out of it but to this machine: clusters do not see each other, and pods that call the
    world are told at once that they cannot.
    """
    device, node_ip = addresses.host_device, addresses.node_ip
    _output("ip", "address", "add", f"{addresses.host_ip}/24", "dev", device)
    _output("ip", "link", "set", device, "up")
    inside = ("nsenter", "--target", str(pid), "--net")
    _output(*inside, "ip", "link", "set", "lo", "up")
    _output(*inside, "ip", "address", "add", f"{node_ip}/24", "dev", _INSIDE_DEVICE)
    _output(*inside, "ip", "link", "set", _INSIDE_DEVICE, "up")
    _output(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for network in (addresses.pod_network, addresses.service_network):
        _output("ip", "route", "add", network, "via", node_ip, "dev", device)


def disconnect(addresses: Addresses) -> None:
    """Remove the link. Idempotent; without it, the kernel does so a moment after the namespace's end."""
    subprocess.run(["ip", "link", "delete", addresses.host_device], capture_output=True, check=False)
    deadline = time.monotonic() + 10
    while Path("/sys/class/net", addresses.host_device).exists():
        if time.monotonic() > deadline:
            raise TestbedError(f"the device {addresses.host_device} cannot be removed: `ip link` shows it")
        time.sleep(0.05)


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout
