# map | stateless
import base64
import struct
import zlib


def operator(body: bytes):
    packed = zlib.compress(body, 6)
    header = struct.pack("<II", len(body), zlib.crc32(body))
    ratio = len(packed) / max(len(body), 1)
    return base64.b64encode(header + packed).decode("ascii"), ratio
