"""Traefik as a process of this machine: the ingress controller, and the controller of Gateways, of one cluster.

It is not in the cluster's namespaces: like a load balancer outside, it reaches pods by their addresses.
"""

import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from testbed import build
from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.supervision import environment_without_proxies, last_lines

INGRESS_CLASS = "traefik"
INGRESS_CONTROLLER = "traefik.io/ingress-controller"
GATEWAY_CONTROLLER = "traefik.io/gateway-controller"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LAST_LINES = 12


class Traefik:
    """Use it as `with`, once. It serves HTTPS on `port` of 127.0.0.1, by default with `certificate`.

    On `plain_port` it serves HTTP to whoever asks for it: the listeners of a Gateway are on one of these ports.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, certificate: tuple[Path, Path]) -> None:
        self.port, self.plain_port = _find_free_ports()
        self.log = folder / "traefik.log"
        self._cluster = cluster
        self._certificates = folder / "certificates.yaml"
        self._certificates.write_text(
            "tls:\n  stores:\n    default:\n      defaultCertificate:\n"
            f"        certFile: {certificate[0]}\n        keyFile: {certificate[1]}\n"
        )

    def __enter__(self) -> Self:
        argv = [str(build.ensure_traefik()), *self._flags()]
        environment = {**environment_without_proxies(), "KUBECONFIG": str(self._cluster.kubeconfig)}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                argv, cwd=self.log.parent, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._wait_listening()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _flags(self) -> list[str]:
        entry_point = "--entryPoints.websecure"
        return [
            f"{entry_point}.address=127.0.0.1:{self.port}",
            # Without it, only Ingresses with an annotation of Traefik's are served over TLS.
            f"{entry_point}.http.tls=true",
            f"--entryPoints.web.address=127.0.0.1:{self.plain_port}",
            "--providers.kubernetesIngress=true",
            f"--providers.kubernetesIngress.ingressClass={INGRESS_CLASS}",
            # Without it, a host whose pods are all unready is unknown, as if there were no Ingress.
            "--providers.kubernetesIngress.allowEmptyServices=true",
            "--providers.kubernetesGateway=true",
            f"--providers.file.filename={self._certificates}",
            "--global.checkNewVersion=false",
            "--global.sendAnonymousUsage=false",
            "--log.level=INFO",
        ]

    def _wait_listening(self) -> None:
        ends_at = time.monotonic() + _START_SECONDS
        while time.monotonic() < ends_at:
            if self._process.poll() is not None:
                raise TestbedError(
                    f"Traefik ended with {self._process.returncode}:\n{last_lines(self.log, count=_LAST_LINES)}"
                )
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise TestbedError(
            f"Traefik did not listen within {_START_SECONDS:g} s:\n{last_lines(self.log, count=_LAST_LINES)}"
        )

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _find_free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        return first.getsockname()[1], second.getsockname()[1]
