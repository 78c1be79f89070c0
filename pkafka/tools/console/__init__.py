"""What the console tools do with records: ``lines`` reads and writes them as text, ``record_filter`` chooses them.

Interfaces for classes of a user's own are in :mod:`pkafka.tools.console_plugins`, a name that is in users' programs.
"""
