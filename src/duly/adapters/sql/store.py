"""Opens a store by its URL and puts the ports together."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from duly.adapters.sql.alerts import SqlAlerts
from duly.adapters.sql.audit import SqlAudit
from duly.adapters.sql.awaited import SqlAwaited
from duly.adapters.sql.calendars import SqlCalendars
from duly.adapters.sql.condition import SqlConditions
from duly.adapters.sql.definitions import SqlDefinitions
from duly.adapters.sql.desk import SqliteDesk
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.figures import SqlFigures
from duly.adapters.sql.fire_audit import SqlFireAudit
from duly.adapters.sql.fleet import SqlLeases, SqlLiveness
from duly.adapters.sql.flows import SqlFlows
from duly.adapters.sql.grid import SqlGrids
from duly.adapters.sql.homes import SqlHomes
from duly.adapters.sql.insights import SqlInsights
from duly.adapters.sql.keys import SqlKeys, SqlSessions
from duly.adapters.sql.letters import SqlLetters
from duly.adapters.sql.links import SqlLinks
from duly.adapters.sql.logs import SqlLogs
from duly.adapters.sql.migrate import require_current
from duly.adapters.sql.outbox import SqlOutbox
from duly.adapters.sql.readings import SqlReadings
from duly.adapters.sql.records import SqlRecords
from duly.adapters.sql.scaling import SqlPoolLoads
from duly.adapters.sql.search import SqlSearch
from duly.adapters.sql.sqlite.checkpoints import SqliteCheckpoints
from duly.adapters.sql.sqlite.dispatch import SqliteIntake, SqliteSchedules
from duly.adapters.sql.sqlite.flows import SqliteOwnFlows
from duly.adapters.sql.sqlite.sweep import SqliteCancels, SqliteLosses, SqliteRetention
from duly.adapters.sql.sqlite.work import SqliteOutcomes, SqliteReady
from duly.adapters.sql.tenants import SqlTenants
from duly.adapters.sql.traces import SqlTraces
from duly.adapters.sql.watching import OF_REPORTS, watched
from duly.adapters.sql.why import SqlFacts
from duly.domain.errors import Invalid
from duly.domain.instants import Instant
from duly.ports.store import Store
from duly.ports.telemetry import Telemetry


class SqlHealth:
    """Whether the store answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def store_now(self) -> Instant:
        return await self._engine.store_now()

    async def ping(self) -> None:
        await require_current(self._engine)

    async def close(self) -> None:
        await self._engine.close()


