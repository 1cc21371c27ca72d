"""Kernels between the text of a CSV file and columns of numbers and string codes.

This file is never imported: `runtime.compiled.build` has Numba compile its text, once
per user. One kernel serves all tuple types, so it takes columns by address. Eight bytes
are read and written at a time: texts have that much room after them.

A kernel that meets anything unusual gives up, and a slower implementation reads or
writes the rows. What it does read and write is exact: a float by the algorithm of Eisel
and Lemire (Software: Practice and Experience 51(8), 2021), and back by Giulietti's
Schubfach (2020), which gives the shortest digits that read back as the same float, and
of these the nearest: the same as `repr`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

INT, FLOAT, BOOL, TEXT, CODES, SKIPPED = range(6)  # kinds of columns

U = np.uint64
_ZERO = np.uint8(48)
_MINUS, _PLUS, _DOT, _COMMA = np.uint8(45), np.uint8(43), np.uint8(46), np.uint8(44)
_QUOTE, _RETURN, _NEWLINE = np.uint8(34), np.uint8(13), np.uint8(10)
_E, _SMALL_E, _NUL = np.uint8(69), np.uint8(101), np.uint8(0)
_SIGN = U(1 << 63)
_HIDDEN = U(1 << 52)
_FRACTION = U((1 << 52) - 1)
_INFINITE = U(0x7FF << 52)
_ALL = U((1 << 64) - 1)
_ZEROS = U(0x3030303030303030)
_LOW_BITS = U(0x0101010101010101)
_HIGH_BITS = U(0x8080808080808080)
_LONGEST_NUMBER = 40  # bytes: -1.2345678901234567e-300, and the extra bytes written
_BEHIND = 8  # bytes available after a text


@intrinsic
def load_byte(_: Any, address: Any) -> Any:
    """Return the byte at an address."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.int64), build


@intrinsic
def store_byte(_: Any, address: Any, value: Any) -> Any:
    """Write a byte to an address."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(arguments[1], where)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.uint8), build


@intrinsic
def load(_: Any, address: Any) -> Any:
    """Return the eight bytes at an address, little-endian."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(where, align=1)

    return types.uint64(types.int64), build


@intrinsic
def store(_: Any, address: Any, value: Any) -> Any:
    """Write eight bytes to an address, little-endian."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], where, align=1)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.uint64), build


@intrinsic
def load_int32(_: Any, address: Any) -> Any:
    """Return the 32-bit integer at an address."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(where, align=1), ir.IntType(64))

    return types.int64(types.int64), build


@intrinsic
def store_int32(_: Any, address: Any, value: Any) -> Any:
    """Write a 32-bit integer to an address."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        narrow = builder.trunc(arguments[1], ir.IntType(32))
        builder.store(narrow, where, align=1)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.int64), build


@intrinsic
def count_zeros(_: Any, value: Any) -> Any:
    """Return the number of trailing zero bits; the value must not be zero."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), build


@intrinsic
def count_leading(_: Any, value: Any) -> Any:
    """Return the number of leading zero bits; the value must not be zero."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), build


@intrinsic
def multiply_high(_: Any, one: Any, two: Any) -> Any:
    """Return the upper 64 of the 128 bits of a product."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(a, wide) for a in arguments))
        upper = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), build


@intrinsic
def float_of(_: Any, bits: Any) -> Any:
    """Return the float with the given bits."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), build


@intrinsic
def bits_of(_: Any, value: Any) -> Any:
    """Return the bits of a float."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), build


@njit
def spell_eight(n):
    """Return the eight decimal digits of a number as the bytes of text."""
    high = n // U(10000)
    halves = high | (n - high * U(10000)) << U(32)
    hundreds = ((halves * U(10486)) >> U(20)) & U(0x7F0000007F)
    pairs = hundreds | (halves - hundreds * U(100)) << U(16)
    tens = ((pairs * U(103)) >> U(10)) & U(0x000F000F000F000F)
    return (tens | (pairs - tens * U(10)) << U(8)) + _ZEROS


@njit
def put_small(at, n):
    """Write a number below 10**8 without leading zeros; return its end."""
    text = spell_eight(n)
    zeros = count_zeros((text ^ _ZEROS) | U(1 << 56)) & ~7
    store(at, text >> U(zeros))
    return at + 8 - (zeros >> 3)


