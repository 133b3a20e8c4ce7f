/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* byoc_plugin.h: the plugin interface of byoc for C99 and C++11.
 *
 * Generated from the Rust definitions in plugin-api/src by `UPDATE_GOLDEN=1 cargo test -p byoc-tests --test abi header::`; do
 * not edit. docs/writing-a-backend.md shows a whole backend, docs/abi.md what is promised to stay.
 *
 * A plugin is a shared library that exports two symbols:
 *
 *     const byoc_info byoc_plugin_info = BYOC_PLUGIN_INFO("acme", "1.0.0");
 *     const byoc_table byoc_plugin_table = { sizeof(byoc_table), count, call, load, run, free, extension };
 *
 * It should also say who it is in a form that is read without opening it, with the names of all its backends as JSON:
 *
 *     BYOC_PLUGIN_MANIFEST("acme", "1.0.0", "[\"acme\"]");
 *
 * Rules:
 *   - No memory changes its owner. Whatever a function is given is borrowed until it returns; code and constants given to
 *     `load` stay until `free`. Results are written into sinks, in as many pieces as is handy.
 *   - Descriptions, patterns, options, regions, claims, refusals and environments are JSON in UTF-8, as described in
 *     docs/writing-a-backend.md. Readers ignore fields that they do not know.
 *   - A function returns BYOC_OK, or BYOC_FAILED with the reason, one line of text, in `error`; `call` returns
 *     BYOC_UNKNOWN for a method that the backend does not have.
 *   - No function lets an exception or a longjmp out: write BYOC_NOEXCEPT behind each in C++.
 *   - Functions that take a backend's index may be called from several threads at once. One executable runs once at a
 *     time, not always on the same thread.
 */
