"""The control plane: identities, and the command line of each of its components."""

import base64
import csv
import json
import secrets
from pathlib import Path

from testbed.addresses import API_PORT
from testbed.pki import Authority, write_service_account_keys
from testbed.site import Site

ETCD_CLIENT_URL = "http://127.0.0.1:2379"
_ETCD_PEER_URL = "http://127.0.0.1:2380"

ADMIN = "admin"
_CONTROLLER_MANAGER = "system:kube-controller-manager"
_SCHEDULER = "system:kube-scheduler"

_AUDITED = [
    {"group": "batch", "resources": ["jobs"]},
    {"group": "apps", "resources": ["deployments"]},
    {"group": "", "resources": ["pods", "persistentvolumeclaims"]},
]
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # Whose objects they are, and what is done to them; not the many reports of controllers about their status.
        {"level": "RequestResponse", "verbs": ["create"], "resources": _AUDITED[:2]},
        {"level": "Request", "verbs": ["patch", "delete", "deletecollection"], "resources": _AUDITED},
        {"level": "Metadata"},
    ],
}


def node_user(site: Site) -> str:
    """The identity of the kubelet."""
    return f"system:node:{site.node_name}"


def create_identities(site: Site) -> None:
    """Make the CA, every certificate, the token file, and a kubeconfig per user."""
    authority = Authority(site.pki)
    addresses = site.addresses
    authority.issue(
        "apiserver",
        common_name="kube-apiserver",
        hosts=[
            "127.0.0.1",
            "localhost",
            addresses.node_ip,
            addresses.kubernetes_service_ip,
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ],
    )
    authority.issue("kubelet-client", common_name="apiserver-kubelet-client", groups=["system:masters"])
    authority.issue("front-proxy", common_name="front-proxy-client")
    authority.issue(
        "kubelet",
        common_name=node_user(site),
        groups=["system:nodes"],
        hosts=[addresses.node_ip, site.node_name],
    )
    write_service_account_keys(site.pki)
    groups = {
        ADMIN: "system:masters",
        _CONTROLLER_MANAGER: "",
        _SCHEDULER: "",
        node_user(site): "system:nodes",
    }
    token_file = site.pki / "tokens.csv"
    token_file.touch(mode=0o600)
    with token_file.open("w", newline="") as file:
        writer = csv.writer(file)
        for user, group in groups.items():
            token = secrets.token_hex(16)
            writer.writerow([token, user, user, *([group] if group else [])])
            write_kubeconfig(site, kubeconfig_of(site, user), user=user, token=token)


def kubeconfig_of(site: Site, user: str) -> Path:
    """The kubeconfig of one of the identities."""
    return site.directory / f"{user.replace(':', '-')}.kubeconfig"


def admin_token(site: Site) -> str:
    """The admin's token for this cluster."""
    with (site.pki / "tokens.csv").open(newline="") as file:
        return next(row[0] for row in csv.reader(file) if row[1] == ADMIN)


def write_kubeconfig(site: Site, path: Path, *, user: str, token: str, server: str | None = None) -> Path:
    """Write a kubeconfig, readable only by us."""
    ca = base64.b64encode((site.pki / "ca.crt").read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": site.name,
        "clusters": [
            {
                "name": site.name,
                "cluster": {"server": server or site.addresses.server, "certificate-authority-data": ca},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": site.name, "context": {"cluster": site.name, "user": user}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
    return path


def etcd_flags(site: Site) -> list[str]:
    """etcd without fsync: after a power failure a testbed is built again."""
    return [
        f"--data-dir={site.etcd}",
        f"--listen-client-urls={ETCD_CLIENT_URL}",
        f"--advertise-client-urls={ETCD_CLIENT_URL}",
        f"--listen-peer-urls={_ETCD_PEER_URL}",
        f"--initial-advertise-peer-urls={_ETCD_PEER_URL}",
        f"--initial-cluster=default={_ETCD_PEER_URL}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4000000000",
    ]


def apiserver_flags(site: Site) -> list[str]:
    """The apiserver, with the aggregation layer and, on request, an audit log."""
    pki = site.pki
    return [
        f"--etcd-servers={ETCD_CLIENT_URL}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={site.addresses.node_ip}",
        f"--service-cluster-ip-range={site.addresses.service_network}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={pki / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy.key'}",
        *(_audit_flags(site) if site.options.audit else []),
    ]


def _audit_flags(site: Site) -> list[str]:
    policy = site.directory / "audit-policy.json"
    policy.write_text(json.dumps(_AUDIT_POLICY))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={site.logs / 'audit.log'}",
        "--audit-log-maxsize=500",
    ]


def controller_manager_flags(site: Site) -> list[str]:
    """The controllers, with raised request limits: the defaults allow 3.4 full runs a second."""
    pki = site.pki
    return [
        f"--kubeconfig={kubeconfig_of(site, _CONTROLLER_MANAGER)}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--allocate-node-cidrs=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-job-syncs=20",
        "--bind-address=127.0.0.1",
    ]


def scheduler_flags(site: Site) -> list[str]:
    """The stock scheduler, with raised request limits."""
    return [
        f"--kubeconfig={kubeconfig_of(site, _SCHEDULER)}",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--bind-address=127.0.0.1",
    ]
