"""What has nothing to do with packets or Kafka: text, times, sizes, paths, numbers in columns.

In and out: values of Python. Nothing in here imports another package of kanalyze. Begin reading
with whatever module you were sent to.
"""
