"""Projects, and the use cases that span entities and runs: cascading deletion, metrics, search.

May import `entities` and `runs`.
"""

from runyard.app.projects.entity_deletion import delete_entity, delete_named
from runyard.app.projects.metrics import list_metrics, put_metric
from runyard.app.projects.project_deletion import delete_project, finish_project_deletion
from runyard.app.projects.project_preparation import PreparedProjects, find_projects_by_place, forget_project_places
from runyard.app.projects.projects import (
    ListedEntity,
    ProjectView,
    create_project,
    get_project,
    list_labels,
    list_projects,
    update_project,
)
from runyard.app.projects.search import MOST_WORDS, SEARCHED, Search, SortedBy, search_project

__all__ = [
    "MOST_WORDS",
    "SEARCHED",
    "ListedEntity",
    "PreparedProjects",
    "ProjectView",
    "Search",
    "SortedBy",
    "create_project",
    "delete_entity",
    "delete_named",
    "delete_project",
    "find_projects_by_place",
    "finish_project_deletion",
    "forget_project_places",
    "get_project",
    "list_labels",
    "list_metrics",
    "list_projects",
    "put_metric",
    "search_project",
    "update_project",
]
