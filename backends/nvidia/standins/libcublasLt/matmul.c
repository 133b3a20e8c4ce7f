/* A stand-in for NVIDIA's cublasLt, for tests on machines without a GPU: computes on the CPU what a call describes.
 *
 * Matrices are column-major, as NVIDIA documents them. Element types f32, f64, f16 and bf16; transposes, leading
 * dimensions, batch strides (0 gives every product the same matrix), alpha and beta on the host, and the epilogues
 * DEFAULT, RELU, BIAS, RELU_BIAS, GELU (the tanh form) and GELU_BIAS. RELU makes 0 of NaN, as the library does. Sums are
 * kept in double and rounded once, so results may differ from a device's in the last bits.
 *
 * The work goes through the stand-in for the driver (libcuda): it is logged there, is captured into graphs, and
 * matrices must be in its device memory, with the alignment for which the algorithm was chosen. Without it a handle
 * cannot be created, as with the library. The log also has the choices of algorithms, with the reductions that they
 * may use, and says when the last description, layout or preference is destroyed.
 *
 *   STANDIN_CUBLASLT   what cublasLtGetVersion says; 130002
 *   STANDIN_REFUSE     an element type (a number of cudaDataType) for which no algorithm is found; none
 *   STANDIN_REFUSAL    what the choice of an algorithm says then; NOT_SUPPORTED, and where it is 0, it finds none
 *
 * Compile: cc -std=c11 -shared -fPIC -Wl,-soname,libcublasLt.so.13 -o libcublasLt.so.13 matmul.c -ldl -lm */

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of cublas_api.h, cublasLt.h and library_types.h. */
enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13,
    NOT_SUPPORTED = 15,
};
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum { COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69, COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71, COMPUTE_32F_FAST_TF32 = 77 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

/* Bytes of workspace that every algorithm asks for where it may have them, and the mark of one. */
enum { WORKSPACE = 256, MARK = 0x57A4D };

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t batch;
    int64_t stride;
};

struct description {
    int compute, scale;
    int32_t transpose_a, transpose_b;
    int epilogue;
    const void *bias;
    int64_t bias_stride;
};

struct preference {
    size_t workspace;
    uint32_t reductions; /* a mask of cublasLtReductionScheme_t; 7, all of them, where nothing was said */
    uint32_t alignment[4]; /* of A, B, C, D; 0 where nothing was said */
};

struct algorithm {
    uint64_t mark, workspace;
    uint32_t alignment[4];
    uint64_t rest[4];
};

struct answer {
    struct algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

struct product {
    struct description description;
    struct layout a, b, c, d;
    double alpha, beta;
    const void *a_data, *b_data, *c_data;
    void *d_data;
};

struct handle {
    int (*enqueue)(void *, void (*)(const void *), const void *, size_t, const char *);
    int (*is_device_memory)(const void *, size_t);
    void (*log)(const char *, ...);
};

/* Descriptions, layouts and preferences that were made and not destroyed, and the driver's log for them. */
static int live;
static void (*driver_log)(const char *, ...);

static void *made(size_t bytes) {
    live++;
    return calloc(1, bytes);
}

static int destroyed(void *at) {
    if (--live == 0 && driver_log) driver_log("no descriptions live");
    free(at);
    return SUCCESS;
}

size_t cublasLtGetVersion(void) {
    const char *text = getenv("STANDIN_CUBLASLT");
    return text ? (size_t)atoll(text) : 130002;
}

int cublasLtCreate(struct handle **handle) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return NOT_INITIALIZED;
    struct handle *new = calloc(1, sizeof *new);
    *(void **)&new->enqueue = dlsym(driver, "standin_enqueue");
    *(void **)&new->is_device_memory = dlsym(driver, "standin_is_device_memory");
    *(void **)&new->log = dlsym(driver, "standin_log");
    if (!new->enqueue || !new->is_device_memory || !new->log) {
        free(new);
        return NOT_INITIALIZED;
    }
    *handle = new;
    driver_log = new->log;
    new->log("create cublasLt");
    return SUCCESS;
}

int cublasLtDestroy(struct handle *handle) {
    handle->log("destroy cublasLt");
    free(handle);
    return SUCCESS;
}

/* Descriptions */

static size_t size_of(int type) {
    switch (type) {
    case F32: return 4;
    case F64: return 8;
    case F16: case BF16: return 2;
    default: return 0;
    }
}

