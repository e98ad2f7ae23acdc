"""What starts quickly stays so: by what is imported, and by the processor's time, which a busy machine takes little from."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.package.starting import processor_seconds

# Measured (benchmarks/startup.py): what costs a start more than a few milliseconds.
HEAVY = {
    "asyncio",
    "asyncpg",
    "confluent_kafka",
    "cryptography",
    "dateutil",
    "django",
    "fastapi",
    "httptools",
    "logging",
    "msgspec",
    "redis",
    "sqlalchemy",
    "sqlite3",
    "ssl",
    "starlette",
    "uvicorn",
    "uvloop",
    "zoneinfo",
}
# What the SDK needs of these; the engines and the server come when they are used.
OF_THE_SDK = {"asyncio", "dateutil", "httptools", "logging", "msgspec", "sqlite3", "ssl", "zoneinfo"}


def imported(code: str) -> set[str]:
    """The modules that a fresh interpreter has after this code, by their first names, and those of ours in full."""
    told = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=True)
    names = json.loads(done.stdout.splitlines()[-1])
    return {name.partition(".")[0] for name in names} | {name for name in names if name.startswith("duly.")}


@pytest.mark.parametrize("code", ["import duly", "import duly.cli.main as main\nmain.main(['--help'])"])
def test_an_import_and_the_help_need_nothing_heavy(code: str) -> None:
    found = imported(code)

    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("duly.")} <= {"duly.cli", "duly.cli.main"}


def test_an_application_is_declared_without_any_engine_or_server() -> None:
    found = imported("from duly import App, Context, Retry\nApp('shop').job(name='x', cron='0 3 * * *')(lambda: None)")

    assert found & HEAVY <= OF_THE_SDK


def test_a_command_that_asks_a_server_needs_neither_schedules_nor_a_store() -> None:
    found = imported("import duly.cli.ps")

    assert found & HEAVY <= {"msgspec", "ssl"}
    parts = {name.split(".")[1] for name in found if name.startswith("duly.")}
    assert parts & {"adapters", "compose", "dashboard", "executors", "http", "roles", "usecases"} == set()
    assert found & {"duly.domain.cron", "duly.domain.execution", "duly.domain.job", "duly.domain.schedule", "duly.domain.zones"} == set()


def test_an_application_is_declared_without_the_store_that_it_will_reach() -> None:
    found = imported("from duly import App\nApp('shop')")

    parts = {name.split(".")[1] for name in found if name.startswith("duly.")}
    assert parts & {"adapters", "dashboard", "http", "roles"} == set()
    assert found & {"duly.compose.node", "duly.ports.store"} == set()


def test_a_process_that_may_use_kafka_loads_its_library_when_it_has_to_speak_or_to_listen() -> None:
    found = imported(
        "import asyncio\nfrom duly.adapters.kafka.address import parse_address\nfrom duly.adapters.kafka.transport import KafkaTransport\n"
        "from duly.adapters.sql.bell import Bell\n"
        "async def begin():\n"
        "    kafka = KafkaTransport(parse_address('kafka://127.0.0.1:9092', 'DULY_TRANSPORT'), Bell())\n"
        "    await kafka.wait_cancel(0)\n"
        "asyncio.run(begin())"
    )

    assert "confluent_kafka" not in found


def test_the_plugin_costs_those_nothing_who_do_not_use_it() -> None:
    found = imported("import pytest\nimport duly.testing.plugin")

    assert {name for name in found if name.startswith("duly.")} <= {"duly.testing", "duly.testing.plugin"}


def test_the_help_starts_within_its_budget_of_processor_time() -> None:
    assert processor_seconds("-m", "duly.cli.main", "--help") < 0.150
