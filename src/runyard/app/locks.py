"""Names of the locks that use cases take with `UnitOfWork.lock` and `lock_shared`.

To avoid deadlocks, take a project's lock before that of something in the project.
"""

ACCOUNTS = "accounts"


def lock_of_project(project: str) -> str:
    """Shared by everyone who writes in the project; exclusive for deleting it."""
    return f"project:{project}"


def lock_of_entity(entity_type: str, project: str, entity_id: str) -> str:
    """For reading and writing one entity or run."""
    return f"{entity_type}:{project}/{entity_id}"


def lock_of_secret_values(project: str) -> str:
    """For giving out version numbers of secret values."""
    return f"secret-values:{project}"


def lock_of_count(entity_type: str, project: str) -> str:
    """For comparing the number of a project's entities of one type with the limit."""
    return f"count-{entity_type}:{project}"


def lock_of_files(project: str) -> str:
    """For comparing the size of a project's files with its quota."""
    return f"files:{project}"