int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    if (!size_of(type)) return NOT_SUPPORTED;
    *layout = made(sizeof **layout);
    **layout = (struct layout){type, rows, columns, leading, 1, 0};
    return SUCCESS;
}

int cublasLtMatrixLayoutDestroy(struct layout *layout) { return destroyed(layout); }

/* Copies an attribute whose size must be right. */
static int set(void *field, size_t size, const void *value, size_t bytes) {
    if (bytes != size || !value) return INVALID_VALUE;
    memcpy(field, value, size);
    return SUCCESS;
}

#define SET(field) set(&(field), sizeof(field), value, bytes)

int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
    case 0: return SET(layout->type);
    case 2: return SET(layout->rows);
    case 3: return SET(layout->columns);
    case 4: return SET(layout->leading);
    case 5: return SET(layout->batch);
    case 6: return SET(layout->stride);
    default: return NOT_SUPPORTED;
    }
}

int cublasLtMatmulDescCreate(struct description **description, int compute, int scale) {
    *description = made(sizeof **description);
    (*description)->compute = compute;
    (*description)->scale = scale;
    (*description)->epilogue = EPILOGUE_DEFAULT;
    return SUCCESS;
}

int cublasLtMatmulDescDestroy(struct description *description) { return destroyed(description); }

int cublasLtMatmulDescSetAttribute(struct description *description, int attribute, const void *value, size_t bytes) {
    int32_t must_be_zero = 0;
    int status;
    switch (attribute) {
    case 2: /* pointer mode: on the host */
    case 5: /* transpose of C */
        status = SET(must_be_zero);
        return status ? status : must_be_zero ? NOT_SUPPORTED : SUCCESS;
    case 3: return SET(description->transpose_a);
    case 4: return SET(description->transpose_b);
    case 7: return SET(description->epilogue);
    case 8: return SET(description->bias);
    case 10: return SET(description->bias_stride);
    default: return NOT_SUPPORTED;
    }
}

int cublasLtMatmulPreferenceCreate(struct preference **preference) {
    *preference = made(sizeof **preference);
    (*preference)->reductions = 7;
    return SUCCESS;
}

int cublasLtMatmulPreferenceDestroy(struct preference *preference) { return destroyed(preference); }

int cublasLtMatmulPreferenceSetAttribute(struct preference *preference, int attribute, const void *value, size_t bytes) {
    if (attribute == 1) return SET(preference->workspace);
    if (attribute == 3) return SET(preference->reductions);
    return attribute >= 5 && attribute <= 8 ? SET(preference->alignment[attribute - 5]) : NOT_SUPPORTED;
}

/* Whether the parts fit together. */

static int known_epilogue(int epilogue) {
    int activation = epilogue & ~EPILOGUE_BIAS;
    return epilogue == EPILOGUE_DEFAULT || epilogue == EPILOGUE_BIAS || activation == EPILOGUE_RELU ||
           activation == EPILOGUE_GELU;
}

/* Whether no algorithm is to be found for matrices of that type. */
static int refuses(int type) {
    const char *refused = getenv("STANDIN_REFUSE");
    return refused && atoi(refused) == type;
}

static int fits_types(const struct description *p, int a, int b, int c, int d) {
    if (a != b || c != d) return 0;
    if (p->compute == COMPUTE_64F || p->compute == COMPUTE_64F_PEDANTIC) return p->scale == F64 && a == F64 && d == F64;
    if (p->scale != F32 || a == F64 || d == F64) return 0;
    if (p->compute == COMPUTE_32F_FAST_TF32) return a == F32 && d == F32;
    return (p->compute == COMPUTE_32F || p->compute == COMPUTE_32F_PEDANTIC) && (d == a || d == F32);
}

static int fits(const struct description *p, const struct layout *a, const struct layout *b, const struct layout *c,
                const struct layout *d) {
    const struct layout *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (!all[i] || all[i]->leading < (int64_t)all[i]->rows || !all[i]->rows || !all[i]->columns ||
            all[i]->batch < 1 || all[i]->batch != d->batch)
            return INVALID_VALUE;
    if (!known_epilogue(p->epilogue) || !fits_types(p, a->type, b->type, c->type, d->type)) return NOT_SUPPORTED;
    uint64_t m = p->transpose_a ? a->columns : a->rows, k = p->transpose_a ? a->rows : a->columns;
    uint64_t n = p->transpose_b ? b->rows : b->columns, inner = p->transpose_b ? b->columns : b->rows;
    int sizes = k == inner && d->rows == m && d->columns == n && c->rows == m && c->columns == n;
    return sizes ? SUCCESS : INVALID_VALUE;
}

