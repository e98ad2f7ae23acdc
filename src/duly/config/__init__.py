"""Settings: read once, here and nowhere else. Flags override the environment, the environment overrides the defaults.

`table` has a row for every setting, `readers` how its text is read. A setting that holds a
secret may also be given as NAME_FILE, the path of a file that contains it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from duly.config.files import PROTECTED as PROTECTED
from duly.config.files import is_protected as is_protected
from duly.config.files import merged
from duly.config.files import read_contexts as read_contexts
from duly.config.files import schema as schema
from duly.config.files import settings_directory as settings_directory
from duly.config.readers import LIMITS as LIMITS
from duly.config.readers import MEMORY as MEMORY
from duly.config.stores import FILE as STORES_FILE
from duly.config.stores import StoreSettings as StoreSettings
from duly.config.stores import chosen, read_stores
from duly.config.table import SETTINGS as SETTINGS
from duly.config.table import Setting as Setting
from duly.config.telemetry import TelemetrySettings as TelemetrySettings
from duly.config.telemetry import telemetry_of
from duly.domain.access import Role
from duly.domain.errors import DulyError, Invalid
from duly.domain.instants import SECOND, Micros
from duly.domain.redaction import Veil

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

VERSION = "0.1.0"
# What a cluster sets for a service that is called duly.
_OF_KUBERNETES = re.compile(r"SERVICE_(HOST|PORT)|PORT_[0-9]")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process, read and checked."""

    home: Path
    store: str = field(repr=False)
    store_direct: str = field(repr=False)
    leases: str = field(repr=False)
    etcd_ca: str | None
    etcd_cert: str | None
    etcd_key: str | None
    hot_index: str = field(repr=False)
    host: str
    port: int
    admin_key: str | None = field(repr=False)
    url: str
    key: str | None = field(repr=False)
    rate_limit: int
    rate_burst: int
    metrics_public: bool
    telemetry: TelemetrySettings
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
    transport: str = field(repr=False)
    events: str | None = field(repr=False)
    analytics: str | None = field(repr=False)
    capture: frozenset[str]
    deadman_url: str | None = field(repr=False)
    deadman_every: Micros
    hostname: str
    environment: Mapping[str, str]
    # What a reference env:NAME may name, and nothing else.
    secrets_env: Mapping[str, str] = field(repr=False)
    # Hides what is secret of this process: its settings from the start, files once they have been read.
    veil: Veil = field(repr=False, compare=False)
    # A worker goes to the server when one is named and no store is; --server names it before all else.
    is_remote: bool = False
    # The stores of an installation that has more than one: all that there are, the default one first, and those that are served here.
    all_stores: tuple[StoreSettings, ...] = ()
    stores: tuple[StoreSettings, ...] = ()

    @property
    def key_file(self) -> Path:
        """Where a key that was made at the first start is kept."""
        return self.home / "admin.key"


