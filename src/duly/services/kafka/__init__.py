"""A real Kafka broker, private to whoever started it: for tests, for `duly verify` and for trying out a fleet.

    with Kafka() as broker:
        settings = config.load({"DULY_TRANSPORT": broker.url})

One node that is broker and controller at once (KRaft), on two ports of 127.0.0.1 that it keeps over restarts. Its packages come from
Maven Central through this machine's `mvn`, once, into the user's cache: `python -m duly.services.kafka` fetches them ahead. With them go
a formatted directory that every new broker copies, and an archive of the loaded classes, so that a start takes two seconds and not
six.
"""

from __future__ import annotations

import shutil

from duly.services.kafka.packages import Packages, prepared
from duly.services.service import Service, accepts, free_port

# One node of everything, and no waiting: not for members that may still come, nor until the broker that was killed is forgotten.
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.network.threads=2
num.io.threads=4
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
controller.quorum.election.timeout.ms=200
controller.quorum.election.backoff.max.ms=100
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
delete.topic.enable=true
"""


class Kafka(Service):
    """One broker. Stopping, killing and starting again keep the data and the address."""

    name = "Kafka"
    patience = 60.0

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self._packages: Packages = prepared()
        self._settings = settings or {}
        self._options: list[str] = []
        self._controller = 0

    def archive_classes(self) -> None:
        """Once per machine: start, stop, and keep the classes that were loaded, so that the next ones start in half the time."""
        if self._packages.archive.exists():
            return
        self._options = [f"-XX:ArchiveClassesAtExit={self._packages.archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        self.start()
        self.stop()
        self._options = []

    @property
    def url(self) -> str:
        """As DULY_TRANSPORT and DULY_EVENTS take it."""
        return f"kafka://127.0.0.1:{self.port}"

    def _choose_ports(self) -> None:
        self.port, self._controller = free_port(), free_port()

    def _furnish(self) -> None:
        super()._furnish()
        shutil.copytree(self._packages.template, self.directory / "data")

    def _command(self) -> list[str]:
        text = _SETTINGS.format(port=self.port, controller=self._controller, data=self.directory / "data")
        text += "".join(f"{name}={value}\n" for name, value in self._settings.items())
        # The log is read for the word that it has started, so each start has its own.
        self.log_path.unlink(missing_ok=True)
        file = self.directory / "server.properties"
        file.write_text(text, encoding="utf-8")
        return [*self._packages.java(*self._options), "kafka.Kafka", str(file)]

    def _answers(self) -> bool:
        # It listens before it knows its own topics.
        return accepts(self.address) and "Kafka Server started" in self.last_words(200)
