"""The command line.

Built on argparse, because starting is a feature: measured as processor time on one machine, a bare interpreter
takes 16 ms, argparse 29, click 74 and typer 125 before its first command is declared. `duly ps` also needs
http.client and the wire types (about 130 ms together), so typer alone would put it over its budget of 250 ms;
and its lazy groups hang on a private copy of click. The tree is a table in `main`: a command's module is
imported when that command is typed.
"""