def load(environment: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Read the settings: flags over the environment over files over defaults. Flags are named as the fields and win when they are not
    None; `context` chooses a context. An environment that is given is all there is. Raises Invalid (DULY-E601)."""
    context = flags.pop("context", None)
    source = merged(os.environ, context)[0] if environment is None else environment
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
    all_stores = _all_stores(fields, flags.get("store"))
    stores = all_stores
    if all_stores:
        stores = chosen(all_stores, flags["store"]) if flags.get("store") else all_stores
        fields["store"] = stores[0].url
    secrets_env = _secrets_env(fields["secrets_env"], source)
    return Settings(
        home=home,
        store=fields["store"] or default_store(home),
        store_direct=fields["store_direct"],
        leases=fields["leases"],
        etcd_ca=fields["etcd_ca"] or None,
        etcd_cert=fields["etcd_cert"] or None,
        etcd_key=fields["etcd_key"] or None,
        hot_index=fields["hot_index"],
        host=fields["host"],
        port=port,
        admin_key=admin_key,
        url=(fields["url"] or f"http://127.0.0.1:{port}").rstrip("/"),
        key=fields["key"] or admin_key or kept_key(home / "admin.key"),
        rate_limit=fields["rate_limit"],
        rate_burst=fields["rate_burst"],
        metrics_public=fields["metrics_public"],
        telemetry=telemetry_of(fields),
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
        veil=Veil([*secrets_env.values(), *_secret_texts(fields, [fields["store"], *(store.url for store in all_stores)])]),
        log_level=fields["log_level"],
        log_format=fields["log_format"],
        public_url=fields["public_url"] or None,
        proxy_auth_header=fields["proxy_auth_header"] or None,
        proxy_auth_from=fields["proxy_auth_from"],
        proxy_auth_users=fields["proxy_auth_users"],
        transport=fields["transport"],
        events=fields["events"] or None,
        analytics=fields["analytics"] or None,
        capture=fields["capture"],
        deadman_url=fields["deadman_url"] or None,
        deadman_every=fields["deadman_every"],
        hostname=socket.gethostname(),
        is_remote=flags.get("url") is not None or bool(fields["url"] and not fields["store"]),
        all_stores=all_stores,
        stores=stores,
        environment={name: source[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in source},
    )


def _secrets_env(allowed: tuple[str, ...], source: Mapping[str, str]) -> dict[str, str]:
    """What the worker may hand to handlers. Duly's own settings are never among it, whatever the operator lists."""
    own = {name for setting in SETTINGS for name in (setting.name, f"{setting.name}_FILE")}
    beginnings = tuple(name[:-1] for name in allowed if name.endswith("*"))
    listed = {name for name in source if name in allowed or (beginnings and name.startswith(beginnings))}
    return {name: source[name] for name in sorted(listed - own)}


def _all_stores(fields: Mapping[str, Any], flag: str | None) -> tuple[StoreSettings, ...]:
    """What the file says, unless an address is given: by a flag, or by DULY_STORE, which is the way to have one store."""
    if flag is not None and "://" in flag:
        return ()
    path = Path(fields["config"] or STORES_FILE)
    if not fields["config"] and (not path.is_file() or (flag is None and fields["store"])):
        found: tuple[StoreSettings, ...] = ()
    elif flag is None and fields["store"]:
        raise Invalid(
            "DULY-E601", "contradicts DULY_STORE.", field="DULY_CONFIG", hint="One names the only store, the other several. Unset one."
        )
    else:
        found = read_stores(path)
    if flag is not None and not found:
        hint = "Use sqlite:///duly.db or postgresql://user@host/database, or list stores by name in duly.toml."
        raise Invalid("DULY-E601", f"{flag!r} is neither an address nor a store of a file.", field="--store", hint=hint)
    return found


def _secret_texts(fields: Mapping[str, Any], stores: Sequence[str]) -> list[str]:
    """The settings that must not be read in a log: keys as they are, and the passwords of addresses."""
    found = [fields[name] for name in ("admin_key", "key", "webhook_secret", "metrics_token", "deadman_url") if fields[name]]
    found += [text for _, text in fields["otlp_headers"]]
    found += [b64encode(key).decode() for _, key in fields["payload_keys"]]
    passwords: list[str | None] = []
    for text in (*stores, *(fields[name] for name in ("store_direct", "leases", "hot_index", "transport", "events", "analytics"))):
        with contextlib.suppress(ValueError):
            # Several hosts with ports are no address to the parser, but who asks stands before all of them.
            address = urlsplit(text)
            passwords += [address.password, *parse_qs(address.query).get("password", ())]
    return [*found, *(form for password in passwords if password for form in {password, unquote(password)})]


def origins(environment: Mapping[str, str] | None = None) -> list[tuple[Setting, str, str]]:
    """Every setting with its text and where that comes from: its variable, the variable that names its file, a file of settings, or
    the default."""
    source, files = merged(os.environ) if environment is None else (environment, {})
    found: list[tuple[Setting, str, str]] = []
    for setting in SETTINGS:
        if setting.name in source:
            found.append((setting, source[setting.name].strip(), files.get(setting.name, setting.name)))
        elif setting.secret and source.get(f"{setting.name}_FILE"):
            found.append((setting, _file_text(setting, source), files.get(f"{setting.name}_FILE", f"{setting.name}_FILE")))
        else:
            found.append((setting, setting.default, "default"))
    return found


def faults(environment: Mapping[str, str] | None = None) -> list[DulyError]:
    """What is wrong with each setting by itself: all of it, where `load` tells the first."""
    source = merged(os.environ)[0] if environment is None else environment
    found: list[DulyError] = []
    for setting in SETTINGS:
        try:
            _read(setting, source)
        except Invalid as fault:
            found.append(fault)
    return found


def misspelled(environment: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Variables that are nearly called as a setting is, and the setting; others that begin with DULY_ are somebody's own."""
    from difflib import get_close_matches

    source = os.environ if environment is None else environment
    known = {name.removeprefix("DULY_"): name for setting in SETTINGS for name in (setting.name, f"{setting.name}_FILE")}
    found: list[tuple[str, str]] = []
    for name in sorted(source):
        rest = name.removeprefix("DULY_")
        if rest == name or rest in known or rest.startswith("SECRET_") or _OF_KUBERNETES.search(rest):
            continue
        if close := get_close_matches(rest, known, n=1, cutoff=0.7):
            found.append((name, known[close[0]]))
    return found


def is_set(name: str, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a setting that may come from a file is given and not empty."""
    source = merged(os.environ)[0] if environment is None else environment
    return bool(source.get(name, "").strip() or source.get(f"{name}_FILE"))


def protected_context(context: str | None = None) -> str | None:
    """The context that says which server is asked, if it is a protected one; a flag or the environment may say otherwise before it."""
    origin = merged(os.environ, context)[1].get("DULY_URL", "")
    name = origin.removeprefix("context ")
    known = read_contexts(settings_directory(os.environ)).known
    return name if name != origin and is_protected(name, known[name]) else None


def editor() -> str:
    """The command that opens a text for its user, as other tools find it."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def wants_colour(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the command line may use colours on a terminal: NO_COLOR and TERM=dumb say no."""
    source = os.environ if environment is None else environment
    return not source.get("NO_COLOR") and source.get("TERM") != "dumb"


def environment_without(*prefixes: str) -> dict[str, str]:
    """What a process that we start gets of our environment: everything but the variables with these prefixes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def contexts_file() -> Path:
    """The file in which `duly context` keeps its contexts. Raises Invalid (DULY-E601) where there is no home."""
    directory = settings_directory(os.environ)
    if directory is None:
        raise Invalid("DULY-E601", "There is no home directory to keep contexts in.", hint="Set HOME or XDG_CONFIG_HOME.")
    return directory / "contexts.toml"


def cache_directory() -> Path:
    """Where what was fetched for this user is kept, as the desktop's rules have it."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "duly"


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
        default = f"; {setting.default} is the default" if setting.default else ""
        raise Invalid("DULY-E601", f"{error}.", field=setting.name, hint=f"`duly config show` says where it is set{default}.") from error


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