#ifndef BYOC_PLUGIN_H
#define BYOC_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BYOC_NOEXCEPT noexcept
extern "C" {
#else
#define BYOC_NOEXCEPT
#endif

// The ABI version that this crate speaks: its own number, not the product's. It changes only when something frozen does.
#define BYOC_ABI_VERSION 1

// Done.
#define BYOC_OK 0

// Failed; the error sink has an `Error` as JSON, or the message alone as text.
#define BYOC_FAILED 1

// `call`: the backend has no such method.
#define BYOC_UNKNOWN 2

// The version that `extension` is asked for.
#define BYOC_DOMAIN_VERSION 1

// The version that `extension` is asked for.
#define BYOC_DEVICE_VERSION 1

// The version that `extension` is asked for.
#define BYOC_SIZED_VERSION 1

// The version that `extension` is asked for.
#define BYOC_STRINGS_VERSION 1

// The version that `extension` is asked for.
#define BYOC_STEPS_VERSION 1

// The version that `extension` is asked for.
#define BYOC_DEVICE_STEPS_VERSION 1

// The version that `extension` is asked for.
#define BYOC_EVENTS_VERSION 1

// Borrowed bytes; texts are UTF-8.
typedef struct {
  // First byte; may be null when `len` is 0.
  const uint8_t *data;
  // Number of bytes.
  size_t len;
} byoc_slice;

// Takes bytes, in as many calls as the writer likes. `write` returns `BYOC_OK` or `BYOC_FAILED`.
typedef struct {
  // Given back to `write`.
  void *context;
  // Appends bytes.
  int32_t (*write)(void *context, byoc_slice bytes);
} byoc_sink;

// Takes the answer of a call: `write` appends bytes, in as many calls as the writer likes, `item` says what the bytes
// behind it are, as JSON, and `event` tells what happens meanwhile. All return `BYOC_OK` or `BYOC_FAILED`.
typedef struct {
  // Given back to the functions.
  void *context;
  // Begins an item.
  int32_t (*item)(void *context, byoc_slice json);
  // Appends bytes to the answer, or to the last item.
  int32_t (*write)(void *context, byoc_slice bytes);
  // Tells of an event, as JSON: a line of a log, or progress. No part of the answer; unknown events are ignored.
  int32_t (*event)(void *context, byoc_slice json);
} byoc_output;

// Where a tensor's memory is: `device_type` 1 is the CPU, 2 CUDA, 12 an accelerator of another kind.
typedef struct {
  // DLPack's device type number.
  int32_t device_type;
  // Which device of that type.
  int32_t device_id;
} byoc_device;

// An element type: `code` 0 int, 1 uint, 2 float, 3 handle of a text, 4 bfloat, 5 complex, 6 bool, 10 to 14 and 17 floats of 8 and of 4 bits; `lanes` is 1.
typedef struct {
  // DLPack's type code.
  uint8_t code;
  // Bits an element.
  uint8_t bits;
  // Vector lanes; always 1 here.
  uint16_t lanes;
} byoc_dtype;

// A borrowed tensor. `strides` are in elements and never null when `ndim > 0`; `byte_offset` is added to `data`.
typedef struct {
  // Start of the allocation, or a device handle.
  void *data;
  // Where `data` is.
  byoc_device device;
  // Number of dimensions.
  int32_t ndim;
  // Element type.
  byoc_dtype dtype;
  // `ndim` sizes.
  const int64_t *shape;
  // `ndim` strides, in elements.
  const int64_t *strides;
  // Bytes from `data` to the first element.
  uint64_t byte_offset;
} byoc_tensor;

// A constant: `layout` is empty for the original bytes and names the layout of packed ones.
typedef struct {
  // The region's id of the constant.
  uint64_t id;
  // Layout tag.
  byoc_slice layout;
  // The bytes; `data` is null where they were not asked for.
  byoc_tensor tensor;
} byoc_constant;

// Borrowed byte strings.
typedef struct {
  // First entry; may be null when `len` is 0.
  const byoc_slice *data;
  // Number of entries.
  size_t len;
} byoc_slices;

// Borrowed constants.
typedef struct {
  // First entry; may be null when `len` is 0.
  const byoc_constant *data;
  // Number of entries.
  size_t len;
} byoc_constants;

// Borrowed tensors.
typedef struct {
  // First entry; may be null when `len` is 0.
  const byoc_tensor *data;
  // Number of entries.
  size_t len;
} byoc_tensors;

// What a host reads before anything else of a plugin is touched, from the symbol `byoc_plugin_info`.
typedef struct {
  // The bytes `byocplug`.
  uint8_t magic[8];
  // Size of this struct in the plugin; it grows at the end only.
  uint32_t struct_size;
  // The ABI version that the plugin speaks.
  uint32_t abi_version;
  // The plugin's name.
  byoc_slice name;
  // The plugin's version.
  byoc_slice version;
} byoc_info;

// The same functions as a plugin written in C or C++ has them, under the symbol `byoc_plugin_table`. No function may be
// null, and none may let an exception out.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Number of backends in the plugin.
  size_t (*count)(void);
  // Calls a method of a backend by its name. The request is JSON; `constants` are those of its region, `blobs` what else
  // is lent: the code of a region, what its code generation has learnt, or a file. What each method is given and answers
  // is in `docs/abi.md`. For a method that the backend does not have the answer is `BYOC_UNKNOWN`.
  int32_t (*call)(size_t backend,
                  byoc_slice method,
                  byoc_slice request,
                  byoc_constants constants,
                  byoc_slices blobs,
                  byoc_output out,
                  byoc_sink error);
  // Makes a region ready to run and stores a handle, not null, in `executable`.
  int32_t (*load)(size_t backend,
                  byoc_slice code,
                  byoc_constants constants,
                  byoc_slice environment,
                  void **executable,
                  byoc_sink error);
  // Computes `outputs` from `inputs`.
  int32_t (*run)(void *executable, byoc_tensors inputs, byoc_tensors outputs, byoc_sink error);
  // Ends an executable.
  void (*free)(void *executable);
  // The table of a group of functions that few backends have, by id and version, or null.
  const void *(*extension)(size_t backend, byoc_slice id, uint32_t version);
} byoc_table;

