"""Tells channels of incidents: signed webhooks, Slack, PagerDuty and those like it, e-mail. Addresses are judged as every webhook's."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from functools import partial
from typing import Any, assert_never

import msgspec

from duly.domain.alerts.channel import Channel, ChannelKind, Encryption
from duly.domain.alerts.message import PAGERDUTY_EVENTS, Notice, pagerduty_body, slack_body, webhook_body
from duly.domain.instants import SECOND, Instant, to_datetime
from duly.domain.secrets import parse_reference
from duly.executors.addresses import AllowList, Url, refused
from duly.executors.exchange import request_head
from duly.executors.http import signature
from duly.executors.outbound import Outbound, agent
from duly.ports.endings import Failure
from duly.ports.secrets import Secrets

MAIL_PORTS = {Encryption.STARTTLS: 587, Encryption.TLS: 465, Encryption.NONE: 25}
ALLOWED_MAIL_PORTS = frozenset({25, 465, 587, 2525})
MAIL_TIMEOUT = 10.0

_encode = msgspec.json.Encoder().encode


class Notifier:
    """The sender of a server. `signing_secret` signs webhooks whose channel names no secret of its own."""

    def __init__(self, outbound: Outbound, secrets: Secrets, signing_secret: bytes | None, now: Callable[[], Instant]) -> None:
        self._outbound = outbound
        self._secrets = secrets
        self._signing_secret = signing_secret
        self._now = now

    async def send(self, channel: Channel, notice: Notice) -> None:
        """See ports.alerts.Sender."""
        match channel.kind:
            case ChannelKind.WEBHOOK:
                await self._webhook(channel, notice)
            case ChannelKind.SLACK:
                await self._post(await self._secret(channel), slack_body(notice), {})
            case ChannelKind.PAGERDUTY:
                await self._post(channel.url or PAGERDUTY_EVENTS, pagerduty_body(notice, await self._secret(channel)), {})
            case ChannelKind.EMAIL:
                await self._mail(channel, notice)
            case _:
                assert_never(channel.kind)

    async def ping(self, url: str) -> None:
        """See ports.alerts.Sender."""
        checked = self._outbound.checked(url)
        answer = await self._outbound.exchange(checked, "GET", _request("GET", checked, b"", {}))
        _demand_success(checked, answer.status)

    async def _webhook(self, channel: Channel, notice: Notice) -> None:
        secret = None if channel.secret is None else (await self._secret(channel)).encode()
        body = webhook_body(notice)
        headers = {"Duly-Incident-Id": notice.incident_id, "Idempotency-Key": f"{notice.incident_id}/{body['event']}"}
        await self._post(channel.url or "", body, headers, secret or self._signing_secret)

    async def _post(self, url: str, body: dict[str, Any], headers: dict[str, str], secret: bytes | None = None) -> None:
        checked, content = self._outbound.checked(url), _encode(body)
        if secret is not None:
            headers = headers | {"Duly-Signature": signature(secret, self._now() // SECOND, content)}
        answer = await self._outbound.exchange(checked, "POST", _request("POST", checked, content, headers) + content)
        _demand_success(checked, answer.status)

    async def _secret(self, channel: Channel) -> str:
        return await self._secrets.read(parse_reference(channel.secret))

    async def _mail(self, channel: Channel, notice: Notice) -> None:
        host, port = channel.host or "", channel.port or MAIL_PORTS[channel.encryption]
        address = await self._mail_address(host, port)
        password = None if channel.user is None else await self._secret(channel)
        message = _mail_message(channel, notice, self._now())
        # The library blocks; each of its waits is bounded, and so is their number.
        await asyncio.to_thread(partial(_send_mail, channel, host, port, address, password, message))

    async def _mail_address(self, host: str, port: int) -> str:
        """Where the mail server is, judged as every address is; its ports are its own."""
        allow = self._outbound.allow
        if port not in ALLOWED_MAIL_PORTS and not _is_listed(allow, host, port):
            raise refused(f"Port {port} is none of a mail server. The operator can set DULY_WEBHOOK_ALLOW={host}:{port}.")
        # Judged as if it were the usual port: which ones are a mail server's was said above.
        judged = self._outbound.checked(f"https://{host}" if not _is_listed(allow, host, port) else f"https://{host}:{port}")
        return str((await self._outbound.resolve(judged))[0])


def _is_listed(allow: AllowList, host: str, port: int) -> bool:
    return allow.has_host(host.lower(), port)


def _request(method: str, url: Url, body: bytes, more: dict[str, str]) -> bytes:
    headers = {"Host": url.authority, "User-Agent": agent(), "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
    if body:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return request_head(method, url.target, headers | more)


def _demand_success(url: Url, status: int) -> None:
    if 200 <= status < 300:
        return
    again = status in (408, 425, 429) or status >= 500
    raise Failure(f"{url.authority} answered {status}.", type="HttpStatus", retry=again)


def _mail_message(channel: Channel, notice: Notice, now: Instant) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = " ".join(f"[Duly] {notice.title}".split())
    message["From"], message["To"] = channel.sender, ", ".join(channel.to)
    message["Date"] = format_datetime(to_datetime(now))
    # One thread for each incident; a message that comes twice has the same name.
    name = f"{notice.dedup_key}.{notice.event.value}@duly.invalid"
    message["Message-ID"] = f"<{name}>" if not notice.is_test else make_msgid(domain="duly.invalid")
    message["References"] = f"<{notice.dedup_key}.0@duly.invalid>"
    message["Duly-Incident-Id"] = notice.incident_id
    message.set_content(notice.text)
    return message


class _Pinned(smtplib.SMTP):
    """Connects to the address that was judged, whatever the name says by now."""

    pinned = ""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return socket.create_connection((self.pinned, port), timeout)


def _send_mail(channel: Channel, host: str, port: int, address: str, password: str | None, message: EmailMessage) -> None:
    context = ssl.create_default_context()

    class Way(_Pinned):
        pinned = address

        def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
            plain = super()._get_socket(host, port, timeout)
            return plain if channel.encryption is not Encryption.TLS else context.wrap_socket(plain, server_hostname=host)

    try:
        with Way(host, port, timeout=MAIL_TIMEOUT) as server:
            if channel.encryption is Encryption.STARTTLS:
                server.starttls(context=context)
            if channel.user is not None:
                server.login(channel.user, password or "")
            server.send_message(message)
    except smtplib.SMTPResponseException as exc:
        # What the server says may repeat what it was told: the number is enough.
        raise Failure(f"{host} answered {exc.smtp_code}.", type="Smtp", retry=exc.smtp_code < 500) from None
    except smtplib.SMTPRecipientsRefused:
        raise Failure(f"{host} takes nothing for these addresses.", type="Smtp", retry=False) from None
    except smtplib.SMTPException as exc:
        raise Failure(f"{host}: {type(exc).__name__}.", type="Smtp") from None
    except OSError as exc:
        raise Failure(f"No connection to {host}:{port}: {exc.strerror or type(exc).__name__}.", type="ConnectionFailed") from None
