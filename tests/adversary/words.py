"""The vocabulary of the generators: small, so that users, profiles and policies collide on keys and values."""

from typing import Any

CPUS: tuple[Any, ...] = ("250m", "0.5", 1, "2", 4, "8", "16")
MEMORIES: tuple[Any, ...] = ("256Mi", "512Mi", "1Gi", "2G", "4Gi", "16Gi", "64Gi")
GPUS: tuple[Any, ...] = (0, 1, "2", 4, "8")
SIZES: tuple[Any, ...] = ("100Mi", "1Gi", "2Gi", "10Gi", "50Gi", "1Ti")
ODD_AMOUNTS: tuple[Any, ...] = (
    *(-1, "-1", "-5Gi", "-0", "-1m", 0, "0", "0Gi", "+1", "00008", ".5", "5.", "1e3", "1E3", "1k", "1Ki", "2.0", 2.0),
    *("1n", "1e-30", "0.0000000001", 1.5, "999999999999", "9223372036854775807", "9223372036854775808", 2**63, 2**70),
    *("8Ei", "9Ei", "20E", "1000E", "1e30", "1e-20000", "1e20000", "1e2147483648", "1e4294967297", "9" * 400),
    *("8 Gi", "8Gi ", " 8Gi", "8Gi\n", "8gi", "8GB", "8g", "8GiB", "0x10", "1_000", "1,5", "NaN", "inf", "Infinity"),
    *("８Gi", "٨", "²", "1\u200b", "８", "8\u0000", "", " ", "unlimited", "*", True, False, None, [], {}, [8]),
    *(float("inf"), float("nan"), float("-inf"), 1e308, {"requests": 1}, {"value": 1}, 10**5000, -(10**5000)),
)

