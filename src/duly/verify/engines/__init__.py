"""Engines that only hint, beside the store, while a test runs: each is started, given to the nodes through links, and broken."""
