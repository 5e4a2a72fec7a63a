"""The commands of ``python -m companion``: a module for those that belong together."""