@njit
def put_number(at, n):
    """Write a number; return its end."""
    if n < U(100000000):
        return put_small(at, n)
    upper = n // U(100000000)
    if upper < U(100000000):
        at = put_small(at, upper)
    else:
        top = upper // U(100000000)
        at = put_small(at, top)
        store(at, spell_eight(upper - top * U(100000000)))
        at += 8
    store(at, spell_eight(n - upper * U(100000000)))
    return at + 8


@njit
def put_int(at, value):
    """Write an integer; return its end."""
    if value >= 0:
        return put_number(at, U(value))
    store_byte(at, _MINUS)
    return put_number(at + 1, U(0) - U(value))


@njit
def round_to_odd(high, low, n):
    """Return the upper bits of a 128-bit product; the last tells if more follow."""
    middle = high * n
    total = middle + multiply_high(low, n)
    upper = multiply_high(high, n) + U(total < middle)
    return upper | U(total > U(1))


@njit
def find_digits(bits, powers):
    """Return the shortest digits of a positive finite float, and their exponent."""
    fraction = bits & _FRACTION
    biased = np.int64(bits >> U(52))
    if biased != 0:
        c = fraction | _HIDDEN
        q = biased - 1075
        if -53 < q <= 0 and c & ((U(1) << U(-q)) - U(1)) == 0:
            return c >> U(-q), 0
    else:
        c = fraction
        q = -1074
    closer = fraction == 0 and biased > 1
    odd = c & U(1)
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    h = U(q + ((-k * 1741647) >> 19) + 1)
    power = powers + 16 * (292 - k)
    high, low = load(power), load(power + 8)
    four = c << U(2)
    below = U(1) if closer else U(2)
    lower = round_to_odd(high, low, (four - below) << h) + odd
    middle = round_to_odd(high, low, four << h)
    upper = round_to_odd(high, low, (four + U(2)) << h) - odd
    s = middle >> U(2)
    if s >= U(10):
        tenth = s // U(10)
        under = lower <= U(40) * tenth
        over = U(40) * tenth + U(40) <= upper
        if under != over:
            return tenth + U(over), k + 1
    s4 = s << U(2)
    under = lower <= s4
    over = s4 + U(4) <= upper
    if under != over:
        return s + U(over), k
    half = s4 + U(2)
    up = middle > half or (middle == half and s & U(1) != 0)
    return s + U(up), k


@njit
def put_word(at, a, b, c):
    """Write three letters; return their end."""
    store_byte(at, np.uint8(a))
    store_byte(at + 1, np.uint8(b))
    store_byte(at + 2, np.uint8(c))
    return at + 3


@njit
def put_float(at, value, powers, tens):
    """Write a float as `repr` does; return its end."""
    bits = bits_of(value)
    if bits & _SIGN and bits & ~_SIGN <= _INFINITE:
        store_byte(at, _MINUS)
        at += 1
    bits &= ~_SIGN
    if bits >= _INFINITE:
        if bits > _INFINITE:
            return put_word(at, 110, 97, 110)
        return put_word(at, 105, 110, 102)
    if bits == 0:
        return put_word(at, 48, 46, 48)
    digits, exponent = find_digits(bits, powers)
    while True:
        shorter = digits // U(100)
        if shorter * U(100) != digits:
            break
        digits = shorter
        exponent += 2
    shorter = digits // U(10)
    if shorter * U(10) == digits:
        digits = shorter
        exponent += 1
    count = 17
    while digits < load(tens + 8 * (count - 1)):
        count -= 1
    point = count + exponent  # digits before the point
    if -4 < point <= 0:
        store(at, U(0x303030302E30))  # 0.0000
        at += 2 - point
    begin, rest = at, digits
    if count == 17:
        first = digits // U(10**16)
        rest = digits - first * U(10**16)
        store_byte(begin, _ZERO + np.uint8(first))
        begin += 1
    else:
        rest = digits * load(tens + 8 * (16 - count))
    upper = rest // U(100000000)
    store(begin, spell_eight(upper))
    store(begin + 8, spell_eight(rest - upper * U(100000000)))
    if -4 < point <= 0:
        return at + count
    if point > 16 or point <= -4:
        return put_exponent(at, count, point - 1)
    if exponent >= 0:
        for i in range(at + count, at + point):
            store_byte(i, _ZERO)
        store_byte(at + point, _DOT)
        store_byte(at + point + 1, _ZERO)
        return at + point + 2
    one, two = load(at + point), load(at + point + 8)
    store_byte(at + point, _DOT)
    store(at + point + 1, one)
    store(at + point + 9, two)
    return at + count + 1


