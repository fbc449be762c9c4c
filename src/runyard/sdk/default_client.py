"""The client that the functions of `import runyard as ry` share: made when it is first needed, from the environment."""

from runyard.sdk.sync.client import Client
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.run import Run

_chosen: list[Client] = []
"""Set by `set_client`, or made from the environment."""


def get_client() -> Client:
    """The shared client."""
    if not _chosen:
        _chosen.append(Client())
    return _chosen[-1]


def set_client(client: Client | None) -> None:
    """Use this client from now on; None: make one from the environment when it is needed. Closes the one before."""
    while _chosen:
        _chosen.pop().close()
    if client is not None:
        _chosen.append(client)


def get_or_create_project(name: str, *, description: str | None = None, labels: list[str] | None = None) -> Project:
    """A project by its name; creates it if there is none."""
    return get_client().get_or_create_project(name, description=description, labels=labels)


def get_project(name: str) -> Project:
    """A project by its name. Raises `NotFound`."""
    return get_client().get_project(name)


def list_projects() -> list[Project]:
    """Projects that are visible to the user."""
    return get_client().list_projects()


def delete_project(name: str, *, cascade: bool = False) -> None:
    """Delete a project; one that is not empty only with `cascade`."""
    get_client().delete_project(name, cascade=cascade)


def get_run(id: str, *, project: str) -> Run:  # noqa: A002 - the API's name
    """A run by its id. Raises `NotFound`."""
    return get_client().get_project(project).get_run(id)
