"""Jobs of Spark's. Only this room knows pyspark, and commands load it late.

``topics`` and ``segments`` are data sources. ``definition``, ``steps`` and ``runner`` are ``pk-pipeline``. ``dump``
and ``reports`` are ``pk-dump-log --spark``, and ``load`` runs a load test's generators on executors.
"""
