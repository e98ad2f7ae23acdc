"""Compare the files of others that the dashboard ships with the manifest beside them.

python -m scripts.vendor            every file as it was taken, and none besides
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "src/duly/dashboard/static/vendor", ROOT / "tests/dashboard/vendor")
OURS = {"SHA256SUMS", "README.md"}


def offences(folder: Path) -> list[str]:
    """What is not as the manifest says: changed, missing, or not listed."""
    listed = dict(line.split("  ", 1)[::-1] for line in (folder / "SHA256SUMS").read_text("ascii").splitlines())
    there = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file() and path.name not in OURS}
    found = [f"{name}: not listed" for name in sorted(there.keys() - listed.keys())]
    found += [f"{name}: missing" for name in sorted(listed.keys() - there.keys())]
    return found + [f"{name}: changed" for name, path in sorted(there.items()) if name in listed and _digest(path) != listed[name]]


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    wrong = [f"{folder.relative_to(ROOT)}/{offence}" for folder in FOLDERS for offence in offences(folder)]
    print("\n".join(wrong) or "Every file is as it was taken.")
    sys.exit(1 if wrong else 0)
