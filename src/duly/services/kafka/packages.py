"""Kafka's packages in the user's cache: fetched by Maven, with a formatted directory and an archive of classes beside them."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from duly import config
from duly.services import ServiceFailed, ServiceMissing

# Private brokers share nothing, so they may share their name.
_CLUSTER = "ZHVseS1mb3ItdGVzdHMAAA"
_FORMAT = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


@dataclass(frozen=True, slots=True)
class Packages:
    """Where everything is."""

    directory: Path

    @property
    def template(self) -> Path:
        """A formatted data directory."""
        return self.directory / "template"

    @property
    def archive(self) -> Path:
        """The classes that a broker loads, as Java keeps them for the next start."""
        return self.directory / "classes.jsa"

    def java(self, *options: str) -> list[str]:
        """The command line up to the class to run: a small heap, no waiting for the best machine code."""
        shared = [f"-XX:SharedArchiveFile={self.archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if self.archive.exists() else []
        fixed = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.logFile=System.out"]
        # The order of the packages is part of the archive: it must be the same every time.
        path = ":".join(str(jar) for jar in sorted((self.directory / "jars").glob("*.jar")))
        return ["java", *fixed, *shared, *options, "-cp", path]


def prepared() -> Packages:
    """The packages, fetched first if they are not there. Raises ServiceMissing without Java 17 or Maven, ServiceFailed when that fails."""
    pom = files("duly.services.kafka").joinpath("pom.xml").read_text(encoding="utf-8")
    directory = config.cache_directory() / "kafka" / hashlib.sha256(pom.encode()).hexdigest()[:12]
    if shutil.which("java") is None:
        raise ServiceMissing("Kafka needs Java 17 or newer: run scripts/install-test-services")
    if not (directory / "ready").exists():
        if shutil.which("mvn") is None:
            raise ServiceMissing("Kafka's packages are fetched with Maven, which is not here: run scripts/install-test-services")
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("wb") as lock:
            # Of those who come at the same time, one fetches.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / "ready").exists():
                _prepare(directory, pom)
    return Packages(directory)


def _prepare(directory: Path, pom: str) -> None:
    packages = Packages(directory)
    for left_over in ("jars", "template", "classes.jsa"):
        path = directory / left_over
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    (directory / "pom.xml").write_text(pom, encoding="utf-8")
    _run(
        ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"],
        directory,
        "Maven did not bring Kafka",
    )
    (directory / "format.properties").write_text(_FORMAT.format(data=packages.template), encoding="utf-8")
    format_it = [*packages.java(), "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", "format.properties"]
    _run(format_it, directory, "Kafka did not format its directory")
    (directory / "ready").touch()


def _run(words: list[str], directory: Path, complaint: str) -> None:
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ServiceFailed(f"{complaint}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
