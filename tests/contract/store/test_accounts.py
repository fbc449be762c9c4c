"""Users, tokens and shares."""

from dataclasses import replace
from typing import Any

from runyard.app.model import Account, Share, Token
from runyard.app.ports import Store
from tests.contract.store.builders import NOON, after


def make_token(token_id: str, **fields: Any) -> Token:
    chosen = {"user": "ada", "kind": "personal", "hash": f"hash of {token_id}", "created_at": NOON}
    return Token(**{"id": token_id, **chosen, **fields})


async def test_account_is_replaced_when_the_name_exists(store: Store) -> None:
    ada = Account(name="ada", password_hash="$argon2id$x", is_admin=True, created_at=NOON)
    async with store.begin() as work:
        await work.accounts.put(replace(ada, is_admin=False))
        await work.accounts.put(ada)
        await work.accounts.put(Account(name="Zoe", is_disabled=True, created_at=after(1)))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.accounts.find("ada") == ada
        assert await work.accounts.find("bob") is None
        assert [account.name for account in await work.accounts.list_accounts()] == ["Zoe", "ada"]


async def test_tokens_and_shares_go_when_their_account_goes(store: Store) -> None:
    async with store.begin() as work:
        for user in ("ada", "bob"):
            await work.accounts.put(Account(name=user, created_at=NOON))
            await work.accounts.put_token(make_token(f"t-{user}", user=user))
            await work.accounts.put_share(Share(id=f"s-{user}", project="p", user=user, role="viewer"))
        await work.accounts.delete("ada")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.accounts.find("ada") is None
        assert await work.accounts.find_token("hash of t-ada") is None
        assert await work.accounts.find_token("hash of t-bob") is not None
        assert [share.user for share in await work.accounts.list_shares(project="p")] == ["bob"]


async def test_token_is_found_by_its_hash_when_it_is_revoked_or_expired(store: Store) -> None:
    token = make_token(
        "t1",
        name="laptop",
        scopes=("runs:read", "runs:write"),
        expires_at=after(-1),
        revoked_at=after(-2),
        last_used_at=after(-3),
    )
    async with store.begin() as work:
        await work.accounts.put_token(make_token("t1"))
        await work.accounts.put_token(token)
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.accounts.find_token("hash of t1") == token
        assert await work.accounts.find_token("hash of t2") is None


async def test_newest_token_comes_first_when_a_users_are_listed(store: Store) -> None:
    async with store.begin() as work:
        for number in (1, 3, 2):
            await work.accounts.put_token(make_token(f"t{number}", created_at=after(number)))
        await work.accounts.put_token(make_token("other", user="bob"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert [token.id for token in await work.accounts.list_tokens("ada")] == ["t3", "t2", "t1"]


async def test_only_the_owner_deletes_when_a_token_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await work.accounts.put_token(make_token("t1"))
        assert await work.accounts.delete_token("t1", user="bob") is False
        assert await work.accounts.delete_token("t1", user="ada") is True
        assert await work.accounts.delete_token("t1", user="ada") is False


async def test_refresh_token_is_taken_once_when_it_is_used_twice(store: Store) -> None:
    token = make_token("t1", kind="refresh", expires_at=after(60))
    async with store.begin() as work:
        await work.accounts.put_token(token)
        await work.accounts.put_token(make_token("personal"))
        await work.accounts.put_token(make_token("revoked", kind="refresh", revoked_at=NOON))
        await work.commit()

    async with store.begin() as work:
        before = await work.read_clock()
        taken = await work.accounts.use_refresh_token("hash of t1")
        await work.commit()
    async with store.begin() as work:
        assert await work.accounts.use_refresh_token("hash of t1") is None
        for other in ("personal", "revoked", "unknown"):
            assert await work.accounts.use_refresh_token(f"hash of {other}") is None
        kept = await work.accounts.find_token("hash of t1")

    assert taken is not None
    assert replace(taken, last_used_at=None) == token
    assert kept is not None
    assert kept.revoked_at is not None
    assert kept.revoked_at >= before


async def test_share_is_replaced_when_project_and_user_are_the_same(store: Store) -> None:
    async with store.begin() as work:
        await work.accounts.put_share(Share(id="1", project="p", user="ada", role="viewer"))
        await work.accounts.put_share(Share(id="2", project="p", user="*", role="viewer"))
        await work.accounts.put_share(Share(id="3", project="q", user="ada", role="owner"))
        await work.accounts.put_share(Share(id="4", project="p", user="ada", role="editor"))
        await work.commit()

    async with store.begin() as work:
        everyone, ada = await work.accounts.list_shares(project="p")
        assert everyone == Share(id="2", project="p", user="*", role="viewer")
        assert ada == Share(id="4", project="p", user="ada", role="editor")
        assert [share.project for share in await work.accounts.list_shares(user="ada")] == ["p", "q"]
        assert len(await work.accounts.list_shares(user="ada", project="q")) == 1
        assert len(await work.accounts.list_shares()) == 3
        assert await work.accounts.delete_share("4", project="q") is False
        assert await work.accounts.delete_share("4", project="p") is True
        assert await work.accounts.delete_share("4", project="p") is False
