"""What has nothing to do with packets or Kafka: text, times, sizes, paths, numbers in columns.

In: values of Python. Out: values of Python. Begin reading with whatever module you were sent to:
they know nothing of each other, and nothing of other packages.
"""
