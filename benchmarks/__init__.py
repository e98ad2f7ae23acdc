"""Benchmarks: one file per question. Compare figures as ratios within one run; machines and minutes differ."""