def open_engine(url: str) -> Engine:
    """The engine of a store URL: `sqlite:///file.db`, `sqlite://:memory:` or `postgresql://…`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = unquote(parts.netloc + parts.path) if parts.netloc == ":memory:" else unquote(parts.path.removeprefix("/"))
        if parts.path.startswith("//"):
            path = unquote(parts.path[1:])
        if not path:
            raise Invalid(
                "DULY-E601",
                f"{url!r} names no file.",
                field="DULY_STORE",
                hint="Use sqlite:///duly.db, or sqlite:////var/lib/duly/duly.db for an absolute path.",
            )
        return SqliteEngine(path)
    if parts.scheme in ("postgresql", "postgres"):
        try:
            from duly.adapters.sql.engine_postgres import PostgresEngine
        except ImportError as error:
            raise Invalid("DULY-E601", "PostgreSQL needs the extra: pip install 'duly[postgres]'.", field="DULY_STORE") from error
        return PostgresEngine(url)
    raise Invalid(
        "DULY-E601",
        f"{parts.scheme!r} is not a kind of store.",
        field="DULY_STORE",
        hint="Use sqlite:///duly.db or postgresql://user@host/database.",
    )


def store_on(engine: Engine, telemetry: Telemetry | None = None) -> Store:
    """The ports on an open engine; what they write to the ledger is told."""
    if isinstance(engine, SqliteEngine):
        reports = SqliteOutcomes(watched(engine, telemetry, OF_REPORTS))
        engine = watched(engine, telemetry)
        outcomes = SqliteOutcomes(engine)
        return Store(
            definitions=SqlDefinitions(engine),
            intake=SqliteIntake(engine),
            schedules=SqliteSchedules(engine),
            ready=SqliteReady(engine),
            outcomes=reports,
            checkpoints=SqliteCheckpoints(engine),
            liveness=SqlLiveness(engine),
            losses=SqliteLosses(engine),
            cancels=SqliteCancels(engine),
            leases=SqlLeases(engine),
            insights=SqlInsights(engine),
            retention=SqliteRetention(engine),
            keys=SqlKeys(engine),
            sessions=SqlSessions(engine),
            facts=SqlFacts(engine),
            letters=SqlLetters(engine),
            health=SqlHealth(engine),
            desk=SqliteDesk(engine, outcomes),
            calendars=SqlCalendars(engine),
            audit=SqlAudit(engine),
            tenants=SqlTenants(engine),
            search=SqlSearch(engine),
            outbox=SqlOutbox(engine),
            records=SqlRecords(engine),
            logs=SqlLogs(engine),
            homes=SqlHomes(engine),
            loads=SqlPoolLoads(engine),
            readings=SqlReadings(engine),
            conditions=SqlConditions(engine),
            traces=SqlTraces(engine),
            flows=SqlFlows(engine, SqliteOwnFlows(engine)),
            awaited=SqlAwaited(engine),
            figures=SqlFigures(engine),
            grids=SqlGrids(engine),
            fire_audit=SqlFireAudit(engine),
            alerts=SqlAlerts(engine),
            links=SqlLinks(engine),
        )
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.postgres.checkpoints import PostgresCheckpoints
    from duly.adapters.sql.postgres.definitions import create_in_bulk
    from duly.adapters.sql.postgres.desk import PostgresDesk
    from duly.adapters.sql.postgres.dispatch import PostgresIntake, PostgresSchedules
    from duly.adapters.sql.postgres.flows import PostgresOwnFlows
    from duly.adapters.sql.postgres.sweep import PostgresCancels, PostgresLosses, PostgresRetention
    from duly.adapters.sql.postgres.work import PostgresOutcomes, PostgresReady

    assert isinstance(engine, PostgresEngine)
    reporting = watched(engine, telemetry, OF_REPORTS)
    engine = watched(engine, telemetry)
    return Store(
        definitions=SqlDefinitions(engine, create_in_bulk),
        intake=PostgresIntake(engine),
        schedules=PostgresSchedules(engine),
        ready=PostgresReady(engine),
        outcomes=PostgresOutcomes(reporting),
        checkpoints=PostgresCheckpoints(engine),
        liveness=SqlLiveness(engine),
        losses=PostgresLosses(engine),
        cancels=PostgresCancels(engine),
        leases=SqlLeases(engine),
        insights=SqlInsights(engine),
        retention=PostgresRetention(engine),
        keys=SqlKeys(engine),
        sessions=SqlSessions(engine),
        facts=SqlFacts(engine),
        letters=SqlLetters(engine),
        health=SqlHealth(engine),
        desk=PostgresDesk(engine),
        calendars=SqlCalendars(engine),
        audit=SqlAudit(engine),
        tenants=SqlTenants(engine),
        search=SqlSearch(engine),
        outbox=SqlOutbox(engine),
        records=SqlRecords(engine),
        logs=SqlLogs(engine),
        homes=SqlHomes(engine),
        loads=SqlPoolLoads(engine),
        readings=SqlReadings(engine),
        conditions=SqlConditions(engine),
        traces=SqlTraces(engine),
        flows=SqlFlows(engine, PostgresOwnFlows(engine)),
        awaited=SqlAwaited(engine),
        figures=SqlFigures(engine),
        grids=SqlGrids(engine),
        fire_audit=SqlFireAudit(engine),
        alerts=SqlAlerts(engine),
        links=SqlLinks(engine),
    )
