"""The worker's side of the worker protocol: the store's ports, as far as a worker needs them, over HTTP."""