@njit
def put_exponent(at, count, exponent):
    """Write the point and exponent of a float's digits; return their end."""
    if count > 1:
        one, two = load(at + 1), load(at + 9)
        store_byte(at + 1, _DOT)
        store(at + 2, one)
        store(at + 10, two)
        count += 1
    at += count
    store_byte(at, _SMALL_E)
    store_byte(at + 1, _MINUS if exponent < 0 else _PLUS)
    n = U(abs(exponent))
    if n < U(10):
        store_byte(at + 2, _ZERO)
        at += 1
    return put_small(at + 2, n)


@njit
def put_text(at, start, stop):
    """Copy a text; return its end. Up to seven extra bytes are copied."""
    for i in range(0, stop - start, 8):
        store(at + i, load(start + i))
    return at + stop - start


@njit
def put_quoted(at, start, stop):
    """Write a text, quoted if necessary; return its end."""
    quoted = False
    for i in range(start, stop):
        letter = load_byte(i)
        store_byte(at + i - start, letter)
        if letter == _COMMA or letter == _QUOTE:
            quoted = True
        elif letter == _NEWLINE or letter == _RETURN:
            quoted = True
    if not quoted:
        return at + stop - start
    store_byte(at, _QUOTE)
    at += 1
    for i in range(start, stop):
        letter = load_byte(i)
        store_byte(at, letter)
        at += 1
        if letter == _QUOTE:
            store_byte(at, letter)
            at += 1
    store_byte(at, _QUOTE)
    return at + 1


@njit
def write_rows(first, rows, columns, width, numbers, out, size):
    """Write rows of columns, starting at `first`; return the first that did not fit.

    `columns` is the address of the kind and addresses of each: of its values, and of
    the offsets and bytes of texts. Bools have a byte each. `numbers` is the address of
    the tables' addresses, of powers and of tens; the number of bytes written goes
    behind them.
    """
    powers, tens = np.int64(load(numbers)), np.int64(load(numbers + 8))
    told = numbers + 16
    room = _LONGEST_NUMBER * width
    at = out
    for row in range(first, rows):
        begin = at
        if out + size - at < room:
            store(told, U(at - out))
            return row
        for c in range(width):
            column = columns + 32 * c
            kind, values = np.int64(load(column)), np.int64(load(column + 8))
            if kind == INT:
                at = put_int(at, np.int64(load(values + 8 * row)))
            elif kind == FLOAT:
                at = put_float(at, float_of(load(values + 8 * row)), powers, tens)
            elif kind == BOOL:
                if load_byte(values + row):
                    store(at, U(0x65757274))
                    at += 4
                else:
                    store(at, U(0x65736C6166))
                    at += 5
            else:
                place = load_int32(values + 4 * row) if kind == CODES else row
                offset = np.int64(load(column + 16)) + 4 * place
                data = np.int64(load(column + 24))
                start, stop = data + load_int32(offset), data + load_int32(offset + 4)
                if out + size - at < room + 2 * (stop - start):
                    store(told, U(begin - out))
                    return row
                if kind == CODES:  # already quoted, with room after them
                    at = put_text(at, start, stop)
                else:
                    at = put_quoted(at, start, stop)
            store_byte(at, _COMMA)
            at += 1
        if width == 1 and at - begin == 1:  # else it would be a blank line
            store_byte(begin, _QUOTE)
            store_byte(begin + 1, _QUOTE)
            at += 2
        store_byte(at - 1, _NEWLINE)
    store(told, U(at - out))
    return rows


