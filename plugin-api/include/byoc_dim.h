/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* byoc_dim.h: computes the sizes of a shape that are expressions, such as "batch", "batch*12" or "floor(n/2) + 1". Header only, C99
 * and C++11, no memory.
 *
 * At `run` the region is not there any more. So `codegen` keeps the shapes of its inputs as a part of the code:
 *
 *     byoc_put_shapes(code, region, "inputs");
 *
 * and `run` learns from the tensors that it is given what each name stands for, and computes any other size with that:
 *
 *     byoc_symbol room[8];
 *     byoc_symbols symbols = {room, 0, 8};
 *     if (!byoc_dims_bind(shapes, inputs, &symbols)) return byoc_fail(error, "the inputs have other shapes");
 *     if (!byoc_dim(size, symbols, &rows)) return byoc_fail(error, "a size is not known");
 *
 * Where the inputs do not tell all sizes, `size_inputs` in the description has byoc add inputs that do.
 */
#ifndef BYOC_DIM_H
#define BYOC_DIM_H

#include "byoc_json.h"

/* A name and what it stands for. The name is bytes of the shape as they are there; one that is not an identifier has quotes around
 * it: 'my dim'. byoc writes each in one way only. */
typedef struct {
    byoc_slice name;
    int64_t size;
} byoc_symbol;

/* Names that are known: `len` of them, in memory for `room`. */
typedef struct {
    byoc_symbol *data;
    size_t len, room;
} byoc_symbols;

/* What an expression comes to: `number`, and `times` the symbol that is not known. */
typedef struct {
    int64_t number, times;
} byoc_dim_value;

/* How far an expression is read. */
typedef struct {
    byoc_json_value text; /* what is left of it, behind the opening quote */
    byoc_symbols known;
    byoc_slice unknown; /* the symbol in it that is not known */
    int learns;         /* whether there may be one */
    int depth;
} byoc_dim_reader;

/* Sum, product and quotient; 0 where the result does not fit, and for a quotient of 0. */
static inline int byoc_dim_add(int64_t a, int64_t b, int64_t *sum) {
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return 0;
    *sum = a + b;
    return 1;
}

static inline int byoc_dim_multiply(int64_t a, int64_t b, int64_t *product) {
    if (a > 0 && (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)) return 0;
    if (a < 0 && (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)) return 0;
    *product = a * b;
    return 1;
}

static inline int byoc_dim_divide(int64_t a, int64_t b, int up, int64_t *quotient) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return 0;
    *quotient = a / b;
    if (a % b != 0 && up == ((a < 0) == (b < 0))) *quotient += up ? 1 : -1;
    return 1;
}

/* The next character behind blanks, which are stepped over; 0 at the end, and 1 for one that is not ASCII. */
static inline char byoc_dim_next(byoc_dim_reader *reader) {
    char bytes[4];
    for (;;) {
        byoc_json_value ahead = reader->text;
        size_t length = byoc_json_char(&ahead, bytes);
        if (length != 1) return length == 0 ? 0 : 1;
        if (!strchr(" \t\n\r", bytes[0])) return bytes[0];
        if (bytes[0] == 0) return 1;
        reader->text = ahead;
    }
}

/* Whether this character is the next one; steps over it then. */
static inline int byoc_dim_eat(byoc_dim_reader *reader, char wanted) {
    char bytes[4];
    return byoc_dim_next(reader) == wanted && byoc_json_char(&reader->text, bytes) == 1;
}

/* Whether a name without quotes may have this character. */
static inline int byoc_dim_is_part(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '.';
}

/* The bytes of a name without quotes, or of a number. */
static inline byoc_slice byoc_dim_word(byoc_dim_reader *reader) {
    const char *from = reader->text.at, *at = from;
    while (at < reader->text.end && byoc_dim_is_part(*at)) at++;
    reader->text.at = at;
    return byoc_slice_of(from, (size_t)(at - from));
}

/* The bytes of a name in quotes, with them; empty where it does not end. A backslash stands before a quote and before itself. */
static inline byoc_slice byoc_dim_quoted(byoc_dim_reader *reader) {
    const char *from = reader->text.at;
    char bytes[4];
    size_t length = byoc_json_char(&reader->text, bytes);
    while ((length = byoc_json_char(&reader->text, bytes)) > 0) {
        if (length == 1 && bytes[0] == '\'') return byoc_slice_of(from, (size_t)(reader->text.at - from));
        if (length == 1 && bytes[0] == '\\') (void)byoc_json_char(&reader->text, bytes);
    }
    return byoc_slice_of(from, 0);
}

static inline int byoc_dim_is(byoc_slice a, byoc_slice b) { return a.len == b.len && memcmp(a.data, b.data, a.len) == 0; }

