"""Transfers that happen exactly once, whoever is killed and when. See README.md."""
