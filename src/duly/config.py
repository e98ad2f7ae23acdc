"""Settings: read once, here and nowhere else. Flags override the environment, the environment overrides the defaults.

Every setting is one row of SETTINGS: its name, what it takes, its default and what it does. The
reference is generated from this table, and a test holds the two together. A setting that holds a
secret may also be given as NAME_FILE, the path of a file that contains it.
"""

from __future__ import annotations

import os
import re
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from duly.domain.access import Role
from duly.domain.durations import parse_duration
from duly.domain.errors import DulyError, Invalid
from duly.domain.instants import SECOND, Micros
from duly.domain.redaction import Veil

VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: the environment variable, its default as text, how it is read, and what it does."""

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    secret: bool = False


def _text(value: str) -> str:
    return value


def _words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _switch(value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise ValueError(f"expected a number from {least} to {most}")
        return int(value)

    return read


def _labels(value: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in _words(value))
    return {key: label for key, _, label in pairs}


def _names(value: str) -> tuple[str, ...]:
    names = _words(value)
    if any(not name.removesuffix("*").isidentifier() or not name.isascii() for name in names):
        raise ValueError("expected names of variables, or beginnings of them such as SHOP_*")
    return names


def _payload_keys(value: str) -> tuple[tuple[str, bytes], ...]:
    found: dict[str, bytes] = {}
    for nth, word in enumerate(_words(value), 1):
        name, _, text = word.partition(":")
        try:
            key = b64decode(text, validate=True)
        except ValueError:
            key = b""
        # The text is not repeated: it is the key.
        if not name.isascii() or not name.isalnum() or len(name) > 32 or len(key) != 32 or name in found:
            raise ValueError(f"the key number {nth} is not NAME:BASE64 of 32 bytes, or its name is used twice")
        found[name] = key
    return tuple(found.items())


LIMITS = ("cpu", "memory", "files", "processes", "size")
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _limits(value: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in _words(value):
        name, _, text = word.partition("=")
        digits = text[:-1] if text[-1:].upper() in _SIZES else text
        if name not in LIMITS or not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 1 << 40:
            raise ValueError(f"expected {', '.join(LIMITS)}, each with a number such as memory=512M")
        found[name] = int(digits) * _SIZES.get(text[-1:].upper(), 1)
    return found


def _level(value: str) -> str:
    if value.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError("expected debug, info, warning or error")
    return value.lower()


def _address(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc):
        raise ValueError("expected an address such as https://duly.example.com")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("expected an address without a path: Duly needs a host name of its own")
    return value.rstrip("/")


def _header(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", value):
        raise ValueError("expected the name of a header, such as X-Forwarded-User")
    if value.lower() in ("authorization", "cookie", "host", "origin"):
        raise ValueError(f"{value} is not for a proxy to say who asks")
    return value.lower()


def _networks(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(word) for word in _words(value))


def _users(value: str) -> dict[str, tuple[str, Role]]:
    found: dict[str, tuple[str, Role]] = {}
    for word in _words(value):
        user, _, rest = word.rpartition("=")
        tenant, _, role = rest.rpartition(":")
        if not user or not tenant or role not in ("VIEWER", "OPERATOR", "ADMIN"):
            raise ValueError("expected user=tenant:ROLE, such as ann@example.com=default:ADMIN, with VIEWER, OPERATOR or ADMIN")
        if user in found:
            raise ValueError(f"{user} stands twice")
        found[user] = (tenant, Role[role])
    return found


SETTINGS: tuple[Setting, ...] = (
    Setting("DULY_HOME", ".duly", _text, "The state directory: the SQLite file and the first admin key are kept here."),
    Setting(
        "DULY_STORE",
        "",
        _text,
        "The store: sqlite:///file.db or postgresql://user@host/database. Empty: a SQLite file in DULY_HOME.",
        secret=True,
    ),
    Setting("DULY_HOST", "127.0.0.1", _text, "The address the API listens on."),
    Setting("DULY_PORT", "3859", _whole(0, 65_535), "The port the API listens on; 0 takes a free one."),
    Setting(
        "DULY_ADMIN_KEY", "", _text, "The first admin key of the tenant `default`. Empty: one is made at the first start.", secret=True
    ),
    Setting(
        "DULY_URL",
        "",
        _text,
        "The server that the command line and clients talk to, and workers without a DULY_STORE. Empty: http://127.0.0.1 and DULY_PORT.",
    ),
    Setting(
        "DULY_KEY",
        "",
        _text,
        "The key that the command line, clients and remote workers use. Empty: DULY_ADMIN_KEY, else the one kept in DULY_HOME.",
        secret=True,
    ),
    Setting(
        "DULY_PUBLIC_URL",
        "",
        _address,
        "The address that browsers see, such as https://duly.example.com: for login links, and to know our own pages behind a proxy.",
    ),
    Setting(
        "DULY_PROXY_AUTH_HEADER",
        "",
        _header,
        "The header in which a proxy names the user that it has logged in, such as X-Forwarded-User. Needs the next two as well.",
    ),
    Setting(
        "DULY_PROXY_AUTH_FROM", "", _networks, "Addresses or networks of the proxies that are believed; anybody else's header is ignored."
    ),
    Setting(
        "DULY_PROXY_AUTH_USERS",
        "",
        _users,
        "Who may enter that way, and as what, such as ann@example.com=default:ADMIN, one after a comma.",
    ),
    Setting(
        "DULY_RATE_LIMIT",
        "5000",
        _whole(0, 1_000_000),
        "How many requests a second each key may make on each server; 0: any number. Workers are not counted.",
    ),
    Setting("DULY_RATE_BURST", "10000", _whole(1, 10_000_000), "How many of them may come at once."),
    Setting("DULY_POOL", "default", _text, "The pool that a worker serves."),
    Setting("DULY_LABELS", "", _labels, "The labels that a worker offers, such as gpu,region=eu."),
    Setting("DULY_SLOTS", "50", _whole(1, 100_000), "How many executions a worker runs at once."),
    Setting("DULY_CHILDREN", "0", _whole(0, 1024), 'How many child processes a worker keeps for executor="process"; 0 means one per core.'),
    Setting("DULY_WORKER_TTL", "15s", parse_duration, "How long a worker lives without a heartbeat before its work is given to others."),
    Setting("DULY_GRACE", "20s", parse_duration, "How long running handlers may take to end at a stop before they are given back."),
    Setting("DULY_RETENTION", "30d", parse_duration, "How long finished executions are kept."),
    Setting("DULY_AUDIT_RETENTION", "400d", parse_duration, "How long the audit trail is kept."),
    Setting("DULY_SHELL_POOLS", "", _words, "Pools whose workers run shell jobs. Empty: none does."),
    Setting("DULY_SHELL_DIR", "", _text, "The directory in which shell jobs run. Empty: that of the worker."),
    Setting(
        "DULY_SHELL_LIMITS",
        "",
        _limits,
        "What a command of a shell job may use, on Linux: cpu=SECONDS, memory=512M, files=256, processes=64, size=1G (of a file).",
    ),
    Setting(
        "DULY_WEBHOOK_ALLOW",
        "",
        _words,
        "Hosts, host:port or networks that webhooks may reach although they are private, such as 10.1.0.0/16.",
    ),
    Setting("DULY_WEBHOOK_HTTP", "false", _switch, "Whether webhooks may use plain http to public addresses."),
    Setting("DULY_WEBHOOK_SECRET", "", _text, "Signs webhooks (HMAC-SHA256). Empty: they are not signed.", secret=True),
    Setting(
        "DULY_SECRETS_ENV",
        "DULY_SECRET_*",
        _names,
        'Variables of a worker that {"$secret": "env:NAME"} may name: names, or beginnings with a * at their end. Never Duly\'s own.',
    ),
    Setting("DULY_SECRETS_DIR", "", _text, 'The directory of a worker in which {"$secret": "file:NAME"} finds NAME. Empty: there is none.'),
    Setting(
        "DULY_PAYLOAD_KEYS",
        "",
        _payload_keys,
        "Encrypts payloads at rest: NAME:BASE64 of 32 random bytes, more of them after a comma. The first one writes, all read.",
        secret=True,
    ),
    Setting("DULY_LOG_LEVEL", "info", _level, "How much Duly itself logs to standard error."),
    Setting("DULY_LOG_FORMAT", "text", _text, "text for people, json for machines."),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process, read and checked."""

    home: Path
    store: str = field(repr=False)
    host: str
    port: int
    admin_key: str | None = field(repr=False)
    url: str
    key: str | None = field(repr=False)
    rate_limit: int
    rate_burst: int
    pool: str
    labels: dict[str, str]
    slots: int
    children: int
    worker_ttl: Micros
    grace: Micros
    retention: Micros
    audit_retention: Micros
    shell_pools: tuple[str, ...]
    shell_dir: str | None
    shell_limits: Mapping[str, int]
    webhook_allow: tuple[str, ...]
    webhook_http: bool
    webhook_secret: str | None = field(repr=False)
    secrets_dir: str | None
    payload_keys: tuple[tuple[str, bytes], ...] = field(repr=False)
    log_level: str
    log_format: str
    public_url: str | None
    proxy_auth_header: str | None
    proxy_auth_from: tuple[IPv4Network | IPv6Network, ...]
    proxy_auth_users: Mapping[str, tuple[str, Role]]
    hostname: str
    environment: Mapping[str, str]
    # What a reference env:NAME may name, and nothing else.
    secrets_env: Mapping[str, str] = field(repr=False)
    # Hides what is secret of this process: its settings from the start, files once they have been read.
    veil: Veil = field(repr=False, compare=False)
    # A worker goes to the server when one is named and no store is; --server names it before all else.
    is_remote: bool = False

    @property
    def key_file(self) -> Path:
        """Where a key that was made at the first start is kept."""
        return self.home / "admin.key"


