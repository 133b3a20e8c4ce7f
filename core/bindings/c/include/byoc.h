/* byoc's runtime as a C library: artifacts are opened and run. Generated from core/bindings/c.
 *
 * Functions return a byoc_status. Sessions are numbers: one that was closed, or never given, is an error. Every function may be called
 * from any thread; calls for one session take turns. Types and functions are only ever added. */
#ifndef BYOC_H
#define BYOC_H

#include <stddef.h>
#include <stdint.h>

// How a function ended. Further numbers may come; those that are not 0 are errors.
enum byoc_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Well.
  BYOC_STATUS_OK = 0,
  // With an error, which `byoc_error_code`, `byoc_error_message` and `byoc_error_hint` tell.
  BYOC_STATUS_FAILED = 1,
  // By a defect of byoc. The session in question cannot be used any more.
  BYOC_STATUS_DEFECT = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum byoc_status byoc_status;
#else
typedef int32_t byoc_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Types of elements, with the numbers that ONNX has for them (`TensorProto.DataType`). Elements of less than 8 bits share bytes: the
// first one is in the lowest bits. Further types may come.
enum byoc_element
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // IEEE binary32.
  BYOC_F32 = 1,
  // Unsigned.
  BYOC_U8 = 2,
  // Signed.
  BYOC_I8 = 3,
  // Unsigned.
  BYOC_U16 = 4,
  // Signed.
  BYOC_I16 = 5,
  // Signed.
  BYOC_I32 = 6,
  // Signed.
  BYOC_I64 = 7,
  // 0 or 1, in a byte.
  BYOC_BOOL = 9,
  // IEEE binary16.
  BYOC_F16 = 10,
  // IEEE binary64.
  BYOC_F64 = 11,
  // Unsigned.
  BYOC_U32 = 12,
  // Unsigned.
  BYOC_U64 = 13,
  // Two f32.
  BYOC_C64 = 14,
  // Two f64.
  BYOC_C128 = 15,
  // The upper half of an f32.
  BYOC_BF16 = 16,
  // 8 bits.
  BYOC_F8E4M3FN = 17,
  // 8 bits.
  BYOC_F8E4M3FNUZ = 18,
  // 8 bits.
  BYOC_F8E5M2 = 19,
  // 8 bits.
  BYOC_F8E5M2FNUZ = 20,
  // Unsigned, two in a byte.
  BYOC_U4 = 21,
  // Signed, two in a byte.
  BYOC_I4 = 22,
  // Two in a byte.
  BYOC_F4E2M1 = 23,
  // A power of two.
  BYOC_F8E8M0 = 24,
  // Unsigned, four in a byte.
  BYOC_U2 = 25,
  // Signed, four in a byte.
  BYOC_I2 = 26,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum byoc_element byoc_element;
#else
typedef int32_t byoc_element;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A device that a session uses.
typedef struct {
  // Its name, such as `cuda:0`. It stays as long as the session is open.
  const char *name;
  // DLPack's number of the kind of its memory: 2 for CUDA's, 12 for a device that has no number of its own.
  int32_t device_type;
  // Which device of that kind.
  int32_t device_id;
  // What its libraries call a context: for CUDA the device's primary one, a `CUcontext`. NULL where they have none.
  void *context;
  // The queue of the session's work: for CUDA a `CUstream`. NULL where there is only one.
  void *queue;
} byoc_device_info;

// A tensor, row-major, in the memory of the host or of a device.
typedef struct {
  // The elements: an address of the host, or one of the device.
  const void *data;
  // Their bytes.
  size_t bytes;
  // The type of the elements, a `byoc_element`.
  int32_t element;
  // The number of dimensions.
  int32_t rank;
  // The size of each; may be NULL where there is none.
  const int64_t *shape;
  // DLPack's number of the kind of memory: 1 for the host's, 2 for CUDA's, 12 for a device that has no number of its own.
  int32_t device_type;
  // Which device of that kind.
  int32_t device_id;
} byoc_device_array;

