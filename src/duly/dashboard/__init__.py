"""The dashboard: server-rendered pages over the public API, with small islands of script.

Where a new screen goes: a module in `pages/` that declares its route and asks the API (`view.get`), a template in
`templates/pages/`, each part of it that changes by itself in `templates/fragments/<screen>/`, a line in `navigation.py`, and its
routes in `pages/__init__.py`. What several screens share is in `templates/components/`, `words.py` and `drawing/`.
"""
