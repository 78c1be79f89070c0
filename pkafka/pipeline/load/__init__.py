"""A load test whose generators are tasks of Spark's.

Spark only puts the generators on its executors. Each opens a connection to the driver and says the same as a process
of a test without Spark (:mod:`pkafka.tools.load.perf_test.generator`). So one program leads both kinds of test: all
generators begin at one moment, windows are reported while they come, and Ctrl-C ends the test with a report. No record
goes through the JVM.

``spark_load`` starts Spark and its tasks, ``executors`` is the driver's way to them, ``task`` is what an executor does.
``tables`` makes tables of a report.
"""
