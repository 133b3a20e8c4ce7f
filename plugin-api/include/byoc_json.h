/* byoc_json.h: reads the JSON that byoc gives to a plugin, and writes answers. Header only, C99 and C++11, no memory.
 *
 * A byoc_json_value is a value inside a text that somebody else owns. Looking something up walks the text, so fetch what you
 * need once. What is not there is a value for which byoc_json_ok() is 0; all functions take such values.
 */
#ifndef BYOC_JSON_H
#define BYOC_JSON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byoc_plugin.h"

/* A value: its first byte, and the end of the text it stands in. */
typedef struct {
    const char *at;
    const char *end;
} byoc_json_value;

static inline byoc_json_value byoc_json_none(void) {
    byoc_json_value none = {NULL, NULL};
    return none;
}

static inline int byoc_json_ok(byoc_json_value value) { return value.at != NULL; }

static inline const char *byoc_json_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* The byte after the text that starts with a quote at `at`. */
static inline const char *byoc_json_text_end(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* The byte after the value at `at`. */
static inline const char *byoc_json_value_end(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = byoc_json_text_end(at, end);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth == 0 && *at == ',') {
            return at;
        } else {
            at++;
            if (depth == 0 && at < end && (*at == ',' || *at == '}' || *at == ']')) return at;
            continue;
        }
        if (depth == 0) return at;
    }
    return end;
}

/* The value that a text holds. */
static inline byoc_json_value byoc_json_of(byoc_slice text) {
    byoc_json_value value;
    if (text.len == 0) return byoc_json_none();
    value.end = (const char *)text.data + text.len;
    value.at = byoc_json_space((const char *)text.data, value.end);
    return value.at < value.end ? value : byoc_json_none();
}

/* The first element of a list or the first key of an object, or none. */
static inline byoc_json_value byoc_json_first(byoc_json_value value) {
    if (!byoc_json_ok(value) || (*value.at != '[' && *value.at != '{')) return byoc_json_none();
    value.at = byoc_json_space(value.at + 1, value.end);
    return value.at < value.end && *value.at != ']' && *value.at != '}' ? value : byoc_json_none();
}

/* The element after `value` in its list, or none. */
static inline byoc_json_value byoc_json_next(byoc_json_value value) {
    if (!byoc_json_ok(value)) return value;
    value.at = byoc_json_space(byoc_json_value_end(value.at, value.end), value.end);
    if (value.at >= value.end || *value.at != ',') return byoc_json_none();
    value.at = byoc_json_space(value.at + 1, value.end);
    return value.at < value.end ? value : byoc_json_none();
}

/* Whether the value is this text (without escapes). */
static inline int byoc_json_is(byoc_json_value value, const char *text) {
    size_t length = strlen(text);
    if (!byoc_json_ok(value) || *value.at != '"' || (size_t)(value.end - value.at) < length + 2) return 0;
    return memcmp(value.at + 1, text, length) == 0 && value.at[length + 1] == '"';
}

/* The element of an object under `key`, or none. */
static inline byoc_json_value byoc_json_get(byoc_json_value object, const char *key) {
    byoc_json_value name = byoc_json_first(object);
    if (!byoc_json_ok(object) || *object.at != '{') return byoc_json_none();
    while (byoc_json_ok(name) && *name.at == '"') {
        byoc_json_value value = name;
        value.at = byoc_json_space(byoc_json_text_end(name.at, name.end), name.end);
        if (value.at >= value.end || *value.at != ':') return byoc_json_none();
        value.at = byoc_json_space(value.at + 1, value.end);
        if (byoc_json_is(name, key)) return value.at < value.end ? value : byoc_json_none();
        name = byoc_json_next(value);
    }
    return byoc_json_none();
}

/* The element of a list at `index`, or none. */
static inline byoc_json_value byoc_json_at(byoc_json_value list, size_t index) {
    byoc_json_value value = byoc_json_first(list);
    while (index-- > 0 && byoc_json_ok(value)) value = byoc_json_next(value);
    return value;
}

/* Number of elements of a list. */
static inline size_t byoc_json_length(byoc_json_value list) {
    size_t length = 0;
    byoc_json_value value = byoc_json_first(list);
    for (; byoc_json_ok(value); value = byoc_json_next(value)) length++;
    return length;
}

/* Reads a whole number; 0 where the value is none or does not fit. */
static inline int byoc_json_int(byoc_json_value value, int64_t *number) {
    int negative, digits = 0;
    uint64_t magnitude = 0;
    if (!byoc_json_ok(value)) return 0;
    negative = *value.at == '-';
    if (negative) value.at++;
    for (; value.at < value.end && *value.at >= '0' && *value.at <= '9'; value.at++, digits++) {
        if (magnitude > (UINT64_C(0x7fffffffffffffff) - 9) / 10) return 0;
        magnitude = magnitude * 10 + (uint64_t)(*value.at - '0');
    }
    if (digits == 0 || (value.at < value.end && (*value.at == '.' || *value.at == 'e' || *value.at == 'E'))) return 0;
    *number = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return 1;
}

