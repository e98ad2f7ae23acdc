"""A report for readers: one HTML file that needs nothing else, and the same in words for a terminal.

page        the HTML file
words       the lines for a terminal
standing    the sentence at the top and the plain counts, for both
lanes       targets and runs over time, with the faults behind them
curves      lateness, calm against faulty
svg         plots: scales, axes, bands, lines, bars, ticks
markup      elements and escaping
quantities  how numbers, times and durations are said
"""

from duly.verify.pages.page import render
from duly.verify.pages.words import words

__all__ = ["render", "words"]
