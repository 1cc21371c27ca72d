# map | stateless
import xml.sax.saxutils

from anabranch.graph.declarations import trust

trust("xml.sax.saxutils")


def operator(item):
    return xml.sax.saxutils.escape(item)
