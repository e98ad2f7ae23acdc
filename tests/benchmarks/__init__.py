"""The benchmarks' own code: statistics, tables, plots, and what they start."""
