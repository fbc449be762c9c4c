"""The table of settings: name, reader, help text. Flag, variable and key in the settings file derive from the name."""

from dataclasses import dataclass

from runyard import __version__
from runyard.settings import value_readers
from runyard.settings.value_readers import Reader

_LOOPBACK = "127.0.0.0/8,::1/128"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `default` is parsed like a given value; None if it is computed from other settings or absent."""

    name: str
    read: Reader
    help: str
    metavar: str = "TEXT"
    default: str | None = None
    shown_default: str | None = None
    """The default as `--help` shows it, if `default` is not enough."""
    is_switch: bool = False
    is_secret: bool = False
    """Set by its variable only, because command lines and settings files are easy to read for others."""

    @property
    def flag(self) -> str:
        """`--max-body-bytes`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """`RUNYARD_MAX_BODY_BYTES`."""
        return f"RUNYARD_{self.name.upper()}"


SETTINGS_FILE = Setting(
    name="settings",
    read=value_readers.read_file,
    metavar="FILE",
    help="Settings file: YAML, one `name: value` per line, named like the flags with _ for -. "
    "Precedence: flags, variables, settings file, defaults. Relative paths in it start at the file's directory.",
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="host",
        read=value_readers.read_host,
        metavar="HOST",
        default="127.0.0.1",
        help="Address to listen on. Addresses other than loopback require accounts, "
        "and a TLS certificate or --behind-proxy.",
    ),
    Setting(
        name="port",
        read=value_readers.read_port,
        metavar="PORT",
        default="8080",
        help="Port to listen on; 0 picks a free one.",
    ),
    Setting(
        name="endpoint",
        read=value_readers.read_url,
        metavar="URL",
        shown_default="the listening address",
        help="Public URL of this server, given to clients and pods and used as the issuer of tokens.",
    ),
    Setting(
        name="data",
        read=value_readers.read_path,
        metavar="DIR",
        shown_default="$XDG_STATE_HOME/runyard, or ~/.local/state/runyard",
        help="Data directory.",
    ),
    Setting(
        name="database",
        read=value_readers.read_database,
        metavar="URL",
        shown_default="SQLite, runyard.db in the data directory",
        help="Database URL: sqlite:////path.db or postgresql://user@host/name. "
        "Use the variable if the URL contains a password.",
    ),
    Setting(
        name="engine",
        read=value_readers.make_choice_reader("none", "local", "kubernetes"),
        metavar="NAME",
        default="none",
        help="Engine that executes runs. local: as processes and containers of this machine. "
        "kubernetes: as Jobs and Deployments of a cluster. "
        "none: runs are accepted, resolved and stored, and stay READY.",
    ),
    Setting(
        name="kubeconfig",
        read=value_readers.read_file,
        metavar="FILE",
        shown_default="$KUBECONFIG, else the pod that the server runs in, else ~/.kube/config",
        help="How --engine kubernetes reaches its cluster.",
    ),
    Setting(
        name="context",
        read=value_readers.read_text,
        metavar="NAME",
        shown_default="the current context",
        help="Context of the kubeconfig.",
    ),
    Setting(
        name="namespace",
        read=value_readers.read_namespace,
        metavar="NAME",
        shown_default="that of the context, or of the server's own pod",
        help="Namespace of all runs of --engine kubernetes. It must exist.",
    ),
    Setting(
        name="namespace_per_project",
        read=value_readers.read_switch,
        default="false",
        is_switch=True,
        help="Give each project a namespace of its own, runyard-PROJECT, which the server creates and removes.",
    ),
    Setting(
        name="launcher_image",
        read=value_readers.read_image,
        metavar="IMAGE",
        default=f"localhost/runyard/launcher:{__version__}",
        help="Image that brings the launcher into the pods of python functions; built by deploy/images/launcher. "
        "Push it to a registry that the nodes can reach.",
    ),
    Setting(
        name="package_index",
        read=value_readers.read_index,
        metavar="URL",
        shown_default="the default of pip and uv",
        help="Index from which pods install the requirements of python functions. Runs can read it.",
    ),
    Setting(
        name="project_quota",
        read=value_readers.read_amounts,
        metavar="NAME=AMOUNT,...",
        shown_default="no quota",
        help="ResourceQuota of each project's namespace, such as requests.cpu=20,count/jobs.batch=500.",
    ),
    Setting(
        name="project_default_requests",
        read=value_readers.read_amounts,
        metavar="NAME=AMOUNT,...",
        shown_default="none",
        help="Requests of containers that set none, by a LimitRange in each project's namespace.",
    ),
    Setting(
        name="project_default_limits",
        read=value_readers.read_amounts,
        metavar="NAME=AMOUNT,...",
        shown_default="none",
        help="Limits of containers that set none, by a LimitRange in each project's namespace.",
    ),
    Setting(
        name="project_networks",
        read=value_readers.read_reachable_networks,
        metavar="CIDR,...",
        shown_default="DNS, the server and public addresses only",
        help="Private networks that pods of projects may reach too. all: make no NetworkPolicy.",
    ),
    Setting(
        name="profiles",
        read=value_readers.read_directory,
        metavar="DIR",
        help="Directory of profiles to load at startup.",
    ),
    Setting(name="policy", read=value_readers.read_file, metavar="FILE", help="Policy to load at startup."),
    Setting(
        name="auth",
        read=value_readers.make_choice_reader("open", "accounts"),
        metavar="MODE",
        shown_default="accounts if the database has any or other machines can reach the server, else open",
        help="open: no sign-in, every client is an admin; refused if the database has accounts. "
        "accounts: clients sign in; see `runyard user`.",
    ),
    Setting(
        name="open_to_everyone_on_this_machine",
        read=value_readers.read_switch,
        default="false",
        is_switch=True,
        help="Ignore the accounts in the database: every program on this machine is an admin without sign-in, and can "
        "read the values of all secrets. On loopback only.",
    ),
    Setting(
        name="tls_certificate",
        read=value_readers.read_file,
        metavar="FILE",
        help="TLS certificate with its chain, PEM.",
    ),
    Setting(
        name="tls_key", read=value_readers.read_file, metavar="FILE", help="Private key of the TLS certificate, PEM."
    ),
    Setting(
        name="behind_proxy",
        read=value_readers.read_switch,
        default="false",
        is_switch=True,
        help="A proxy terminates TLS, and clients can reach the server only through it.",
    ),
    Setting(
        name="trusted_proxies",
        read=value_readers.read_networks,
        metavar="NETWORKS",
        default=_LOOPBACK,
        shown_default="loopback",
        help="With --behind-proxy: addresses and networks whose X-Forwarded-* headers are trusted, "
        "separated by commas. List only the proxy itself.",
    ),
    Setting(
        name="key_file",
        read=value_readers.read_path,
        metavar="FILE",
        shown_default="`key` in the data directory",
        help="File of the key that encrypts secrets; created if it does not exist. Back it up apart from the database.",
    ),
    Setting(
        name="key",
        read=value_readers.read_text,
        is_secret=True,
        help="The key that encrypts secrets, instead of a file.",
    ),
    Setting(
        name="access_token_life",
        read=value_readers.make_duration_reader("1m", "7d"),
        metavar="DURATION",
        default="8h",
        help="Lifetime of an access token.",
    ),
    Setting(
        name="refresh_token_life",
        read=value_readers.make_duration_reader("1m", "365d"),
        metavar="DURATION",
        default="30d",
        help="Lifetime of a refresh token.",
    ),
    Setting(
        name="personal_token_life",
        read=value_readers.make_duration_reader("1m", "3650d"),
        metavar="DURATION",
        default="365d",
        help="Maximum and default lifetime of a personal access token.",
    ),
    Setting(
        name="logs",
        read=value_readers.read_logs,
        metavar="PLACE",
        default="database",
        shown_default="database: logs.db in the data directory",
        help="Storage for run logs: database, folder:PATH or s3://bucket/prefix. "
        "Several servers need a shared folder or S3.",
    ),
    Setting(
        name="s3_endpoint",
        read=value_readers.read_url,
        metavar="URL",
        shown_default="Amazon S3 in --s3-region",
        help="URL of the S3-compatible server for --logs, --files and --files-store.",
    ),
    Setting(
        name="s3_region",
        read=value_readers.read_text,
        metavar="NAME",
        default="us-east-1",
        help="S3 region for --logs, --files and --files-store.",
    ),
    Setting(
        name="s3_access_key",
        read=value_readers.read_text,
        is_secret=True,
        help="S3 access key for --logs, --files and --files-store.",
    ),
    Setting(
        name="s3_secret_key",
        read=value_readers.read_text,
        is_secret=True,
        help="S3 secret key for --logs, --files and --files-store.",
    ),
    Setting(
        name="files",
        read=value_readers.read_files,
        metavar="PLACE",
        shown_default="`files` in the data directory",
        help="Storage for the files of artifacts, data items and models: a directory or s3://bucket/prefix. "
        "Several servers need a shared directory or S3.",
    ),
    Setting(
        name="files_store",
        read=value_readers.read_bucket,
        metavar="URL",
        help="Bucket at --s3-endpoint where DigitalHub's SDK stores files by itself, such as s3://bucket. "
        "With S3 credentials, the server reads and writes there, too.",
    ),
    Setting(
        name="s3_credentials_for_clients",
        read=value_readers.read_switch,
        default="false",
        is_switch=True,
        help="Give RUNYARD_S3_CLIENT_ACCESS_KEY and RUNYARD_S3_CLIENT_SECRET_KEY to everybody who signs in: "
        "all of them can read, change and delete the files of all projects in --files-store.",
    ),
    Setting(
        name="s3_client_access_key",
        read=value_readers.read_text,
        is_secret=True,
        help="S3 access key for --s3-credentials-for-clients; not that of the server.",
    ),
    Setting(
        name="s3_client_secret_key",
        read=value_readers.read_text,
        is_secret=True,
        help="S3 secret key for --s3-credentials-for-clients.",
    ),
    Setting(
        name="keep_runs",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long to keep finished runs, such as 90d.",
    ),
    Setting(
        name="keep_logs",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long to keep logs after their last line.",
    ),
    Setting(
        name="keep_audit",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long to keep audit entries.",
    ),
    Setting(
        name="max_body_bytes",
        read=value_readers.read_size,
        metavar="SIZE",
        default="4Mi",
        help="Maximum size of a request body.",
    ),
    Setting(
        name="max_body_time",
        read=value_readers.make_duration_reader("1s", "1h"),
        metavar="DURATION",
        default="60s",
        help="Maximum time for a whole request body to arrive, plus one second per 64 KiB of it.",
    ),
    Setting(
        name="max_connections",
        read=value_readers.make_number_reader(16, 100_000),
        metavar="NUMBER",
        default="1000",
        help="Maximum number of open connections; fewer if `ulimit -n` is low. Beyond it, the oldest connections "
        "without a signed-in request are closed.",
    ),
    Setting(
        name="max_list",
        read=value_readers.make_number_reader(1, 10_000),
        metavar="NUMBER",
        default="1000",
        help="Maximum page size of lists.",
    ),
    Setting(
        name="max_page_bytes",
        read=value_readers.read_size,
        metavar="SIZE",
        default="16Mi",
        help="Maximum size of the entities in a page of a list; pages of large entities are shorter.",
    ),
    Setting(
        name="max_streams",
        read=value_readers.make_number_reader(1, 100_000),
        metavar="NUMBER",
        default="500",
        help="Maximum number of open streams: logs, events, and sessions in containers.",
    ),
    Setting(
        name="max_log_bytes",
        read=value_readers.read_disk_size,
        metavar="SIZE",
        default="1Gi",
        help="Maximum size of the log of one run; the rest is not stored, and the log says so.",
    ),
    Setting(
        name="max_file_bytes",
        read=value_readers.read_disk_size,
        metavar="SIZE",
        default="10Gi",
        help="Maximum size of a file in --files.",
    ),
    Setting(
        name="max_entity_bytes",
        read=value_readers.read_files_size,
        metavar="SIZE",
        default="100Gi",
        help="Maximum size of all files of an artifact, data item or model in --files.",
    ),
    Setting(
        name="max_project_bytes",
        read=value_readers.read_files_size,
        metavar="SIZE",
        default="1Ti",
        help="Maximum size of all files of a project in --files (quota).",
    ),
    Setting(
        name="max_requests",
        read=value_readers.read_rate,
        metavar="NUMBER",
        default="200",
        help="Rate limit per user, in requests per second; short bursts are allowed.",
    ),
    Setting(
        name="drain",
        read=value_readers.make_duration_reader("1s", "10m"),
        metavar="DURATION",
        default="20s",
        help="How long to wait for requests in progress when the server stops.",
    ),
    Setting(
        name="log_level",
        read=value_readers.make_choice_reader("debug", "info", "warning", "error"),
        metavar="LEVEL",
        default="info",
        help="Log level: debug, info, warning or error.",
    ),
    Setting(
        name="log_format",
        read=value_readers.make_choice_reader("json", "text"),
        metavar="FORMAT",
        default="text",
        help="Log format: json or text. Logs go to standard error.",
    ),
)