// How a plugin joins a domain that another one opened: the device, and what its own calls for it need. For a device of
// type 2 (CUDA), `context` is the primary context of the ordinal (a `CUcontext`) and `queue` a `CUstream` of it, never
// the legacy one.
typedef struct {
  // DLPack's type of the device, and its ordinal.
  byoc_device device;
  // What the device's libraries call a context; may be null where they have none.
  void *context;
  // The queue that all work goes into, in order; may be null where there is only one.
  void *queue;
} byoc_domain_handles;

// A constant on a device: on the host it is at `constant.tensor`, and its element of index 0 is at `address` on the device.
typedef struct {
  // Id, layout, type, shape, strides, and the bytes on the host.
  byoc_constant constant;
  // The address on the device.
  uint64_t address;
} byoc_device_constant;

// Borrowed constants on a device.
typedef struct {
  // First entry; may be null when `len` is 0.
  const byoc_device_constant *data;
  // Number of entries.
  size_t len;
} byoc_device_constants;

// The functions of a backend that opens a memory domain. All are there. Calls for one domain come one at a time, from any
// thread. What is queued is done in order; memory that a queued copy reads or writes is left alone until `synchronize`.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Opens the device of that ordinal with a queue of its own, stores a handle, not null, in `domain`, what others need to
  // join in `handles`, and writes a `DomainInfo` to `out`. `options` are the backend's `run_options`.
  int32_t (*open)(size_t backend,
                  uint32_t ordinal,
                  byoc_slice options,
                  void **domain,
                  byoc_domain_handles *handles,
                  byoc_sink out,
                  byoc_sink error);
  // Waits for what is queued and ends a domain.
  void (*close)(void *domain);
  // Stores in `address` where `bytes` of the device's memory begin, at a multiple of 256.
  int32_t (*allocate)(void *domain, uint64_t bytes, uint64_t *address, byoc_sink error);
  // Gives memory back.
  void (*release)(void *domain, uint64_t address);
  // Stores in `address` where `bytes` of page-locked host memory begin, at a multiple of 64.
  int32_t (*allocate_host)(void *domain, size_t bytes, void **address, byoc_sink error);
  // Gives host memory back.
  void (*release_host)(void *domain, void *address);
  // Queues a copy from the host.
  int32_t (*upload)(void *domain, uint64_t to, const void *from, size_t bytes, byoc_sink error);
  // Queues a copy to the host, from memory of the domain or from what a program has allocated itself in the context of the handles.
  int32_t (*download)(void *domain, void *to, uint64_t from, size_t bytes, byoc_sink error);
  // Queues a copy within the device, to memory of the domain, from there or from where `download` copies from.
  int32_t (*copy)(void *domain, uint64_t to, uint64_t from, size_t bytes, byoc_sink error);
  // Waits for what is queued; fails where any of it went wrong.
  int32_t (*synchronize)(void *domain, byoc_sink error);
  // Queues taking the time under a number.
  int32_t (*mark)(void *domain, uint32_t number, byoc_sink error);
  // Stores the seconds between two marks that the queue has passed.
  int32_t (*elapsed)(void *domain, uint32_t from, uint32_t to, double *seconds, byoc_sink error);
  // Records what is queued from here on in place of doing it. Until the end of the recording, which comes from the same
  // thread, regions are run and nothing else is called.
  int32_t (*begin_recording)(void *domain, byoc_sink error);
  // Ends the recording, also where it fails, and stores a number for it.
  int32_t (*end_recording)(void *domain, uint64_t *recording, byoc_sink error);
  // Queues what was recorded.
  int32_t (*replay)(void *domain, uint64_t recording, byoc_sink error);
  // Forgets a recording.
  void (*forget)(void *domain, uint64_t recording);
} byoc_domain_table;

// The functions of a backend whose regions run in the domain that its description names. All are there.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Makes a region ready for a domain, which outlives it, and stores a handle, not null, in `executable`. Code and
  // constants stay as they are, on the host and on the device, until it is freed.
  int32_t (*load)(size_t backend,
                  byoc_slice code,
                  byoc_device_constants constants,
                  byoc_slice environment,
                  const byoc_domain_handles *domain,
                  void **executable,
                  byoc_sink error);
  // Writes to `out` what tensors of these shapes need, a `DevicePlan`. Their addresses are not known yet.
  int32_t (*plan)(void *executable,
                  byoc_tensors inputs,
                  byoc_tensors outputs,
                  byoc_sink out,
                  byoc_sink error);
  // Makes ready to run on tensors at these addresses, which are those of the device.
  int32_t (*prepare)(void *executable,
                     byoc_tensors inputs,
                     byoc_tensors outputs,
                     uint64_t scratch,
                     byoc_sink error);
  // Queues the work on what was prepared last.
  int32_t (*run)(void *executable, byoc_sink error);
  // Ends an executable.
  void (*free)(void *executable);
} byoc_device_table;

