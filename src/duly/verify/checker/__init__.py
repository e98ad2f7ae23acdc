"""History → report: every promise, checked from what happened. Imports nothing of Duly but `duly.verify`."""
