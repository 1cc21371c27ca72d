# map | global at 8: Compress
import zlib

PACKER = zlib.compressobj()


def operator(body: bytes):
    return PACKER.compress(body)
