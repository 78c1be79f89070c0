"""The data source ``pkafka``: topics as a table of Spark's. ``pyspark_pkafka`` is where Spark finds it.

``source`` is what Spark asks. ``options``, ``ranges`` and ``microbatches`` decide and know nothing of Spark.
``offsets`` asks the cluster; ``reading``, ``writing`` and the streams do what was decided.
"""
