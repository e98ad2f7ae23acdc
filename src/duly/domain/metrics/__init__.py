"""Metrics as values: what is measured (`catalogue`), and how counts are kept within bounds (`tables`)."""

from duly.domain.metrics.metric import Family, Kind, Metric, Sample

__all__ = ["Family", "Kind", "Metric", "Sample"]
