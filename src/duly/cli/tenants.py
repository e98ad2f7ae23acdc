"""`duly tenant`: make, list, show, set and move tenants, and make a key for one that has lost its own."""

from __future__ import annotations

from typing import Any

from duly.cli import output
from duly.cli.errors import OK
from duly.cli.keys import ROLES
from duly.cli.moves import EXAMPLES as MOVE_EXAMPLES
from duly.cli.moves import configure_move, move
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.cli.remote import connect
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND
from duly.sdk import tenants as calls
from duly.sdk.calls import show_session
from duly.wire.tenants import QuotasView, TenantView, UseView

# Option, key of the quota, and what it bounds.
QUOTAS = (
    ("max-jobs", "maxJobs", "live jobs"),
    ("max-queued", "maxQueued", "executions that wait"),
    ("max-concurrent", "maxConcurrent", "executions that run at once"),
    ("max-fires-per-minute", "maxFiresPerMinute", "executions that come in within a minute"),
    ("max-payload-bytes", "maxPayloadBytes", "bytes of one payload"),
    ("retention-days", "retentionDays", "days for which what has finished is kept"),
)


def _options(parser: Parser) -> None:
    parser.add_argument("--weight", type=int, metavar="N", help="its share of a busy fleet, beside the weights of the others")
    for option, _, bounds in QUOTAS:
        parser.add_argument(f"--{option}", metavar="N", help=f"{bounds}; `none` for no limit")
    remote_options(parser)


