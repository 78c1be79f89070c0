"""Makes records readable: keys and values by ``decoders``, those of internal topics, and control records.

``plain_text`` prints many records that need no decoder, column by column.
"""
