"""Whole processes: a port for metrics beside a worker, a collector that is sent traces and metrics, and nothing of it when it is off."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from duly import compose, config
from duly.domain.access import Actor, Role
from duly.domain.errors import Invalid
from duly.domain.ids import ExecutionId, job_text, parse_execution_id
from duly.domain.lifecycle import State
from duly.domain.traces import TraceContext, span_of
from duly.ports.traces import carrying
from duly.sdk import calls
from duly.sdk.client import Client
from duly.usecases.executions import Wanted
from duly.wire.jobs import JobShape, TargetShape
from tests.telemetry.promtool import promtool_says

ADMIN = Actor(1, "default", Role.ADMIN, "test")


@dataclass
class Collector:
    """Takes what is sent by OTLP over HTTP."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    # Of the last message.
    names: list[str] = field(default_factory=list)
    resources: set[str] = field(default_factory=set)
    headers: list[str] = field(default_factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
                body = await reader.readexactly(int(headers["content-length"]))
                self.receive(lines[0].split()[1], gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body, headers)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def receive(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.headers.append(headers.get("api-key", ""))
        if path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in traced.scope_spans for span in scope.spans]
                self.resources |= {one.value.string_value for one in traced.resource.attributes if one.key == "service.name"}
        elif path == "/v1/metrics":
            for told in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.names = [metric.name for scope in told.scope_metrics for metric in scope.metrics]
                for scope in told.scope_metrics:
                    for metric in scope.metrics:
                        points = metric.sum.data_points or metric.gauge.data_points
                        for point in points:
                            labels = ",".join(one.value.string_value for one in point.attributes)
                            self.metrics[f"{metric.name}/{labels}"] = point.as_double or point.as_int
                        for spread in metric.histogram.data_points:
                            self.metrics[metric.name] = self.metrics.get(metric.name, 0) + spread.count


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.take, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield collector
    finally:
        server.close()


@asynccontextmanager
async def serving(settings: config.Settings, roles: tuple[str, ...]) -> AsyncIterator[compose.Service]:
    """A process's roles, until the end of the block."""
    (node,) = await compose.open_nodes(settings)
    if "api" in roles:
        await compose.bootstrap_key(node)
    stop, started = asyncio.Event(), asyncio.Event()
    service = compose.Service(node, roles)
    running = asyncio.create_task(service.run(stop, lambda _: started.set()))
    try:
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()
        yield service
    finally:
        stop.set()
        await asyncio.gather(running, return_exceptions=True)
        await node.close()


def settings_of(tmp_path: Path, **more: str) -> config.Settings:
    return config.load({"DULY_HOME": str(tmp_path), "DULY_PORT": "0", "PATH": "/usr/bin", **more})


async def run_echo(service: compose.Service) -> ExecutionId:
    """Enqueue one, and wait until it has ended."""
    node = service.node
    (job,) = await node.jobs.create(ADMIN, [JobShape(name="echo", target=TargetShape(handler="duly.echo"))])
    (made,) = await node.executions.enqueue_for(job, [Wanted('{"secret": "not for collectors"}')])
    await until(node.executions, made.id)
    return made.id


async def until(executions: object, id: ExecutionId) -> None:
    while (await executions.show(ADMIN, id)).state is not State.SUCCEEDED:  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)


async def test_a_collector_is_sent_the_trace_and_the_metrics_of_what_was_run(tmp_path: Path) -> None:
    async with collecting() as collector:
        settings = settings_of(
            tmp_path,
            DULY_OTLP_URL=collector.url,
            DULY_OTLP_HEADERS="api-key=sesame-open-up",
            DULY_TRACE_SAMPLE="1",
            DULY_OTLP_EVERY="1h",
        )
        async with serving(settings, ("dispatcher", "worker")) as service:
            id = await run_echo(service)

    assert {span.name for span in collector.spans} == {"enqueue", "claim", "attempt echo"}
    assert {span.trace_id for span in collector.spans} == {id.bytes}
    root = next(span for span in collector.spans if span.name == "enqueue")
    assert {span.parent_span_id for span in collector.spans} == {b"", root.span_id}
    assert collector.resources == {"duly"}
    assert set(collector.headers) == {"sesame-open-up"}
    assert "not for collectors" not in str(collector.spans)
    assert collector.metrics["duly_outcomes/SUCCEEDED"] == 1
    assert collector.metrics["duly_run_seconds"] == 1
    assert collector.metrics["duly_store_up/default"] == 1


async def test_a_trace_goes_from_the_client_through_the_api_to_a_worker_elsewhere(tmp_path: Path) -> None:
    caller = TraceContext(0xABCDEF, 0x1234)
    key = "duly_" + "k" * 60
    async with collecting() as collector:
        otlp = {"DULY_OTLP_URL": collector.url, "DULY_OTLP_SENDS": "traces", "DULY_TRACE_SAMPLE": "0"}
        async with serving(settings_of(tmp_path, DULY_ADMIN_KEY=key, **otlp), ("api", "dispatcher")) as service:
            assert service.api is not None
            client = Client(service.api.url, key)
            (job,) = await service.node.jobs.create(ADMIN, [JobShape(name="echo", target=TargetShape(handler="duly.echo"))])

            def enqueue() -> list[str]:
                with carrying(caller.text):
                    within = client.send(calls.enqueue(job_text(job.id))).execution_id
                outside = client.send(calls.enqueue(job_text(job.id))).execution_id
                client.close()
                return [within, outside]

            ids = [parse_execution_id(text) for text in await asyncio.to_thread(enqueue)]
            stop = asyncio.Event()
            far = compose.RemoteService(config.load({"DULY_HOME": str(tmp_path), "DULY_KEY": key, **otlp}, url=service.api.url))
            working = asyncio.create_task(far.run(stop))
            for id in ids:
                await until(service.node.executions, id)
            stop.set()
            await working

    spans = {span.name: span for span in collector.spans}
    server, enqueued, attempt = (spans[name] for name in ("POST /v1/jobs/{jobId}/executions", "enqueue", "attempt echo"))
    # What came outside of a trace is not among them, as nobody samples here.
    assert sorted(span.name for span in collector.spans if span.name != "claim") == sorted([server.name, enqueued.name, attempt.name])
    assert {int.from_bytes(span.trace_id, "big") for span in collector.spans} == {caller.trace}
    assert int.from_bytes(server.parent_span_id, "big") == caller.span
    assert enqueued.parent_span_id == server.span_id
    assert attempt.parent_span_id == enqueued.span_id
    assert int.from_bytes(attempt.span_id, "big") == span_of(ids[0], 1)


