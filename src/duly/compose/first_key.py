"""The first admin key: made when a store has none, and kept for its owner."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose.node import Node
from duly.usecases.access import ensure_admin_key, is_key_shaped

if TYPE_CHECKING:
    from duly.http.services import Services


async def bootstrap_key(node: Node) -> str | None:
    """See to an admin key. One that is made here is kept in a file that only its owner can read, and returned once."""
    keep = functools.partial(_keep_key, node.settings.key_file)
    return await ensure_admin_key(node.store.keys, node.settings.admin_key, node.clock.now(), system_entropy, keep)


async def login_link(node: Node, services: Services, url: str) -> str | None:
    """A link for one login as the admin whose key is known here; None when it is not, or not any more."""
    secret = node.settings.admin_key or config.kept_key(node.settings.key_file)
    actor = None if secret is None else await services.access.recognise(secret)
    if actor is None:
        return None
    token, _ = await services.sessions.link(actor)
    return f"{node.settings.public_url or url}/login?token={token}"


def _keep_key(path: Path, secret: str, instead_of: str | None = None) -> str:
    """See usecases.access.Keeper. The file is always whole: it gets its name when it is on the disk."""
    kept = _reusable_key(path, instead_of)
    if kept is not None:
        return kept
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
            file.flush()
            os.fsync(descriptor)
        try:
            # Unlike a replace, a link never takes the name from a process that starts beside us.
            os.link(temporary, path)
        except OSError:
            kept = _reusable_key(path, instead_of)
            if kept is None:
                os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return secret if kept is None else kept


def _reusable_key(path: Path, dead: str | None) -> str | None:
    kept = config.kept_key(path)
    if kept is None or kept == dead or not is_key_shaped(kept):
        return None
    with contextlib.suppress(OSError):
        path.chmod(0o600)
    return kept