def _configure_create(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    _options(parser)


def _create(arguments: Arguments) -> int:
    out = output.of(arguments)
    body: dict[str, Any] = {"name": arguments.name, "quotas": _given_quotas(arguments)}
    if arguments.weight is not None:
        body["weight"] = arguments.weight
    with connect(arguments) as client:
        tenant = client.send(calls.create_tenant(body))
    fields = [("secret", tenant.key.secret), ("key", tenant.key.key_id), *_fields(tenant)]
    out.one(fields, tenant, name=tenant.key.secret)
    out.say("The secret of its first ADMIN key is shown this once: keep it where only its user can read it.")
    return OK


def _list(arguments: Arguments) -> int:
    found: list[TenantView] = []
    with connect(arguments) as client:
        page = client.send(calls.list_tenants(limit=200))
        found += page.items
        while page.next_cursor is not None:
            page = client.send(calls.list_tenants(limit=200, cursor=page.next_cursor))
            found += page.items
    output.of(arguments).rows(_COLUMNS, found, name=lambda tenant: tenant.name)
    return OK


def _configure_show(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="your own without one")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    with connect(arguments) as client:
        tenant = client.send(calls.show_tenant(arguments.name or client.send(show_session()).tenant))
    usage = tenant.usage
    used = [
        ("jobs", _use(usage.jobs)),
        ("queued", _use(usage.queued)),
        ("running", _use(usage.running)),
        ("last minute", _use(usage.fires_per_minute)),
    ]
    output.of(arguments).one([*_fields(tenant), *used], tenant, name=tenant.name)
    return OK


def _set(arguments: Arguments) -> int:
    """What is not given stays: the quotas are read first, and written only if nobody has changed them meanwhile."""
    changed = _given_quotas(arguments)
    if arguments.weight is None and not changed:
        raise Invalid("DULY-E604", "Nothing is given that could be set.", hint="For example --max-concurrent 20, or --weight 500.")
    with connect(arguments) as client:
        before = client.send(calls.show_tenant(arguments.name))
        body = {"weight": arguments.weight, "quotas": _as_sent(before.quotas) | changed}
        tenant = client.send(calls.change_tenant(arguments.name, body, version=before.version))
    output.of(arguments).one(_fields(tenant), tenant, name=tenant.name)
    return OK


def _configure_key(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the tenant")
    parser.add_argument("--role", default="admin", choices=ROLES, help="what it may do; admin unless it says otherwise")
    parser.add_argument("--key-name", default="recovered", help="what people call it")
    parser.add_argument("--expires", metavar="TIME", help="how long it lasts, such as 90d; for ever otherwise")
    remote_options(parser)


def _key(arguments: Arguments) -> int:
    out = output.of(arguments)
    lasts = None if arguments.expires is None else parse_duration(arguments.expires, field="--expires") / SECOND
    with connect(arguments) as client:
        key = client.send(calls.create_tenant_key(arguments.name, arguments.role.upper(), arguments.key_name, expires_in_sec=lasts))
    fields = [("secret", key.secret), ("key", key.key_id), ("role", key.role.lower()), ("name", key.name), ("tenant", key.tenant)]
    out.one([*fields, ("expires", output.moment(key.expires_at))], key, name=key.secret)
    out.say("The secret is shown this once: keep it where only its user can read it.")
    return OK


def _given_quotas(arguments: Arguments) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for option, key, _ in QUOTAS:
        given = getattr(arguments, option.replace("-", "_"))
        if given is None:
            continue
        if given != "none" and not (given.isascii() and given.isdigit()):
            raise Invalid("DULY-E604", f"{given!r} is neither a number nor `none`.", field=f"--{option}")
        found[key] = None if given == "none" else int(given)
    return found


def _as_sent(quotas: QuotasView) -> dict[str, int | None]:
    return {
        "maxJobs": quotas.max_jobs,
        "maxQueued": quotas.max_queued,
        "maxConcurrent": quotas.max_concurrent,
        "maxFiresPerMinute": quotas.max_fires_per_minute,
        "maxPayloadBytes": quotas.max_payload_bytes,
        "retentionDays": quotas.retention_days,
    }


def _fields(tenant: TenantView) -> list[tuple[str, str | None]]:
    quotas = [(key, f"{value:,}") for key, value in _as_sent(tenant.quotas).items() if value is not None]
    store = [("store", tenant.store)] if tenant.store is not None else []
    return [("tenant", tenant.name), *store, ("weight", str(tenant.weight)), *quotas, ("version", str(tenant.version))]


def _use(use: UseView) -> str:
    return f"{use.used:,}" if use.quota is None else f"{use.used:,} of {use.quota:,}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


_COLUMNS: list[Column[TenantView]] = [
    Column("tenant", lambda tenant: tenant.name, key="name"),
    Column("store", lambda tenant: tenant.store or ""),
    Column("weight", lambda tenant: str(tenant.weight)),
    Column("jobs", lambda tenant: _number(tenant.quotas.max_jobs), key="maxJobs"),
    Column("queued", lambda tenant: _number(tenant.quotas.max_queued), key="maxQueued"),
    Column("concurrent", lambda tenant: _number(tenant.quotas.max_concurrent), key="maxConcurrent"),
    Column("per minute", lambda tenant: _number(tenant.quotas.max_fires_per_minute), key="maxFiresPerMinute"),
    Column("payload", lambda tenant: _number(tenant.quotas.max_payload_bytes), key="maxPayloadBytes"),
    Column("days", lambda tenant: _number(tenant.quotas.retention_days), key="retentionDays"),
]

COMMANDS = {
    "tenant": Group(
        "Tenants: whose jobs they are, their share of the fleet, and their quotas.",
        "duly tenant",
        {
            "create": Command("Make a tenant and its first key.", _configure_create, _create, "duly tenant create", changes=True),
            "list": Command("List the tenants that your key may see.", remote_options, _list, "duly tenant list"),
            "show": Command("A tenant, and what it uses.", _configure_show, _show, "duly tenant show"),
            "set": Command("Change its weight or some of its quotas.", _configure_create, _set, "duly tenant set", changes=True),
            "move": Command("Bring a tenant to another store, or take that back.", configure_move, move, "duly tenant move", MOVE_EXAMPLES),
            "key": Command("Make a key for a tenant that has lost its own.", _configure_key, _key, "duly tenant key", changes=True),
        },
    )
}