int cublasLtMatmulAlgoGetHeuristic(struct handle *handle, const struct description *p, const struct layout *a,
                                   const struct layout *b, const struct layout *c, const struct layout *d,
                                   const struct preference *preference, int most, struct answer *answers, int *count) {
    *count = 0;
    if (!handle || most < 1) return INVALID_VALUE;
    int status = fits(p, a, b, c, d);
    if (status) return status;
    const char *refusal = getenv("STANDIN_REFUSAL");
    if (refuses(a->type)) return refusal ? atoi(refusal) : NOT_SUPPORTED;
    handle->log("choose an algorithm, reductions %u", preference ? preference->reductions : 7);
    size_t workspace = preference && preference->workspace >= WORKSPACE ? WORKSPACE : 0;
    memset(answers, 0, sizeof *answers);
    answers->algorithm = (struct algorithm){MARK, workspace, {0}, {0}};
    if (preference) memcpy(answers->algorithm.alignment, preference->alignment, sizeof preference->alignment);
    answers->workspace = workspace;
    answers->waves = 1;
    *count = 1;
    return SUCCESS;
}

/* Elements */

static float from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * ldexpf((float)fraction, -24);
    uint32_t whole = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
    float value;
    memcpy(&value, &whole, sizeof value);
    return value;
}

/* To nearest, ties to even. */
static uint16_t to_half(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value)) return sign | 0x7E00;
    if (size == 0) return sign;
    if (size >= 65520.0) return sign | 0x7C00;
    int exponent = 0;
    frexp(size, &exponent);
    /* The last place: 2^-10 of the leading bit, and never below 2^-24. */
    int place = exponent - 11 < -24 ? -24 : exponent - 11;
    uint32_t steps = (uint32_t)nearbyint(ldexp(size, -place));
    /* Steps of a subnormal are its bits; beyond, a carry into the exponent is right as it is. */
    return sign | (uint16_t)(steps + ((uint32_t)(place + 24) << 10));
}

