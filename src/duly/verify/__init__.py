"""The proof: what Duly promises, checked from a history of what really happened.

    history     what happened, from four sources that do not trust one another
    recording   the store's own source: triggers that write down every change in its transaction
    oracle      when schedules should fire, by brute force, sharing no line with the product
    checker     history → report: one module per family of invariants
    report      the verdict per invariant, what was counted, and the pages that show it

The checker and the oracle import nothing of Duly but this package: who judges must not ask the accused.
"""
