"""A report for readers: one HTML file that needs nothing else, and the same in words for a terminal.

markup      elements and escaping
quantities  how numbers, times and durations are said
svg         plots: scales, axes, bands, lines, bars, ticks
"""
