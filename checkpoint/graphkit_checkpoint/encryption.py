"""`EncryptedSerializer`: everything that came from the user is encrypted before a saver stores it.

A stored body is `0xC1, format, length of the key id, key id, nonce, ciphertext and tag`. 0xC1 is the one byte
that msgpack never writes, so an encrypted body and a plain one are never taken for each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from graphkit_checkpoint.errors import EncryptionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK: Final = b"\xc1"
FORMAT: Final = 1
NONCE_BYTES: Final = 12
KEY_LENGTHS: Final = (16, 24, 32)
DEFAULT_KEY_ID: Final = "default"
"""The id of a key that was given without one."""
VARIABLES: Final = ("GRAPHKIT_AES_KEY", "LANGGRAPH_AES_KEY")
MISSING_LIBRARY: Final = 'encryption needs cryptography: pip install "graphkit-engine[encryption]"'


class EncryptedSerializer:
    """Encrypts what a saver stores: `SqliteSaver(path, serde=EncryptedSerializer({"2025": key}))`.

    AES-GCM with keys of 16, 24 or 32 bytes. `keys` maps key ids to keys: rows are written with `current` (may
    be left out if there is one key) and read with the key that they name. So a key is replaced by adding
    another one and making it `current`; the old one stays in `keys` while rows of it are left.

    Encrypted are the values of channels, writes, `Send` arguments, metadata, questions, answers and errors,
    also in nested graphs. Readable stay the names by which rows are found (ids of threads, checkpoints, tasks
    and keys; names of channels, and of nodes within namespaces; steps, times and owners) and the sizes of
    rows: put no secrets into names. Caches and stores are not encrypted.

    A row opens only in its own place, so one that was moved or changed is noticed (`EncryptionError`, or
    `CheckpointCorruptError` by its checksum). Rows that were removed, or put back as they once were, are not.
    Nonces are random: replace a key before it has encrypted some 2**32 rows.

    Raises `ValueError` for no keys, for a key of another length and for an unknown `current`, and `ImportError`
    without the library `cryptography`. May be shared by savers and threads.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str | None = None) -> None:
        if not keys:
            raise ValueError("keys is empty; give at least one key, such as {'2025': os.urandom(32)}")
        if current is None and len(keys) > 1:
            raise ValueError(f"there are several keys ({_listed(keys)}); say with current= which one writes")
        if current is not None and current not in keys:
            raise ValueError(f"current={current!r} is not among the keys ({_listed(keys)})")
        self._ciphers = {_checked_id(key_id): _cipher(key_id, key) for key_id, key in keys.items()}
        self.current = next(iter(keys)) if current is None else current
        name = self.current.encode()
        self._header = MARK + bytes([FORMAT, len(name)]) + name
        self._writer = self._ciphers[self.current]

    @classmethod
    def from_aes(cls, key: bytes | None = None) -> Self:
        """With one key, whose id is "default". Without `key` the bytes of the environment variable
        `GRAPHKIT_AES_KEY` are the key, or those of `LANGGRAPH_AES_KEY` (`openssl rand -hex 16` makes one)."""
        return cls({DEFAULT_KEY_ID: _key_of_environment() if key is None else key})

    @classmethod
    def from_pycryptodome_aes(cls, key: bytes | None = None, **kwargs: Any) -> Self:
        """LangGraph's name for `from_aes`. It is AES-GCM whatever `mode=` and other options say; what LangGraph
        itself has encrypted cannot be read."""
        return cls.from_aes(key)

    def encrypt(self, body: bytes, context: bytes) -> bytes:
        """The body as it is stored, readable with the same context only."""
        nonce = os.urandom(NONCE_BYTES)
        return b"".join((self._header, nonce, self._writer.encrypt(nonce, body, self._header + context)))

    def decrypt(self, body: bytes, context: bytes) -> bytes:
        """What `encrypt` was given. Raises `EncryptionError`, which says what is the matter with the body."""
        from cryptography.exceptions import InvalidTag

        if not body.startswith(MARK):
            raise EncryptionError(
                "is not encrypted and this saver takes only what is; read the thread with a saver without serde="
            )
        parts = _parts(body)
        cipher = self._ciphers.get(parts.key_id)
        if cipher is None:
            raise EncryptionError(
                f"is encrypted with key {parts.key_id!r} and the saver's keys are {_listed(self._ciphers)}; "
                f"add it to the keys of EncryptedSerializer, with current={self.current!r}"
            )
        try:
            return cipher.decrypt(parts.nonce, parts.text, parts.header + context)
        except InvalidTag:
            raise EncryptionError(
                f"does not open with key {parts.key_id!r}; give the key that had this id when it was written, or, "
                f"if this is the key, the row was changed or moved: restore the database"
            ) from None


def refuse_encrypted(body: bytes) -> None:
    """Raise `EncryptionError` for an encrypted body; for a reader without keys."""
    if body.startswith(MARK):
        key_id = _parts(body).key_id
        raise EncryptionError(
            f"is encrypted with key {key_id!r} and this saver has no keys; give it "
            f"serde=EncryptedSerializer({{{key_id!r}: …}})"
        )


class _Parts(NamedTuple):
    header: bytes
    key_id: str
    nonce: bytes
    text: bytes


def _parts(body: bytes) -> _Parts:
    if body[1:2] != bytes([FORMAT]):
        raise EncryptionError("is encrypted in a form that this graphkit does not know; use the newer one")
    start = 3 + int.from_bytes(body[2:3], "big")
    end = start + NONCE_BYTES
    if len(body) <= end:
        raise EncryptionError("is encrypted and cut off; restore the database")
    key_id = body[3:start].decode("utf-8", "backslashreplace")
    return _Parts(body[:start], key_id, body[start:end], body[end:])


def _cipher(key_id: str, key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise ImportError(MISSING_LIBRARY) from error
    return AESGCM(_checked(key, f"key {key_id!r}"))


def _checked(key: bytes, name: str) -> bytes:
    if not isinstance(key, bytes):
        raise TypeError(f"{name} must be bytes, not {type(key).__name__}")
    if len(key) not in KEY_LENGTHS:
        raise ValueError(f"{name} must have 16, 24 or 32 bytes and has {len(key)}")
    return key


def _checked_id(key_id: str) -> str:
    """A key id must be found again in what was stored."""
    if not isinstance(key_id, str) or not key_id.isprintable() or not 1 <= len(key_id.encode()) <= 255:
        raise ValueError(f"key id {key_id!r:.80} must be printable text of 1 to 255 bytes")
    return key_id


def _key_of_environment() -> bytes:
    for variable in VARIABLES:
        if variable in os.environ:
            return _checked(os.fsencode(os.environ[variable]), variable)
    raise ValueError(f"no key: give key=, or set the environment variable {VARIABLES[0]}")


def _listed(keys: Mapping[str, object]) -> str:
    return ", ".join(map(repr, keys))