/* What a name stands for. */
static inline int byoc_dim_symbol(byoc_dim_reader *reader, byoc_slice name, byoc_dim_value *value) {
    size_t i;
    value->number = value->times = 0;
    if (name.len == 0) return 0;
    for (i = 0; i < reader->known.len; i++)
        if (byoc_dim_is(reader->known.data[i].name, name)) {
            value->number = reader->known.data[i].size;
            return 1;
        }
    if (!reader->learns) return 0;
    if (reader->unknown.len > 0 && !byoc_dim_is(reader->unknown, name)) return 0;
    reader->unknown = name;
    value->times = 1;
    return 1;
}

/* Adds `sign` times another value. */
static inline int byoc_dim_plus(byoc_dim_value *sum, byoc_dim_value other, int sign) {
    return byoc_dim_multiply(other.number, sign, &other.number) && byoc_dim_multiply(other.times, sign, &other.times) &&
           byoc_dim_add(sum->number, other.number, &sum->number) && byoc_dim_add(sum->times, other.times, &sum->times);
}

static inline int byoc_dim_times(byoc_dim_value *product, byoc_dim_value other) {
    int64_t left, right;
    if (product->times != 0 && other.times != 0) return 0;
    return byoc_dim_multiply(product->times, other.number, &left) && byoc_dim_multiply(product->number, other.times, &right) &&
           byoc_dim_add(left, right, &product->times) && byoc_dim_multiply(product->number, other.number, &product->number);
}

static inline int byoc_dim_over(byoc_dim_value *dividend, byoc_dim_value divisor, int up) {
    return dividend->times == 0 && divisor.times == 0 && byoc_dim_divide(dividend->number, divisor.number, up, &dividend->number);
}

static inline int byoc_dim_sum(byoc_dim_reader *reader, byoc_dim_value *value);
static inline int byoc_dim_product(byoc_dim_reader *reader, byoc_dim_value *value);
static inline int byoc_dim_factor(byoc_dim_reader *reader, byoc_dim_value *value);

/* A function, behind its opening bracket: the floor or the ceiling of a fraction, or the largest or the smallest of a list. */
static inline int byoc_dim_function(byoc_dim_reader *reader, byoc_slice name, byoc_dim_value *value) {
    const uint8_t *end = name.data + name.len;
    byoc_dim_value other;
    int up = byoc_is_word(name.data, end, "ceil"), larger = byoc_is_word(name.data, end, "max");
    if (up || byoc_is_word(name.data, end, "floor"))
        return byoc_dim_product(reader, value) && byoc_dim_eat(reader, '/') && byoc_dim_factor(reader, &other) &&
               byoc_dim_over(value, other, up) && byoc_dim_eat(reader, ')');
    if (!larger && !byoc_is_word(name.data, end, "min")) return 0;
    if (!byoc_dim_sum(reader, value)) return 0;
    while (byoc_dim_eat(reader, ',')) {
        if (!byoc_dim_sum(reader, &other) || value->times != 0 || other.times != 0) return 0;
        if (larger == (other.number > value->number)) *value = other;
    }
    return byoc_dim_eat(reader, ')');
}

/* A number, a name, a function, or a sum in brackets. */
static inline int byoc_dim_factor(byoc_dim_reader *reader, byoc_dim_value *value) {
    char next = byoc_dim_next(reader);
    byoc_slice word;
    int read;
    if (++reader->depth > 100) return 0;
    if (next == '(') {
        read = byoc_dim_eat(reader, '(') && byoc_dim_sum(reader, value) && byoc_dim_eat(reader, ')');
    } else if (next == '\'') {
        read = byoc_dim_symbol(reader, byoc_dim_quoted(reader), value);
    } else if (next >= '0' && next <= '9') {
        word = byoc_dim_word(reader);
        value->times = 0;
        read = byoc_read_int(word, &value->number);
    } else {
        word = byoc_dim_word(reader);
        read = byoc_dim_eat(reader, '(') ? byoc_dim_function(reader, word, value) : byoc_dim_symbol(reader, word, value);
    }
    reader->depth--;
    return read;
}

/* Factors with `*`, and with `//`, which rounds down. */
static inline int byoc_dim_product(byoc_dim_reader *reader, byoc_dim_value *value) {
    byoc_dim_value other;
    if (!byoc_dim_factor(reader, value)) return 0;
    for (;;) {
        byoc_json_value before = reader->text;
        if (byoc_dim_eat(reader, '*')) {
            if (!byoc_dim_factor(reader, &other) || !byoc_dim_times(value, other)) return 0;
        } else if (byoc_dim_eat(reader, '/') && byoc_dim_eat(reader, '/')) {
            if (!byoc_dim_factor(reader, &other) || !byoc_dim_over(value, other, 0)) return 0;
        } else {
            reader->text = before;
            return 1;
        }
    }
}