// Gives the memory of outputs, each once in a run, in any order.
typedef struct {
  // Given back to `allocate`.
  void *context;
  // Stores in `tensor` memory for the output of that index with this shape of `ndim` sizes: contiguous, at a multiple of 64
  // bytes, of unspecified content. It is good until the run ends. Returns `BYOC_OK`(crate::abi::OK), or
  // `BYOC_FAILED`(crate::abi::FAILED) where the host takes no output of that shape or has no memory for it: the run fails then.
  int32_t (*allocate)(void *context,
                      size_t output,
                      const int64_t *shape,
                      size_t ndim,
                      byoc_tensor *tensor);
} byoc_output_allocator;

// The functions of a backend whose regions may have outputs of sizes that only their computation tells. All are there.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // As `run`, with outputs whose memory is asked for: every output of the region, once. `executable` is a handle of `load`.
  int32_t (*run_sized)(void *executable,
                       byoc_tensors inputs,
                       byoc_output_allocator outputs,
                       byoc_sink error);
} byoc_sized_table;

// The host's table of texts: an element of a tensor of strings is a handle of 64 bits in it. Handle 0 is the empty text. Its
// functions may be called during a run, from any thread.
typedef struct {
  // Given back to the functions.
  void *context;
  // Stores in `text` the UTF-8 text that a handle stands for. It is good until the run ends. Returns `BYOC_OK`(crate::abi::OK), or
  // `BYOC_FAILED`(crate::abi::FAILED) where the handle stands for nothing.
  int32_t (*get)(void *context, uint64_t handle, byoc_slice *text);
  // Stores in `handle` one that stands for a UTF-8 text, which the host copies. Returns `BYOC_OK`(crate::abi::OK), or
  // `BYOC_FAILED`(crate::abi::FAILED) where it is not UTF-8 or there is no memory for it.
  int32_t (*add)(void *context, byoc_slice text, uint64_t *handle);
} byoc_text_table;

// The functions of a backend whose regions may have texts among their values. All are there.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Lends the table to an executable that `load` gave, once and before its first run. The table is there until `free`.
  int32_t (*lend)(void *executable, byoc_text_table texts, byoc_sink error);
} byoc_strings_table;

// The functions of a backend that tells what its regions consist of. All are there.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Has the times of the steps taken in the runs that follow (`on` is 1), or no longer (0). Until the first call they are not
  // taken, which must cost nothing. `executable` is a handle of `load`; in the answer to `byoc.device_steps` it is one of the `load`
  // of `byoc.device`.
  int32_t (*time)(void *executable, uint32_t on, byoc_sink error);
  // Writes the steps of the last run, as JSON: a list of `{"kernel": "conv", "nodes": ["/conv1"], "start": 0.0, "seconds": 1e-3}` in
  // the order in which they ran. `kernel` is what the backend calls it, `nodes` are the names of the nodes of the region that it
  // computes, as far as they are known, and `start` is counted in seconds from the beginning of the run. Code that has no names
  // has `indices` as well as `nodes` or instead of them: the positions of nodes in the region, such as `[0, 2]`. `operations` and
  // `bytes`, where they are there, are how many multiplications and additions the step does and how many bytes it reads and
  // writes: hosts show its time over them. On a device the host has waited for the run before it asks.
  int32_t (*read)(void *executable, byoc_sink out, byoc_sink error);
} byoc_steps_table;

