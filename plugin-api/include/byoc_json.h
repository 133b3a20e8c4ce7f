/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* byoc_json.h: reads the JSON that byoc gives to a plugin, and writes answers. Header only, C99 and C++11, no memory, and the
 * same in every locale. byoc_dim.h beside it computes sizes that are expressions.
 *
 * A byoc_json_value is a value inside a text that somebody else owns. Looking something up walks the text, so fetch what you
 * need once. What is not there is a value for which byoc_json_ok() is 0; all functions take such values.
 */
#ifndef BYOC_JSON_H
#define BYOC_JSON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byoc_number.h"
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

/* The quote that ends the text which starts with one at `at`, or the end where there is none. */
static inline const char *byoc_json_closing(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && end - at > 1) at++;
    return at;
}

/* The byte after the text that starts with a quote at `at`. */
static inline const char *byoc_json_text_end(const char *at, const char *end) {
    at = byoc_json_closing(at, end);
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

/* The number that a hexadecimal digit stands for, or -1. */
static inline int byoc_hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Reads \uXXXX and steps behind it; 0 where there is none. */
static inline int byoc_json_unit(byoc_json_value *text, uint32_t *unit) {
    int i, digit;
    if (text->end - text->at < 6 || text->at[0] != '\\' || text->at[1] != 'u') return 0;
    for (*unit = 0, i = 2; i < 6; i++) {
        digit = byoc_hex(text->at[i]);
        if (digit < 0) return 0;
        *unit = *unit * 16 + (uint32_t)digit;
    }
    text->at += 6;
    return 1;
}

/* Reads one character inside a text, as UTF-8 of up to 4 bytes, and steps behind it: how many bytes it has, or 0 at the closing
 * quote and where the text is cut short or an escape is wrong. Half of a surrogate pair reads as U+FFFD. */
static inline size_t byoc_json_char(byoc_json_value *text, char bytes[4]) {
    static const char written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t code, low;
    size_t length = 0, i;
    byoc_json_value ahead;
    const void *found;
    if (text->at >= text->end || *text->at == '"') return 0;
    if (*text->at != '\\') {
        do {
            bytes[length++] = *text->at++;
        } while (length < 4 && text->at < text->end && ((uint8_t)*text->at & 0xc0) == 0x80);
        return length;
    }
    if (text->end - text->at < 2) return 0;
    found = memchr(written, text->at[1], sizeof written - 1);
    if (found) {
        bytes[0] = meant[(const char *)found - written];
        text->at += 2;
        return 1;
    }
    if (!byoc_json_unit(text, &code)) return 0;
    if (code >= 0xd800 && code < 0xe000) {
        ahead = *text;
        if (code < 0xdc00 && byoc_json_unit(&ahead, &low) && low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            *text = ahead;
        } else {
            code = 0xfffd;
        }
    }
    length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (i = length; i-- > 1; code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(length == 1 ? code : (0xf00u >> length & 0xff) | code);
    return length;
}

/* Whether the value is this text; escapes in the value are read. */
static inline int byoc_json_is(byoc_json_value value, const char *text) {
    char bytes[4];
    size_t length, i;
    if (!byoc_json_ok(value) || *value.at != '"') return 0;
    value.at++;
    while ((length = byoc_json_char(&value, bytes)) > 0)
        for (i = 0; i < length; i++, text++)
            if (*text == 0 || *text != bytes[i]) return 0;
    return *text == 0 && value.at < value.end && *value.at == '"';
}

/* Copies a text, its escapes read, into `size` bytes with a zero behind it: how many bytes it has without that zero. Where that is
 * `size` or more, the copy is cut behind a whole character. 0, and an empty copy, where the value is not a text. */
static inline size_t byoc_json_string(byoc_json_value value, char *buffer, size_t size) {
    char bytes[4];
    size_t length, needed = 0, kept = 0;
    if (size > 0) buffer[0] = 0;
    if (!byoc_json_ok(value) || *value.at != '"') return 0;
    value.at++;
    while ((length = byoc_json_char(&value, bytes)) > 0) {
        if (kept == needed && length < size - kept) {
            memcpy(buffer + kept, bytes, length);
            kept += length;
        }
        needed += length;
    }
    if (value.at >= value.end || *value.at != '"') needed = kept = 0;
    if (size > 0) buffer[kept] = 0;
    return needed;
}

/* The value behind a key of an object, or none. */
static inline byoc_json_value byoc_json_behind(byoc_json_value key) {
    if (!byoc_json_ok(key) || *key.at != '"') return byoc_json_none();
    key.at = byoc_json_space(byoc_json_text_end(key.at, key.end), key.end);
    if (key.at >= key.end || *key.at != ':') return byoc_json_none();
    key.at = byoc_json_space(key.at + 1, key.end);
    return key.at < key.end ? key : byoc_json_none();
}

/* The element of an object under `key`, or none. */
static inline byoc_json_value byoc_json_get(byoc_json_value object, const char *key) {
    byoc_json_value name = byoc_json_first(object), value;
    if (!byoc_json_ok(object) || *object.at != '{') return byoc_json_none();
    for (; byoc_json_ok(name); name = byoc_json_next(value)) {
        value = byoc_json_behind(name);
        if (!byoc_json_ok(value) || byoc_json_is(name, key)) return value;
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

/* The bytes of a number or of a word such as `true`; empty for any other value. */
static inline byoc_slice byoc_json_word(byoc_json_value value) {
    byoc_slice word = {NULL, 0};
    if (!byoc_json_ok(value) || strchr("\"[{", *value.at)) return word;
    word.data = (const uint8_t *)value.at;
    while (value.at < value.end && !memchr(",]} \t\n\r", *value.at, 7)) value.at++, word.len++;
    return word;
}

/* The bytes between the quotes of a text, with escapes as they are; empty for any other value, and for one that is cut short. */
static inline byoc_slice byoc_json_inside(byoc_json_value value) {
    byoc_slice inside = {NULL, 0};
    const char *end;
    if (!byoc_json_ok(value) || *value.at != '"') return inside;
    end = byoc_json_closing(value.at, value.end);
    if (end == value.end) return inside;
    inside.data = (const uint8_t *)value.at + 1;
    inside.len = (size_t)(end - value.at) - 1;
    return inside;
}

/* Whether a name, such as that of a method, is this one. */
static inline int byoc_is(byoc_slice name, const char *text) {
    return name.len == strlen(text) && (name.len == 0 || memcmp(name.data, text, name.len) == 0);
}

/* Reads `true` or `false`; 0 where the bytes are neither. */
static inline int byoc_read_bool(byoc_slice text, int *truth) {
    if (!byoc_is(text, "true") && !byoc_is(text, "false")) return 0;
    *truth = byoc_is(text, "true");
    return 1;
}

/* Reads a whole number; 0 where the value is none or does not fit. */
static inline int byoc_json_int(byoc_json_value value, int64_t *number) { return byoc_read_int(byoc_json_word(value), number); }

/* Reads whole numbers of a list, up to `size`, into `numbers`: how many the list has, or 0 where one of its elements is not a whole
 * number, such as a size that is an expression. */
static inline size_t byoc_json_ints(byoc_json_value list, int64_t *numbers, size_t size) {
    byoc_json_value value = byoc_json_first(list);
    size_t length = 0;
    int64_t number;
    for (; byoc_json_ok(value); value = byoc_json_next(value), length++) {
        if (!byoc_json_int(value, &number)) return 0;
        if (length < size) numbers[length] = number;
    }
    return length;
}

/* Reads a number, or the text of one, such as "inf", "-inf" and "NaN"; 0 where the value is none. */
static inline int byoc_json_float(byoc_json_value value, double *number) {
    byoc_slice inside = byoc_json_inside(value);
    return byoc_read_float(inside.len > 0 ? inside : byoc_json_word(value), number);
}

/* The same as an f32, which all floats of a region are: exactly the one that byoc has written. */
static inline int byoc_json_f32(byoc_json_value value, float *number) {
    byoc_slice inside = byoc_json_inside(value);
    return byoc_read_f32(inside.len > 0 ? inside : byoc_json_word(value), number);
}

/* Reads `true` or `false`; 0 where the value is neither. */
static inline int byoc_json_bool(byoc_json_value value, int *truth) { return byoc_read_bool(byoc_json_word(value), truth); }

/* Reads up to `size` bytes from a text in hex, as those of tensor attributes and of small constants; how many it has. */
static inline size_t byoc_json_bytes(byoc_json_value value, void *bytes, size_t size) {
    byoc_slice text = byoc_json_inside(value);
    size_t i;
    if (text.len % 2 != 0) return 0;
    for (i = 0; i < text.len / 2; i++) {
        int high = byoc_hex((char)text.data[2 * i]), low = byoc_hex((char)text.data[2 * i + 1]);
        if (high < 0 || low < 0) return 0;
        if (i < size) ((uint8_t *)bytes)[i] = (uint8_t)(high * 16 + low);
    }
    return i;
}

/* The bytes of a value, for a function that takes a text. */
static inline byoc_slice byoc_json_text(byoc_json_value value) {
    byoc_slice text = {NULL, 0};
    if (!byoc_json_ok(value)) return text;
    text.data = (const uint8_t *)value.at;
    text.len = (size_t)(byoc_json_value_end(value.at, value.end) - value.at);
    return text;
}

/* Whether two values are there and the same JSON, such as two shapes. byoc writes a thing in one way only. */
static inline int byoc_json_same(byoc_json_value a, byoc_json_value b) {
    byoc_slice x = byoc_json_text(a), y = byoc_json_text(b);
    return x.len > 0 && x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
}

/* What an attribute of a node holds, whatever its kind: a number, a text, a list, a tensor; none where the node has none of that
 * name. byoc_json_is, byoc_json_f32 and the others read it. */
static inline byoc_json_value byoc_attribute(byoc_json_value node, const char *name) {
    return byoc_json_behind(byoc_json_first(byoc_json_get(byoc_json_get(node, "attributes"), name)));
}

/* An attribute that is a whole number, or `otherwise` where the node has none of that name and kind. */
static inline int64_t byoc_attribute_int(byoc_json_value node, const char *name, int64_t otherwise) {
    (void)byoc_json_int(byoc_attribute(node, name), &otherwise);
    return otherwise;
}

/* An attribute that is a number, or `otherwise` where the node has none of that name and kind. */
static inline float byoc_attribute_float(byoc_json_value node, const char *name, float otherwise) {
    (void)byoc_json_f32(byoc_attribute(node, name), &otherwise);
    return otherwise;
}

/* Reads up to `size` numbers of an attribute that is a list of whole numbers: how many it has, or 0 where the node has none. */
static inline size_t byoc_attribute_ints(byoc_json_value node, const char *name, int64_t *numbers, size_t size) {
    return byoc_json_ints(byoc_attribute(node, name), numbers, size);
}

/* The value of an option, a text, or none; `options` as a function of the backend is given them. */
static inline byoc_json_value byoc_option(byoc_slice options, const char *name) {
    return byoc_json_get(byoc_json_of(options), name);
}

/* Reads an option that is a whole number; 0 where there is none. */
static inline int byoc_option_int(byoc_slice options, const char *name, int64_t *number) {
    return byoc_read_int(byoc_json_inside(byoc_option(options, name)), number);
}

/* Reads an option that is a number; 0 where there is none. */
static inline int byoc_option_float(byoc_slice options, const char *name, double *number) {
    return byoc_read_float(byoc_json_inside(byoc_option(options, name)), number);
}

/* Reads an option that is true or false; 0 where there is none. */
static inline int byoc_option_bool(byoc_slice options, const char *name, int *truth) {
    return byoc_read_bool(byoc_json_inside(byoc_option(options, name)), truth);
}

/* Whether an option is this text, as one of its choices. */
static inline int byoc_option_is(byoc_slice options, const char *name, const char *choice) {
    return byoc_json_is(byoc_option(options, name), choice);
}

/* A byte string that is lent to a call: the code of a region, what its codegen has learnt, or a file; empty where there
 * is none of that index. */
static inline byoc_slice byoc_blob(byoc_slices blobs, size_t index) {
    static const byoc_slice none = {NULL, 0};
    return index < blobs.len ? blobs.data[index] : none;
}

/* Writes the inside of a text in JSON: quotes, backslashes and control characters become escapes. */
static inline int32_t byoc_put_escaped(byoc_sink sink, byoc_slice text) {
    static const char digits[] = "0123456789abcdef";
    char escape[] = "\\u0000";
    size_t from = 0, at;
    int32_t status = BYOC_OK;
    for (at = 0; at < text.len; at++) {
        uint8_t byte = text.data[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
        status |= byoc_put_bytes(sink, text.data + from, at - from);
        escape[4] = digits[byte >> 4];
        escape[5] = digits[byte & 15];
        status |= byoc_put(sink, byte < 0x20 ? escape : "\\");
        from = byte < 0x20 ? at + 1 : at;
    }
    return from < text.len ? status | byoc_put_bytes(sink, text.data + from, text.len - from) : status;
}

/* Writes bytes of UTF-8 as a text in JSON, with its quotes. */
static inline int32_t byoc_put_json_text(byoc_sink sink, byoc_slice text) {
    int32_t status = byoc_put(sink, "\"");
    status |= byoc_put_escaped(sink, text);
    return status | byoc_put(sink, "\"");
}

/* Writes a sentence as a text in JSON: `before`, what `about` says, `after`. A text, such as a name, stands there as it reads; of
 * any other value, such as a shape, its JSON; of none, nothing. */
static inline int32_t byoc_put_about(byoc_sink sink, const char *before, byoc_json_value about, const char *after) {
    byoc_slice inside = byoc_json_inside(about), text = byoc_json_text(about);
    int32_t status = byoc_put(sink, "\"");
    status |= byoc_put_escaped(sink, byoc_slice_of(before, strlen(before)));
    if (inside.data) status |= sink.write(sink.context, inside);
    else status |= byoc_put_escaped(sink, text);
    status |= byoc_put_escaped(sink, byoc_slice_of(after, strlen(after)));
    return status | byoc_put(sink, "\"");
}

/* Writes why a function failed, and returns what it is to return. */
static inline int32_t byoc_fail(byoc_sink error, const char *message) {
    (void)byoc_put(error, message);
    return BYOC_FAILED;
}

/* The same about something that has a name in JSON: byoc_fail_about(error, "'", name, "' has no scale"). */
static inline int32_t byoc_fail_about(byoc_sink error, const char *before, byoc_json_value about, const char *after) {
    (void)byoc_put(error, "{\"message\":");
    (void)byoc_put_about(error, before, about, after);
    (void)byoc_put(error, "}");
    return BYOC_FAILED;
}

/* The same at a node of the region, with what the user can do about it; either may be left out, as byoc_json_none() and NULL. */
static inline int32_t byoc_fail_at(byoc_sink error, const char *message, byoc_json_value node, const char *hint) {
    byoc_json_value name = byoc_json_get(node, "name");
    (void)byoc_put(error, "{\"message\":");
    (void)byoc_put_about(error, message, byoc_json_none(), "");
    if (byoc_json_ok(name)) {
        (void)byoc_put(error, ",\"node\":");
        (void)byoc_put_about(error, "", name, "");
    }
    if (hint) {
        (void)byoc_put(error, ",\"hint\":");
        (void)byoc_put_about(error, hint, byoc_json_none(), "");
    }
    (void)byoc_put(error, "}");
    return BYOC_FAILED;
}

/* Refuses a candidate in `check`, for a reason about something that has a name in JSON: byoc_refuse_about(out, "type", "'", name,
 * "' is not f32"). `code` is one of docs/writing-a-backend.md. Returns BYOC_OK, which `check` is to return then, or BYOC_FAILED
 * where the sink takes no more. */
static inline int32_t byoc_refuse_about(byoc_sink out, const char *code, const char *before, byoc_json_value about,
                                        const char *after) {
    int32_t status = byoc_put(out, "{\"code\":");
    status |= byoc_put_about(out, code, byoc_json_none(), "");
    status |= byoc_put(out, ",\"message\":");
    status |= byoc_put_about(out, before, about, after);
    return status | byoc_put(out, "}");
}

/* Refuses a candidate in `check`, for a reason in plain text. */
static inline int32_t byoc_refuse(byoc_sink out, const char *code, const char *message) {
    return byoc_refuse_about(out, code, message, byoc_json_none(), "");
}

/* Refuses a candidate in `check` since a value is beyond a limit; byoc shows both behind the message. */
static inline int32_t byoc_refuse_limit(byoc_sink out, const char *message, double value, double limit) {
    int32_t status = byoc_put(out, "{\"code\":\"limit\",\"message\":");
    status |= byoc_put_about(out, message, byoc_json_none(), "");
    if (byoc_is_finite(value) && byoc_is_finite(limit)) {
        status |= byoc_put(out, ",\"value\":");
        status |= byoc_put_float(out, value);
        status |= byoc_put(out, ",\"limit\":");
        status |= byoc_put_float(out, limit);
    }
    return status | byoc_put(out, "}");
}

/* The bytes of an answer. */
static inline byoc_sink byoc_bytes(byoc_output out) {
    byoc_sink sink;
    sink.context = out.context;
    sink.write = out.write;
    return sink;
}

/* Memory that a sink of byoc_into() fills. */
typedef struct {
    char *data;
    size_t size, len;
} byoc_buffer;

static inline int32_t byoc_buffer_write(void *context, byoc_slice bytes) {
    byoc_buffer *buffer = (byoc_buffer *)context;
    if (bytes.len > buffer->size - buffer->len) return BYOC_FAILED;
    if (bytes.len > 0) memcpy(buffer->data + buffer->len, bytes.data, bytes.len);
    buffer->len += bytes.len;
    return BYOC_OK;
}

/* A sink that appends to a buffer; BYOC_FAILED where that has no room for all of what is written. */
static inline byoc_sink byoc_into(byoc_buffer *buffer) {
    byoc_sink sink;
    sink.context = buffer;
    sink.write = byoc_buffer_write;
    return sink;
}

/* Begins an item of an answer, from a text that snprintf has written: `length` is what it has returned. */
static inline int32_t byoc_item(byoc_output out, const char *text, size_t size, int length) {
    if (length < 0 || (size_t)length >= size) return BYOC_FAILED;
    return out.item(out.context, byoc_slice_of(text, (size_t)length));
}

/* Tells of a line of a log, of up to 1000 bytes; `byoc compile --verbose` shows it. */
static inline int32_t byoc_log(byoc_output out, const char *line) {
    char text[1100];
    byoc_buffer json = {text, sizeof text, 0};
    int32_t status = byoc_put(byoc_into(&json), "{\"log\":");
    status |= byoc_put_about(byoc_into(&json), line, byoc_json_none(), "");
    status |= byoc_put(byoc_into(&json), "}");
    return status ? BYOC_FAILED : out.event(out.context, byoc_slice_of(text, json.len));
}

/* Tells how far codegen is; `next` is what comes next, of up to 400 bytes. */
static inline int32_t byoc_progress(byoc_output out, uint64_t done, uint64_t total, const char *next) {
    char text[500];
    byoc_buffer json = {text, sizeof text, 0};
    byoc_sink sink = byoc_into(&json);
    int32_t status = byoc_put(sink, "{\"progress\":{\"done\":");
    status |= byoc_put_int(sink, (int64_t)done);
    status |= byoc_put(sink, ",\"total\":");
    status |= byoc_put_int(sink, (int64_t)total);
    status |= byoc_put(sink, ",\"next\":");
    status |= byoc_put_about(sink, next, byoc_json_none(), "");
    status |= byoc_put(sink, "}}");
    return status ? BYOC_FAILED : out.event(out.context, byoc_slice_of(text, json.len));
}

/* What `byoc_log` and `byoc_progress` write to while a region is loaded or run: the place for events that the host has lent. Before it has,
   what is told goes nowhere. */
static inline int32_t byoc_no_event(void *context, byoc_slice json) BYOC_NOEXCEPT {
    (void)context, (void)json;
    return BYOC_OK;
}
static inline byoc_output byoc_events(byoc_event_sink sink) {
    byoc_output out;
    memset(&out, 0, sizeof out);
    out.context = sink.context;
    out.event = sink.event ? sink.event : byoc_no_event;
    return out;
}

/* Claims a constant in `constant_updater`, with a claim in JSON of up to 400 bytes. */
static inline int32_t byoc_claim(byoc_output out, int64_t id, const char *claim) {
    char text[500];
    int length = snprintf(text, sizeof text, "{\"id\":%lld,\"claim\":%s}", (long long)id, claim);
    return byoc_item(out, text, sizeof text, length);
}

#endif
