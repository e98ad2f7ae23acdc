"""Payloads encrypted at rest: a store around the store. What goes in is sealed, what comes out is opened."""
