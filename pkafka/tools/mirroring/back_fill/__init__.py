"""Copies the history of topics once, before MirrorMaker 2's source connector, which then goes on where this ended.

``plan`` decides what there is to do, ``copying`` does it for one partition: in a thread, or in a task of Spark's. The
offset syncs that a copy writes are its state as well: a later run goes on behind them.
"""
