"""The ledger's state changes on SQLite: a few statements each, in one transaction of the one writer."""