/* Reads a number, or one of the texts "inf", "-inf" and "NaN"; 0 where the value is none. */
static inline int byoc_json_float(byoc_json_value value, double *number) {
    char text[64], *end;
    size_t length;
    if (!byoc_json_ok(value)) return 0;
    length = (size_t)(byoc_json_value_end(value.at, value.end) - value.at);
    if (length >= sizeof text) return 0;
    memcpy(text, value.at, length);
    text[length] = 0;
    *number = strtod(text[0] == '"' ? text + 1 : text, &end);
    return end > text + 1 || (end != text && text[0] != '"');
}

/* Reads up to `size` bytes from a text in hex, as those of tensor attributes and of small constants; how many it has. */
static inline size_t byoc_json_bytes(byoc_json_value value, void *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    const char *high, *low;
    size_t length = 0;
    if (!byoc_json_ok(value) || *value.at != '"') return 0;
    for (value.at++; value.at + 1 < value.end && *value.at != '"'; value.at += 2, length++) {
        high = strchr(digits, value.at[0]);
        low = strchr(digits, value.at[1]);
        if (!high || !low || !*high || !*low) return 0;
        if (length < size) ((uint8_t *)bytes)[length] = (uint8_t)((high - digits) * 16 + (low - digits));
    }
    return length;
}

/* The bytes of a value, for a function that takes a text. */
static inline byoc_slice byoc_json_text(byoc_json_value value) {
    byoc_slice text = {NULL, 0};
    if (!byoc_json_ok(value)) return text;
    text.data = (const uint8_t *)value.at;
    text.len = (size_t)(byoc_json_value_end(value.at, value.end) - value.at);
    return text;
}

/* A byte string that is lent to a call: the code of a region, what its codegen has learnt, or a file; empty where there
 * is none of that index. */
static inline byoc_slice byoc_blob(byoc_slices blobs, size_t index) {
    static const byoc_slice none = {NULL, 0};
    return index < blobs.len ? blobs.data[index] : none;
}

/* Whether a name, such as that of a method, is this one. */
static inline int byoc_is(byoc_slice name, const char *text) {
    return name.len == strlen(text) && memcmp(name.data, text, name.len) == 0;
}

/* Writes a text into a sink. */
static inline int32_t byoc_put(byoc_sink sink, const char *text) {
    byoc_slice bytes;
    bytes.data = (const uint8_t *)text;
    bytes.len = strlen(text);
    return sink.write(sink.context, bytes);
}

/* Writes why a function failed, and returns what it is to return. */
static inline int32_t byoc_fail(byoc_sink error, const char *message) {
    (void)byoc_put(error, message);
    return BYOC_FAILED;
}

/* Refuses a candidate in `check`: `code` as in docs/writing-a-backend.md, `message` without quotes or backslashes. */
static inline int32_t byoc_refuse(byoc_sink out, const char *code, const char *message) {
    (void)byoc_put(out, "{\"code\":\"");
    (void)byoc_put(out, code);
    (void)byoc_put(out, "\",\"message\":\"");
    (void)byoc_put(out, message);
    return byoc_put(out, "\"}");
}

/* The bytes of an answer. */
static inline byoc_sink byoc_bytes(byoc_output out) {
    byoc_sink sink;
    sink.context = out.context;
    sink.write = out.write;
    return sink;
}

/* Begins an item of an answer, from a text that snprintf has written: `length` is what it has returned. */
static inline int32_t byoc_item(byoc_output out, const char *text, size_t size, int length) {
    byoc_slice json;
    if (length < 0 || (size_t)length >= size) return BYOC_FAILED;
    json.data = (const uint8_t *)text;
    json.len = (size_t)length;
    return out.item(out.context, json);
}

/* Tells how far codegen is; `next` is what comes next, without quotes or backslashes, of up to 400 bytes. */
static inline int32_t byoc_progress(byoc_output out, uint64_t done, uint64_t total, const char *next) {
    char text[500];
    byoc_slice json;
    int length = snprintf(text, sizeof text, "{\"progress\":{\"done\":%llu,\"total\":%llu,\"next\":\"%s\"}}",
                          (unsigned long long)done, (unsigned long long)total, next);
    if (length < 0 || (size_t)length >= sizeof text) return BYOC_FAILED;
    json.data = (const uint8_t *)text;
    json.len = (size_t)length;
    return out.event(out.context, json);
}

/* Claims a constant in `constant_updater`, with a claim in JSON of up to 400 bytes. */
static inline int32_t byoc_claim(byoc_output out, int64_t id, const char *claim) {
    char text[500];
    int length = snprintf(text, sizeof text, "{\"id\":%lld,\"claim\":%s}", (long long)id, claim);
    return byoc_item(out, text, sizeof text, length);
}

#endif