/* Products with `+` and `-`. */
static inline int byoc_dim_sum(byoc_dim_reader *reader, byoc_dim_value *value) {
    byoc_dim_value term;
    int sign = byoc_dim_eat(reader, '-') ? -1 : 1;
    for (value->number = value->times = 0;; sign = byoc_dim_eat(reader, '+') ? 1 : byoc_dim_eat(reader, '-') ? -1 : 0) {
        if (sign == 0) return 1;
        if (!byoc_dim_product(reader, &term) || !byoc_dim_plus(value, term, sign)) return 0;
    }
}

/* Reads a whole expression; `unknown` becomes the one symbol that is not known, where there may be one. */
static inline int byoc_dim_read(byoc_json_value size, byoc_symbols known, byoc_slice *unknown, byoc_dim_value *value) {
    byoc_dim_reader reader;
    if (!byoc_json_ok(size) || *size.at != '"') return 0;
    reader.text = size;
    reader.text.at++;
    reader.known = known;
    reader.unknown = byoc_slice_of(NULL, 0);
    reader.learns = unknown != NULL;
    reader.depth = 0;
    if (!byoc_dim_sum(&reader, value) || byoc_dim_next(&reader) != 0) return 0;
    if (unknown) *unknown = reader.unknown;
    return reader.text.at < reader.text.end && *reader.text.at == '"';
}

/* Computes a size of a shape, a number or an expression over names that are known. 0 where a name is not, where the result or what
 * leads to it does not fit, where it is divided by 0, where the size is negative, and where the value is no size. */
static inline int byoc_dim(byoc_json_value size, byoc_symbols known, int64_t *value) {
    byoc_dim_value found = {0, 0};
    if (!byoc_json_int(size, &found.number) && !byoc_dim_read(size, known, NULL, &found)) return 0;
    if (found.number < 0) return 0;
    *value = found.number;
    return 1;
}

/* Learns from an actual size what a name stands for that is alone unknown, as `n` in "n", "n*4" or "n + batch". 0 where no size of
 * it gives the actual one, and where there is no room for it. */
static inline int byoc_dim_bind(byoc_json_value size, int64_t actual, byoc_symbols *symbols) {
    byoc_dim_value value = {0, 0};
    byoc_slice name = {NULL, 0};
    int64_t rest = 0, quotient, product;
    if (!byoc_json_ok(size)) return 0;
    if (*size.at != '"') return byoc_json_int(size, &rest) && rest == actual;
    if (!byoc_dim_read(size, *symbols, &name, &value)) return 1;
    if (value.times == 0) return value.number == actual;
    if (value.number == INT64_MIN || !byoc_dim_add(actual, -value.number, &rest)) return 0;
    if (!byoc_dim_divide(rest, value.times, 0, &quotient) || quotient < 0) return 0;
    if (!byoc_dim_multiply(quotient, value.times, &product) || product != rest || symbols->len >= symbols->room) return 0;
    symbols->data[symbols->len].name = name;
    symbols->data[symbols->len++].size = quotient;
    return 1;
}

/* Learns names from the shapes of actual tensors; `shapes` is a list of as many shapes, such as byoc_put_shapes() writes. The names
 * are bytes of it. Adds to what `symbols` already has. 0 where a shape is another one, where sizes contradict each other, and where
 * there is no room for all names. A size with several unknown names, or with one in a function, teaches nothing. */
static inline int byoc_dims_bind(byoc_json_value shapes, byoc_tensors tensors, byoc_symbols *symbols) {
    size_t before, i;
    do {
        byoc_json_value shape = byoc_json_first(shapes);
        before = symbols->len;
        for (i = 0; i < tensors.len; i++, shape = byoc_json_next(shape)) {
            byoc_json_value size = byoc_json_first(shape);
            int32_t axis;
            if (!byoc_json_ok(shape)) return 0;
            for (axis = 0; axis < tensors.data[i].ndim; axis++, size = byoc_json_next(size))
                if (!byoc_dim_bind(size, tensors.data[i].shape[axis], symbols)) return 0;
            if (byoc_json_ok(size)) return 0;
        }
        if (byoc_json_ok(shape)) return 0;
    } while (symbols->len > before);
    return 1;
}

/* Writes the list of the shapes of a region's "inputs" or "outputs", for byoc_dims_bind() and byoc_dim() at `run`. */
static inline int32_t byoc_put_shapes(byoc_sink sink, byoc_json_value region, const char *which) {
    byoc_json_value index = byoc_json_first(byoc_json_get(region, which));
    const char *before = "[";
    int64_t value;
    int32_t status = BYOC_OK;
    for (; byoc_json_ok(index); index = byoc_json_next(index), before = ",") {
        byoc_slice shape = {NULL, 0};
        if (byoc_json_int(index, &value) && value >= 0)
            shape = byoc_json_text(byoc_json_get(byoc_json_at(byoc_json_get(region, "values"), (size_t)value), "shape"));
        if (shape.len == 0) return BYOC_FAILED;
        status |= byoc_put(sink, before);
        status |= byoc_put_bytes(sink, shape.data, shape.len);
    }
    return status | byoc_put(sink, *before == '[' ? "[]" : "]");
}

#endif