NODE_LABELS: dict[str, tuple[Any, ...]] = {
    "pool": ("gpu", "cpu", "spot"),
    "disktype": ("ssd", "nvme", ""),
    "gpu.example.com/model": ("a100", "h100"),
    "kubernetes.io/hostname": ("node-1", "control-1"),
    "topology.kubernetes.io/zone": ("a", "b"),
}
ODD_LABEL_KEYS = (
    *("pool ", "Pool", "POOL", "pоol", "pool\u200b", "pool*", "*", "", "/pool", "a/b/c", "-a", "x" * 64),
    *("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "__proto__", "constructor"),
    *("kubernetes.io/hostname ", "a" * 253 + "/b", "pool\n", "pool\u0000"),
)
ODD_LABEL_VALUES: tuple[Any, ...] = (
    *("a b", "-a", "x" * 64, "ä", "*", "a\n", "\u202egpu", True, 1, 1.5, None, [], {}),
)

ENVS: dict[str, tuple[Any, ...]] = {
    "HF_HOME": ("/data/hf", "/cache"),
    "EPOCHS": (3, "10", 0.5),
    "DEBUG": (True, False, "true"),
    "TOKEN": ("t", "$(RUN_ID)"),
    "LD_PRELOAD": ("/data/evil.so", ""),
    "PATH": ("/data/bin",),
    "PYTHONPATH": ("/data", "/opt/app"),
    "HTTP_PROXY": ("http://proxy:3128", "http://evil:1"),
    "my.odd-name": ("ü", "a\nb", "$$", "x" * 200),
}
PLATFORM_ENVS = ("RUN_ID", "PROJECT_NAME", "RUNYARD_TOKEN", "DHCORE_ENDPOINT", "DH_CONFIG", "OAUTH2_TOKEN_ENDPOINT")
ODD_ENV_NAMES = (
    *PLATFORM_ENVS,
    *("run_id", "RUN_ID ", "RUN\u200b_ID", "ＲＵＮ_ＩＤ", "RUΝ_ID", "RUNYARD_", "DHCORE_", "A=B", "1A", "", "."),
    *("..A", "A B", "A\nRUN_ID", "A\u0000", "__proto__", "PATH", "KUBERNETES_SERVICE_HOST", "x" * 254, "*", "RUN_ID\n"),
)

SECRETS = (
    *("TOKEN", "kaggle", "hf.token", "db-password", "HTTP_PROXY", "LD_PRELOAD", "PATH", "PYTHONPATH", "HF_HOME"),
    *("EPOCHS", "DHCORE_PASSWORD", "RUN_ID"),
)
"""Without a mount path a secret is a variable of its name, so most of these are names of variables as well."""
PLAIN_SECRETS = SECRETS[:-2]
ODD_SECRETS: tuple[Any, ...] = (
    *("speech-secret", "default-token", "run-other-secrets", "../TOKEN", "TOKEN ", "token", "ТОKEN", "*", "", "a/b"),
    *({"name": "TOKEN", "mount_path": "/etc/passwd"}, {"name": "kaggle", "mount_path": "/dev/shm"}),
    *({"name": "kaggle", "mount_path": "/data"}, {"name": "TOKEN", "mount_path": "/shared"}, {"name": "TOKEN"}),
    *({"name": "TOKEN", "mount_path": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, {"secret_name": "x"}),
    *({"name": "TOKEN", "key": "other", "mount_path": "/s"}, {"mount_path": "/s"}, 5, None, ["TOKEN"], {"name": []}),
)

VOLUME_NAMES = ("data", "cache", "models", "shm", "scratch")
MOUNT_PATHS = ("/data", "/cache", "/models", "/work/a", "/work", "/opt/app", "/shared")
ODD_PATHS: tuple[Any, ...] = (
    *("/dev/shm", "/dev/shm/", "//dev/shm", "/dev/./shm", "/dev", "/dev/sda", "/etc", "/etc/passwd", "/proc/1/root"),
    *("/sys/fs", "/", "//", "/.", "/./", "/data/..", "/data/../etc", "/..", "data", "./data", "~", "/data//x/"),
    *("/var/run/secrets/kubernetes.io/serviceaccount", "/run/secrets/kubernetes.io", "/var/run", "/run", "/var"),
    *("/var/run/secrets", "/run/secrets", "/ETC", "/еtc", "/etc\u200b", "/shared/", "/shared/x", "//shared", "/Shared"),
    *(
        "/data\u0000",
        "/data\n",
        "/da ta",
        "/data:ro",
        "/data\\x",
        "C:\\data",
        "",
        " ",
        None,
        5,
        ["/data"],
        "/" + "x" * 1100,
    ),
    *("/./proc", "/proc/./self", "/dev/../data", "/.../x", "/opt/..x", "/data/"),
)
SUB_PATHS: tuple[Any, ...] = ("a", "a/b", ".", "./a", "a//b")
ODD_SUB_PATHS: tuple[Any, ...] = ("/etc", "..", "../x", "a/../..", "a\\..", "$(RUN_ID)", "a\n", "", None, 5, "x" * 1100)
STORAGE_CLASSES = ("fast", "slow", "gold.class")
ODD_CLAIMS: tuple[Any, ...] = (
    "speech-claim",
    "run-other.data",
    "run-old.models",
    "*",
    "",
    "A",
    "a/b",
    "legacy ",
    None,
    5,
)

DIGESTS = tuple(f"sha256:{character * 64}" for character in "abc")
IMAGES = ("busybox:1.36", "python:3.11", "ghcr.io/acme/train:2", f"registry.example.com:5000/a/b@{DIGESTS[0]}")
SLY_IMAGES = (
    *("busybox", "docker.io/library/busybox:1.36", "library/busybox:1.36", "index.docker.io/library/busybox"),
    *("docker.io/busybox:1.36", "DOCKER.IO/library/busybox", "registry-1.docker.io/library/busybox:1.36"),
    *("evil/x:1", "docker.io/evil/x:1", "evil/x", f"docker.io/evil/x@{DIGESTS[1]}", f"evil/x:1@{DIGESTS[1]}"),
    *("python:5000/evil:1", "GHCR.IO/acme/train:2"),
    *(f"ghcr.io/acme@{DIGESTS[2]}", "localhost/x", "ghcr.io:443/acme/train:2", "localhost:5000/x", "10.0.0.1/x:1"),
    # By digest: the tag beside it says nothing.
    *(f"busybox:1.36@{DIGESTS[1]}", f"python:3.11@{DIGESTS[0]}", f"ghcr.io/acme/train:2@{DIGESTS[0]}"),
    *(f"python@{DIGESTS[0]}", f"ghcr.io/acme/train@{DIGESTS[1]}", f"registry.example.com:5000/a/b:1@{DIGESTS[1]}"),
    # By port: numbers, with and without leading zeros, and the defaults of HTTPS and HTTP.
    *("ghcr.io:0443/acme/train:2", "evil.io:0443/x", "evil.io/x", "evil.io:443/x", "evil.io:80/x", "evil.io:8443/x"),
    *("registry.example.com:05000/a/b:1", "registry.example.com/a/b:1", "localhost:80/x", "localhost:443/x"),
    # By case: a capital in the first part makes it a host.
    *("EVILREG/x", "EVIL/x:1", "Library/busybox:1.36", "Evil.IO/x", "LOCALHOST/x", "[::1]:5000/x", "[0:0::A]:5000/x"),
    # By family: an IPv4-mapped IPv6 address leads to the IPv4 address.
    *("[::ffff:a00:5]:5000/x:1", "[0:0:0:0:0:FFFF:0A00:0005]:5000/x", "10.0.0.5:5000/x:1", "[::a00:5]:5000/x:1"),
)
ILLEGAL_IMAGES = (
    *("ghcr.io./acme/train:2", "evil.io./x", "evil.io.:443/x", "evil_x.io/y", "evil.io:99999/x", "evil.io:/x"),
    *("ghcr.io/Acme/train:2", "BusyBox", "busybox:1.36/x", "ghcr.io/acme/../evil:1", "ghcr.io//acme/train:2"),
    *(f"busybox@{DIGESTS[0].upper()}", "busybox@sha256:abc", "busybox:", f"busybox:1.36@{DIGESTS[0]}@{DIGESTS[1]}"),
)
"""Names that no container runtime reads; a look-alike of a legal one each."""
ODD_IMAGES: tuple[Any, ...] = ("", " ", "busy box", "busybox\n", "bυsybox", 5, None, [], {"name": "x"}, "x" * 600, "*")
IMAGE_PATTERNS = (
    *("*", "busybox*", "busybox:*", "python:*", "docker.io/library/*", "ghcr.io/acme/*", "evil/*", "docker.io/evil/x"),
    *("registry.example.com:5000/*", "docker.io/evil/*", "ghcr.io/*", "*/train:*", "library/*", "evil/x", "localhost*"),
    *("docker.io/*", "ghcr.io*", "busybox:1.36", "python:3.11", "ghcr.io/acme/train:2", "evil.io/*", "EVILREG/*"),
    *("registry.example.com/*", "registry.example.com:05000/a/*", "localhost/*", "evil.io:443/*", "*@sha256:*"),
    *("busybox:1.36@*", f"python@{DIGESTS[0]}", f"evil/x:1@{DIGESTS[1]}", "ghcr.io./acme/*", "*.io/*", "*:latest"),
    *("GHCR.IO/acme/*", "index.docker.io/*", "[::a]:5000/*", "*/x"),
)
ADDRESS_PATTERNS = ("10.0.0.5:5000/*", "10.0.0.5/*", "[::ffff:a00:5]:5000/*")
"""One registry, by its address: an IPv4 address also has a spelling in IPv6."""

TAINT_KEYS = (
    *("spot", "gpu", "team.example.com/pool", "node-role.kubernetes.io/control-plane", "CriticalAddonsOnly"),
    *("node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/etcd", "k3s-controlplane"),
)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RUNTIME_CLASSES = ("nvidia", "gvisor", "kata.fc")
PRIORITY_CLASSES = ("low", "high", "system-node-critical")
SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
IDS: tuple[Any, ...] = (1, 1000, "1000", 3000, "65534", 2**31 - 1, 1000.0)
ODD_IDS: tuple[Any, ...] = (
    *(0, "0", "00", "+0", "-0", -1, "-1", 0.0, False, True, 2**31, 2**32, "2147483648", 0.5, "1e3", "0x0", "root"),
    *("１０００", " 0", "0 ", "", None, [], {}, "9" * 30, float("nan"), float("inf")),
)
DURATIONS: tuple[Any, ...] = (30, "90s", "15m", "2h", "7d", "1h30m", "3600")
SECONDS = (30, 90, 900, 3600, 5400, 7200, 604800)
ODD_DURATIONS: tuple[Any, ...] = (
    *(
        0,
        -1,
        "0s",
        "-1h",
        "1y",
        "1 h",
        "forever",
        "1.5h",
        1.5,
        "9" * 30,
        "99999d",
        True,
        None,
        [],
        "٣s",
        "1h1h",
        "1m1h",
    ),
)
COUNTS: tuple[Any, ...] = (0, 1, 2, "3", 7)
ODD_COUNTS: tuple[Any, ...] = (-1, "-1", 1001, 10**9, 2**63, 1.5, "1.0", "one", True, None, [], "٣", float("nan"))

NAMESPACES = ("kube-system", "speech", "vision", "*")
SETTINGS = {"train.toml": "epochs = 3\n", "empty": ""}
CONFIG_MAPS: dict[str, dict[str, str]] = {
    "settings": SETTINGS,
    "settings:v2": SETTINGS,
    "settings:v1": {"train.toml": "epochs = 1\n", "removed": "x"},
    "limits": {"limits.toml": "[cpu]\n"},
    "limits:v2": {"limits.toml": "[cpu]\n"},
}
"""The files of the project's config maps: of the newest version by name, and of each version."""
CONFIG_MAP_NAMES = (
    *CONFIG_MAPS,
    *(f"store://{project}/configmap/configmap/settings:v1" for project in ("vision", "audio")),
)
ODD_CONFIG_MAPS: tuple[Any, ...] = (
    *("kube-root-ca.crt", "speech-settings", "settings:v9", "limits:v1", "nothing:v1", "settings:", "../settings"),
    *(
        "Settings",
        "settings:v1:v2",
        "store://speech/configmap/configmap/settings:v1",
        "store://vision/configmap/settings",
    ),
    *(
        "store://vision/artifact/artifact/settings:v1",
        "store://*/configmap/configmap/settings:v1",
        "*",
        "",
        5,
        None,
        [],
    ),
)
PROFILES = ("small", "1xa100", "default", "locked.down")
ODD_PROFILES: tuple[Any, ...] = (
    "1xA100",
    "1xа100",
    "none",
    "../small",
    "",
    " small",
    "small\n",
    5,
    None,
    [],
    "*",
    "__class__",
)
PROJECTS = ("vision", "speech", "audio")
KUBERNETES_VERSIONS = ("latest", "1.36", "v1.34", "1.30", "1.24", "1.18")
"""Pod Security differs between these versions; rendered objects must satisfy all of them."""

STRANGE_KEYS = (
    *("__proto__", "__class__", "constructor", "prototype", "__dict__", "toString", "hasOwnProperty", "__init__"),
    *(
        "hostNetwork",
        "host_network",
        "securityContext",
        "security_context",
        "privileged",
        "containers",
        "initContainers",
    ),
    *("serviceAccountName", "service_account", "image_pull_secrets", "labels", "scheduler_name", "host_aliases"),
    *("topology_spread", "namespace", "spec", "metadata", "status", "nodeName", "node_name", "volumeMounts", "extends"),
    *(
        "pod_security",
        "gpu_resource",
        "profile ",
        "Profile",
        "RESOURCES",
        "resourсes",
        "",
        " ",
        "<<",
        "$ref",
        "cpu",
        "mem",
    ),
)
JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**70,
        10**5000,
        float("inf"),
        float("nan"),
        "",
        " ",
        "*",
        "0",
        "null",
        "\u0000",
        "\ud800",
    ),
    *([], {}, [[]], [{}], {"": ""}, {"__proto__": {"admin": True}}, {"constructor": {"prototype": {}}}, ["a", "a"]),
    *("${jndi:ldap://x}", "{{7*7}}", "$(RUN_ID)", "; rm -rf /", "\u202e", "ﬀ", "İ", "x" * 5000, {1: 2}, {None: 1}),
    *({"valueFrom": {"secretKeyRef": {"name": "speech-secret", "key": "x"}}}, {"value": {"a": 1}}),
)
RUN_IDS = (*("r1", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "x" * 40, "X.y_Z+1", "-", "a..b", "run-r1", "7", "x" * 253),)