async def test_a_worker_shows_its_metrics_on_a_port_of_its_own(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, DULY_METRICS_PORT="0", DULY_METRICS_TOKEN="open-sesame")
    async with serving(settings, ("worker",)) as service, httpx.AsyncClient(base_url=service.metrics_url or "") as client:
        await run_echo(service)
        key = {"authorization": "Bearer open-sesame"}
        shown = await client.get("/metrics", headers=key)

        assert shown.status_code == 200
        assert 'duly_outcomes_total{state="SUCCEEDED"} 1\n' in shown.text
        assert 'duly_store_up{store="default"} 1\n' in shown.text
        # Every worker would read the same of the store: it is for servers to say.
        assert "duly_executions{" not in shown.text
        assert 'duly_role_steps_total{role="worker"}' in shown.text
        opened = await client.get("/metrics", headers=key | {"accept": "application/openmetrics-text"})
        assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers={"authorization": "Bearer open-sesam"})).status_code == 401
        assert (await client.get("/", headers=key)).status_code == 404
        assert (await client.post("/metrics", headers=key)).status_code == 405
        assert (await client.head("/metrics", headers=key)).text == ""


async def test_metrics_are_not_shown_to_everybody_by_accident(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="refuses to show metrics"):
        async with serving(settings_of(tmp_path, DULY_METRICS_PORT="0", DULY_METRICS_HOST="0.0.0.0"), ("worker",)):
            pass


async def test_a_server_shows_what_it_did_and_what_the_store_says(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, DULY_ADMIN_KEY="duly_" + "k" * 60, DULY_METRICS_PUBLIC="true")
    async with serving(settings, ("api", "dispatcher", "sweeper", "worker")) as service:
        assert service.api is not None
        await run_echo(service)
        async with httpx.AsyncClient(base_url=service.api.url) as client:
            assert (await client.get("/v1/nothing")).status_code == 401
            text = (await client.get("/metrics")).text
            assert 'duly_http_requests_total{method="other",route="other",status="401"} 1\n' in text
            assert "duly_outcomes_total" in text
            await until_true(lambda: _has_shards(client))


async def test_what_a_server_shows_is_valid_to_the_last_line(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, DULY_ADMIN_KEY="duly_" + "k" * 60, DULY_METRICS_PUBLIC="true", DULY_METRICS_TENANTS="true")
    async with serving(settings, ("api", "dispatcher", "sweeper", "pruner", "alerter", "worker")) as service:
        assert service.api is not None
        await run_echo(service)
        async with httpx.AsyncClient(base_url=service.api.url) as client:
            plain = (await client.get("/metrics")).text
            opened = (await client.get("/metrics", headers={"accept": "application/openmetrics-text"})).text

    for text, parse in ((plain, parse_plain), (opened, parse_open)):
        families = list(parse(text))
        assert [name for name, count in Counter(family.name for family in families).items() if count > 1] == []
        values = {sample.name: sample.value for family in families for sample in family.samples}
        assert values["process_cpu_seconds_total"] > 0
    assert promtool_says(plain) == (0, "")


async def test_a_collector_gets_every_metric_once(tmp_path: Path) -> None:
    async with collecting() as collector:
        settings = settings_of(tmp_path, DULY_OTLP_URL=collector.url, DULY_OTLP_EVERY="1h")
        async with serving(settings, ("worker",)):
            await asyncio.sleep(0)

    assert [name for name, count in Counter(collector.names).items() if count > 1] == []
    assert collector.metrics["process_cpu_seconds/"] > 0


async def _has_shards(client: httpx.AsyncClient) -> bool:
    text = (await client.get("/metrics")).text
    return 'duly_dispatcher_shards{store="default"} 64\n' in text and 'duly_shards{standing="owned"} 64\n' in text


async def until_true(look: Callable[[], object]) -> None:
    while not await look():  # type: ignore[misc]
        await asyncio.sleep(0.1)


def test_nothing_of_it_is_imported_while_it_is_off(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from duly import compose, config
async def main():
    (node,) = await compose.open_nodes(config.load({"DULY_HOME": sys.argv[1], "DULY_METRICS": "false"}))
    service, stop = compose.Service(node, ("dispatcher", "worker")), asyncio.Event()
    await service.run(stop, lambda _: stop.set())
    assert node.telemetry is None and node.spans is None
    assert not [type(port).__module__ for port in (node.store.ready, node.store.intake) if "metered" in type(port).__module__]
    await node.close()
asyncio.run(main())
print([name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "prometheus_client", "google")])
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
