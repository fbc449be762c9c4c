"""Chooses host ports for a service, so that supervisors of one machine do not choose the same."""

from __future__ import annotations

import _socket

MOST_ATTEMPTS = 100
"""How many ports are tried before a service cannot be started."""

_DEFAULT_FIRST_FREE = 1024


class NoFreePort(Exception):
    """Every port that was tried is in use."""


class Ports:
    """Host ports that are held until this process ends, each by a name in the abstract namespace of sockets."""

    def __init__(self) -> None:
        self._held: dict[int, _socket.socket] = {}
        self._chosen: dict[int, int] = {}

    def choose(self, wanted: dict[int, int | None], *, is_root: bool) -> dict[int, int]:
        """Return a host port for each port: that of the last time, else the preferred one, else any that is free."""
        first = 1 if is_root else _read_first_unprivileged()
        for port, preferred in wanted.items():
            last = self._chosen.get(port)
            if last is None or find_free_port(last) is None:
                may_prefer = preferred is not None and preferred >= first
                candidates = [preferred if may_prefer else None] + [None] * MOST_ATTEMPTS
                self._chosen[port] = self._reserve_first(candidates, port)
        return dict(self._chosen)

    def _reserve_first(self, candidates: list[int | None], port: int) -> int:
        for candidate in candidates:
            free = find_free_port(candidate)
            if free is not None and free not in self._held and self._reserve(free):
                return free
        raise NoFreePort(f"no free port for port {port}: tried {len(candidates)}")

    def _reserve(self, port: int) -> bool:
        reservation = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            reservation.bind(f"\0runyard-port-{port}")
        except OSError:
            reservation.close()
            return False
        self._held[port] = reservation
        return True


def find_free_port(port: int | None) -> int | None:
    """Return the port if nothing listens on it, None if something does; any free port for None."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        probe.bind(("0.0.0.0", port or 0))  # noqa: S104  # nothing listens: the port is only looked at
        return int(probe.getsockname()[1])
    except OSError:
        return None
    finally:
        probe.close()


def substitute(text: str, ports: dict[int, int]) -> str:
    """Replace `$(PORT_8080)` by the host port of 8080."""
    for port, host in ports.items():
        text = text.replace(f"$(PORT_{port})", str(host))
    return text


def _read_first_unprivileged() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _DEFAULT_FIRST_FREE