def load(environment: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Read the settings. Flags are named as the fields and win when they are not None. Raises Invalid (DULY-E601)."""
    source = os.environ if environment is None else environment
    values = {setting.name: _read(setting, source) for setting in SETTINGS}
    fields = {name.removeprefix("DULY_").lower(): value for name, value in values.items()}
    fields |= {name: value for name, value in flags.items() if value is not None}
    home = Path(fields["home"])
    port = fields["port"]
    if not SECOND <= fields["worker_ttl"] <= 3600 * SECOND:
        raise Invalid("DULY-E601", "must be between 1s and 1h.", field="DULY_WORKER_TTL")
    if fields["log_format"] not in ("text", "json"):
        raise Invalid("DULY-E601", "expected text or json.", field="DULY_LOG_FORMAT")
    admin_key = fields["admin_key"] or None
    secrets_env = _secrets_env(fields["secrets_env"], source)
    return Settings(
        home=home,
        store=fields["store"] or default_store(home),
        host=fields["host"],
        port=port,
        admin_key=admin_key,
        url=(fields["url"] or f"http://127.0.0.1:{port}").rstrip("/"),
        key=fields["key"] or admin_key or kept_key(home / "admin.key"),
        rate_limit=fields["rate_limit"],
        rate_burst=fields["rate_burst"],
        pool=fields["pool"],
        labels=fields["labels"],
        slots=fields["slots"],
        children=fields["children"] or os.cpu_count() or 1,
        worker_ttl=fields["worker_ttl"],
        grace=fields["grace"],
        retention=fields["retention"],
        audit_retention=fields["audit_retention"],
        shell_pools=fields["shell_pools"],
        shell_dir=fields["shell_dir"] or None,
        shell_limits=fields["shell_limits"],
        webhook_allow=fields["webhook_allow"],
        webhook_http=fields["webhook_http"],
        webhook_secret=fields["webhook_secret"] or None,
        secrets_dir=fields["secrets_dir"] or None,
        payload_keys=fields["payload_keys"],
        secrets_env=secrets_env,
        veil=Veil([*secrets_env.values(), *_secret_texts(fields)]),
        log_level=fields["log_level"],
        log_format=fields["log_format"],
        public_url=fields["public_url"] or None,
        proxy_auth_header=fields["proxy_auth_header"] or None,
        proxy_auth_from=fields["proxy_auth_from"],
        proxy_auth_users=fields["proxy_auth_users"],
        hostname=socket.gethostname(),
        is_remote=flags.get("url") is not None or bool(fields["url"] and not fields["store"]),
        environment={name: source[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in source},
    )


def _secrets_env(allowed: tuple[str, ...], source: Mapping[str, str]) -> dict[str, str]:
    """What the worker may hand to handlers. Duly's own settings are never among it, whatever the operator lists."""
    own = {name for setting in SETTINGS for name in (setting.name, f"{setting.name}_FILE")}
    beginnings = tuple(name[:-1] for name in allowed if name.endswith("*"))
    listed = {name for name in source if name in allowed or (beginnings and name.startswith(beginnings))}
    return {name: source[name] for name in sorted(listed - own)}


def _secret_texts(fields: Mapping[str, Any]) -> list[str]:
    """The settings that must not be read in a log: keys as they are, and the password of the store's address."""
    found = [fields[name] for name in ("admin_key", "key", "webhook_secret") if fields[name]]
    found += [b64encode(key).decode() for _, key in fields["payload_keys"]]
    try:
        address = urlsplit(fields["store"])
        passwords = [address.password, *parse_qs(address.query).get("password", ())]
    except ValueError:
        passwords = []
    return [*found, *(form for password in passwords if password for form in {password, unquote(password)})]


def origins(environment: Mapping[str, str] | None = None) -> list[tuple[Setting, str, str]]:
    """Every setting with its text and where that comes from: its variable, the variable that names its file, or the default."""
    source = os.environ if environment is None else environment
    found: list[tuple[Setting, str, str]] = []
    for setting in SETTINGS:
        if setting.name in source:
            found.append((setting, source[setting.name].strip(), setting.name))
        elif setting.secret and source.get(f"{setting.name}_FILE"):
            found.append((setting, _file_text(setting, source), f"{setting.name}_FILE"))
        else:
            found.append((setting, setting.default, "default"))
    return found


def is_set(name: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a setting that may come from a file is given and not empty."""
    source = os.environ if environment is None else environment
    return bool(source.get(name, "").strip() or source.get(f"{name}_FILE"))


def wants_colour(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the command line may use colours on a terminal: NO_COLOR and TERM=dumb say no."""
    source = os.environ if environment is None else environment
    return not source.get("NO_COLOR") and source.get("TERM") != "dumb"


def environment_without(*prefixes: str) -> dict[str, str]:
    """What a process that we start gets of our environment: everything but the variables with these prefixes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def default_store(home: Path) -> str:
    """The store when nobody names one: a SQLite file in the state directory."""
    return f"sqlite:///{quote(str(home / 'duly.db'))}"


def _read(setting: Setting, source: Mapping[str, str]) -> Any:
    text = source.get(setting.name)
    if text is None and setting.secret and source.get(f"{setting.name}_FILE"):
        text = _file_text(setting, source)
    try:
        return setting.read(setting.default if text is None else text.strip())
    except (ValueError, DulyError) as error:
        raise Invalid("DULY-E601", f"{error}.", field=setting.name) from error


def _file_text(setting: Setting, source: Mapping[str, str]) -> str:
    try:
        return Path(source[f"{setting.name}_FILE"]).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Invalid("DULY-E601", f"cannot be read: {error.strerror}.", field=f"{setting.name}_FILE") from error


def kept_key(path: Path) -> str | None:
    """The key in a file that was made at the first start; None when there is none that can be read."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
