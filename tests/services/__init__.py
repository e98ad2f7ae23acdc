"""Real services for the tests, started by the tests on free ports in a temporary directory."""
