"""Reads the files of log directories, and asks no broker: dumps, figures and checks. Nothing is changed.

``segment_walk`` steps over the batches of one file. ``dump`` makes ``rows`` of what it finds, ``side_files`` does the
same for the files beside a segment, and ``findings`` keeps what is wrong. ``selection`` is the part that a person asks
for, ``stats`` counts it. ``records`` makes records readable, ``verification`` checks a whole log.
"""
