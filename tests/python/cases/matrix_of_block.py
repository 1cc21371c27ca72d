# block | stateless
import numpy as np

WEIGHTS = np.eye(3)
BIAS = np.zeros(3)


def relu(x):
    return np.where(x > 0, x, 0.0)


def operator(items):
    batch = np.stack([np.array(item, dtype=np.float32) for item in items])
    out = relu(batch @ WEIGHTS.T + BIAS)
    out[:, 0] *= 2
    norm = np.linalg.norm(out, axis=1, keepdims=True)
    return [(out / np.maximum(norm, 1e-6)).tolist()]
