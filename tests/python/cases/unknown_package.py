# map | global at 6: nothing is known
import xml.dom.minidom


def operator(item):
    return xml.dom.minidom.parseString(item)
