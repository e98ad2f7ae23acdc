"""Ways to the store: poolers, certificates, several hosts, dead lines."""
