"""Who watches over a store: the alerter and its messenger, the auditor of fires, the surveyor of durations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets

from duly.adapters.system.clock import system_entropy
from duly.compose.node import Node
from duly.compose.notices import sender_of
from duly.roles import loop
from duly.roles.alerter import Alerter, AlerterSettings
from duly.roles.auditor import Auditor, AuditorSettings
from duly.roles.messenger import Messenger, MessengerSettings
from duly.roles.surveyor import Surveyor, SurveyorSettings


def watch_over(node: Node, stop: asyncio.Event) -> list[asyncio.Task[None]]:
    """Until the stop."""
    settings, store = node.settings, node.store
    name = f"{settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}"
    sender = sender_of(settings, node.clock)
    alerter = Alerter(
        name,
        store.alerts,
        store.figures,
        store.calendars,
        sender,
        system_entropy,
        AlerterSettings(deadman=settings.deadman_url, ping_every=settings.deadman_every, url=settings.public_url),
    )

    async def judge() -> None:
        await loop.run(alerter, node.clock, stop, system_entropy)
        with contextlib.suppress(Exception):
            await alerter.stop()

    others = (
        Messenger(name, store.alerts, sender, MessengerSettings(url=settings.public_url)),
        Auditor(name, store.fire_audit, AuditorSettings()),
        Surveyor(store.figures, SurveyorSettings()),
    )
    return [
        asyncio.create_task(judge()),
        *(asyncio.create_task(loop.run(role, node.clock, stop, system_entropy)) for role in others),
    ]
