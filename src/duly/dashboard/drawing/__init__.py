"""Pictures that the server draws as SVG: they are there without script, and each has its figures in words beside it."""
