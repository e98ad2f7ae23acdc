"""Targets on the wire: of jobs, and of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Raw, UnsetType

from duly.wire.shapes import NO_NUL, Label, LabelValue, Name, PoolName, Shape, pattern, shown_json

if TYPE_CHECKING:
    from duly.domain.target import HttpCall, Target

Argument = Annotated[str, Meta(max_length=8192, extra_json_schema=NO_NUL)]
VariableName = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=pattern("^[A-Za-z_][A-Za-z0-9_]*$"))]
Variable = Annotated[str, Meta(max_length=8192, extra_json_schema=NO_NUL)]
HeaderName = Annotated[str, Meta(max_length=256, extra_json_schema=NO_NUL)]
HeaderValue = Annotated[str, Meta(max_length=4096, extra_json_schema=NO_NUL)]


class HttpShape(Shape, kw_only=True):
    """A webhook: sent signed, to public addresses only unless the worker allows others."""

    url: Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://example.com/hooks/nightly"], extra_json_schema=NO_NUL)]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "POST"
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=50)] = {}
    body: Raw | UnsetType = UNSET


class TargetShape(Shape, kw_only=True):
    """Who runs it: a pool, the labels a worker needs, and exactly one of handler, http and shell."""

    pool: PoolName = "default"
    handler: Annotated[Name, Meta(examples=["duly.echo"])] | None = None
    requires: Annotated[dict[Label, LabelValue], Meta(max_length=16)] = {}
    http: HttpShape | None = None
    shell: Annotated[list[Argument], Meta(min_length=1, max_length=256, examples=[["echo", "hello"]])] | None = None
    env: Annotated[dict[VariableName, Variable], Meta(max_length=64, examples=[{"TOKEN": "${secret:env:DULY_SECRET_TOKEN}"}])] = {}


def target_shape(target: Target) -> TargetShape:
    """A target as it is read."""
    http = target.http
    return TargetShape(
        pool=target.pool,
        handler=target.handler,
        requires=target.requires,
        http=None if http is None else _http_shape(http),
        shell=None if target.shell is None else list(target.shell),
        env=target.env,
    )


def _http_shape(call: HttpCall) -> HttpShape:
    body = UNSET if call.body is None else shown_json(call.body)
    return HttpShape(url=call.url, method=call.method, headers=call.headers, body=body)  # type: ignore[arg-type]