@njit
def scale_float(digits, exponent, scales):
    """Return whether it is certain, and the float nearest to `digits *
    10**exponent`.
    """
    if exponent < -342 or exponent > 308:
        return False, 0.0
    zeros = count_leading(digits)
    w = digits << zeros
    place = scales + 16 * (exponent + 342)
    high, low = multiply_high(w, load(place)), w * load(place)
    if high & U(511) == U(511):
        more = multiply_high(w, load(place + 8))
        low += more
        if more > low:
            high += U(1)
    if low == _ALL and not -27 <= exponent <= 55:
        return False, 0.0
    upper = high >> U(63)
    shift = upper + U(9)
    mantissa = high >> shift
    power = ((217706 * exponent) >> 16) + 63 + np.int64(upper) - np.int64(zeros) + 1023
    if power <= 0:
        return False, 0.0
    if (
        low <= U(1)
        and -4 <= exponent <= 23
        and mantissa & U(3) == U(1)
        and mantissa << shift == high
    ):
        mantissa &= ~U(1)
    mantissa += mantissa & U(1)
    mantissa >>= U(1)
    if mantissa >= U(1 << 53):
        mantissa = _HIDDEN
        power += 1
    if power >= 2047:
        return False, 0.0
    return True, float_of((mantissa & _FRACTION) | U(power) << U(52))


@njit
def count_leading_digits(text):
    """Return the number of leading digits among the eight bytes."""
    off = text ^ _ZEROS  # digits become 0 to 9
    marks = ((off + U(0x7676767676767676)) | off) & _HIGH_BITS
    return 8 if marks == 0 else count_zeros(marks) >> 3


@njit
def read_eight(text):
    """Return the number that eight digits represent."""
    text -= _ZEROS
    text = text * U(10) + (text >> U(8))
    one = (text & U(0x000000FF000000FF)) * U(0x000F424000000064)
    two = ((text >> U(16)) & U(0x000000FF000000FF)) * U(0x0000271000000001)
    return (one + two) >> U(32)


@njit
def read_digits(at, number, tens):
    """Return the end of digits, and the number they make when appended to another.

    More than 19 in all are too many; the caller counts them and ignores the number.
    """
    while True:
        text = load(at)
        count = count_leading_digits(text)
        if count == 8:
            number = number * U(100000000) + read_eight(text)
            at += 8
            continue
        if count > 0:
            # Leading zeros replace what follows.
            shift = U(64 - 8 * count)
            number = number * load(tens + 8 * count) + read_eight(
                (text << shift) | (_ZEROS >> (U(64) - shift))
            )
        return at + count, number


@njit
def read_int(at, tens):
    """Return the end of an integer of at most 18 digits, and its value; or -1."""
    negative = load_byte(at) == _MINUS
    if negative:
        at += 1
    end, number = read_digits(at, U(0), tens)
    if end == at or end - at > 18:
        return -1, 0
    value = np.int64(number)
    return end, -value if negative else value


@njit
def read_float(at, tens, exact, scales):
    """Return the end of a float, and its value; or -1 if it is not certain."""
    negative = load_byte(at) == _MINUS
    if negative:
        at += 1
    begin = at
    end, digits = read_digits(at, U(0), tens)
    count, exponent = end - at, 0
    if count == 0:
        return -1, 0.0
    at = end
    if load_byte(at) == _DOT:
        end, digits = read_digits(at + 1, digits, tens)
        exponent = at + 1 - end
        if exponent == 0:
            return -1, 0.0
        count -= exponent
        at = end
    while count > 19:  # unless leading zeros are among them
        letter = load_byte(begin)
        if letter == _ZERO:
            count -= 1
        elif letter != _DOT:
            return -1, 0.0
        begin += 1
    letter = load_byte(at)
    if letter == _E or letter == _SMALL_E:
        at += 1
        sign = load_byte(at)
        if sign == _MINUS or sign == _PLUS:
            at += 1
        end, power = read_digits(at, U(0), tens)
        if end == at or end - at > 4:
            return -1, 0.0
        at = end
        exponent += -np.int64(power) if sign == _MINUS else np.int64(power)
    if digits <= U(1 << 53) and -22 <= exponent <= 22:
        value = np.float64(digits)  # both are exact, so there is only one rounding
        if exponent < 0:
            value = value / float_of(load(exact - 8 * exponent))
        else:
            value = value * float_of(load(exact + 8 * exponent))
    elif digits == 0:
        value = 0.0
    else:
        sure, value = scale_float(digits, exponent, scales)
        if not sure:
            return -1, 0.0
    return at, -value if negative else value


