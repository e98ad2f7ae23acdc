"""Writes the Grafana dashboard. A test holds the file to it, and every metric in it to the catalogue.

python -m scripts.grafana
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "deploy" / "grafana" / "duly.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDE, HALF, THIRD, QUARTER = 24, 12, 8, 6
HEIGHT = 8

Panel = tuple[str, str, list[tuple[str, str]], int]


def _rate(name: str) -> str:
    return f"sum by (operation) (rate({name}[$__rate_interval]))"


ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Is it well?",
        [
            ("Store answers", "none", [("min by (store) (duly_store_up)", "{{store}}")], QUARTER),
            ("Dispatchers", "none", [("max(duly_dispatchers)", "dispatchers")], QUARTER),
            ("Dead letters", "none", [("max(duly_dead_letters)", "open")], QUARTER),
            ("Workers", "none", [("max by (pool) (duly_pool_workers)", "{{pool}}")], QUARTER),
        ],
    ),
    (
        "Work",
        [
            ("Ends", "ops", [("sum by (state) (rate(duly_outcomes_total[$__rate_interval]))", "{{state}}")], HALF),
            ("Attempts", "ops", [("sum by (outcome) (rate(duly_attempts_total[$__rate_interval]))", "{{outcome}}")], HALF),
            (
                "Made, fired and retried",
                "ops",
                [
                    ("sum(rate(duly_executions_created_total[$__rate_interval]))", "made"),
                    ("sum(rate(duly_fires_total[$__rate_interval]))", "fired"),
                    ("sum(rate(duly_retries_total[$__rate_interval]))", "retried"),
                ],
                HALF,
            ),
            (
                "Missing and overrunning",
                "none",
                [("max(duly_fires_missing)", "fires not on record"), ("max(duly_overruns)", "overrun")],
                HALF,
            ),
            ("Skipped", "ops", [("sum by (reason) (rate(duly_skips_total[$__rate_interval]))", "{{reason}}")], HALF),
        ],
    ),
    (
        "On time?",
        [
            (
                "Fires are late by",
                "s",
                [
                    (f"histogram_quantile({q}, sum by (le) (rate(duly_fire_lateness_seconds_bucket[$__rate_interval])))", f"p{q * 100:g}")
                    for q in (0.5, 0.99)
                ],
                THIRD,
            ),
            (
                "Starts are late by",
                "s",
                [
                    (f"histogram_quantile({q}, sum by (le) (rate(duly_start_lateness_seconds_bucket[$__rate_interval])))", f"p{q * 100:g}")
                    for q in (0.5, 0.99)
                ],
                THIRD,
            ),
            (
                "Attempts run for",
                "s",
                [
                    (f"histogram_quantile({q}, sum by (le) (rate(duly_run_seconds_bucket[$__rate_interval])))", f"p{q * 100:g}")
                    for q in (0.5, 0.99)
                ],
                THIRD,
            ),
        ],
    ),
    (
        "Queues and pools",
        [
            ("Ready, by route", "none", [("max by (pool, labels, handler) (duly_queue_depth)", "{{pool}} {{labels}} {{handler}}")], HALF),
            (
                "Longest wait, by route",
                "s",
                [("max by (pool, labels, handler) (duly_queue_oldest_wait_seconds)", "{{pool}} {{labels}} {{handler}}")],
                HALF,
            ),
            (
                "Slots",
                "none",
                [
                    ("max by (pool) (duly_pool_running)", "{{pool}} running"),
                    ("max by (pool) (duly_pool_slots)", "{{pool}} slots"),
                    ("max by (pool) (duly_pool_pending)", "{{pool}} pending"),
                ],
                THIRD,
            ),
            (
                "Longest run",
                "s",
                [
                    ("max by (pool) (duly_pool_longest_run_seconds)", "{{pool}}"),
                    ("max by (pool) (duly_pool_oldest_wait_seconds)", "{{pool}} waits"),
                ],
                THIRD,
            ),
            ("Workers that are needed", "none", [("max by (pool) (duly_pool_recommended_replicas)", "{{pool}}")], THIRD),
            ("Where executions stand", "none", [("max by (state) (duly_executions)", "{{state}}")], HALF),
            (
                "By tenant",
                "none",
                [
                    ("max by (tenant) (duly_tenant_pending)", "{{tenant}} ready"),
                    ("max by (tenant) (duly_tenant_oldest_wait_seconds)", "{{tenant}} waits"),
                ],
                HALF,
            ),
        ],
    ),
    (
        "Store",
        [
            (
                "A batch takes (p99)",
                "s",
                [("histogram_quantile(0.99, sum by (le, operation) (rate(duly_store_seconds_bucket[$__rate_interval])))", "{{operation}}")],
                THIRD,
            ),
            (
                "A batch is (mean)",
                "none",
                [
                    (
                        f"{_rate('duly_batch_size_sum')} / {_rate('duly_batch_size_count')}",
                        "{{operation}}",
                    )
                ],
                THIRD,
            ),
            (
                "Errors",
                "ops",
                [("sum by (operation, kind) (rate(duly_store_errors_total[$__rate_interval]))", "{{operation}} {{kind}}")],
                THIRD,
            ),
            ("Ping", "s", [("max by (instance, store) (duly_store_ping_seconds)", "{{instance}} {{store}}")], THIRD),
            ("Stale writes refused", "ops", [("sum by (write) (rate(duly_refused_writes_total[$__rate_interval]))", "{{write}}")], THIRD),
            ("Clock ahead of the store's", "s", [("max by (instance) (duly_clock_skew_seconds)", "{{instance}}")], THIRD),
        ],
    ),
    (
        "Roles",
        [
            ("Steps fail", "ops", [("sum by (role, kind) (rate(duly_role_failures_total[$__rate_interval]))", "{{role}} {{kind}}")], THIRD),
            (
                "Steps take (p99)",
                "s",
                [("histogram_quantile(0.99, sum by (le, role) (rate(duly_role_step_seconds_bucket[$__rate_interval])))", "{{role}}")],
                THIRD,
            ),
            ("Steps", "ops", [("sum by (role) (rate(duly_role_steps_total[$__rate_interval]))", "{{role}}")], THIRD),
            ("What they did", "ops", [("sum by (role, what) (rate(duly_role_did_total[$__rate_interval]))", "{{role}} {{what}}")], HALF),
            ("Workers lost", "none", [("sum(increase(duly_workers_lost_total[$__rate_interval]))", "lost")], HALF),
            (
                "Shards",
                "none",
                [("max by (standing) (duly_shards)", "{{standing}}"), ("sum by (instance) (duly_dispatcher_shards)", "{{instance}}")],
                HALF,
            ),
            ("Shards change hands", "none", [("sum(max by (shard) (delta(duly_shard_epoch[$__rate_interval])))", "epochs")], HALF),
        ],
    ),
    (
        "API and processes",
        [
            ("Requests", "reqps", [("sum by (status) (rate(duly_http_requests_total[$__rate_interval]))", "{{status}}")], HALF),
            (
                "Answers take (p99)",
                "s",
                [("histogram_quantile(0.99, sum by (le, route) (rate(duly_http_request_seconds_bucket[$__rate_interval])))", "{{route}}")],
                HALF,
            ),
            (
                "Processor",
                "percentunit",
                [("rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) duly_build_info", "{{instance}}")],
                THIRD,
            ),
            ("Memory", "bytes", [("process_resident_memory_bytes and on (instance) duly_build_info", "{{instance}}")], THIRD),
            ("Open files", "none", [("process_open_fds and on (instance) duly_build_info", "{{instance}}")], THIRD),
        ],
    ),
]


def dashboard() -> dict[str, Any]:
    """The whole of it, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": {"h": 1, "w": WIDE, "x": 0, "y": y}, "panels": []})
        y, x = y + 1, 0
        for name, unit, queries, width in row:
            if x + width > WIDE:
                y, x = y + HEIGHT, 0
            panels.append(_panel(name, unit, queries, {"h": HEIGHT, "w": width, "x": x, "y": y}))
            x += width
        y += HEIGHT
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    return {
        "title": "Duly",
        "uid": "duly",
        "tags": ["duly"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }


def _panel(name: str, unit: str, queries: list[tuple[str, str]], place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(65 + nth), "expr": expr, "legendFormat": legend, "datasource": SOURCE} for nth, (expr, legend) in enumerate(queries)
    ]
    return {
        "type": "timeseries",
        "title": name,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0 if "Clock" not in name else None}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def text() -> str:
    """As the file has it."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write it."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
