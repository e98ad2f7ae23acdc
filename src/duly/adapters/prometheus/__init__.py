"""Metrics kept in this process; `wire/exposition` has them as text."""
