/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* byoc_number.h: reads numbers from text and writes them, exactly and the same in every locale. byoc_json.h is what uses it. Header
 * only, C99 and C++11, no memory. A double is one of IEEE 754. */
#ifndef BYOC_NUMBER_H
#define BYOC_NUMBER_H

#include <string.h>

#include "byoc_plugin.h"

/* Bytes as a slice. */
static inline byoc_slice byoc_slice_of(const void *bytes, size_t len) {
    byoc_slice slice;
    slice.data = (const uint8_t *)bytes;
    slice.len = len;
    return slice;
}

/* Writes bytes into a sink. */
static inline int32_t byoc_put_bytes(byoc_sink sink, const void *bytes, size_t len) {
    return sink.write(sink.context, byoc_slice_of(bytes, len));
}

/* Writes a text into a sink. */
static inline int32_t byoc_put(byoc_sink sink, const char *text) { return byoc_put_bytes(sink, text, strlen(text)); }

/* Reads a whole number; 0 where the bytes are none or it does not fit. */
static inline int byoc_read_int(byoc_slice text, int64_t *number) {
    size_t at = text.len > 0 && (text.data[0] == '-' || text.data[0] == '+');
    int negative = at > 0 && text.data[0] == '-';
    uint64_t magnitude = 0, most = (uint64_t)INT64_MAX + (uint64_t)negative;
    if (at == text.len) return 0;
    for (; at < text.len; at++) {
        uint64_t digit = (uint64_t)text.data[at] - '0';
        if (digit > 9 || magnitude > (most - digit) / 10) return 0;
        magnitude = magnitude * 10 + digit;
    }
    *number = negative ? -(int64_t)(magnitude / 2) - (int64_t)(magnitude - magnitude / 2) : (int64_t)magnitude;
    return 1;
}

/* Writes a whole number. */
static inline int32_t byoc_put_int(byoc_sink sink, int64_t number) {
    char text[20], *at = text + sizeof text;
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + magnitude % 10);
    } while ((magnitude /= 10) > 0);
    if (number < 0) *--at = '-';
    return byoc_put_bytes(sink, at, (size_t)(text + sizeof text - at));
}

/* A number in decimal: 0.DIGITS times ten to the power of `point`. More digits than these do not decide how a double is rounded,
 * only whether there is anything behind them: `more`. */
enum { BYOC_DIGITS = 800 };
typedef struct {
    uint8_t digits[BYOC_DIGITS];
    int count, more;
    int64_t point;
} byoc_decimal;

static inline void byoc_decimal_halve(byoc_decimal *decimal) {
    int i, rest = 0;
    for (i = 0; i < decimal->count; i++) {
        int digit = rest * 10 + decimal->digits[i];
        decimal->digits[i] = (uint8_t)(digit / 2);
        rest = digit % 2;
    }
    if (rest && decimal->count < BYOC_DIGITS) decimal->digits[decimal->count++] = 5;
    else if (rest) decimal->more = 1;
    if (decimal->count == 0 || decimal->digits[0] != 0) return;
    memmove(decimal->digits, decimal->digits + 1, (size_t)--decimal->count);
    decimal->point--;
}

static inline void byoc_decimal_double(byoc_decimal *decimal) {
    int i, carry = 0;
    for (i = decimal->count; i-- > 0; carry /= 10) {
        carry += decimal->digits[i] * 2;
        decimal->digits[i] = (uint8_t)(carry % 10);
    }
    if (carry) {
        if (decimal->count == BYOC_DIGITS && decimal->digits[--decimal->count] != 0) decimal->more = 1;
        memmove(decimal->digits + 1, decimal->digits, (size_t)decimal->count++);
        decimal->digits[0] = 1;
        decimal->point++;
    }
    while (decimal->count > 0 && decimal->digits[decimal->count - 1] == 0) decimal->count--;
}

/* The bits of an infinite double. */
#define BYOC_INFINITY (UINT64_C(2047) << 52)

