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