static uint16_t to_bf16(double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static double load(const void *data, int type, int64_t at) {
    switch (type) {
    case F32: return ((const float *)data)[at];
    case F64: return ((const double *)data)[at];
    case F16: return from_half(((const uint16_t *)data)[at]);
    default: {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

static void store(void *data, int type, int64_t at, double value) {
    switch (type) {
    case F32: ((float *)data)[at] = (float)value; break;
    case F64: ((double *)data)[at] = value; break;
    case F16: ((uint16_t *)data)[at] = to_half(value); break;
    default: ((uint16_t *)data)[at] = to_bf16(value); break;
    }
}

/* The product */

static int64_t place(const struct layout *layout, int64_t batch, int64_t row, int64_t column) {
    return batch * layout->stride + column * layout->leading + row;
}

static double finish(const struct product *p, double value, int64_t batch, int64_t row) {
    int epilogue = p->description.epilogue;
    if (epilogue & EPILOGUE_BIAS)
        value += load(p->description.bias, p->d.type, batch * p->description.bias_stride + row);
    if (epilogue & EPILOGUE_RELU) value = value > 0 ? value : 0;
    /* sqrt(2 / pi), and the constant of the tanh form. */
    if (epilogue & EPILOGUE_GELU)
        value = 0.5 * value * (1 + tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
    return value;
}

/* The product of two vectors, in eight sums that do not wait for one another. */
static double dot(const double *left, const double *right, int64_t count) {
    double sums[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] += left[i + lane] * right[i + lane];
    for (; i < count; i++) sum += left[i] * right[i];
    for (int lane = 0; lane < 8; lane++) sum += sums[lane];
    return sum;
}

static void multiply(const void *data) {
    const struct product *p = data;
    const struct layout *a = &p->a, *b = &p->b, *c = &p->c, *d = &p->d;
    int64_t inner = p->description.transpose_a ? a->rows : a->columns;
    double *left = malloc((inner + 1) * sizeof *left);
    double *right = malloc((inner * (int64_t)d->columns + 1) * sizeof *right);
    for (int64_t batch = 0; batch < d->batch; batch++) {
        for (int64_t column = 0; column < (int64_t)d->columns; column++)
            for (int64_t i = 0; i < inner; i++) {
                int64_t at = p->description.transpose_b ? place(b, batch, column, i) : place(b, batch, i, column);
                right[column * inner + i] = load(p->b_data, b->type, at);
            }
        for (int64_t row = 0; row < (int64_t)d->rows; row++) {
            for (int64_t i = 0; i < inner; i++) {
                int64_t at = p->description.transpose_a ? place(a, batch, i, row) : place(a, batch, row, i);
                left[i] = load(p->a_data, a->type, at);
            }
            for (int64_t column = 0; column < (int64_t)d->columns; column++) {
                double sum = dot(left, right + column * inner, inner);
                sum *= p->alpha;
                if (p->beta != 0) sum += p->beta * load(p->c_data, c->type, place(c, batch, row, column));
                store(p->d_data, d->type, place(d, batch, row, column), finish(p, sum, batch, row));
            }
        }
    }
    free(left);
    free(right);
}

static int on_device(const struct handle *handle, const struct layout *layout, const void *data) {
    int64_t last = place(layout, layout->batch - 1, (int64_t)layout->rows - 1, (int64_t)layout->columns - 1);
    return handle->is_device_memory(data, (size_t)(last + 1) * size_of(layout->type));
}

/* Whether the matrices begin as was said when the algorithm was chosen. */
static int aligned(const struct algorithm *algorithm, int operand, const struct layout *layout, const void *data) {
    uint32_t alignment = algorithm ? algorithm->alignment[operand] : 0;
    uint64_t stride = layout->batch > 1 ? (uint64_t)layout->stride * size_of(layout->type) : 0;
    return !alignment || (((uint64_t)data | stride) % alignment == 0);
}

static int workspace_fits(const struct handle *handle, const struct algorithm *algorithm, const void *at, size_t bytes) {
    if (!algorithm) return 1;
    if (algorithm->mark != MARK || algorithm->workspace > bytes) return 0;
    return algorithm->workspace == 0 || handle->is_device_memory(at, algorithm->workspace);
}

int cublasLtMatmul(struct handle *handle, const struct description *description, const void *alpha, const void *a_data,
                   const struct layout *a, const void *b_data, const struct layout *b, const void *beta,
                   const void *c_data, const struct layout *c, void *d_data, const struct layout *d,
                   const struct algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
    if (!handle || !description) return INVALID_VALUE;
    if (((uintptr_t)alpha | (uintptr_t)beta) % size_of(description->scale)) return INVALID_VALUE;
    int status = fits(description, a, b, c, d);
    if (status) return status;
    struct product p = {*description, *a, *b, *c, *d, load(alpha, description->scale, 0),
                        load(beta, description->scale, 0), a_data, b_data, c_data, d_data};
    if (!on_device(handle, a, a_data) || !on_device(handle, b, b_data) || !on_device(handle, d, d_data) ||
        (p.beta != 0 && !on_device(handle, c, c_data)) ||
        !workspace_fits(handle, algorithm, workspace, workspace_bytes))
        return INVALID_VALUE;
    if (!aligned(algorithm, 0, a, a_data) || !aligned(algorithm, 1, b, b_data) || !aligned(algorithm, 3, d, d_data) ||
        (p.beta != 0 && !aligned(algorithm, 2, c, c_data)))
        return INVALID_VALUE;
    size_t biases = (size_t)((d->batch - 1) * description->bias_stride + (int64_t)d->rows) * size_of(d->type);
    if ((description->epilogue & EPILOGUE_BIAS) && !handle->is_device_memory(description->bias, biases))
        return INVALID_VALUE;
    char text[200];
    snprintf(text, sizeof text, "matmul %c%c m %llu n %llu k %llu batch %d type %d epilogue %d",
             description->transpose_a ? 'T' : 'N', description->transpose_b ? 'T' : 'N', (unsigned long long)d->rows,
             (unsigned long long)d->columns,
             (unsigned long long)(description->transpose_a ? a->rows : a->columns), d->batch, a->type,
             description->epilogue);
    return handle->enqueue(stream, multiply, &p, sizeof p, text) ? EXECUTION_FAILED : SUCCESS;
}
