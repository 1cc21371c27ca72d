"""The process that workers are forked from."""

import platform
import subprocess
import sys

import pytest

from anabranch.engines.spark import daemon
from anabranch.engines.spark.daemon import prefer_installed_pyspark


def test_pyspark_is_read_from_where_it_is_installed(monkeypatch):
    zipped = "/site/pyspark/python/lib/pyspark.zip"
    monkeypatch.setattr(sys, "path", [zipped, "/site/py4j.zip", "/site"])

    prefer_installed_pyspark()

    assert ["/site/py4j.zip", "/site"] == sys.path


def test_a_zip_file_of_another_installation_stays(monkeypatch):
    paths = ["/opt/spark/python/lib/pyspark.zip", "/site"]
    monkeypatch.setattr(sys, "path", list(paths))

    prefer_installed_pyspark()

    assert paths == sys.path


# A worker whose other end, Spark, is there or gone; and what serves its tasks.
WORKER = """
import os, socket, sys
from anabranch.engines.spark.daemon import end_quietly

here, spark = socket.socketpair()
infile = os.fdopen(os.dup(here.fileno()), "rb")
outfile = os.fdopen(os.dup(here.fileno()), "wb")

def serve(infile, outfile):
    print(infile.read(4).decode(), flush=True)
    if "lost" in sys.argv:
        spark.close()
    outfile.write(b"done")

if "task" in sys.argv:
    spark.send(b"task")
else:
    spark.close()
end_quietly(serve)(infile, outfile)
print(spark.recv(4).decode(), flush=True)
os._exit(7)
"""


@pytest.mark.parametrize(
    ("arguments", "printed", "code"),
    [
        (["task"], "task\ndone\n", 7),
        (["task", "lost"], "task\n", 1),
        ([], "", 0),
    ],
)
def test_a_worker_ends_without_a_word_where_spark_is_gone(arguments, printed, code):
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (printed, "", code) == (ended.stdout, ended.stderr, ended.returncode)


FAULTS = """
import resource, runpy, sys

daemon = runpy.run_path(sys.argv[1])
daemon["keep_freed_memory"]()

def use():
    blocks = [b"x" * (1 << 24) for _ in range(4)]

use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_is_used_again_without_faults():
    found = subprocess.run(
        [sys.executable, "-c", FAULTS, daemon.__file__],
        check=True,
        capture_output=True,
        text=True,
    )

    assert int(found.stdout) < 1000  # of 163,840 pages


ARROW_FAULTS = """
import resource, runpy, sys, time

daemon = runpy.run_path(sys.argv[1])
daemon["keep_freed_memory"]()

import numpy as np
import pyarrow as pa

if pa.default_memory_pool().backend_name != "mimalloc":
    sys.exit("skip")

def use():
    buffers = [pa.allocate_buffer(1 << 22) for _ in range(8)]
    for buffer in buffers:
        np.frombuffer(buffer, np.uint8).fill(1)

use()
found = []
for _ in range(6):
    time.sleep(0.03)  # longer than Arrow keeps it by itself
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use()
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(found))
"""


def test_memory_freed_by_arrow_is_used_again_without_faults(monkeypatch):
    monkeypatch.delenv("MIMALLOC_PURGE_DELAY", raising=False)
    found = subprocess.run(
        [sys.executable, "-c", ARROW_FAULTS, daemon.__file__],
        check=False,
        capture_output=True,
        text=True,
    )

    if found.stderr == "skip\n":
        pytest.skip("Arrow has another allocator")
    assert int(found.stdout) < 1000  # some thousands without
