"""What tells channels of incidents: by the rules for webhooks, with the secrets of this process."""

from __future__ import annotations

from duly import config
from duly.adapters.system.vault import Vault
from duly.domain.alerts.channel import Channel
from duly.domain.alerts.message import Notice
from duly.ports.alerts import Sender
from duly.ports.clock import Clock

TIMEOUT = 10.0


def sender_of(settings: config.Settings, clock: Clock) -> Sender:
    """The sender of this process."""
    return _Sender(settings, clock)


class _Sender:
    """Made when somebody is told for the first time: most processes tell nobody, and its libraries take a while to load."""

    def __init__(self, settings: config.Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._made: Sender | None = None

    async def send(self, channel: Channel, notice: Notice) -> None:
        await self._sender().send(channel, notice)

    async def ping(self, url: str) -> None:
        await self._sender().ping(url)

    def _sender(self) -> Sender:
        if self._made is None:
            from duly.executors.addresses import parse_allow
            from duly.executors.notices import Notifier
            from duly.executors.outbound import Outbound

            settings = self._settings
            outbound = Outbound(parse_allow(settings.webhook_allow), settings.webhook_http, TIMEOUT)
            vault = Vault(settings.secrets_env, settings.secrets_dir, settings.veil)
            secret = settings.webhook_secret
            self._made = Notifier(outbound, vault, None if secret is None else secret.encode(), self._clock.now)
        return self._made