// The host's place for events. It is there as long as the plugin; `event` may be called from any thread, and costs little where nobody
// listens.
typedef struct {
  // Given back to the function.
  void *context;
  // Takes an event, as JSON: a line of a log, `{"log": "8 tiles"}`, or how far the work is, `{"progress": {"done": 1, "total": 3,
  // "next": "tile 2"}}`. Each is a sign of life, too. Returns `BYOC_OK`(crate::abi::OK), or `BYOC_FAILED`(crate::abi::FAILED) where it cannot
  // be passed on.
  int32_t (*event)(void *context, byoc_slice json);
} byoc_event_sink;

// The function of a plugin that tells what it does while regions are loaded and run. It is there.
typedef struct {
  // Size of this struct in the plugin; it grows at the end only.
  size_t struct_size;
  // Lends the place for events to the plugin, once, before anything is loaded.
  void (*lend)(byoc_event_sink events);
} byoc_events_table;

/* Makes a symbol visible whatever the compiler's default is. */
#if defined(_WIN32)
#define BYOC_EXPORT __declspec(dllexport)
#else
#define BYOC_EXPORT __attribute__((visibility("default")))
#endif

/* What `extension` is asked for, with BYOC_DOMAIN_VERSION and BYOC_DEVICE_VERSION, of a backend whose description has
 * `domain`: it answers a `byoc_domain_table` if it opens such memory, and a `byoc_device_table`, for its regions run
 * there. */
#define BYOC_DOMAIN "byoc.domain"
#define BYOC_DEVICE "byoc.device"

/* What `extension` is asked for, with BYOC_SIZED_VERSION, of a backend whose description says `run_time_sizes`: it answers a
 * `byoc_sized_table`, by which regions are run that have an output of a size that their inputs do not tell. */
#define BYOC_SIZED "byoc.sized"

/* What `extension` is asked for, with BYOC_STRINGS_VERSION, of a backend whose description names `string` among its types: it
 * answers a `byoc_strings_table`, by which its executables are lent the table of texts. */
#define BYOC_STRINGS "byoc.strings"
#define BYOC_EVENTS "byoc.events"

/* What `extension` is asked for, with BYOC_STEPS_VERSION: a backend that tells what a run of a region consisted of answers a
 * `byoc_steps_table`. */
#define BYOC_STEPS "byoc.steps"

/* The same for regions on a device, with BYOC_DEVICE_STEPS_VERSION: its executables are those of `byoc_device_table`. */
#define BYOC_DEVICE_STEPS "byoc.device_steps"

/* The initialiser of `byoc_plugin_info`, from two string literals. */
#define BYOC_PLUGIN_INFO(NAME, VERSION) \
    { \
        {'b', 'y', 'o', 'c', 'p', 'l', 'u', 'g'}, (uint32_t)sizeof(byoc_info), BYOC_ABI_VERSION, \
        {(const uint8_t *)NAME, sizeof(NAME) - 1}, {(const uint8_t *)VERSION, sizeof(VERSION) - 1} \
    }

/* What a plugin exports. */
extern BYOC_EXPORT const byoc_info byoc_plugin_info;
extern BYOC_EXPORT const byoc_table byoc_plugin_table;
extern BYOC_EXPORT const char byoc_plugin_manifest[];

/* Defines `byoc_plugin_manifest` from string literals: name and version as in BYOC_PLUGIN_INFO, and a JSON list of the
 * names of all backends in the order of their indices; "[]" where they are not known before the plugin runs. */
#define BYOC_TEXT_OF(NUMBER) #NUMBER
#define BYOC_TEXT(NUMBER) BYOC_TEXT_OF(NUMBER)
#if defined(__ELF__)
#define BYOC_MANIFEST_SECTION __attribute__((section(".byoc"), used))
#else
#define BYOC_MANIFEST_SECTION
#endif
#define BYOC_PLUGIN_MANIFEST(NAME, VERSION, BACKENDS) \
    BYOC_MANIFEST_SECTION const char byoc_plugin_manifest[] = "{\"name\":\"" NAME "\",\"version\":\"" VERSION \
        "\",\"abi\":" BYOC_TEXT(BYOC_ABI_VERSION) ",\"backends\":" BACKENDS "}"

#ifdef __cplusplus
}
#endif

#endif