/* The bits of the nearest float whose mantissa has so many places and that is below two to the power of `largest`: 53 and 1024 for
 * double, 24 and 128 for float. Of two equally near ones it is the even one; what is too large is infinite. It takes whole numbers
 * alone, so that it does not matter how the processor is set to round. */
static inline uint64_t byoc_decimal_bits(byoc_decimal *decimal, int places, int largest) {
    uint64_t mantissa = 0, infinite = (uint64_t)(2 * largest - 1) << (places - 1);
    int exponent = 0, normal = 3 - largest, next, i, used;
    if (decimal->count == 0 || decimal->point < -400) return 0;
    if (decimal->point > 400) return infinite;
    /* A half or more, below one; then as many places of it as the mantissa has in front of the point. */
    for (; decimal->point > 0; exponent++) byoc_decimal_halve(decimal);
    for (; decimal->point < 0 || decimal->digits[0] < 5; exponent--) byoc_decimal_double(decimal);
    used = exponent < normal ? places + exponent - normal : places;
    if (used < 0) return 0;
    if (exponent > largest) return infinite;
    for (i = 0; i < used; i++) byoc_decimal_double(decimal);
    for (i = 0; i < (int)decimal->point; i++) mantissa = mantissa * 10 + (i < decimal->count ? decimal->digits[i] : 0u);
    next = i < decimal->count ? decimal->digits[i] : 0;
    if (next > 5 || (next == 5 && (i + 1 < decimal->count || decimal->more || mantissa % 2 == 1))) mantissa++;
    return mantissa + ((uint64_t)(exponent < normal ? 0 : exponent - normal) << (places - 1));
}

/* Reads digits, with a point and an exponent or without; 0 where the bytes are something else. */
static inline int byoc_decimal_read(byoc_decimal *decimal, const uint8_t *at, const uint8_t *end) {
    int behind = 0, any = 0, minus;
    int64_t power = 0;
    decimal->count = decimal->more = 0;
    decimal->point = 0;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !behind)); at++) {
        if (*at == '.') {
            behind = 1;
            continue;
        }
        any = 1;
        if (decimal->count == 0 && *at == '0') {
            decimal->point -= behind;
            continue;
        }
        decimal->point += !behind;
        if (decimal->count < BYOC_DIGITS) decimal->digits[decimal->count++] = (uint8_t)(*at - '0');
        else if (*at != '0') decimal->more = 1;
    }
    if (any && at < end && (*at | 32) == 'e') {
        at++;
        minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (at == end) return 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (power < INT64_MAX / 100) power = power * 10 + (*at - '0');
        decimal->point += minus ? -power : power;
    }
    return any && at == end;
}

/* Whether bytes are this word of lower-case letters, in letters of any case. */
static inline int byoc_is_word(const uint8_t *at, const uint8_t *end, const char *word) {
    for (; at < end && *word && (*at | 32) == *word; at++) word++;
    return at == end && *word == 0;
}

/* Reads the bits of a number, `places` and `largest` as above; 0 where the bytes are none. */
static inline int byoc_read_bits(byoc_slice text, int places, int largest, uint64_t *bits) {
    const uint8_t *at = text.data, *end = text.len > 0 ? text.data + text.len : text.data;
    byoc_decimal decimal;
    uint64_t infinite = (uint64_t)(2 * largest - 1) << (places - 1), sign = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    if (byoc_is_word(at, end, "inf") || byoc_is_word(at, end, "infinity")) *bits = infinite;
    else if (byoc_is_word(at, end, "nan")) *bits = infinite | UINT64_C(1) << (places - 2);
    else if (byoc_decimal_read(&decimal, at, end)) *bits = byoc_decimal_bits(&decimal, places, largest);
    else return 0;
    *bits |= sign * 2 * (uint64_t)largest << (places - 1);
    return 1;
}

