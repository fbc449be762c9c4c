"""Access control: the role of a principal in a project, and the members of a project."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Literal
from uuid import uuid4

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity, Principal, Share
from runyard.app.ports import UnitOfWork
from runyard.domain.access import GRANTS, SCOPES, Permission, Role, allows
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest

EVERYONE = "*"
PAGE_SIZE = 500
ShareRole = Literal["owner", "editor", "viewer"]
SHARE_ROLES: tuple[ShareRole, ...] = ("owner", "editor", "viewer")

_PLATFORM = frozenset(
    {
        Permission.PUBLIC,
        Permission.SIGNED_IN,
        Permission.OWN_TOKENS,
        Permission.OWN_USAGE,
        Permission.CREATE_PROJECT,
        Permission.ADMINISTER,
    }
)
_STRENGTH = (Role.STRANGER, Role.VIEWER, Role.EDITOR, Role.OWNER)
_ACTS: Mapping[Permission, str] = {
    Permission.PUBLIC: "this",
    Permission.SIGNED_IN: "this",
    Permission.OWN_TOKENS: "making and seeing personal tokens",
    Permission.OWN_USAGE: "seeing what all runs of a user use",
    Permission.CREATE_PROJECT: "creating projects",
    Permission.READ: "reading",
    Permission.WRITE: "changing and running things",
    Permission.PRODUCE: "storing artifacts, data items and models",
    Permission.REPORT: "reporting on runs",
    Permission.INTERACT: "opening sessions in the containers of runs",
    Permission.READ_SECRETS: "reading the values of secrets",
    Permission.MANAGE: "changing, sharing and deleting",
    Permission.ADMINISTER: "administering the platform",
}


async def find_role(unit: UnitOfWork, who: Principal, project: str | None) -> Role:
    """The role of a principal in a project, or on the platform. STRANGER also if the project does not exist."""
    if who.run_id is not None:
        return Role.RUN if project is None or project == who.project else Role.STRANGER
    if who.is_admin:
        return Role.ADMIN
    entity = None if project is None else await unit.entities.find_project(project)
    return Role.STRANGER if entity is None else await _find_member_role(unit, who, entity)


async def authorize(unit: UnitOfWork, who: Principal, permission: Permission, *, project: str | None = None) -> Role:
    """The principal's role, if it grants the permission. Raises `Forbidden`, which says what is needed, or `Missing`.

    Deny by default: permissions in a project need a project, and a run's token never gets more than the role RUN.
    """
    role = await find_role(unit, who, project)
    is_placed = project is not None or permission in _PLATFORM or role is Role.ADMIN
    is_within = who.run_id is None or permission in GRANTS[Role.RUN]
    if is_placed and is_within and allows(role, permission, scopes=who.scopes):
        return role
    if project is not None and who.run_id is None and await unit.entities.find_project(project) is None:
        # Clients check whether a project exists before they create it. Names of projects are not confidential.
        raise Missing("project", project)
    raise Forbidden(_explain(who, role, permission, project=project))


async def list_visible_projects(unit: UnitOfWork, who: Principal) -> frozenset[str] | None:
    """The projects that a principal created or is a member of, for `Query.visible_projects`; None: all."""
    if who.run_id is not None:
        return frozenset({who.project} if who.project is not None else ())
    if who.is_admin:
        return None
    shares = [*await unit.accounts.list_shares(user=who.name), *await unit.accounts.list_shares(user=EVERYONE)]
    visible = {share.project for share in shares}
    for number in count():
        page = await unit.entities.find_page(
            Query(type="project", user=who.name, page=number, size=PAGE_SIZE, is_without_documents=True)
        )
        visible.update(project.id for project in page.content)
        if len(page.content) < PAGE_SIZE:
            break
    return frozenset(visible)


async def list_shares(core: Core, project: str) -> Sequence[Share]:
    """The members of a project, without its creator. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        await _require_project(unit, project)
        return await unit.accounts.list_shares(project=project)


