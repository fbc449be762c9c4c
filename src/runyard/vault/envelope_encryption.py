"""Envelope encryption: AES-256-GCM with a fresh data key, which is wrapped with AES-256-GCM by a key of the ring.

Both layers authenticate project, name and version (additional authenticated data), so that no row can take the place
of another; the wrapping also authenticates the id of its key. Layout of both: one byte for the format, a nonce of 12
bytes, the ciphertext with its tag.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runyard.app.model import SealedValue
from runyard.vault.errors import Tampered
from runyard.vault.keyring import KEY_BYTES, Keyring

_FORMAT = b"\x01"
_NONCE_BYTES = 12
_SMALLEST = len(_FORMAT) + _NONCE_BYTES + 16
# A value may be any Python text, with unpaired surrogates too, so that encoding never fails.
_ENCODING = ("utf-8", "surrogatepass")


def seal(keys: Keyring, project: str, name: str, version: int, text: str) -> SealedValue:
    """Encrypt the text, bound to project, name and version."""
    data_key = secrets.token_bytes(KEY_BYTES)
    key_id = keys.current_id
    return SealedValue(
        project=project,
        name=name,
        version=version,
        key_id=key_id,
        wrapped_key=_encrypt(keys.get(key_id), data_key, bound=_bind("key", project, name, version, key_id)),
        ciphertext=_encrypt(data_key, text.encode(*_ENCODING), bound=_bind("value", project, name, version)),
    )


def unseal(keys: Keyring, value: SealedValue) -> str:
    """Decrypt. Raises `UnknownKey` or `Tampered`."""
    data_key = _unwrap(keys, value)
    bound = _bind("value", value.project, value.name, value.version)
    return _decrypt(data_key, value.ciphertext, bound=bound, of=value).decode(*_ENCODING)


def rewrap(keys: Keyring, value: SealedValue) -> SealedValue:
    """Wrap the data key with the current key; the value itself is not decrypted."""
    key_id = keys.current_id
    bound = _bind("key", value.project, value.name, value.version, key_id)
    return SealedValue(
        project=value.project,
        name=value.name,
        version=value.version,
        key_id=key_id,
        wrapped_key=_encrypt(keys.get(key_id), _unwrap(keys, value), bound=bound),
        ciphertext=value.ciphertext,
    )


def _unwrap(keys: Keyring, value: SealedValue) -> bytes:
    bound = _bind("key", value.project, value.name, value.version, value.key_id)
    return _decrypt(keys.get(value.key_id), value.wrapped_key, bound=bound, of=value)


def _encrypt(key: bytes, content: bytes, *, bound: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _FORMAT + nonce + AESGCM(key).encrypt(nonce, content, bound)


def _decrypt(key: bytes, sealed: bytes, *, bound: bytes, of: SealedValue) -> bytes:
    nonce, content = sealed[len(_FORMAT) : len(_FORMAT) + _NONCE_BYTES], sealed[len(_FORMAT) + _NONCE_BYTES :]
    if sealed.startswith(_FORMAT) and len(sealed) >= _SMALLEST:
        try:
            return AESGCM(key).decrypt(nonce, content, bound)
        except InvalidTag:
            pass
    raise Tampered(
        f"version {of.version} of `{of.name[:80]}` in project `{of.project[:80]}` cannot be opened: the stored value "
        "was changed, or belongs elsewhere"
    )


def _bind(*parts: str | int) -> bytes:
    """Additional authenticated data: each part with its length, so that no two rows have the same."""
    encoded = [str(part).encode(*_ENCODING) for part in ("runyard", *parts)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
