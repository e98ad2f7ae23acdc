"""Puts the parts together: the only package that knows every adapter."""

from duly.compose.first_key import bootstrap_key
from duly.compose.node import App, Node, open_node
from duly.compose.service import Service
from duly.compose.work import RemoteService, build_registry

__all__ = ["App", "Node", "RemoteService", "Service", "bootstrap_key", "build_registry", "open_node"]
