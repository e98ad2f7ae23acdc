"""The machine: clocks and randomness."""
