"""Draws the workflows of `examples/` for the docs. A test holds the pictures to the code.

python -m scripts.graphs
"""

from __future__ import annotations

from pathlib import Path

from duly.domain.workflow.picture import draw_graph
from examples.workflows import etl, order, training

TARGET = Path(__file__).parents[1] / "docs" / "explanation" / "workflows"


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    apps = (etl.app, order.app, training.app)
    found = [workflow for app in apps for workflow in app.workflows.values()]
    return {f"{workflow.name}.svg": draw_graph(workflow.spec.steps, title=workflow.name) for workflow in found}


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (TARGET / name).write_text(text, encoding="utf-8")