// How a session is opened. Set `struct_size` to `sizeof(byoc_options)` and everything else to 0, but for what is wished; later
// versions add fields at the end.
typedef struct {
  // `sizeof(byoc_options)`.
  size_t struct_size;
  // The entry to run, where the file has several; or NULL.
  const char *entry;
  // Most threads to use; 0: one for each core.
  size_t threads;
  // Devices such as `cuda:0`, one of each kind; none for the first of each kind.
  const char *const *devices;
  // How many devices there are.
  size_t device_count;
  // Plugin files.
  const char *const *plugins;
  // How many plugins there are.
  size_t plugin_count;
  // Folders of plugins.
  const char *const *plugin_dirs;
  // How many folders there are.
  size_t plugin_dir_count;
  // Settings of backends' options about the machine that runs the artifact, as `acme.key=value`.
  const char *const *settings;
  // How many settings there are.
  size_t setting_count;
  // The variant to load, of a file that has some; or NULL for the best one that can be loaded here.
  const char *variant;
  // The program `byoc`, in processes of which regions of plugins run, so that a crash is an error of that run; or NULL to run them in this
  // process. Not for regions on devices, with texts, or with sizes that only a run tells.
  const char *isolate_by;
} byoc_options;

// Reads `size` bytes of an artifact from byte `offset` on into `buffer`. `user` is what was given beside the function. Returns 0, or
// another number where it cannot.
typedef int (*byoc_read)(void *user, uint64_t offset, void *buffer, size_t size);

// An input or an output of an entry.
typedef struct {
  // Its name, in UTF-8. It stays as long as the session is open.
  const char *name;
  // The type of its elements, a `byoc_element`.
  int32_t element;
  // The number of dimensions.
  int32_t rank;
  // The size of each dimension; -1 where the inputs of a run decide it. It stays as long as the session is open.
  const int64_t *shape;
} byoc_port;

// A tensor, row-major, in the byte order of x86.
typedef struct {
  // The elements.
  const void *data;
  // Their bytes.
  size_t bytes;
  // The type of the elements, a `byoc_element`.
  int32_t element;
  // The number of dimensions.
  int32_t rank;
  // The size of each; may be NULL where there is none.
  const int64_t *shape;
} byoc_array;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as `0.1.0`.
const char *byoc_version(void);

// Writes how many devices a session uses to `count`.
//
// What must hold:
// `count` is NULL, or can be written to.
byoc_status byoc_device_count(uint64_t session, size_t *count);

// Writes what device `index` of a session is to `device`. Its context and queue are good as long as the session is open.
//
// What must hold:
// `device` is NULL, or can be written to.
byoc_status byoc_device_at(uint64_t session,
                           size_t index,
                           byoc_device_info *device);

// Writes to `tensor` where a device reads input `index` from in runs of the last run's shapes, with what it holds. A program may write there
// between two runs by the device's own API, and give the tensor to `byoc_run_on_devices`: it is not copied then, unless the host reads it too.
// It stays until a run with other shapes, or until the session is closed. An error where no device reads it, and before the first run.
//
// What must hold:
// `tensor` is NULL, or can be written to.
byoc_status byoc_device_input(uint64_t session,
                              size_t index,
                              byoc_device_array *tensor);

// The code of the last error of this thread, such as `B701`; NULL where there was none. The text stays until the next error.
const char *byoc_error_code(void);

// The last error of this thread in one line; NULL where there was none. The text stays until the next error.
const char *byoc_error_message(void);

// What helps against the last error of this thread; NULL where nothing can be said. The text stays until the next error.
const char *byoc_error_hint(void);

// Opens the artifact at `path` and writes the number of the session to `session`. The file is mapped: constants are not copied.
// `options` may be NULL.
//
// What must hold:
// `path` is a text, `options` are as they say or NULL, and `session` can be written to.
byoc_status byoc_open(const char *path,
                      const byoc_options *options,
                      uint64_t *session);

