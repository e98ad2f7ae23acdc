"""Metrics and traces for OpenTelemetry, over OTLP."""
