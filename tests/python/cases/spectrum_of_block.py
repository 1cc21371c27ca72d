# block | stateless | push 1..1
import numpy as np

WINDOW = np.hanning(8)


def operator(items):
    signal = np.asarray([float(x) for x in items], dtype=np.float64)
    signal = signal - signal.mean()
    spectrum = np.abs(np.fft.rfft(signal * WINDOW[: len(signal)])) ** 2
    spectrum /= spectrum.sum() + 1e-9
    peak = int(np.argmax(spectrum))
    return [(peak, float(spectrum[peak]))]