// Opens an artifact that is in memory, such as one that was decrypted or is a part of another file, and writes the number of the session to
// `session`. Nothing is copied: the `length` bytes at `bytes` stay, unchanged, until the session is closed and its last call has ended. They
// begin at a multiple of 4096, as memory of `mmap` does, so that constants lie where kernels can read them.
//
// What must hold:
// `bytes` points to `length` bytes that stay as is said above, `options` are as they say or NULL, and `session` can be written to.
byoc_status byoc_open_memory(const void *bytes,
                             size_t length,
                             const byoc_options *options,
                             uint64_t *session);

// Opens an artifact of `length` bytes that a function of the caller's reads, such as one that is encrypted or an asset of an application, and
// writes the number of the session to `session`. The bytes are read once, from the first to the last, before this returns, into memory
// that belongs to the session.
//
// What must hold:
// `read` writes to no more than the buffer that it is given and does not unwind, `options` are as they say or NULL, and `session` can be
// written to.
byoc_status byoc_open_with(byoc_read read,
                           void *user,
                           size_t length,
                           const byoc_options *options,
                           uint64_t *session);

// Writes the name of the variant that was loaded to `name`, or NULL where the file has no variants. The text stays until the session is
// closed.
//
// What must hold:
// `name` can be written to.
byoc_status byoc_variant(uint64_t session,
                         const char **name);

// Closes a session. What it has given is gone with it. A number that is closed already is an error.
byoc_status byoc_close(uint64_t session);

// Writes how many inputs a session takes to `count`.
//
// What must hold:
// `count` is NULL, or can be written to.
byoc_status byoc_input_count(uint64_t session, size_t *count);

// Writes how many outputs a session gives to `count`.
//
// What must hold:
// `count` is NULL, or can be written to.
byoc_status byoc_output_count(uint64_t session, size_t *count);

// Writes what input `index` is to `port`.
//
// What must hold:
// `port` is NULL, or can be written to.
byoc_status byoc_input_port(uint64_t session, size_t index, byoc_port *port);

// Writes what output `index` is to `port`.
//
// What must hold:
// `port` is NULL, or can be written to.
byoc_status byoc_output_port(uint64_t session, size_t index, byoc_port *port);

// Runs a session once, with a tensor for each of its inputs, in their order. They are read where they lie; a result of the run before
// may be one of them.
//
// What must hold:
// `inputs` is an array of `count` tensors, whose pointers point to as much as they say.
byoc_status byoc_run(uint64_t session,
                     const byoc_array *inputs,
                     size_t count);

// Runs a session once, with tensors that may be in the memory of a device that the session uses (`byoc_device_at`), and leaves results where
// they were computed: `byoc_device_result` tells where. An input that only the device reads is copied within it, and not at all
// where it is at the address that `byoc_device_input` tells. A result of the run before may be an input; where the inputs have other shapes than
// in that run, it goes over the host.
//
// What must hold:
// `inputs` is an array of `count` tensors, whose pointers point to as much as they say: those of the host to memory of the program, those of a
// device to memory that it reaches in the context of `byoc_device_at`. All work that writes to them is done.
byoc_status byoc_run_on_devices(uint64_t session,
                                const byoc_device_array *inputs,
                                size_t count);

// Writes output `index` of the last run to `array`, on the host: what a device has is copied first. It is the session's memory: it stays until
// the session runs again or is closed.
//
// What must hold:
// `array` is NULL, or can be written to.
byoc_status byoc_result(uint64_t session,
                        size_t index,
                        byoc_array *array);

// Writes output `index` of the last run to `tensor`, where it was computed: in the memory of a device or of the host. It is the session's
// memory: it stays until the session runs again or is closed. All work on it is done.
//
// What must hold:
// `tensor` is NULL, or can be written to.
byoc_status byoc_device_result(uint64_t session,
                               size_t index,
                               byoc_device_array *tensor);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif
