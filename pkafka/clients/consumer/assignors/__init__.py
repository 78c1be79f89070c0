"""Which member reads which partition: the classes that ``partition.assignment.strategy`` names.

One module per assignor, so that a consumer loads only those it is configured with; ``api.py`` has what an assignor of
one's own is made of.
"""
