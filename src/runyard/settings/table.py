"""Every setting: its name, how it is read, what `--help` says of it. Flag, variable and key follow from the name."""

from dataclasses import dataclass

from runyard.settings import value_readers
from runyard.settings.value_readers import Reader

_LOOPBACK = "127.0.0.0/8,::1/128"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One of them. `default` is read as if it had been given; None where it follows from others, or there is none."""

    name: str
    read: Reader
    help: str
    metavar: str = "TEXT"
    default: str | None = None
    shown_default: str | None = None
    """In words, where `default` alone would say too little."""
    is_switch: bool = False
    is_secret: bool = False
    """By its variable only: command lines and settings files are seen by too many."""

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
    help="A YAML file with a line `name: value` per setting, named as the flags, with _ for -. "
    "Flags count more, then variables, then the file; its relative paths begin at the file.",
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="host",
        read=value_readers.read_host,
        metavar="HOST",
        default="127.0.0.1",
        help="Where to listen. Any but loopback needs accounts, and TLS files or --behind-proxy.",
    ),
    Setting(name="port", read=value_readers.read_port, metavar="PORT", default="8080", help="0 takes any free port."),
    Setting(
        name="endpoint",
        read=value_readers.read_url,
        metavar="URL",
        shown_default="where it listens",
        help="The URL at which users, pods and tokens find this server.",
    ),
    Setting(
        name="data",
        read=value_readers.read_path,
        metavar="DIR",
        shown_default="$XDG_STATE_HOME/runyard, which is ~/.local/state/runyard",
        help="The folder of everything that is kept on this machine.",
    ),
    Setting(
        name="database",
        read=value_readers.read_database,
        metavar="URL",
        shown_default="sqlite, runyard.db in the data folder",
        help="sqlite:////path.db or postgresql://user@host/name. One with a password belongs in the variable.",
    ),
    Setting(
        name="engine",
        read=value_readers.make_choice_reader("none"),
        metavar="NAME",
        default="none",
        help="What executes runs. none: they are accepted, resolved and stored, and stay READY.",
    ),
    Setting(name="profiles", read=value_readers.read_folder, metavar="DIR", help="Profiles to load at the start."),
    Setting(name="policy", read=value_readers.read_file, metavar="FILE", help="The policy to load at the start."),
    Setting(
        name="auth",
        read=value_readers.make_choice_reader("open", "accounts"),
        metavar="MODE",
        shown_default="open on loopback, else accounts",
        help="open: whoever reaches the server may do everything. accounts: see `runyard user`.",
    ),
    Setting(
        name="tls_certificate", read=value_readers.read_file, metavar="FILE", help="The certificate and its chain."
    ),
    Setting(name="tls_key", read=value_readers.read_file, metavar="FILE", help="The certificate's private key."),
    Setting(
        name="behind_proxy",
        read=value_readers.read_switch,
        default="false",
        is_switch=True,
        help="A proxy in front of the server speaks TLS, and nobody reaches the server but through it.",
    ),
    Setting(
        name="trusted_proxies",
        read=value_readers.read_networks,
        metavar="NETWORKS",
        default=_LOOPBACK,
        shown_default="loopback",
        help="With --behind-proxy: whose X-Forwarded-* headers count. Name the address or network of the proxy alone.",
    ),
    Setting(
        name="key_file",
        read=value_readers.read_path,
        metavar="FILE",
        shown_default="`key` in the data folder",
        help="The key that secrets are sealed with; made if it is not there. Back it up apart from the database.",
    ),
    Setting(
        name="key",
        read=value_readers.read_text,
        is_secret=True,
        help="The key that secrets are sealed with, instead of a file.",
    ),
    Setting(
        name="access_token_life",
        read=value_readers.make_duration_reader("1m", "7d"),
        metavar="DURATION",
        default="8h",
        help="How long a token lives that was issued for a password or another token.",
    ),
    Setting(
        name="refresh_token_life",
        read=value_readers.make_duration_reader("1m", "365d"),
        metavar="DURATION",
        default="30d",
        help="How long it can be renewed.",
    ),
    Setting(
        name="personal_token_life",
        read=value_readers.make_duration_reader("1m", "3650d"),
        metavar="DURATION",
        default="365d",
        help="The longest that a personal access token may live.",
    ),
    Setting(
        name="logs",
        read=value_readers.read_logs,
        metavar="PLACE",
        default="database",
        shown_default="database: logs.db in the data folder",
        help="Where the logs of runs are kept: database, folder:PATH or s3://bucket/prefix. "
        "Several servers need a folder that they share, or S3.",
    ),
    Setting(
        name="s3_endpoint",
        read=value_readers.read_url,
        metavar="URL",
        shown_default="Amazon's of the region",
        help="The S3-compatible server of --logs.",
    ),
    Setting(name="s3_region", read=value_readers.read_text, metavar="NAME", default="us-east-1", help="Its region."),
    Setting(name="s3_access_key", read=value_readers.read_text, is_secret=True, help="The access key for logs in S3."),
    Setting(name="s3_secret_key", read=value_readers.read_text, is_secret=True, help="The secret key for logs in S3."),
    Setting(
        name="files_store",
        read=value_readers.read_bucket,
        metavar="URL",
        help="Where clients put files by default, such as s3://bucket.",
    ),
    Setting(
        name="keep_runs",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long runs are kept after they ended, such as 90d.",
    ),
    Setting(
        name="keep_logs",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long logs are kept after their last line.",
    ),
    Setting(
        name="keep_audit",
        read=value_readers.read_retention,
        metavar="DAYS",
        default="forever",
        help="How long the audit is kept.",
    ),
    Setting(
        name="max_body_bytes",
        read=value_readers.read_size,
        metavar="SIZE",
        default="4Mi",
        help="The largest body of a request.",
    ),
    Setting(
        name="max_list",
        read=value_readers.make_number_reader(1, 10_000),
        metavar="NUMBER",
        default="1000",
        help="The most entities on one page.",
    ),
    Setting(
        name="max_streams",
        read=value_readers.make_number_reader(1, 100_000),
        metavar="NUMBER",
        default="500",
        help="The most logs and events that are followed at once.",
    ),
    Setting(
        name="max_requests",
        read=value_readers.read_rate,
        metavar="NUMBER",
        default="200",
        help="The most requests of one user per second, over some seconds.",
    ),
    Setting(
        name="drain",
        read=value_readers.make_duration_reader("1s", "10m"),
        metavar="DURATION",
        default="20s",
        help="How long requests may take to end when the server is told to stop.",
    ),
    Setting(
        name="log_level",
        read=value_readers.make_choice_reader("debug", "info", "warning", "error"),
        metavar="LEVEL",
        default="info",
        help="debug, info, warning or error.",
    ),
    Setting(
        name="log_format",
        read=value_readers.make_choice_reader("json", "text"),
        metavar="FORMAT",
        default="text",
        help="json or text, to standard error.",
    ),
)
