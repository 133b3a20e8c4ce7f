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
