"""Ports kept in this process's memory."""
