"""Helpers in kernel text: powers, rounding and dates, exactly as in Python.

Each returns whether it gave up, and the result. The order of operations is exactly the
one written here; that makes them exact.
"""

from __future__ import annotations

_HEAD = '@njit(nogil=True, error_model="numpy", fastmath=False)\n'

INT_POWER = (
    _HEAD
    + """def int_power(a, b):
    made = 1
    while b > 0:
        if b & 1:
            if not (-9e18 < float(made) * float(a) < 9e18):
                return (True, 0)
            made = made * a
        b = b >> 1
        if b > 0:
            if not (-9e18 < float(a) * float(a) < 9e18):
                return (True, 0)
            a = a * a
    return (False, made)
"""
)

# Python calls the C library's `pow` with the absolute value of the base. LLVM would
# turn a power of 2 into `x * x`, which can differ in the last bit; it cannot know that
# `zero`, read from an array, changes nothing.
FLOAT_POWER = (
    _HEAD
    + """def float_power(a, b, zero):
    if math.isnan(a) or math.isinf(a) or math.isnan(b) or math.isinf(b):
        return (True, 0.0)
    if b == 0.0:
        return (False, 1.0)
    odd = np.fmod(abs(b), 2.0) == 1.0
    if a == 0.0:
        if b < 0.0:
            return (True, 0.0)
        return (False, a if odd else 0.0)
    if a < 0.0 and b != np.floor(b):
        return (True, 0.0)
    made = math.pow(abs(a), b + zero)
    if math.isinf(made) or made < 2.3e-308:
        return (True, 0.0)
    return (False, -made if a < 0.0 and odd else made)
"""
)

# Python rounds the exact decimal value, half to even. The product with a power of ten
# and its rounding error (Dekker) are exact together; the quotient of two integers below
# 2^53 and 10^22 is the float nearest to the decimal.
ROUND_DIGITS = (
    _HEAD
    + """def round_digits(x, scale):
    if math.isnan(x) or math.isinf(x):
        return (False, x)
    a = abs(x)
    if a < 1e-200:
        return (False, math.copysign(0.0, x))
    p = a * scale
    if not (p < 4503599627370496.0):
        return (True, 0.0)
    t = 134217729.0 * a
    ah = t - (t - a)
    al = a - ah
    t = 134217729.0 * scale
    sh = t - (t - scale)
    sl = scale - sh
    e = ((ah * sh - p) + ah * sl + al * sh) + al * sl
    f = np.floor(p)
    d = p - f
    odd = np.fmod(f, 2.0) == 1.0
    if d > 0.5 or (d == 0.5 and (e > 0.0 or (e == 0.0 and odd))):
        f = f + 1.0
    return (False, math.copysign(f / scale, x))
"""
)

# Year, month and day of a day number since 1970: years begin in March, so that the leap
# day is the last of its year.
CIVIL = (
    _HEAD
    + """def civil(days):
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    return (year, month, day)
"""
)
