"""Puts the parts together: the only package that knows every adapter.

Its names are imported when they are first used: who declares jobs needs no store, and a worker no alerts.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.compose.app import App
    from duly.compose.first_key import bootstrap_key
    from duly.compose.lookout import Lookout
    from duly.compose.node import Node, open_node
    from duly.compose.service import Service
    from duly.compose.stores import is_default, moves_of, open_nodes
    from duly.compose.work import RemoteService, build_registry

__all__ = [
    "App",
    "Lookout",
    "Node",
    "RemoteService",
    "Service",
    "bootstrap_key",
    "build_registry",
    "is_default",
    "moves_of",
    "open_node",
    "open_nodes",
]

_HOMES = {
    "App": "app",
    "Lookout": "lookout",
    "Node": "node",
    "RemoteService": "work",
    "Service": "service",
    "bootstrap_key": "first_key",
    "build_registry": "work",
    "is_default": "stores",
    "moves_of": "stores",
    "open_node": "node",
    "open_nodes": "stores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
