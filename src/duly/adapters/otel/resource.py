"""What this process is, as collectors are told."""

from __future__ import annotations

import os

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


class Told(Resource):
    """One that knows its hash: exporters ask every span for that of its resource, which is computed from all of it as text."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


def resource_of(hostname: str, version: str) -> Resource:
    """The service `duly` on this host. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES add to it and win, as with every such library."""
    own = {"service.name": "duly", "service.version": version, "host.name": hostname, "service.instance.id": f"{hostname}:{os.getpid()}"}
    return Told(Resource(own).merge(OTELResourceDetector().detect()))
