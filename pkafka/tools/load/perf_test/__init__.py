"""A load test: ``plan``, ``payload`` and ``report`` decide, ``run`` and ``fleet`` lead the processes of ``generator``.

A generator has ``producing`` and ``consuming`` clients; ``measuring`` and ``histogram`` count what they see.
``comparison`` sets reports side by side, ``plot`` draws them.
"""
