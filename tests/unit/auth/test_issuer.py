"""Tokens that we signed, and those that look like them."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from runyard.app.errors import Unauthenticated
from runyard.app.identity.sign_in import Grant
from runyard.auth import Issuer
from runyard.auth.signing_keys import PLACE
from runyard.vault import UnknownKey, open_vault
from tests.contract.store.builders import make_run
from tests.unit.auth.world import ENDPOINT, START, World, open_world

ADA = Grant(user="ada", client_id="client")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def encode(value: Any) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(content).decode().rstrip("=")


def read_part(text: str, position: int) -> dict[str, Any]:
    part = text.split(".")[position]
    read: dict[str, Any] = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return read


async def sign_with_our_key(world: World, claims: dict[str, Any], **header: Any) -> str:
    await world.issuer.prepare()
    signer = world.issuer._keys.current
    return jwt.encode({"alg": "ES256", "kid": signer.id, **header}, claims, signer.key, algorithms=["ES256"])


async def find_refusal(world: World, text: str) -> str | None:
    try:
        await world.issuer.verify(text)
    except Unauthenticated as error:
        return str(error)
    return None


def make_claims(**changed: Any) -> dict[str, Any]:
    now = int(START.timestamp())
    claims = {"iss": ENDPOINT, "aud": "runyard", "sub": "ada", "jti": "1", "iat": now, "exp": now + 60}
    return {name: value for name, value in {**claims, **changed}.items() if value is not None}


async def test_claims_are_complete_when_a_token_is_issued(world: World) -> None:
    signed = await world.issuer.issue(ADA)
    claims = dict(await world.issuer.verify(signed.text))
    now = int(START.timestamp())
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "iss": ENDPOINT,
        "aud": "runyard",
        "sub": "ada",
        "preferred_username": "ada",
        "client_id": "client",
        "iat": now,
        "exp": now + 8 * 3600,
    }
    assert signed.ends_at == START + timedelta(hours=8)
    assert read_part(signed.text, 0)["alg"] == "ES256"
    assert signed.text not in repr(signed)


async def test_others_can_verify_when_they_have_the_published_keys(world: World) -> None:
    signed = await world.issuer.issue(ADA)
    document = await world.issuer.jwks()
    keys = KeySet.import_key_set(json.loads(json.dumps(document)))
    assert jwt.decode(signed.text, keys, algorithms=["ES256"]).claims["sub"] == "ada"
    (key,) = document["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "use", "alg", "kid"}
    assert key["kid"] == read_part(signed.text, 0)["kid"]


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": ["runyard", "other"]},
        {"aud": None},
        {"sub": None},
        {"sub": 7},
        {"jti": None},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": 9999999999.5},
        {"iat": None},
        {"iat": int(START.timestamp()) + 3600, "exp": int(START.timestamp()) + 7200},
    ],
)
async def test_token_is_refused_when_a_claim_is_wrong(world: World, changed: dict[str, Any]) -> None:
    assert await world.issuer.verify(await sign_with_our_key(world, make_claims()))
    with pytest.raises(Unauthenticated, match="not issued by this server"):
        await world.issuer.verify(await sign_with_our_key(world, make_claims(**changed)))


async def test_token_is_refused_when_it_was_signed_otherwise(world: World) -> None:
    good = await sign_with_our_key(world, make_claims())
    head, body, signature = good.split(".")
    key_id = read_part(good, 0)["kid"]
    public = (await world.issuer.jwks())["keys"][0]
    stranger = ECKey.generate_key("P-256", {"kid": key_id})
    secret = OctKey.import_key(json.dumps(public))
    none = encode({"alg": "none", "kid": key_id})
    forged = {
        "none": f"{none}.{body}.",
        "none with a signature": f"{none}.{body}.{signature}",
        "None": f"{encode({'alg': 'None', 'kid': key_id})}.{body}.{signature}",
        "public key as secret": jwt.encode(
            {"alg": "HS256", "kid": key_id}, make_claims(), secret, algorithms=["HS256"]
        ),
        "another's key, our id": jwt.encode({"alg": "ES256", "kid": key_id}, make_claims(), stranger),
        "another's key in the header": jws.serialize_compact(
            {"alg": "ES256", "kid": key_id, "jwk": stranger.as_dict(private=False)},
            json.dumps(make_claims()).encode(),
            stranger,
        ),
        "unknown key": jwt.encode({"alg": "ES256", "kid": "x"}, make_claims(), stranger),
        "no key named": jwt.encode({"alg": "ES256"}, make_claims(), stranger),
        "key id is no text": f"{encode({'alg': 'ES256', 'kid': [key_id]})}.{body}.{signature}",
        "another body": f"{head}.{encode(make_claims(sub='root'))}.{signature}",
        "no signature": f"{head}.{body}.",
        "empty signature": f"{head}.{body}",
        "zero signature": f"{head}.{body}.{encode(bytes(64))}",
        "short signature": f"{head}.{body}.{signature[:-4]}",
        "four parts": f"{good}.x",
        "header is a list": f"{encode([])}.{body}.{signature}",
        "header is no JSON": f"{encode(b'{')}.{body}.{signature}",
        "header is no text": f"{encode(bytes([255]))}.{body}.{signature}",
        "deep header": f"{encode(b'[' * 5000)}.{body}.{signature}",
        "padded": f"{head}=.{body}.{signature}",
        "space": f"{good} ",
        "newline": f"{good}\n",
        "long": good + "x" * 10_000,
        "empty": "",
    }
    answers = {name: await find_refusal(world, text) for name, text in forged.items()}
    assert answers == dict.fromkeys(forged, "the token was not issued by this server")
    assert await world.issuer.verify(good)


async def test_token_is_refused_when_its_header_demands_what_we_do_not_know(world: World) -> None:
    await world.issuer.prepare()
    signer = world.issuer._keys.current
    algorithm = jws.default_registry.get_alg("ES256")

    def sign(**header: Any) -> str:
        unsigned = f"{encode({'alg': 'ES256', 'kid': signer.id, **header})}.{encode(make_claims())}"
        return f"{unsigned}.{encode(algorithm.sign(unsigned.encode(), signer.key))}"

    assert await world.issuer.verify(sign())
    for header in ({"crit": ["x"], "x": 1}, {"crit": ["b64"], "b64": False}):
        with pytest.raises(Unauthenticated):
            await world.issuer.verify(sign(**header))


async def test_token_ends_on_time_when_it_was_verified_just_before(world: World) -> None:
    signed = await world.issuer.issue(ADA)
    world.turn(hours=8, seconds=-1)
    assert await world.issuer.verify(signed.text)
    world.turn(seconds=1)
    with pytest.raises(Unauthenticated, match="the token has expired: sign in again"):
        await world.issuer.verify(signed.text)


async def test_key_is_renewed_and_the_old_one_kept_when_it_is_old(world: World) -> None:
    old = await world.issuer.issue(ADA)
    run = await world.issuer.issue_run_token(make_run("r"), timedelta(days=365))
    world.turn(days=29)
    middle = await world.issuer.issue(ADA)
    assert read_part(middle.text, 0)["kid"] == read_part(old.text, 0)["kid"]
    world.turn(days=1, seconds=-1)
    assert await world.issuer.verify(run.text)
    world.turn(seconds=1)
    new = await world.issuer.issue(ADA)
    assert read_part(new.text, 0)["kid"] != read_part(old.text, 0)["kid"]
    assert len((await world.issuer.jwks())["keys"]) == 2
    late = await world.issuer.issue_run_token(make_run("r"), timedelta(days=20))
    world.turn(days=19)
    assert await world.issuer.verify(late.text)
    world.turn(days=11)
    await world.issuer.issue(ADA)
    world.turn(days=30)
    await world.issuer.issue(ADA)
    kept = [key["kid"] for key in (await world.issuer.jwks())["keys"]]
    assert read_part(old.text, 0)["kid"] not in kept
    assert len(kept) == 3
    actions = [entry.action for entry in await world.list_audit()]
    assert actions.count("signing_keys.renew") == 4


async def test_run_token_has_a_bounded_life_when_a_long_one_is_asked_for(world: World) -> None:
    signed = await world.issuer.issue_run_token(make_run("r", uid="u"), timedelta(days=400))
    assert signed.ends_at == START + timedelta(days=30)
    claims = await world.issuer.verify(signed.text)
    assert (claims["run_id"], claims["run_uid"], claims["project"], claims["sub"]) == ("r", "u", "p", "ada")


async def test_replicas_have_the_same_keys_when_they_share_a_database(world: World) -> None:
    replicas = [Issuer(world.core) for _ in range(3)]
    tokens = [await replica.issue(ADA) for replica in replicas]
    assert len({read_part(token.text, 0)["kid"] for token in tokens}) == 1
    world.turn(days=30)
    late = await replicas[0].issue(ADA)
    for replica in replicas:
        assert await replica.verify(late.text)
    assert len({read_part((await replica.issue(ADA)).text, 0)["kid"] for replica in replicas}) == 1


async def test_store_is_asked_seldom_when_strangers_send_unknown_keys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.issuer.issue(ADA)
    world.turn(minutes=5)
    readings = []
    read = world.issuer._keys._read

    async def count() -> None:
        readings.append(1)
        await read()

    monkeypatch.setattr(world.issuer._keys, "_read", count)
    stranger = ECKey.generate_key("P-256")
    for number in range(50):
        with pytest.raises(Unauthenticated):
            await world.issuer.verify(jwt.encode({"alg": "ES256", "kid": str(number)}, make_claims(), stranger))
    assert len(readings) == 1


async def test_private_key_is_nowhere_in_the_database_when_it_is_stored(world: World, tmp_path: Path) -> None:
    await world.issuer.issue(ADA)
    secret = world.issuer._keys.current.key.as_dict(private=True)["d"]
    assert isinstance(secret, str)
    await world.store.close()
    content = (tmp_path / "runyard.db").read_bytes()
    assert len(content) > 10_000
    assert secret.encode() not in content
    assert urlsafe_b64decode(secret + "=") not in content
    assert secret not in repr(world.issuer._keys.current)


async def test_server_says_so_at_once_when_the_vaults_key_was_lost(world: World, tmp_path: Path) -> None:
    await world.issuer.prepare()
    (tmp_path / "keys").unlink()
    other = World(world.store, open_vault(tmp_path / "keys"))  # type: ignore[arg-type]
    with pytest.raises(UnknownKey, match="not among the known keys"):
        await other.issuer.prepare()
    async with world.store.begin(is_read_only=True) as unit:
        kept = await unit.secrets.find(*PLACE)
    assert kept is not None
    assert kept.version == 1


async def test_nothing_is_signed_when_no_keys_were_prepared(world: World) -> None:
    with pytest.raises(RuntimeError, match="not prepared"):
        world.issuer.sign(ADA)
