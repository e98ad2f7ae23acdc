"""A plain script, or the cell of a notebook: no event loop is needed, and one that runs already does no harm.

python -m examples.script
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duly import App

app = App("script")


@app.job
def resize(path: str, width: int = 800) -> str:
    """Somebody runs `duly up examples.script:app` on the same store."""
    return f"{path}@{width}"


def main() -> list[str]:
    """Every call returns when it is committed."""
    runs = [
        app.sync.resize.enqueue("cat.png", width=400),
        app.sync.resize.enqueue_in("5m", "dog.png"),
        app.sync.resize.enqueue_at(datetime.now(UTC) + timedelta(days=1), "owl.png"),
        *app.sync.resize.enqueue_many([{"path": "a.png"}, {"path": "b.png"}]),
    ]
    app.sync.close()
    return runs


if __name__ == "__main__":
    print("\n".join(main()))
