"""Accounts, tokens, sign-in, and access checks: who may do what in which project.

Start in `access.py`: every route and command asks `authorize`. Imports no other room.
"""

from runyard.app.identity.access import (
    authorize,
    delete_share,
    find_role,
    list_shares,
    list_visible_projects,
    put_share,
)
from runyard.app.identity.account_tokens import list_account_tokens, revoke_account_tokens
from runyard.app.identity.accounts import (
    MOST_PASSWORD_CHARACTERS,
    create_account,
    delete_account,
    list_accounts,
    set_admin,
    set_disabled,
    set_password,
)
from runyard.app.identity.personal_tokens import (
    PERSONAL_PREFIX,
    REFRESH_PREFIX,
    create_personal_token,
    hash_token,
    is_usable,
    list_personal_tokens,
    note_token_use,
    revoke_personal_token,
)
from runyard.app.identity.refresh_tokens import is_family_revoked
from runyard.app.identity.refused_access import RefusalAudit
from runyard.app.identity.sign_in import (
    GRANTS,
    Grant,
    GrantRefused,
    Identifier,
    Identity,
    Signed,
    TokenIssuer,
    grant_token,
    note_failure,
)

__all__ = [
    "GRANTS",
    "MOST_PASSWORD_CHARACTERS",
    "PERSONAL_PREFIX",
    "REFRESH_PREFIX",
    "Grant",
    "GrantRefused",
    "Identifier",
    "Identity",
    "RefusalAudit",
    "Signed",
    "TokenIssuer",
    "authorize",
    "create_account",
    "create_personal_token",
    "delete_account",
    "delete_share",
    "find_role",
    "grant_token",
    "hash_token",
    "is_family_revoked",
    "is_usable",
    "list_account_tokens",
    "list_accounts",
    "list_personal_tokens",
    "list_shares",
    "list_visible_projects",
    "note_failure",
    "note_token_use",
    "put_share",
    "revoke_account_tokens",
    "revoke_personal_token",
    "set_admin",
    "set_disabled",
    "set_password",
]
