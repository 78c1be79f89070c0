"""The data source ``pkafka-log``: segments of logs as a table of Spark's. Spark finds it by ``pyspark_pkafka_log``.

``source`` is what Spark asks. ``options``, ``plan``, ``index`` and ``reading`` know files and no Spark: which parts are
read, where batches begin, what they hold. ``arrow`` makes columns of batches.
"""
