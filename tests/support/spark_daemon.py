"""The process from which Spark forks Python workers, with the imports of our tasks made once."""

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import kanalyze.batch.archive.tasks
import kanalyze.spark.archive
import kanalyze.spark.source.datasource  # noqa: F401

if __name__ == "__main__":
    manager()
