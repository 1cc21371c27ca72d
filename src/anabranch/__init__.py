"""Anabranch: stream programs that parallelise themselves, safely."""