async def put_share(core: Core, who: Principal, project: str, *, user: str, role: str = "editor") -> Share:
    """Add a member or change their role; `*` is everyone. Default: editor, as clients before 0.16 send no role."""
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await _require_project(unit, project)
        known = await unit.accounts.list_shares(project=project)
        share_role = await _check_share(unit, who, entity, user=user, role=role)
        share_id = next((share.id for share in known if share.user == user), None) or uuid4().hex
        share = Share(id=share_id, project=project, user=user, role=share_role)
        await unit.accounts.put_share(share)
        details = {"user": user, "role": role}
        await note_act(core, unit, who, "project.share", of=("share", share_id), project=project, details=details)
        await unit.commit()
    return share


async def delete_share(core: Core, who: Principal, project: str, share_id: str) -> None:
    """End a membership. Raises `Missing`."""
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        await _require_project(unit, project)
        known = await unit.accounts.list_shares(project=project)
        share = next((share for share in known if share.id == share_id), None)
        if share is None:
            raise Missing("share", share_id)
        await unit.accounts.delete_share(share_id, project=project)
        details = {"user": share.user, "role": share.role}
        await note_act(core, unit, who, "project.unshare", of=("share", share_id), project=project, details=details)
        await unit.commit()


async def _find_member_role(unit: UnitOfWork, who: Principal, project: Entity) -> Role:
    if project.user == who.name:
        return Role.OWNER
    shares = await unit.accounts.list_shares(project=project.id)
    roles = [Role(share.role) for share in shares if share.user in (who.name, EVERYONE)]
    return max(roles, key=_STRENGTH.index, default=Role.STRANGER)


async def _require_project(unit: UnitOfWork, project: str) -> Entity:
    entity = await unit.entities.find_project(project)
    if entity is None:
        raise Missing("project", project)
    return entity


async def _check_share(unit: UnitOfWork, who: Principal, project: Entity, *, user: str, role: str) -> ShareRole:
    if user == project.user:
        raise NotPossible(Code.SHARE_CREATOR, f"{user} created project {project.id} and already owns it")
    chosen = next((known for known in SHARE_ROLES if known == role), None)
    problems = []
    if chosen is None:
        nearest = find_nearest(role, SHARE_ROLES)
        allowed = ", ".join(SHARE_ROLES)
        problems.append(
            Problem(Code.ROLE_UNKNOWN, ("role",), "unknown role", value=role, allowed=allowed, suggestion=nearest)
        )
    elif user == EVERYONE and chosen == "owner":
        message = "everyone cannot own a project"
        problems.append(Problem(Code.ROLE_EVERYONE, ("role",), message, value=role, allowed="editor, viewer"))
    problems += await _check_user(unit, who, user)
    if chosen is None or problems:
        raise Refused(problems)
    return chosen


async def _check_user(unit: UnitOfWork, who: Principal, user: str) -> list[Problem]:
    names = [account.name for account in await unit.accounts.list_accounts()]
    if not user:
        return [Problem(Code.FIELD_MISSING, ("user",), "name an account, or `*` for everyone")]
    # A server without accounts cannot check names; the user may get an account later.
    if not names or user == EVERYONE or user in names:
        return []
    # A suggestion would let everybody who owns a project enumerate the accounts; only admins may list them.
    nearest = find_nearest(user, names) if allows(await find_role(unit, who, None), Permission.ADMINISTER) else None
    return [Problem(Code.USER_UNKNOWN, ("user",), "unknown account", value=user, suggestion=nearest)]


def _explain(who: Principal, role: Role, permission: Permission, *, project: str | None) -> str:
    act = _ACTS[permission]
    if project is not None:
        act += f" project {project}" if permission is Permission.MANAGE else f" in project {project}"
    if who.run_id is not None:
        return f"the token of run {who.run_id} does not allow {act}"
    if permission is Permission.ADMINISTER and role is not Role.ADMIN:
        return f"{act} needs an admin of the platform; {who.name} is not one"
    if project is None and role is not Role.ADMIN and permission not in _PLATFORM:
        return f"{act} needs a project"
    if allows(role, permission):
        limit = ", ".join(sorted(set(who.scopes or ()) & SCOPES.keys()))
        needed = " or ".join(scope for scope, granted in SCOPES.items() if permission in granted)
        return f"{act} needs a token with the scope {needed}; this one is limited to {limit}"
    needed = " or ".join(role.value for role in _STRENGTH if permission in GRANTS[role])
    has = "is not a member of it" if role is Role.STRANGER else f"is its {role.value}"
    return f"{act} needs the role {needed}; {who.name} {has}"
