"""Redis as the hot index and as the carrier of hints. Everything in it may be lost, stale or wrong: the store alone is true."""
