"""Starts, inspects and removes a cluster."""

import concurrent.futures
import contextlib
import fcntl
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed import addons, build, cgroups, controlplane, doctor, images, network, node, objects
from testbed.addresses import Addresses
from testbed.api import Api
from testbed.errors import TestbedError
from testbed.pki import Authority
from testbed.site import Options, Site, cluster_directory, find_site, iter_names, state_folder
from testbed.supervision import (
    PROJECT_ROOT,
    Component,
    SupervisorHandle,
    environment_without_proxies,
    last_lines,
)

_START_SECONDS = 120
_WAITED_FOR = {"the apiserver": "kube-apiserver", "containerd": "containerd", "the node's GPUs": addons.GPUS}
"""Whose log tells why something did not come; otherwise the kubelet's."""
_MULTI_CALL = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)

_CACHING = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")

Say = Callable[[str], None]

_LOCK = Path("/run/runyard-testbed.lock")


class Cluster:
    """A running cluster. Made by `Cluster.up`, found again by `Cluster.find`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._supervisor = SupervisorHandle(site.directory)

    @property
    def name(self) -> str:
        return self.site.name

    @property
    def directory(self) -> Path:
        return self.site.directory

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.site.kubeconfig

    @property
    def server(self) -> str:
        return self.site.addresses.server

    @property
    def ca_file(self) -> Path:
        return self.site.pki / "ca.crt"

    @property
    def node_name(self) -> str:
        return self.site.node_name

    @property
    def node_ip(self) -> str:
        return self.site.addresses.node_ip

    @property
    def supervisor_pid(self) -> int | None:
        """The pid of the supervisor, whose end ends the cluster; None if the cluster is not running."""
        return self._supervisor.pid

    @property
    def api(self) -> Api:
        return Api(self.server, ca_file=self.ca_file, token=controlplane.admin_token(self.site))

    @classmethod
    def find(cls, name: str) -> "Cluster":
        """Return the running cluster of that name; raises if there is none."""
        site = find_site(name)
        cluster = cls(site) if site else None
        if cluster is None or cluster.supervisor_pid is None:
            raise TestbedError(
                f"cluster {name} is not running ({describe_running()}): "
                f"start it with `python -m testbed up --name {name}`"
            )
        return cluster

    @classmethod
    def up(
        cls,
        name: str,
        options: Options,
        *,
        slot: int | None = None,
        outlives_us: bool = True,
        say: Say = lambda _: None,
    ) -> "Cluster":
        """Start a cluster and return when it is usable. A failure leaves nothing behind.

        Unless it `outlives_us`, it ends with this process, however that ends.
        """
        build.kubernetes_release(options.kubernetes)
        doctor.require(node=options.node)
        binaries = prepare(options)
        cluster = None
        try:
            with _machine_lock():
                cluster = cls(_claim_site(name, options, slot=slot))
                cluster._prepare(binaries)
            cluster._start(binaries, say=say)
        except BaseException as error:
            if cluster is None or isinstance(error, KeyboardInterrupt):
                kept = ""
            else:
                cluster._keep_logs()
                kept = f"\nall its logs: {_failed_logs(name)}"
            if cluster:
                cluster.down()
            if isinstance(error, TestbedError | OSError):
                raise TestbedError(f"cluster {name} could not be started: {error}{kept}") from error
            raise
        if outlives_us:
            cluster._supervisor.detach()
        return cluster

    def down(self) -> None:
        """Stop everything and remove all that it created. Idempotent; also cleans up after a crash."""
        self._supervisor.kill()
        if self._link_marker.exists():
            network.disconnect(self.site.addresses)
        cgroups.remove_root(self.site.cgroup)
        shutil.rmtree(self.site.directory, ignore_errors=True)
        if self.site.directory.exists():
            raise TestbedError(f"{self.site.directory} cannot be removed completely")

    def components(self) -> dict[str, Component]:
        """Return every component, including dead ones."""
        return self._supervisor.components()

    def check_alive(self) -> None:
        """Raise with the last lines of its log for a component that died."""
        self._supervisor.check_alive()

    def kill(self, component: str) -> None:
        """SIGKILL a component; returns when it is gone."""
        self._supervisor.stop(component, number=signal.SIGKILL)

    def stop(self, component: str) -> None:
        """SIGTERM a component; returns when it is gone."""
        self._supervisor.stop(component)

    def start(self, component: str) -> None:
        """Start a component again that was stopped or died."""
        self._supervisor.start(component)

    def freeze(self, component: str) -> None:
        """SIGSTOP a component: it lives and does nothing, as on a machine that is suspended."""
        self._supervisor.signal(component, signal.SIGSTOP)

    def thaw(self, component: str) -> None:
        """Let a frozen component go on."""
        self._supervisor.signal(component, signal.SIGCONT)

    def wait_ready(self) -> None:
        """Wait for the apiserver, after its restart for example."""
        api = self.api
        self._wait("the apiserver", api.is_ready)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as admin; raises with its own message if it fails."""
        argv = [str(self.directory / "bin/kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, env=environment_without_proxies()
        )
        if done.returncode != 0:
            raise TestbedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def certificate(self, user: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> tuple[Path, Path]:
        """A certificate and key of the cluster's CA, for a client or for a server at `hosts`."""
        name = "".join(letter if letter.isalnum() else "-" for letter in user)
        return Authority(self.site.pki).issue(f"issued-{name}", common_name=user, groups=groups, hosts=hosts)

    def write_kubeconfig(self, path: Path, *, token: str, server: str | None = None) -> Path:
        """Write a kubeconfig for a token, such as a service account's; `server` may be a proxy before the apiserver."""
        return controlplane.write_kubeconfig(self.site, path, user="user", token=token, server=server)

    def allow_plain_registry(self, host: str) -> None:
        """Let the node pull from a registry without TLS; `host` is an address with a port."""
        folder = self.site.directory / "registries" / host
        folder.mkdir(parents=True, exist_ok=True)
        capabilities = 'capabilities = ["pull", "resolve"]'
        (folder / "hosts.toml").write_text(f'server = "http://{host}"\n[host."http://{host}"]\n{capabilities}\n')

    def load_image(self, archive: Path) -> None:
        """Import an image archive (docker or OCI layout) into the node."""
        if not self.site.options.node:
            raise TestbedError(f"cluster {self.name} has no node to load images into: it was started with --no-node")
        addons.import_image(self.site, archive)

    def tag_image(self, image: str, names: Sequence[str]) -> None:
        """Give an image of the node more names; all of them complete, as `docker.io/library/busybox:1.36`."""
        addons.tag_image(self.site, image, names)

    def run_inside(self, argv: Sequence[str]) -> str:
        """Run a command in the cluster's namespaces and return what it printed."""
        pid = self.supervisor_pid
        if pid is None:
            raise TestbedError(f"cluster {self.name} is not running")
        # nsenter must be told the working directory; otherwise it stays in the old mount namespace.
        enter = ["nsenter", "--target", str(pid), "--net", "--mount", "--pid", f"--wd={PROJECT_ROOT}"]
        done = subprocess.run([*enter, *argv], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise TestbedError(f"`{' '.join(argv)}` inside {self.name}: {done.stderr.strip()}")
        return done.stdout

    def compact_etcd(self) -> int:
        """Compact etcd's history up to now, as the apiserver does every few minutes; returns the revision."""
        return int(self.run_inside([sys.executable, "-m", "testbed.etcd", controlplane.ETCD_CLIENT_URL]))

    def back_up_etcd(self, folder: Path) -> None:
        """Copy etcd's files into a new folder, as they are at one moment."""
        self.freeze("etcd")
        try:
            shutil.copytree(self.site.etcd, folder)
        finally:
            self.thaw("etcd")

    def restore_etcd(self, folder: Path) -> None:
        """Go back to a backup as the Kubernetes documentation says: every component that has a cache is restarted."""
        running = [name for name in _CACHING if self.components()[name].is_running]
        for name in (*reversed(running), "etcd"):
            self.kill(name)
        shutil.rmtree(self.site.etcd)
        shutil.copytree(folder, self.site.etcd)
        self.start("etcd")
        for name in running:
            self.start(name)
            if name == "kube-apiserver":
                self.wait_ready()

    def memory_bytes(self) -> dict[str, int]:
        """Resident memory of each component that runs."""
        sizes: dict[str, int] = {}
        for component in self.components().values():
            if component.is_running:
                line = self.run_inside(["grep", "VmRSS", f"/proc/{component.pid}/status"])
                sizes[component.name] = int(line.split()[1]) * 1024
        return sizes

    def _prepare(self, binaries: dict[str, Path]) -> None:
        """Create directory, namespaces and link. From here on name and addresses are visibly in use."""
        self._prepare_folder(binaries)
        pid = self._supervisor.spawn()
        network.create_link(self.site.addresses, pid=pid)
        self._link_marker.touch()
        network.connect(self.site.addresses, pid=pid)

    @property
    def _link_marker(self) -> Path:
        """Record that the link of that name belongs to this cluster and may be removed with it."""
        return self.directory / "linked"

    def _start(self, binaries: dict[str, Path], *, say: Say) -> None:
        site, options = self.site, self.site.options
        began = time.monotonic()
        controlplane.create_identities(site)
        self._start_component("etcd", controlplane.etcd_flags(site))
        self._start_component("kube-apiserver", controlplane.apiserver_flags(site))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            loading = pool.submit(self._prepare_node) if options.node else None
            self.wait_ready()
            say(f"apiserver ready after {time.monotonic() - began:.1f} s")
            self._start_component("kube-controller-manager", controlplane.controller_manager_flags(site))
            self._start_component("kube-scheduler", controlplane.scheduler_flags(site))
            if loading:
                loading.result()
        if options.node:
            self._start_component("kube-proxy", node.proxy_flags(site))
            self._start_component("kubelet", node.kubelet_flags(site))
        self._apply_objects()
        addons.start(site, binaries, self._supervisor)
        self._wait_usable()
        self.check_alive()
        say(f"cluster {self.name} usable after {time.monotonic() - began:.1f} s")

    def _prepare_folder(self, binaries: dict[str, Path]) -> None:
        for folder in ("logs", "bin"):
            (self.directory / folder).mkdir()
        for name in _MULTI_CALL:
            (self.directory / "bin" / name).symlink_to(binaries["kube"])

    def _prepare_node(self) -> None:
        """Start containerd and load the images that every node needs."""
        node.raise_watch_limit()
        cgroups.ensure_root(self.site.cgroup)
        base_images = _ensure_images()
        node.write_node_configuration(self.site, sandbox_image=base_images[0].tags[0])
        program = shutil.which("containerd") or "containerd"
        self._supervisor.start("containerd", [program, *node.containerd_flags(self.site)])
        self._wait("containerd", lambda: addons.is_containerd_ready(self.site))
        for image in base_images:
            addons.import_image(self.site, image.archive)

    def _start_component(self, name: str, flags: list[str]) -> None:
        extra = self.site.options.extra_flags(name)
        self._supervisor.start(name, [str(self.directory / "bin" / name), *flags, *extra])

    def _apply_objects(self) -> None:
        """Create the initial objects, concurrently, because there may be hundreds of fake nodes."""
        api = self.api
        for path, obj in objects.iter_objects(self.site):
            api.apply(path, obj)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda fake: api.apply(*fake), objects.iter_fake_nodes(self.site)))

    def _wait_usable(self) -> None:
        api, options = self.api, self.site.options
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("the default service account", lambda: bool(api.get(account)))
        if not options.node:
            return
        path = f"/api/v1/nodes/{self.node_name}"
        self._wait("the node to register", lambda: bool(api.get(path)))
        self._wait("the node to be Ready", lambda: addons.is_node_ready(api.get(path)))
        self._wait("the node's GPUs", lambda: addons.count_gpus(api.get(path)) == options.gpus)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll a condition; raises with the reason if a component dies or the deadline passes."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if condition():
                    return
            self.check_alive()
            if time.monotonic() > deadline:
                component = _WAITED_FOR.get(what, "kubelet")
                log = self.site.logs / f"{component}.log"
                raise TestbedError(
                    f"waited {_START_SECONDS} s for {what}; the last lines of {log.name}:\n{last_lines(log, count=8)}"
                )
            time.sleep(0.1)

    def _keep_logs(self) -> None:
        """Save the logs of a failed start beside the directory that will be removed."""
        kept = _failed_logs(self.name)
        shutil.rmtree(kept, ignore_errors=True)
        # The start may have failed because the disk is full; then the logs cannot be saved.
        with contextlib.suppress(OSError):
            shutil.copytree(self.site.logs, kept)


def describe_running() -> str:
    """Describe the running clusters for a message."""
    running = [name for name in iter_names() if SupervisorHandle(cluster_directory(name)).pid]
    return f"running: {', '.join(running)}" if running else "none is running"


def remove_remains(name: str) -> bool:
    """Remove whatever exists under a name, running or not; returns whether there was anything."""
    directory = cluster_directory(name)
    shutil.rmtree(_failed_logs(name), ignore_errors=True)
    site = find_site(name)
    if site is not None:
        Cluster(site).down()
        return True
    if not directory.exists():
        return False
    # The record cannot be read. Everything outside the directory ends with the supervisor or is found by name.
    SupervisorHandle(directory).kill()
    cgroups.remove_root(Site(name, directory, Addresses(0), Options()).cgroup)
    shutil.rmtree(directory, ignore_errors=True)
    return True


def prepare(options: Options) -> dict[str, Path]:
    """Build every program and image that the options need. Idempotent; takes minutes the first time."""
    binaries = {"kube": build.ensure_kube(options.kubernetes)}
    for name in addons.needed(options):
        binaries[name] = build.ensure_addon(name)
    if options.node:
        _ensure_images()
    return binaries


def _ensure_images() -> list[images.Image]:
    """Return the images that every node has; the first is the pause image."""
    return [images.ensure_pause(), images.ensure_busybox(), images.ensure_python()]


def _claim_site(name: str, options: Options, *, slot: int | None) -> Site:
    """Reserve a name and an address range; first removes what a crash left under that name."""
    directory = cluster_directory(name)
    if SupervisorHandle(directory).pid is not None:
        raise TestbedError(
            f"cluster {name} is already running: use it, remove it with "
            f"`python -m testbed down --name {name}`, or choose another --name"
        )
    remove_remains(name)
    sites = [site for other in iter_names() if (site := find_site(other))]
    taken = {site.addresses.slot: site.name for site in sites}
    if slot is None:
        slot = network.choose_slot(taken)
    elif slot in taken or (conflict := network.find_conflict(Addresses(slot))):
        owner = f"cluster {taken[slot]}" if slot in taken else conflict
        raise TestbedError(f"--slot {slot}: its addresses are in use ({owner}); omit --slot")
    site = Site(name, directory, Addresses(slot), options)
    directory.mkdir(parents=True)
    site.save()
    return site


def _failed_logs(name: str) -> Path:
    return state_folder() / f"{name}.failed-logs"


@contextlib.contextmanager
def _machine_lock() -> Iterator[None]:
    """Hold the machine-wide lock: names are per state directory, addresses and devices per machine."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
