"""The ledger's state changes on PostgreSQL: one statement each wherever it can be, with arrays in and arrays out."""
