"""The table of settings: each one row with its name, its default, how it is read and what it does. The reference is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duly.config.readers import (
    address,
    captured,
    collector,
    fraction,
    header,
    headers,
    hot_index,
    labels,
    leases,
    level,
    limits,
    names,
    networks,
    one_of,
    optional,
    payload_keys,
    switch,
    text,
    users,
    whole,
    words,
)
from duly.domain.durations import parse_duration


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: the environment variable, its default as text, how it is read, and what it does."""

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    secret: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting("DULY_HOME", ".duly", text, "The state directory: the SQLite file and the first admin key are kept here."),
    Setting(
        "DULY_STORE",
        "",
        text,
        "The store: sqlite:///file.db or postgresql://user@host,host/database. Empty: a SQLite file in DULY_HOME.",
        secret=True,
    ),
    Setting(
        "DULY_STORE_DIRECT",
        "",
        text,
        "A way to the same PostgreSQL past a pooler, by which servers and workers hear of new work at once. Empty: the way of DULY_STORE.",
        secret=True,
    ),
    Setting(
        "DULY_LEASES",
        "store",
        leases,
        "What tells who of the dispatchers is there: store, or etcd://user:password@host:2379,host:2379/prefix; etcds:// with TLS.",
        secret=True,
    ),
    Setting("DULY_ETCD_CA", "", text, "The file with the certificates that an etcds:// server is checked by. Empty: those of the system."),
    Setting("DULY_ETCD_CERT", "", text, "The file with the certificate that an etcds:// server knows us by. Empty: none."),
    Setting("DULY_ETCD_KEY", "", text, "The file with the key of that certificate. Empty: it is in the same file."),
    Setting(
        "DULY_HOT_INDEX",
        "memory",
        hot_index,
        "What is due soon, and the way of hints: memory (hints over the store), redis://user:password@host:6379/0, or rediss:// for TLS.",
        secret=True,
    ),
    Setting(
        "DULY_TRANSPORT",
        "store",
        text,
        "How workers hear that something is ready: store, or kafka://user:password@host:9092,…/prefix?tls=true; see how-to/kafka.",
        secret=True,
    ),
    Setting(
        "DULY_EVENTS",
        "",
        text,
        "Where every change of an execution is published, such as kafka://host:9092; see how-to/kafka. Empty: nowhere.",
        secret=True,
    ),
    Setting(
        "DULY_ANALYTICS",
        "",
        text,
        "Where finished executions are kept for analysis: clickhouse://user:password@host:8123/database, or clickhouses:// with TLS; see "
        "how-to/analytics. Empty: nowhere.",
        secret=True,
    ),
    Setting(
        "DULY_DEADMAN_URL",
        "",
        text,
        "Asked by the alerter with GET while the store answers and due work is dispatched: silence is the alarm. Empty: none.",
        secret=True,
    ),
    Setting("DULY_DEADMAN_EVERY", "1m", parse_duration, "How often DULY_DEADMAN_URL is asked."),
    Setting(
        "DULY_CONFIG",
        "",
        text,
        "A TOML file with the stores of an installation that has more than one, as [[stores]]. Empty: ./duly.toml if it is there. Not "
        "beside DULY_STORE.",
    ),
    Setting(
        "DULY_CONTEXT",
        "",
        text,
        "The context to use, of those that `duly context list` shows. Empty: the one chosen with `duly context use`.",
    ),
    Setting("DULY_HOST", "127.0.0.1", text, "The address the API listens on."),
    Setting("DULY_PORT", "3859", whole(0, 65_535), "The port the API listens on; 0 takes a free one."),
    Setting("DULY_ADMIN_KEY", "", text, "The first admin key of the tenant `default`. Empty: one is made at the first start.", secret=True),
    Setting(
        "DULY_URL",
        "",
        text,
        "The server that the command line and clients talk to, and workers without a DULY_STORE. Empty: http://127.0.0.1 and DULY_PORT.",
    ),
    Setting(
        "DULY_KEY",
        "",
        text,
        "The key that the command line, clients and remote workers use. Empty: DULY_ADMIN_KEY, else the one kept in DULY_HOME.",
        secret=True,
    ),
    Setting(
        "DULY_PUBLIC_URL",
        "",
        address,
        "The address that browsers see, such as https://duly.example.com or https://ops.example.com/duly: for login links, and to know our "
        "own pages behind a proxy. A proxy takes the path away before it asks.",
    ),
    Setting(
        "DULY_PROXY_AUTH_HEADER",
        "",
        header,
        "The header in which a proxy names the user that it has logged in, such as X-Forwarded-User. Needs the next two as well.",
    ),
    Setting(
        "DULY_PROXY_AUTH_FROM", "", networks, "Addresses or networks of the proxies that are believed; anybody else's header is ignored."
    ),
    Setting(
        "DULY_PROXY_AUTH_USERS",
        "",
        users,
        "Who may enter that way, and as what, such as ann@example.com=default:ADMIN, one after a comma.",
    ),
    Setting(
        "DULY_RATE_LIMIT",
        "5000",
        whole(0, 1_000_000),
        "How many requests a second each key may make on each server; 0: any number. Workers are not counted.",
    ),
    Setting("DULY_RATE_BURST", "10000", whole(1, 10_000_000), "How many of them may come at once."),
    Setting(
        "DULY_METRICS_PUBLIC", "false", switch, "Whether GET /metrics needs no key. It tells pools and their loads, and nobody's name."
    ),
    Setting("DULY_METRICS", "true", switch, "Whether this process counts what it does, for /metrics and OTLP."),
    Setting("DULY_METRICS_TENANTS", "false", switch, "Whether metrics name tenants: how much waits for each, and how long."),
    Setting(
        "DULY_METRICS_PORT",
        "",
        optional(whole(0, 65_535)),
        "A port for GET /metrics of a process that has no API, such as a worker; 0 takes a free one. Empty: none.",
    ),
    Setting("DULY_METRICS_HOST", "127.0.0.1", text, "The address of that port; one that others can reach needs DULY_METRICS_TOKEN."),
    Setting("DULY_METRICS_TOKEN", "", text, "What who reads that port must send as Authorization: Bearer. Empty: nothing.", secret=True),
    Setting(
        "DULY_OTLP_URL",
        "",
        collector,
        "Where traces and metrics are sent by OTLP over HTTP, such as http://127.0.0.1:4318. Needs duly[otel]. Empty: nowhere.",
    ),
    Setting("DULY_OTLP_SENDS", "traces,metrics", one_of("traces", "metrics"), "Which of traces and metrics are sent there."),
    Setting("DULY_OTLP_HEADERS", "", headers, "Headers for it, such as api-key=…, one after a comma.", secret=True),
    Setting("DULY_OTLP_EVERY", "15s", parse_duration, "How often metrics are sent there."),
    Setting(
        "DULY_TRACE_SAMPLE",
        "0.01",
        fraction,
        "Which part of the executions is traced, from 0 to 1. What is enqueued within a trace that is kept is traced besides.",
    ),
    Setting("DULY_POOL", "default", text, "The pool that a worker serves."),
    Setting("DULY_LABELS", "", labels, "The labels that a worker offers, such as gpu,region=eu."),
    Setting("DULY_SLOTS", "50", whole(1, 100_000), "How many executions a worker runs at once."),
    Setting("DULY_CHILDREN", "0", whole(0, 1024), 'How many child processes a worker keeps for executor="process"; 0 means one per core.'),
    Setting("DULY_WORKER_TTL", "15s", parse_duration, "How long a worker lives without a heartbeat before its work is given to others."),
    Setting("DULY_GRACE", "20s", parse_duration, "How long running handlers may take to end at a stop before they are given back."),
    Setting("DULY_RETENTION", "30d", parse_duration, "How long finished executions are kept."),
    Setting("DULY_AUDIT_RETENTION", "400d", parse_duration, "How long the audit trail is kept."),
    Setting("DULY_SHELL_POOLS", "", words, "Pools whose workers run shell jobs. Empty: none does."),
    Setting("DULY_SHELL_DIR", "", text, "The directory in which shell jobs run. Empty: that of the worker."),
    Setting(
        "DULY_SHELL_LIMITS",
        "",
        limits,
        "What a command of a shell job may use, on Linux: cpu=SECONDS, memory=512M, files=256, processes=64, size=1G (of a file).",
    ),
    Setting(
        "DULY_WEBHOOK_ALLOW",
        "",
        words,
        "Hosts, host:port or networks that webhooks may reach although they are private, such as 10.1.0.0/16.",
    ),
    Setting("DULY_WEBHOOK_HTTP", "false", switch, "Whether webhooks may use plain http to public addresses."),
    Setting("DULY_WEBHOOK_SECRET", "", text, "Signs webhooks (HMAC-SHA256). Empty: they are not signed.", secret=True),
    Setting(
        "DULY_SECRETS_ENV",
        "DULY_SECRET_*",
        names,
        'Variables of a worker that {"$secret": "env:NAME"} may name: names, or beginnings with a * at their end. Never Duly\'s own.',
    ),
    Setting("DULY_SECRETS_DIR", "", text, 'The directory of a worker in which {"$secret": "file:NAME"} finds NAME. Empty: there is none.'),
    Setting(
        "DULY_PAYLOAD_KEYS",
        "",
        payload_keys,
        "Encrypts payloads at rest: NAME:BASE64 of 32 random bytes, more of them after a comma. The first one writes, all read.",
        secret=True,
    ),
    Setting("DULY_LOG_LEVEL", "info", level, "How much Duly itself logs to standard error."),
    Setting("DULY_LOG_FORMAT", "text", text, "text for people, json for machines."),
    Setting(
        "DULY_CAPTURE",
        "logging,print",
        captured,
        "What handlers in Python say that is kept as their log, beside ctx.log: logging (the standard library's), print (standard output).",
    ),
)