/* Reads a number, exactly rounded, or "inf", "-inf" and "NaN"; 0 where the bytes are none of these. */
static inline int byoc_read_float(byoc_slice text, double *number) {
    uint64_t bits;
    if (!byoc_read_bits(text, 53, 1024, &bits)) return 0;
    memcpy(number, &bits, sizeof bits);
    return 1;
}

/* The same of an f32. A double that is cast is another one now and then: rounded twice, "7.038531e-26" is. */
static inline int byoc_read_f32(byoc_slice text, float *number) {
    uint64_t bits;
    uint32_t low;
    if (!byoc_read_bits(text, 24, 128, &bits)) return 0;
    low = (uint32_t)bits;
    memcpy(number, &low, sizeof low);
    return 1;
}

/* The decimal that a double is exactly: at most 767 digits. */
static inline byoc_decimal byoc_decimal_of(uint64_t bits) {
    byoc_decimal exact;
    uint64_t mantissa = bits & (UINT64_MAX >> 12);
    int power = (int)(bits >> 52 & 2047), i;
    if (power > 0) mantissa |= UINT64_C(1) << 52;
    exact.count = mantissa > 0 ? 16 : 0;
    exact.more = 0;
    exact.point = exact.count;
    for (i = exact.count; i-- > 0; mantissa /= 10) exact.digits[i] = (uint8_t)(mantissa % 10);
    while (exact.count > 0 && exact.digits[0] == 0) {
        memmove(exact.digits, exact.digits + 1, (size_t)--exact.count);
        exact.point--;
    }
    for (power = (power > 0 ? power : 1) - 1075; power > 0; power--) byoc_decimal_double(&exact);
    for (; power < 0; power++) byoc_decimal_halve(&exact);
    return exact;
}

/* The same with at most `count` digits, rounded, and without zeros at the end. */
static inline byoc_decimal byoc_decimal_rounded(byoc_decimal decimal, int count) {
    int up = decimal.count > count && decimal.digits[count] >= 5, last;
    if (decimal.count > count) decimal.count = count;
    for (last = decimal.count - 1; last >= 0 && decimal.digits[last] == (up ? 9 : 0); last--) decimal.count--;
    if (up && last >= 0) decimal.digits[last]++;
    if (up && last < 0) {
        decimal.digits[decimal.count++] = 1;
        decimal.point++;
    }
    return decimal;
}

/* Whether a number is neither infinite nor NaN; also under -ffast-math. */
static inline int byoc_is_finite(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & BYOC_INFINITY) != BYOC_INFINITY;
}

/* Writes a number in as few digits as it takes to read the same double again, a whole one without a point. Infinities and NaN,
 * which JSON does not have, are the texts "inf", "-inf" and "NaN", as in a region. */
static inline int32_t byoc_put_float(byoc_sink sink, double number) {
    byoc_decimal exact, shown, again;
    uint64_t bits;
    char text[32], *at = text;
    int digits = 0, point, i;
    int32_t status;
    memcpy(&bits, &number, sizeof bits);
    if (!byoc_is_finite(number))
        return byoc_put(sink, bits << 12 ? "\"NaN\"" : bits >> 63 ? "\"-inf\"" : "\"inf\"");
    if (bits >> 63) *at++ = '-';
    bits &= UINT64_MAX >> 1;
    exact = byoc_decimal_of(bits);
    do {
        shown = again = byoc_decimal_rounded(exact, ++digits);
    } while (byoc_decimal_bits(&again, 53, 1024) != bits);
    /* So many digits stand in front of the point; one where there is an exponent. */
    point = shown.point > -5 && shown.point < 18 ? (int)shown.point : 1;
    for (i = point < 1 ? point - 1 : 0; i < shown.count || i < point; i++) {
        if (i == point) *at++ = '.';
        *at++ = (char)(i >= 0 && i < shown.count ? '0' + shown.digits[i] : '0');
    }
    status = byoc_put_bytes(sink, text, (size_t)(at - text));
    if (point == shown.point) return status;
    status |= byoc_put(sink, "e");
    return status | byoc_put_int(sink, shown.point - 1);
}

#endif
