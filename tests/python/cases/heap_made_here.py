# map | stateless
import heapq


def operator(item):
    heap = []
    for x in item:
        heapq.heappush(heap, x)
    return heapq.heappop(heap)
