"""`runyard exec`, `attach`, `port-forward` and `top`: into runs that run now."""

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.listings import UNNAMED_FORM, add_listing
from runyard.cli.server_options import add_project_options

if TYPE_CHECKING:
    from runyard.cli.forwarded_ports import Ports

EXEC_EXAMPLES = format_epilog(
    "runyard exec -it train-5f3a90c2d1 -- bash",
    "runyard exec train-5f -- nvidia-smi",
    "runyard exec -i train-5f -- tar xf - -C /data < data.tar",
    exit_codes="that of the command    1 refused, or the session was cut    2 usage error\n"
    "130 interrupted by Ctrl-C without -t; the command may go on",
)
ATTACH_EXAMPLES = format_epilog(
    "runyard attach --container main train-5f3a90c2d1",
    "runyard attach",
    exit_codes="0 the container ended    1 refused, or the session was cut    2 usage error\n"
    "130 interrupted; the run goes on",
)
PORT_EXAMPLES = format_epilog(
    "runyard port-forward predict-77 8080",
    "runyard port-forward predict-77 9000:8080 :5678",
    "runyard port-forward --address 0.0.0.0 predict-77 8080",
    exit_codes="1 refused, or the run has ended    2 usage error    130 ended by Ctrl-C",
)
TOP_EXAMPLES = format_epilog(
    "runyard top",
    "runyard top train-5f3a90c2d1",
    "runyard top -o json",
    exit_codes="0 printed    1 refused, or the engine does not measure    2 usage error",
)
_CONTAINER = click.option("--container", metavar="NAME", help="Container.  [default: the one that executes the run]")
_POD = click.option("--pod", metavar="NAME", help="Pod.  [default: the newest that runs]")


class _ExecCommand(click.Command):
    """Says where options of the command that is executed stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an unknown option is probably one of that command."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            message = f"no such option: {error.option_name}; options of the command stand after --"
            raise click.UsageError(message, ctx) from None


class _PortsType(click.ParamType["Ports"]):
    """`REMOTE`, `LOCAL:REMOTE` or `:REMOTE`."""

    name = "ports"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Ports":
        """Read the ports; REMOTE alone is the same port here, and an empty LOCAL any free one."""
        local, colon, remote = str(value).rpartition(":")
        numbers = (local or "0" if colon else remote, remote)
        if not all(number.isdecimal() and len(number) <= 5 and int(number) <= 65535 for number in numbers):
            self.fail(f"`{value}` is not a pair of TCP ports; allowed: REMOTE, LOCAL:REMOTE or :REMOTE", param, ctx)
        if int(remote) == 0:
            self.fail(f"`{value}` has no port of the run; allowed: 1 to 65535", param, ctx)
        ports: Ports = load("runyard.cli.forwarded_ports:Ports")(*map(int, numbers))
        return ports


@click.command("exec", cls=_ExecCommand, epilog=EXEC_EXAMPLES)
@click.option("-i", "--stdin", is_flag=True, help="Send standard input to the command.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal; with -i, keys go there, Ctrl-C too.")
@_CONTAINER
@_POD
@add_project_options
@click.argument("run", shell_complete=complete("run"))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(run: str, command: tuple[str, ...], **given: Any) -> None:
    """Execute COMMAND in a container of RUN, and exit with its exit code. No shell reads it."""
    flags = {name: given.pop(name) for name in ("project", "context", "endpoint")}
    load("runyard.cli.container_sessions:execute")(flags, run, command, **given)


@click.command(epilog=ATTACH_EXAMPLES)
@click.argument("run", required=False, shell_complete=complete("run"))
@_CONTAINER
@_POD
@add_project_options
def attach(run: str | None, container: str | None, pod: str | None, **flags: Any) -> None:
    """Print what RUN, or the newest run, prints from now on, as it is; `runyard logs -f` also has what came before."""
    load("runyard.cli.container_sessions:attach")(flags, run, container=container, pod=pod)


@click.command(epilog=PORT_EXAMPLES)
@click.argument("run", shell_complete=complete("run"))
@click.argument("ports", metavar="[LOCAL:]REMOTE...", nargs=-1, required=True, type=_PortsType())
@click.option(
    "--address",
    metavar="IP",
    default="127.0.0.1",
    show_default=True,
    help="Address of this machine to listen on; with any other than the default, others can connect.",
)
@_POD
@add_project_options
def port_forward(run: str, ports: tuple["Ports", ...], address: str, pod: str | None, **flags: Any) -> None:
    """Forward ports of this machine to ports of RUN. REMOTE alone is the same port here; :REMOTE is any free one."""
    load("runyard.cli.forwarded_ports:forward_ports")(flags, run, ports, address=address, pod=pod)


@click.command(epilog=TOP_EXAMPLES)
@click.argument("run", required=False, shell_complete=complete("run"))
@add_listing("run", "pod", "container", "cpu", "memory", forms=UNNAMED_FORM)
@add_project_options
def top(run: str | None, listing: Any, **flags: Any) -> None:
    """Show what the containers of RUN use now, or those of all runs of the project: CPU cores and memory."""
    load("runyard.cli.usage_report:print_usage")(flags, run, listing=listing)
