"""Checks a log on disk: ``log`` goes over its segments, ``segment`` checks one, ``producers`` what its producers wrote.

All of them add to one ``report``.
"""
