# map | global: changes
import heapq

SEEN = []


class Job:
    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        SEEN.append(other)
        return len(SEEN) % 2 == 0


def operator(n: int):
    heap = []
    heapq.heappush(heap, Job(n))
    heapq.heappush(heap, Job(n + 1))
    return heap[0].n
