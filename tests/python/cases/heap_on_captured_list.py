# map | global at 8: heap
import heapq

heap = []


def operator(item):
    heapq.heappush(heap, item)
    return heap[0]
