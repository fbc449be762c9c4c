"""`python -m examples.demo`: tell the story, then end everything, also after Ctrl-C and after a failure."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from examples.demo.cluster_stage import ClusterStage, find_cluster_stage
from examples.demo.cluster_story import ClusterStory
from examples.demo.console import Console, DemoFailed, render_api
from examples.demo.stage import ServerFolder, Stage, find_stage
from examples.demo.story import Story

INTERRUPTED = 130
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the demo; 0 if every step did what it says."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the server and its runs running")
    parser.add_argument(
        "--cluster", metavar="NAME", help="on this cluster of the testbed, which is started if it is not running"
    )
    parser.add_argument("--stop", type=Path, metavar="FOLDER", help="end a demo that was kept")
    given = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("the demo needs Linux, as the local engine does")
    for number in ENDING_SIGNALS:
        signal.signal(number, _interrupt)
    console = Console()
    try:
        if given.stop:
            return end(find_cluster_stage(given.stop) or find_stage(given.stop))
        story = tell_on_cluster(console, given.cluster) if given.cluster else tell_here(console)
        return perform(story, is_kept=given.keep)
    except DemoFailed as error:
        sys.stderr.write(f"\nthe demo failed: {error}\n")
        return 1


def tell_here(console: Console) -> Story:
    """The demo of the local engine."""
    console.title("Start a server: local engine, SQLite in a temporary directory, loopback only, no accounts")
    return Story(console, Stage.make())


def tell_on_cluster(console: Console, cluster: str) -> Story:
    """The demo on a cluster of the testbed."""
    console.title("Start a server: Kubernetes engine, one namespace, SQLite in a temporary directory")
    return ClusterStory(console, ClusterStage.make(cluster))


def perform(story: Story, *, is_kept: bool) -> int:
    """Tell the story and end everything, or leave it running if it went well and shall be kept."""
    begun = time.monotonic()
    console, stage = story.console, story.stage
    code, shall_end = 1, True
    try:
        console.tell(
            "Each command is one that a user types, and is executed as printed; where the demo does the same by other "
            "means, it says so. Of long answers, a part is shown."
        )
        url = stage.start_server(console)
        story.tell(url)
        code, shall_end = 0, not is_kept
    except (KeyboardInterrupt, BrokenPipeError):
        code = INTERRUPTED
    except DemoFailed as error:
        sys.stderr.write(f"\nthe demo failed: {error}\n{stage.read_log_tail()}\n")
    finally:
        if shall_end:
            code = end(stage) or code
    if is_kept and code == 0:
        describe_kept(console, stage, url)
    elif code == 0:
        console.tell(f"Done in {time.monotonic() - begun:.0f} s. Every process has ended, and no file is left.")
    return code


def end(stage: ServerFolder) -> int:
    """End everything; 1 if something is left. Not interrupted: whoever interrupts the demo wants this to happen."""
    _ignore_signals()
    try:
        print("\n== Stop the server and every run, and delete the data", flush=True)
    except BrokenPipeError:  # as in `make demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    left = stage.end()
    for each in left:
        sys.stderr.write(f"left behind: {each}\n")
    return 1 if left else 0


def describe_kept(console: Console, stage: ServerFolder, url: str) -> None:
    """Say how to go on, and how to end it."""
    console.title("The server and the model are left running. How to go on, in a shell in this directory:")
    for command in (
        f'export PATH="{Path(sys.executable).parent}:$PATH" URL={url}/api/v1',
        render_api(stage.netrc),
        'api "$URL/-/demo/runs" | python -m json.tool | less',
        "api $URL/-/demo/runs/predict-1",
    ):
        console.show(command)
    console.tell(
        f"The start page is {url}/, the API guide docs/users/api.md. The server's log: {stage.folder}/server.log"
    )
    console.tell("End it, with all its runs and data:")
    console.show(f"make demo STOP={stage.folder}")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _ignore_signals()  # a second one would interrupt the clean-up
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
