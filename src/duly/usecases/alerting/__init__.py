"""Alerts: what rules are judged by (`gather`), and what people may ask of them (`alerts`)."""
