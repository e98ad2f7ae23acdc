"""What the inside asks of the outside: one Protocol per consumer, each method with its promise.

Common promises of the store's ports: an awaited write has committed when it returns; nothing of a
write that raises is visible, except after `Unavailable`, where the outcome is unknown and the same
call may be repeated (every write is idempotent by its keys). Losing a race is a return value.
"""