@njit
def find_byte(text, byte):
    """Return a flag in the highest bit of the first of eight bytes that is `byte`.

    There may be further flags after it.
    """
    off = text ^ (_LOW_BITS * byte)
    return (off - _LOW_BITS) & ~off & _HIGH_BITS


@njit
def find_end(at, end, delimiter):
    """Return the end of a field, or -1 if it needs another parser."""
    while True:
        text = load(at)
        odd = find_byte(text, U(_QUOTE)) | find_byte(text, U(_RETURN))
        odd |= find_byte(text, U(_NUL))
        marks = find_byte(text, delimiter) | find_byte(text, U(_NEWLINE))
        if marks != 0:
            length = count_zeros(marks) >> 3
            if at + length > end:
                length = end - at
            if odd != 0 and count_zeros(odd) >> 3 < length:
                return -1
            return at + length
        if odd != 0 and at + (count_zeros(odd) >> 3) < end:
            return -1
        at += 8
        if at >= end:
            return end


@njit
def find_word(start, stop, words, known):
    """Return the code of a word; a new one gets the code `known`; -1: no room.

    `words` is the address of a dictionary: the addresses of its slots, of its offsets
    and of its letters, the number of slots less one, of words and of letters.
    """
    slots, offsets = np.int64(load(words)), np.int64(load(words + 8))
    letters, mask = np.int64(load(words + 16)), np.int64(load(words + 24))
    length = stop - start
    mixed = U(length)
    for i in range(0, length, 8):
        part = load(start + i)
        if length - i < 8:
            part &= (U(1) << U(8 * (length - i))) - U(1)
        mixed = (mixed ^ part) * U(0x9E3779B97F4A7C15)
        mixed ^= mixed >> U(32)
    place = np.int64(mixed) & mask
    while True:
        number = load_int32(slots + 4 * place)
        if number < 0:
            break
        first = load_int32(offsets + 4 * number)
        if load_int32(offsets + 4 * number + 4) - first == length:
            different = U(0)
            for i in range(0, length, 8):
                part = load(start + i) ^ load(letters + first + i)
                if length - i < 8:
                    part &= (U(1) << U(8 * (length - i))) - U(1)
                different |= part
            if different == 0:
                return number
        place = (place + 1) & mask
    first = load_int32(offsets + 4 * known)
    most, room = np.int64(load(words + 32)), np.int64(load(words + 40))
    if known >= most or first + length + _BEHIND > room:
        return -1
    for i in range(length):
        store_byte(letters + first + i, load_byte(start + i))
    store_int32(offsets + 4 * known + 4, first + length)
    store_int32(slots + 4 * place, known)
    return known


@njit
def read_rows(at, size, delimiter, columns, width, rows, numbers):
    """Read rows of a text into columns; return their number.

    Return -1 if in doubt, and -2 if there are more than `rows`, the capacity. `columns`
    is the address of each field's kind, the address of its values and, for strings,
    that of their dictionary and its number of words. `numbers` is the address of the
    tables' addresses: of tens, of tens as floats, and of scales.
    """
    tens, exact = np.int64(load(numbers)), np.int64(load(numbers + 8))
    scales = np.int64(load(numbers + 16))
    end = at + size
    row = 0
    while at < end:
        if row == rows:
            return -2
        for c in range(width):
            column = columns + 32 * c
            kind, values = np.int64(load(column)), np.int64(load(column + 8))
            if kind == INT:
                at, number = read_int(at, tens)
                if at < 0:
                    return -1
                store(values + 8 * row, U(number))
            elif kind == FLOAT:
                at, value = read_float(at, tens, exact, scales)
                if at < 0:
                    return -1
                store(values + 8 * row, bits_of(value))
            else:
                start = at
                at = find_end(start, end, U(delimiter))
                if at < 0 or (width == 1 and at == start):
                    return -1  # a blank line is no row
                if kind == CODES:
                    known = np.int64(load(column + 24))
                    number = find_word(start, at, np.int64(load(column + 16)), known)
                    if number < 0:
                        return -1
                    if number == known:
                        store(column + 24, U(known + 1))
                    store_int32(values + 4 * row, number)
            if at >= end:
                if at > end or c < width - 1:
                    return -1
                break
            if load_byte(at) != (_NEWLINE if c == width - 1 else np.uint8(delimiter)):
                return -1
            at += 1
        row += 1
    return row
