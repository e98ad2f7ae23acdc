"""How one payload is sealed: AES-256-GCM under a key of its own, bound to where it stands.

A key of DULY_PAYLOAD_KEYS never encrypts anything itself. HKDF makes a key for each tenant of it, and HMAC of that a
key for each row, so no two rows share one and random nonces cannot meet. Kind, tenant and id of the row are
authenticated with the text: a sealed payload that somebody moves to another row or another tenant does not open.

The envelope is JSON, so it stands wherever a payload does:

    {"$sealed":{"v":1,"key":"k1","of":"execution","data":"…"}}
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from json import dumps, loads
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from duly.domain.secrets import SEALED, is_sealed

NONCE = 12
VERSION = 1


class Cipher:
    """Seals with the first key, opens with any."""

    def __init__(self, keys: Sequence[tuple[str, bytes]]) -> None:
        self._writes = keys[0][0]
        self._keys = dict(keys)
        self._tenant_key = lru_cache(maxsize=4096)(self._derive)

    def seal(self, text: str, tenant: int, kind: str, id: UUID) -> str:
        """The envelope of a text that stands in this row."""
        nonce = os.urandom(NONCE)
        sealed = AESGCM(self._row_key(self._writes, tenant, kind, id)).encrypt(nonce, text.encode(), _place(tenant, kind, id))
        return dumps({SEALED: {"v": VERSION, "key": self._writes, "of": kind, "data": b64encode(nonce + sealed).decode()}})

    def open(self, envelope: Any, tenant: int, ids: dict[str, UUID]) -> str | None:
        """The text in a decoded envelope that was found in one of these rows (kind and id); None when it cannot be opened."""
        try:
            about = envelope[SEALED]
            key, kind, data = about["key"], about["of"], b64decode(about["data"], validate=True)
            if about["v"] != VERSION or key not in self._keys or kind not in ids:
                return None
            place = _place(tenant, kind, ids[kind])
            opened: bytes = AESGCM(self._row_key(key, tenant, kind, ids[kind])).decrypt(data[:NONCE], data[NONCE:], place)
            return opened.decode()
        except (InvalidTag, KeyError, TypeError, ValueError):
            return None

    def open_text(self, text: str | None, tenant: int, ids: dict[str, UUID]) -> str | None:
        """The same for a payload that may be sealed or not; one that cannot be opened stays as it is."""
        if text is None or not is_sealed(text):
            return text
        opened = self.open(loads(text), tenant, ids)
        return text if opened is None else opened

    def _derive(self, key: str, tenant: int) -> bytes:
        made: bytes = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"duly payload v1 tenant %d" % tenant).derive(self._keys[key])
        return made

    def _row_key(self, key: str, tenant: int, kind: str, id: UUID) -> bytes:
        return hmac.digest(self._tenant_key(key, tenant), kind.encode() + b"\0" + id.bytes, "sha256")


def _place(tenant: int, kind: str, id: UUID) -> bytes:
    return b"duly/%d/%d/%s/%s" % (VERSION, tenant, kind.encode(), id.bytes)
