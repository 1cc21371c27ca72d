# aggregate by a | global at 6: windows
windows = []


def operator(items):
    windows.append(len(items))
    return len(windows)
