/* What byoc_json.h and byoc_dim.h read and write, in a program of its own: prints "all tests pass" and returns 0 where all of it
 * holds. A locale with a decimal comma is taken where the system has one; no function of the headers looks at it. */

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "byoc_dim.h"

static int failures = 0;

#define EXPECT(CONDITION) \
    ((CONDITION) ? (void)0 : (void)(failures++, fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #CONDITION)))

static byoc_slice text(const char *bytes) { return byoc_slice_of(bytes, strlen(bytes)); }

static byoc_json_value json(const char *bytes) { return byoc_json_of(text(bytes)); }

/* What was written last. */
static char written[20000];
static byoc_buffer buffer = {written, sizeof written - 1, 0};

static byoc_sink sink(void) {
    buffer.len = 0;
    return byoc_into(&buffer);
}

static int wrote(const char *expected) {
    written[buffer.len] = 0;
    if (strcmp(written, expected) == 0) return 1;
    fprintf(stderr, "  written: %s\n", written);
    return 0;
}

static int32_t takes_nothing(void *context, byoc_slice bytes) {
    (void)context, (void)bytes;
    return BYOC_FAILED;
}

/* A region with everything in it, of which the names are as awkward as can be. */
static const char REGION[] =
    "{\"schema\":\"byoc-region/1\",\"symbol\":\"byoc_main_acme_0\",\"values\":["
    "{\"name\":\"a \\\"quoted\\\"\\\\name\\n\",\"dtype\":\"f32\",\"shape\":[\"batch\",64]},"
    "{\"name\":\"w\",\"dtype\":\"f32\",\"shape\":[64,32]},"
    "{\"name\":\"\\u00e9\\ud83d\\ude00\",\"dtype\":\"bf16\",\"shape\":[]}],"
    "\"inputs\":[0],\"outputs\":[2,0],"
    "\"constants\":[{\"id\":0,\"value\":1,\"shared\":true},{\"id\":3,\"value\":2,\"inline\":\"0000003f\"}],"
    "\"nodes\":[{\"name\":\"fc/\\\"MatMul\\\"\",\"op\":\"Gemm\",\"inputs\":[0,1,null],\"outputs\":[2],\"attributes\":{"
    "\"axis\":{\"int\":-1},\"alpha\":{\"float\":0.5},\"limit\":{\"float\":\"inf\"},"
    "\"low\":{\"float\":\"-inf\"},\"none\":{\"float\":\"NaN\"},"
    "\"mode\":{\"string\":\"nearest\"},\"pads\":{\"ints\":[0,0,1,-9223372036854775808]},\"scales\":{\"floats\":[1.0,2.5e-1]},"
    "\"names\":{\"strings\":[\"a\",\"b\"]},\"table\":{\"tensor\":{\"dtype\":\"u8\",\"shape\":[2],\"hex\":\"01ff\"}}}}],"
    "\"covers_entry\":true}";

static byoc_json_value node(void) { return byoc_json_first(byoc_json_get(json(REGION), "nodes")); }

static byoc_json_value name_of(size_t value) {
    return byoc_json_get(byoc_json_at(byoc_json_get(json(REGION), "values"), value), "name");
}

/* ---- numbers ---- */

static int is_float(const char *number, double expected) {
    double found = 77;
    return byoc_json_float(json(number), &found) && memcmp(&found, &expected, sizeof found) == 0;
}

static int is_no_float(const char *number) {
    double found = 77;
    return !byoc_json_float(json(number), &found) && found == 77;
}

static void floats_are_read_exactly(void) {
    double zero = 0, minus_zero = -zero, found;
    EXPECT(is_float("0", 0) && is_float("-0", minus_zero) && is_float("0.0", 0) && is_float("0e99", 0));
    EXPECT(is_float("1", 1) && is_float("1.5", 1.5) && is_float("-2.5e-1", -0.25) && is_float("1E+2", 100) &&
           is_float("25e-2", 0.25));
    EXPECT(is_float("0.1", 0.1) && is_float("1e22", 1e22) && is_float("1e23", 1e23) && is_float("8.5e-45", 8.5e-45));
    EXPECT(is_float(" 12 ", 12) && is_float("12,", 12) && is_float("12]", 12) && is_float("\"12.5\"", 12.5));
    /* Halfway between two doubles: to the even one, and up as soon as there is anything behind it. */
    EXPECT(is_float("9007199254740993", 9007199254740992.0) &&
           is_float("9007199254740993.0000000000000000000000001", 9007199254740994.0));
    EXPECT(is_float("9007199254740995", 9007199254740996.0) &&
           is_float("9007199254740992.99999999999999999999", 9007199254740992.0));
    /* The largest, the smallest normal, the smallest, and what lies beside them. */
    EXPECT(is_float("1.7976931348623157e308", 1.7976931348623157e308) &&
           is_float("2.2250738585072014e-308", 2.2250738585072014e-308));
    EXPECT(is_float("1.7976931348623158e308", 1.7976931348623157e308) &&
           is_float("2.2250738585072011e-308", 2.2250738585072011e-308));
    EXPECT(is_float("5e-324", 5e-324) && is_float("2.4703282292062328e-324", 5e-324) &&
           is_float("2.4703282292062327e-324", 0));
    EXPECT(byoc_json_float(json("1.7976931348623159e308"), &found) && found > 0 && found - found != 0);
    EXPECT(byoc_json_float(json("-1e999999999999999999999"), &found) && found < 0 && found - found != 0);
    EXPECT(is_float("1e-999999999999999999999", 0) && is_float("-1e-400", minus_zero));
    EXPECT(byoc_json_float(json("\"inf\""), &found) && found > 0 && found - found != 0);
    EXPECT(byoc_json_float(json("\"-inf\""), &found) && found < 0 && found - found != 0);
    EXPECT(byoc_json_float(json("\"NaN\""), &found) && found != found);
    EXPECT(is_no_float("\"\"") && is_no_float("\"x\"") && is_no_float("\"1") && is_no_float("-") && is_no_float(".") &&
           is_no_float("e5"));
    EXPECT(is_no_float("1e") && is_no_float("1e+") && is_no_float("1.2.3") && is_no_float("\"1,5\""));
    EXPECT(is_no_float("true") && is_no_float("null") && is_no_float("[1]") && is_no_float("{}") && is_no_float("0x10") &&
           is_no_float("1f"));
    EXPECT(is_no_float("") && is_no_float("\"infinit\"") && is_no_float("\"i\"") && is_no_float("\"nano\""));
}

static int is_f32(const char *number, float expected) {
    float found = 77;
    return byoc_json_f32(json(number), &found) && memcmp(&found, &expected, sizeof found) == 0;
}

static void an_f32_is_rounded_once(void) {
    float found = 77;
    double twice = 0;
    /* The largest, the smallest normal, the smallest, one that takes 9 digits, and the one that a cast makes another one. */
    EXPECT(is_f32("3.4028235e38", 3.4028235e38f) && is_f32("1.1754944e-38", 1.1754944e-38f) && is_f32("1e-45", 1e-45f));
    EXPECT(is_f32("16777216.0", 16777216.0f) && is_f32("0.100000024", 0.100000024f) && is_f32("-0.0", -0.0f));
    EXPECT(is_f32("7.038531e-26", 7.038531e-26f) && byoc_json_float(json("7.038531e-26"), &twice));
    EXPECT((float)twice != 7.038531e-26f);
    EXPECT(is_f32("16777217", 16777216.0f) && is_f32("16777219", 16777220.0f));
    EXPECT(is_f32("16777217.0000000000000000001", 16777218.0f) && is_f32("-16777219", -16777220.0f));
    EXPECT(is_f32("7.006492e-46", 0) && is_f32("7.006493e-46", 1e-45f) && is_f32("3.4028235677973367e38", 3.4028235e38f * 10));
    EXPECT(is_f32("3.40282356e38", 3.4028235e38f) && is_f32("1e999", 3.4028235e38f * 10) && is_f32("-1e-999", -0.0f));
    EXPECT(byoc_json_f32(json("\"NaN\""), &found) && found != found);
    EXPECT(is_f32("\"-inf\"", -3.4028235e38f * 10) && is_f32("\"inf\"", 3.4028235e38f * 10));
    found = 77;
    EXPECT(!byoc_json_f32(json("\"x\""), &found) && !byoc_json_f32(byoc_json_none(), &found) && found == 77);
}

/* A long text: digits that only decide when all are looked at. */
static void long_numbers_are_read(void) {
    static char number[5000];
    double found = 0;
    memset(number, '0', sizeof number);
    memcpy(number, "9007199254740993.", 17);
    number[sizeof number - 2] = '1';
    number[sizeof number - 1] = 0;
    EXPECT(is_float(number, 9007199254740994.0));
    number[sizeof number - 2] = '0';
    EXPECT(is_float(number, 9007199254740992.0));
    memset(number, '0', sizeof number);
    number[1] = '.';
    memcpy(number + sizeof number - 7, "1e4992", 7);
    EXPECT(is_float(number, 1));
    memset(number, '9', sizeof number - 1);
    number[sizeof number - 1] = 0;
    EXPECT(byoc_json_float(json(number), &found) && found > 0 && found - found != 0);
}

static int puts_float(double number, const char *expected) {
    EXPECT(byoc_put_float(sink(), number) == BYOC_OK);
    return wrote(expected);
}

static uint64_t state = 88172645463325252u;

static uint64_t random_bits(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Written, read again, and read by the C library, which runs in the locale "C" here. */
static void floats_are_written_and_come_back(void) {
    double zero = 0, infinite = 1e308 * 10, number, again;
    float small;
    int i;
    EXPECT(puts_float(0, "0") && puts_float(-zero, "-0") && puts_float(13, "13") && puts_float(-11, "-11") &&
           puts_float(0.1, "0.1"));
    EXPECT(puts_float(1e16, "10000000000000000") && puts_float(9007199254740991.0, "9007199254740991") &&
           puts_float(0.0625, "0.0625"));
    EXPECT(puts_float(1.5e300, "1.5e300") && puts_float(-1e-7, "-1e-7") && puts_float(5e-324, "5e-324") &&
           puts_float(0.5, "0.5"));
    EXPECT(puts_float(1.7976931348623157e308, "1.7976931348623157e308") && puts_float(1.0 / 3, "0.3333333333333333"));
    EXPECT(puts_float(infinite, "\"inf\"") && puts_float(-infinite, "\"-inf\"") &&
           puts_float(infinite - infinite, "\"NaN\""));
    for (i = 0; i < 2000; i++) {
        /* Mostly of the size of an f32. */
        uint64_t bits = random_bits(), power = i % 50 == 0 ? bits >> 52 & 2047 : 1023 - 60 + (bits >> 52 & 127);
        bits = (bits & (UINT64_MAX >> 12 | UINT64_C(1) << 63)) | power << 52;
        memcpy(&number, &bits, sizeof number);
        if (number - number != 0) continue;
        EXPECT(byoc_put_float(sink(), number) == BYOC_OK);
        written[buffer.len] = 0;
        again = 0;
        EXPECT(byoc_json_float(json(written), &again) && memcmp(&again, &number, sizeof number) == 0);
        EXPECT(strtod(written, NULL) == number);
        (void)snprintf(written, sizeof written, "%.30e", number);
        EXPECT(byoc_json_float(json(written), &again) && again == strtod(written, NULL));
        (void)snprintf(written, sizeof written, "%.7e", number);
        EXPECT(byoc_json_float(json(written), &again) && again == strtod(written, NULL));
        EXPECT(byoc_json_f32(json(written), &small) && small == strtof(written, NULL));
        /* Halfway to the next double, exactly. */
        bits &= UINT64_MAX >> 1;
        if (power > 100 && power < 1200) {
            double low, high;
            memcpy(&low, &bits, sizeof low);
            bits++;
            memcpy(&high, &bits, sizeof high);
            (void)snprintf(written, sizeof written, "%.1100f", low);
            EXPECT(byoc_json_float(json(written), &again) && again == low);
            (void)snprintf(written, sizeof written, "%.1100f", high);
            EXPECT(byoc_json_float(json(written), &again) && again == high);
        }
    }
}

static int is_int(const char *number, int64_t expected) {
    int64_t found = 77;
    return byoc_json_int(json(number), &found) && found == expected;
}

static int is_no_int(const char *number) {
    int64_t found = 77;
    return !byoc_json_int(json(number), &found) && found == 77;
}

static void whole_numbers_have_64_bits(void) {
    int64_t numbers[2] = {7, 7};
    EXPECT(is_int("0", 0) && is_int("-0", 0) && is_int("12 ", 12) && is_int("12,3", 12) && is_int("-7]", -7) &&
           is_int("5}", 5));
    EXPECT(is_int("9223372036854775807", INT64_MAX) && is_int("-9223372036854775808", INT64_MIN));
    EXPECT(is_int("-9223372036854775807", -INT64_MAX) && is_int("00000000000000000000000001", 1));
    EXPECT(is_no_int("9223372036854775808") && is_no_int("-9223372036854775809") && is_no_int("99999999999999999999999999"));
    EXPECT(is_no_int("18446744073709551616") && is_no_int("1.0") && is_no_int("1e3") && is_no_int("-") && is_no_int("") &&
           is_no_int("12x"));
    EXPECT(is_no_int("\"12\"") && is_no_int("true") && is_no_int("[1]") && is_no_int("null") && is_no_int("--1"));
    EXPECT(byoc_json_ints(json("[1,-2,3]"), numbers, 2) == 3 && numbers[0] == 1 && numbers[1] == -2);
    EXPECT(byoc_json_ints(json("[1,\"n\"]"), numbers, 2) == 0 && byoc_json_ints(json("[]"), numbers, 2) == 0);
    EXPECT(byoc_json_ints(json("7"), numbers, 2) == 0 && byoc_json_ints(byoc_json_none(), numbers, 2) == 0);
    EXPECT(byoc_json_ints(json("[1,2]"), NULL, 0) == 2);
    EXPECT(byoc_put_int(sink(), INT64_MIN) == BYOC_OK && wrote("-9223372036854775808"));
    EXPECT(byoc_put_int(sink(), INT64_MAX) == BYOC_OK && wrote("9223372036854775807"));
    EXPECT(byoc_put_int(sink(), 0) == BYOC_OK && wrote("0"));
}

static void booleans_are_words(void) {
    int truth = 7;
    EXPECT(byoc_json_bool(json("true"), &truth) && truth == 1 && byoc_json_bool(json("false}"), &truth) && truth == 0);
    truth = 7;
    EXPECT(!byoc_json_bool(json("\"true\""), &truth) && !byoc_json_bool(json("1"), &truth) &&
           !byoc_json_bool(json("tru"), &truth));
    EXPECT(!byoc_json_bool(json("truely"), &truth) && !byoc_json_bool(byoc_json_none(), &truth) && truth == 7);
    EXPECT(byoc_json_bool(byoc_json_get(byoc_json_first(byoc_json_get(json(REGION), "constants")), "shared"), &truth) &&
           truth == 1);
    EXPECT(byoc_json_bool(byoc_json_get(json(REGION), "covers_entry"), &truth) && truth == 1);
}

/* ---- texts ---- */

static int reads(const char *literal, const char *expected) {
    char found[64];
    size_t length = byoc_json_string(json(literal), found, sizeof found);
    return length == strlen(expected) && strcmp(found, expected) == 0 && byoc_json_is(json(literal), expected);
}

static int is_no_text(const char *literal) {
    char found[8] = "before";
    return byoc_json_string(json(literal), found, sizeof found) == 0 && found[0] == 0 && !byoc_json_is(json(literal), "x");
}

static void escapes_are_read(void) {
    char found[6];
    EXPECT(reads("\"\"", "") && reads("\"plain\"", "plain") && reads("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"));
    EXPECT(reads("\"\\u0041\\u007f\\u0080\\u07ff\\u0800\\uFFFF\"", "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"));
    EXPECT(reads("\"\\ud83d\\ude00\\uDBFF\\uDFFF\"", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf") &&
           reads("\"\xc3\xa9\xf0\x9f\x98\x80\"", "\xc3\xa9\xf0\x9f\x98\x80"));
    /* Half a pair, alone, at the end, before another character and before half of another pair. */
    EXPECT(reads("\"\\ud83d\"", "\xef\xbf\xbd") && reads("\"\\ude00x\"", "\xef\xbf\xbdx") &&
           reads("\"\\ud83d\\n\"", "\xef\xbf\xbd\n"));
    EXPECT(reads("\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80") &&
           reads("\"\\ud83d\\u0041\"", "\xef\xbf\xbd" "A"));
    EXPECT(is_no_text("\"x") && is_no_text("\"x\\") && is_no_text("\"x\\u12") && is_no_text("\"\\u12g4\"") &&
           is_no_text("\"\\q\""));
    EXPECT(is_no_text("\"\\u123\"") && is_no_text("12") && is_no_text("[\"x\"]") && is_no_text("") && is_no_text("null"));
    EXPECT(!byoc_json_is(json("\"a\\u0000b\""), "a") && !byoc_json_is(json("\"ab\""), "a") &&
           !byoc_json_is(json("\"a\""), "ab"));
    EXPECT(byoc_json_string(json("\"a\\u0000b\""), found, sizeof found) == 3 && memcmp(found, "a\0b", 4) == 0);
    /* The length that it takes; what does not fit is cut behind a character. */
    EXPECT(byoc_json_string(json("\"12345\""), found, sizeof found) == 5 && strcmp(found, "12345") == 0);
    EXPECT(byoc_json_string(json("\"123456\""), found, sizeof found) == 6 && strcmp(found, "12345") == 0);
    EXPECT(byoc_json_string(json("\"1234\xc3\xa9z\""), found, sizeof found) == 7 && strcmp(found, "1234") == 0);
    EXPECT(byoc_json_string(json("\"123\\u20acz\""), found, sizeof found) == 7 && strcmp(found, "123") == 0);
    EXPECT(byoc_json_string(json("\"123\""), found, 1) == 3 && found[0] == 0 &&
           byoc_json_string(json("\"123\""), NULL, 0) == 3);
    /* Keys are texts as well, and so are names behind them. */
    EXPECT(is_int("1", 1) && byoc_json_ok(byoc_json_get(json("{\"\\u0061\\\"\":1}"), "a\"")));
    EXPECT(byoc_json_is(name_of(0), "a \"quoted\"\\name\n") && byoc_json_is(name_of(2), "\xc3\xa9\xf0\x9f\x98\x80"));
    EXPECT(byoc_json_same(json("[1,\"n\"] "), json("[1,\"n\"]")) && !byoc_json_same(json("[1]"), json("[2]")));
    EXPECT(!byoc_json_same(json("[1]"), json("[1,2]")) && !byoc_json_same(byoc_json_none(), byoc_json_none()));
}

static void hex_is_read(void) {
    uint8_t bytes[2] = {7, 7};
    EXPECT(byoc_json_bytes(json("\"01ff\""), bytes, 2) == 2 && bytes[0] == 1 && bytes[1] == 255);
    EXPECT(byoc_json_bytes(json("\"0203040506\""), bytes, 2) == 5 && bytes[0] == 2 && bytes[1] == 3);
    EXPECT(byoc_json_bytes(json("\"\""), bytes, 2) == 0 && byoc_json_bytes(json("\"0\""), bytes, 2) == 0);
    EXPECT(byoc_json_bytes(json("\"0g\""), bytes, 2) == 0 && byoc_json_bytes(json("\"01"), bytes, 2) == 0 &&
           byoc_json_bytes(json("12"), bytes, 2) == 0);
}

/* ---- options and attributes ---- */

static void options_are_texts(void) {
    byoc_slice options = text("{\"tiles\":\"-4\",\"fast\":\"true\","
                              "\"slow\":\"false\",\"rate\":\"+2.5e-1\",\"arch\":\"v\\u0032\",\"all\":\"INF\","
                              "\"many\":\"9223372036854775807\",\"plus\":\"+3\",\"empty\":\"\",\"number\":5}");
    int64_t number = 77;
    double rate = 77;
    int truth = 77;
    EXPECT(byoc_option_int(options, "tiles", &number) && number == -4 && byoc_option_int(options, "plus", &number) &&
           number == 3);
    EXPECT(byoc_option_int(options, "many", &number) && number == INT64_MAX);
    EXPECT(byoc_option_bool(options, "fast", &truth) && truth == 1 && byoc_option_bool(options, "slow", &truth) &&
           truth == 0);
    EXPECT(byoc_option_float(options, "rate", &rate) && rate == 0.25 && byoc_option_float(options, "tiles", &rate) &&
           rate == -4);
    EXPECT(byoc_option_float(options, "all", &rate) && rate > 1e308);
    EXPECT(byoc_option_is(options, "arch", "v2") && !byoc_option_is(options, "arch", "v1") &&
           byoc_option_is(options, "empty", ""));
    number = truth = 77, rate = 77;
    EXPECT(!byoc_option_int(options, "arch", &number) && !byoc_option_int(options, "empty", &number) &&
           !byoc_option_int(options, "?", &number));
    EXPECT(!byoc_option_int(options, "number", &number) && !byoc_option_bool(options, "tiles", &truth) &&
           !byoc_option_bool(options, "?", &truth));
    EXPECT(!byoc_option_float(options, "empty", &rate) && !byoc_option_float(options, "?", &rate) &&
           !byoc_option_is(options, "?", ""));
    EXPECT(!byoc_option_int(text(""), "tiles", &number) && number == 77 && truth == 77 && rate == 77);
}

static void attributes_have_one_kind(void) {
    int64_t pads[4] = {7, 7, 7, 7};
    double scale = 0;
    char mode[16];
    uint8_t bytes[2];
    EXPECT(byoc_attribute_int(node(), "axis", 3) == -1 && byoc_attribute_int(node(), "absent", 3) == 3 &&
           byoc_attribute_int(node(), "mode", 3) == 3);
    EXPECT(byoc_attribute_float(node(), "alpha", 1) == 0.5 && byoc_attribute_float(node(), "beta", 1) == 1);
    EXPECT(byoc_attribute_float(node(), "limit", 1) > 3e38f && byoc_attribute_float(node(), "low", 1) < -3e38f);
    EXPECT(byoc_attribute_float(node(), "none", 1) != byoc_attribute_float(node(), "none", 1) &&
           byoc_attribute_float(node(), "mode", 1) == 1);
    EXPECT(byoc_attribute_ints(node(), "pads", pads, 4) == 4 && pads[2] == 1 && pads[3] == INT64_MIN);
    EXPECT(byoc_attribute_ints(node(), "scales", pads, 4) == 0 && byoc_attribute_ints(node(), "absent", pads, 4) == 0);
    EXPECT(byoc_json_is(byoc_attribute(node(), "mode"), "nearest") &&
           byoc_json_string(byoc_attribute(node(), "mode"), mode, sizeof mode) == 7);
    EXPECT(byoc_json_float(byoc_json_at(byoc_attribute(node(), "scales"), 1), &scale) && scale == 0.25);
    EXPECT(byoc_json_is(byoc_json_at(byoc_attribute(node(), "names"), 1), "b"));
    EXPECT(byoc_json_bytes(byoc_json_get(byoc_attribute(node(), "table"), "hex"), bytes, 2) == 2 && bytes[1] == 255);
    EXPECT(!byoc_json_ok(byoc_attribute(json("{}"), "axis")) && !byoc_json_ok(byoc_attribute(byoc_json_none(), "axis")));
    EXPECT(!byoc_json_ok(byoc_attribute(json("{\"attributes\":{\"a\":[\"x\"],\"b\":{}}}"), "a")));
    EXPECT(!byoc_json_ok(byoc_attribute(json("{\"attributes\":{\"a\":[\"x\"],\"b\":{}}}"), "b")));
}

/* ---- what is written ---- */

static void what_is_written_is_json(void) {
    byoc_sink broken = {NULL, takes_nothing};
    char small[4];
    byoc_buffer short_buffer = {small, sizeof small, 0};
    EXPECT(byoc_put_json_text(sink(), text("a\"b\\c\n\x01\x1f\x7f\xc3\xa9")) == BYOC_OK);
    EXPECT(wrote("\"a\\\"b\\\\c\\u000a\\u0001\\u001f\x7f\xc3\xa9\"") && reads(written, "a\"b\\c\n\x01\x1f\x7f\xc3\xa9"));
    EXPECT(byoc_put_json_text(sink(), byoc_slice_of("a\0b", 3)) == BYOC_OK && wrote("\"a\\u0000b\""));
    EXPECT(byoc_put_json_text(sink(), byoc_slice_of(NULL, 0)) == BYOC_OK && wrote("\"\""));
    EXPECT(byoc_put_about(sink(), "\"", json("[1,\"n\"]"), "\"") == BYOC_OK && wrote("\"\\\"[1,\\\"n\\\"]\\\"\""));
    EXPECT(byoc_put_about(sink(), "a ", json("\"cut"), " b") == BYOC_OK && wrote("\"a \\\"cut b\""));
    EXPECT(byoc_put_about(sink(), "a ", json("\"\""), " b") == BYOC_OK && wrote("\"a  b\""));
    EXPECT(byoc_refuse(sink(), "type", "only \"f32\"") == BYOC_OK &&
           wrote("{\"code\":\"type\",\"message\":\"only \\\"f32\\\"\"}"));
    EXPECT(byoc_refuse_about(sink(), "type", "'", name_of(0), "' is not f32") == BYOC_OK);
    EXPECT(wrote("{\"code\":\"type\",\"message\":\"'a \\\"quoted\\\"\\\\name\\n' is not f32\"}"));
    EXPECT(byoc_json_is(byoc_json_get(json(written), "message"), "'a \"quoted\"\\name\n' is not f32"));
    EXPECT(byoc_refuse_limit(sink(), "the kernel is \"too\" large", 13, 11) == BYOC_OK);
    EXPECT(wrote("{\"code\":\"limit\",\"message\":\"the kernel is \\\"too\\\" large\",\"value\":13,\"limit\":11}"));
    EXPECT(byoc_refuse_limit(sink(), "m", 0.1, 9007199254740993.0) == BYOC_OK);
    EXPECT(wrote("{\"code\":\"limit\",\"message\":\"m\",\"value\":0.1,\"limit\":9007199254740992}"));
    EXPECT(byoc_refuse_limit(sink(), "m", 1e308 * 10, 1) == BYOC_OK && wrote("{\"code\":\"limit\",\"message\":\"m\"}"));
    EXPECT(byoc_fail(sink(), "plain") == BYOC_FAILED && wrote("plain"));
    EXPECT(byoc_fail_about(sink(), "'", name_of(2), "' has no scale") == BYOC_FAILED);
    EXPECT(wrote("{\"message\":\"'\\u00e9\\ud83d\\ude00' has no scale\"}"));
    EXPECT(byoc_fail_at(sink(), "3 \"tiles\"", node(), "Set tiles to 4") == BYOC_FAILED);
    EXPECT(wrote("{\"message\":\"3 \\\"tiles\\\"\",\"node\":\"fc/\\\"MatMul\\\"\",\"hint\":\"Set tiles to 4\"}"));
    EXPECT(byoc_fail_at(sink(), "m", byoc_json_none(), NULL) == BYOC_FAILED && wrote("{\"message\":\"m\"}"));
    EXPECT(byoc_refuse(broken, "type", "m") == BYOC_FAILED && byoc_put_float(broken, 1.5) == BYOC_FAILED &&
           byoc_put_float(broken, 1e300) == BYOC_FAILED);
    EXPECT(byoc_refuse_limit(broken, "m", 1, 2) == BYOC_FAILED && byoc_put_json_text(broken, text("\"")) == BYOC_FAILED);
    EXPECT(byoc_put(byoc_into(&short_buffer), "abc") == BYOC_OK && byoc_put(byoc_into(&short_buffer), "de") == BYOC_FAILED);
    EXPECT(byoc_put(byoc_into(&short_buffer), "f") == BYOC_OK && short_buffer.len == 4 && memcmp(small, "abcf", 4) == 0);
}

static void events_are_json(void) {
    static char line[2000];
    byoc_output out;
    sink();
    out.context = &buffer;
    out.item = out.write = out.event = byoc_buffer_write;
    EXPECT(byoc_log(out, "the \"tile\"\tis 128") == BYOC_OK && wrote("{\"log\":\"the \\\"tile\\\"\\u0009is 128\"}"));
    sink();
    EXPECT(byoc_progress(out, 1, 3, "\"sm_90a\"") == BYOC_OK &&
           wrote("{\"progress\":{\"done\":1,\"total\":3,\"next\":\"\\\"sm_90a\\\"\"}}"));
    sink();
    EXPECT(byoc_claim(out, 7, "\"host\"") == BYOC_OK && wrote("{\"id\":7,\"claim\":\"host\"}"));
    memset(line, 'x', sizeof line - 1);
    sink();
    EXPECT(byoc_log(out, line) == BYOC_FAILED && byoc_progress(out, 1, 3, line) == BYOC_FAILED && wrote(""));
    line[1000] = 0;
    EXPECT(byoc_log(out, line) == BYOC_OK);
}

/* ---- sizes ---- */

static byoc_symbol known_symbols[3];

static byoc_symbols known(void) {
    byoc_symbols symbols = {known_symbols, 3, 3};
    known_symbols[0].name = text("n");
    known_symbols[0].size = 7;
    known_symbols[1].name = text("seq.len_2");
    known_symbols[1].size = 3;
    known_symbols[2].name = text("'my \\\\'dim\\\\''");
    known_symbols[2].size = 10;
    return symbols;
}

static int comes_to(const char *size, int64_t expected) {
    int64_t found = -77;
    return byoc_dim(json(size), known(), &found) && found == expected;
}

static int is_no_size(const char *size) {
    int64_t found = 77;
    return !byoc_dim(json(size), known(), &found) && found == 77;
}

static void sizes_are_computed(void) {
    static char deep[40000];
    size_t i;
    EXPECT(comes_to("5", 5) && comes_to("0", 0) && comes_to("\"n\"", 7) && comes_to("\"12\"", 12) && comes_to("\" n \"", 7));
    EXPECT(comes_to("\"n*12\"", 84) && comes_to("\"n*seq.len_2*12 + n - 3\"", 256) && comes_to("\"-n + 10\"", 3) &&
           comes_to("\"10 - n - 3\"", 0));
    EXPECT(comes_to("\"floor(n/2) + 1\"", 4) && comes_to("\"ceil(n/2)\"", 4) && comes_to("\"n//2*2\"", 6) &&
           comes_to("\"Floor ( n / 2 )\"", 3));
    EXPECT(comes_to("\"floor((n + 1)/(seq.len_2*2))\"", 1) && comes_to("\"floor(n*4/3)\"", 9) &&
           comes_to("\"floor(floor(n/2)/2)\"", 1));
    EXPECT(comes_to("\"max(n, 9)\"", 9) && comes_to("\"min(n, 9, seq.len_2)\"", 3) && comes_to("\"Max(1, n - 20)\"", 1) &&
           comes_to("\"max(n)\"", 7));
    EXPECT(comes_to("\"floor((-n)/2) + 10\"", 6) && comes_to("\"ceil((-n)/2) + 10\"", 7) &&
           comes_to("\"floor((0 - n)/(-2))\"", 3));
    EXPECT(comes_to("\"'my \\\\'dim\\\\''*2\"", 20) && comes_to("\"(n)\"", 7) &&
           comes_to("\"min(n, max(seq.len_2, 5))*2\"", 10));
    EXPECT(comes_to("\"9223372036854775807\"", INT64_MAX) && comes_to("\"max(n, -9223372036854775807 - 1)\"", 7));
    /* Nothing that is known, too large, divided by 0, negative, or no expression. */
    EXPECT(is_no_size("\"m\"") && is_no_size("\"n + m\"") && is_no_size("\"nn\"") && is_no_size("\"'n'\"") &&
           is_no_size("\"N\""));
    EXPECT(is_no_size("\"9223372036854775807 + n\"") && is_no_size("\"9223372036854775807*n\"") &&
           is_no_size("\"9223372036854775808\""));
    EXPECT(is_no_size("\"(-9223372036854775807 - 2)*0\"") && is_no_size("\"(-9223372036854775807 - 1)//(-1)\""));
    EXPECT(is_no_size("\"floor(n/0)\"") && is_no_size("\"n//(n - 7)\"") && is_no_size("\"ceil(n/(n - 7))\"") &&
           is_no_size("\"n - 8\"") && is_no_size("-1"));
    EXPECT(is_no_size("\"\"") && is_no_size("\"n/2\"") && is_no_size("\"n +\"") && is_no_size("\"n n\"") &&
           is_no_size("\"2n\"") && is_no_size("\"(n\""));
    EXPECT(is_no_size("\"n)\"") && is_no_size("\"floor(n)\"") && is_no_size("\"mod(n, 2)\"") && is_no_size("\"max()\"") &&
           is_no_size("\"n*-1\""));
    EXPECT(is_no_size("\"n\\u0000\"") && is_no_size("\"\xc3\xa9\"") && is_no_size("\"n") && is_no_size("\"'my") &&
           is_no_size("\"'my\\\\\"") && is_no_size("\"n\\q\""));
    EXPECT(is_no_size("1.5") && is_no_size("null") && is_no_size("[7]") && is_no_size("") && is_no_size("\"?rows\""));
    for (i = 0; i < 2; i++) {
        /* 90 brackets are read, and more than any sane size has are not. */
        size_t depth = i == 0 ? 90 : 10000;
        memset(deep, '(', sizeof deep);
        deep[0] = '"';
        memset(deep + depth + 2, ')', depth);
        deep[depth + 1] = 'n';
        memcpy(deep + 2 * depth + 2, "\"", 2);
        EXPECT(i == 0 ? comes_to(deep, 7) : is_no_size(deep));
    }
    for (deep[0] = '"', i = 1; i + 6 < sizeof deep; i += 6) memcpy(deep + i, "floor(", 6);
    deep[i] = 0;
    EXPECT(is_no_size(deep));
}

static byoc_tensor shaped(const int64_t *shape, int32_t ndim) {
    byoc_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.shape = shape;
    tensor.ndim = ndim;
    return tensor;
}

/* Binds names to the shapes of two tensors, and gives what `size` comes to then, or -1, or -2 where the shapes do not fit. */
static int64_t bound(const char *shapes, const int64_t *a, int32_t a_dims, const int64_t *b, int32_t b_dims,
                     const char *size, size_t room) {
    byoc_symbol symbols[4];
    byoc_symbols found = {symbols, 0, room};
    byoc_tensor tensors[2];
    byoc_tensors inputs = {tensors, 2};
    int64_t value = -1;
    tensors[0] = shaped(a, a_dims);
    tensors[1] = shaped(b, b_dims);
    if (!byoc_dims_bind(json(shapes), inputs, &found)) return -2;
    (void)byoc_dim(json(size), found, &value);
    return value;
}

static void names_are_learnt_from_shapes(void) {
    static const int64_t a[] = {2, 60}, b[] = {5, 2}, huge[] = {INT64_MAX, 1};
    EXPECT(bound("[[\"batch\",60],[5,\"batch\"]]", a, 2, b, 2, "\"batch*12\"", 4) == 24);
    EXPECT(bound("[[\"batch\",\"n*12\"],[\"n\",2]]", a, 2, b, 2, "\"n + batch\"", 4) == 7);
    EXPECT(bound("[[\"n + m\",60],[\"m + 4\",\"n + 1\"]]", a, 2, b, 2, "\"n*10 + m\"", 4) == 11);
    EXPECT(bound("[[2,\"'a b'\"],[5,2]]", a, 2, b, 2, "\"'a b' + 1\"", 4) == 61);
    EXPECT(bound("[[2,60],[\"-n + 8\",2]]", a, 2, b, 2, "\"n\"", 4) == 3);
    /* In a function, squared, or one of two that are not known: it teaches nothing, and is no mistake. */
    EXPECT(bound("[[\"floor(n/2)\",60],[5,2]]", a, 2, b, 2, "\"n\"", 4) == -1 &&
           bound("[[\"n*n\",60],[5,2]]", a, 2, b, 2, "\"n\"", 4) == -1);
    EXPECT(bound("[[\"n*m\",60],[5,2]]", a, 2, b, 2, "\"n\"", 4) == -1 &&
           bound("[[\"max(n, 1)\",60],[5,2]]", a, 2, b, 2, "\"n\"", 4) == -1);
    /* Other shapes, sizes that contradict each other, no room. */
    EXPECT(bound("[[3,60],[5,2]]", a, 2, b, 2, "1", 4) == -2 &&
           bound("[[\"n\",60],[5,\"n + 1\"]]", a, 2, b, 2, "1", 4) == -2);
    EXPECT(bound("[[2,\"n*7\"],[5,2]]", a, 2, b, 2, "1", 4) == -2 &&
           bound("[[\"n + 3\",60],[5,2]]", a, 2, b, 2, "1", 4) == -2);
    EXPECT(bound("[[2,60,1],[5,2]]", a, 2, b, 2, "1", 4) == -2 && bound("[[2],[5,2]]", a, 2, b, 2, "1", 4) == -2);
    EXPECT(bound("[[2,60]]", a, 2, b, 2, "1", 4) == -2 && bound("[[2,60],[5,2],[]]", a, 2, b, 2, "1", 4) == -2 &&
           bound("", a, 2, b, 2, "1", 4) == -2);
    EXPECT(bound("[[\"n\",\"m\"],[5,2]]", a, 2, b, 2, "1", 1) == -2 &&
           bound("[[\"n\",60],[5,\"n\"]]", a, 2, b, 2, "\"n\"", 1) == 2);
    EXPECT(bound("[[],[\"n\",2]]", NULL, 0, b, 2, "\"n\"", 1) == 5);
    EXPECT(bound("[[\"n\",1],[5,2]]", huge, 2, b, 2, "\"n\"", 1) == INT64_MAX &&
           bound("[[\"n - 1\",1],[5,2]]", huge, 2, b, 2, "\"n\"", 1) == -2);
    EXPECT(byoc_put_shapes(sink(), json(REGION), "inputs") == BYOC_OK && wrote("[[\"batch\",64]]"));
    EXPECT(byoc_put_shapes(sink(), json(REGION), "outputs") == BYOC_OK && wrote("[[],[\"batch\",64]]"));
    EXPECT(byoc_put_shapes(sink(), json(REGION), "nothing") == BYOC_OK && wrote("[]"));
    EXPECT(byoc_put_shapes(sink(), json("{\"values\":[],\"inputs\":[4]}"), "inputs") == BYOC_FAILED);
}

/* ---- damage ---- */

/* Reads all that there is, of every kind; how many values there are. */
static size_t walk(byoc_json_value value, int depth) {
    static char room[256];
    size_t count = 1;
    byoc_json_value child, behind;
    int64_t number, numbers[4];
    double real;
    int truth;
    byoc_buffer short_buffer = {room, sizeof room, 0};
    if (!byoc_json_ok(value) || depth > 20) return 0;
    (void)byoc_json_int(value, &number), (void)byoc_json_bool(value, &truth), (void)byoc_json_float(value, &real);
    (void)byoc_json_string(value, room, sizeof room), (void)byoc_json_is(value, "batch");
    (void)byoc_json_bytes(value, room, sizeof room);
    (void)byoc_json_ints(value, numbers, 4), (void)byoc_json_length(value), (void)byoc_json_text(value);
    (void)byoc_json_same(value, value), (void)byoc_dim(value, known(), &number), (void)byoc_attribute(value, "axis");
    (void)byoc_put_about(byoc_into(&short_buffer), "<", value, ">");
    for (child = byoc_json_first(value); byoc_json_ok(child); child = byoc_json_next(behind)) {
        behind = *value.at == '{' ? byoc_json_behind(child) : child;
        count += walk(behind, depth + 1);
    }
    return count;
}

/* Every beginning of a region, and every region with one byte changed, in memory of just that size. */
static void damaged_text_is_read_within_its_bounds(void) {
    static const char changes[] = "\"\\{}[],:u0 -";
    size_t length = sizeof REGION - 1, i, change;
    for (i = 0; i <= length; i++) {
        char *copy = (char *)malloc(i + 1);
        if (!copy) exit(1);
        memcpy(copy, REGION, i);
        copy[i] = '"';
        (void)walk(byoc_json_of(byoc_slice_of(copy, i)), 0);
        (void)byoc_put_shapes(sink(), byoc_json_of(byoc_slice_of(copy, i)), "inputs");
        free(copy);
    }
    for (i = 0; i < length; i++) {
        char *copy = (char *)malloc(length);
        if (!copy) exit(1);
        memcpy(copy, REGION, length);
        for (change = 0; change < sizeof changes; change++) {
            copy[i] = changes[change];
            (void)walk(byoc_json_of(byoc_slice_of(copy, length)), 0);
        }
        free(copy);
    }
    EXPECT(walk(json(REGION), 0) == 78);
}

static void nesting_may_be_deep(void) {
    static char deep[200001];
    byoc_json_value value;
    int64_t number = 0;
    size_t i;
    memset(deep, '[', 100000);
    memset(deep + 100000, ']', 100000);
    EXPECT(byoc_json_length(json(deep)) == 1 && byoc_json_text(json(deep)).len == 200000);
    value = json(deep);
    for (i = 0; byoc_json_ok(byoc_json_first(value)); i++) value = byoc_json_first(value);
    EXPECT(i == 99999 && byoc_json_length(value) == 0);
    EXPECT(byoc_json_length(byoc_json_of(byoc_slice_of(deep, 5000))) == 1);
    EXPECT(byoc_json_int(byoc_json_get(json("{\"a\":[[{\"b\":\"]}\"}]],\"b\" : 4 }"), "b"), &number) && number == 4);
}

static void all_of_it(void) {
    floats_are_read_exactly();
    an_f32_is_rounded_once();
    long_numbers_are_read();
    whole_numbers_have_64_bits();
    booleans_are_words();
    escapes_are_read();
    hex_is_read();
    options_are_texts();
    attributes_have_one_kind();
    what_is_written_is_json();
    events_are_json();
    sizes_are_computed();
    names_are_learnt_from_shapes();
}

int main(void) {
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "nl_NL.UTF-8"};
    const char *taken = NULL;
    size_t i;
    floats_are_written_and_come_back();
    damaged_text_is_read_within_its_bounds();
    nesting_may_be_deep();
    all_of_it();
    for (i = 0; i < sizeof commas / sizeof *commas && !taken; i++) taken = setlocale(LC_ALL, commas[i]);
    if (taken) all_of_it();
    if (failures == 0) printf("all tests pass%s%s\n", taken ? ", also in " : "", taken ? taken : "");
    return failures != 0;
}
