/* Makes a symbol visible whatever the compiler's default is. */
#if defined(_WIN32)
#define BYOC_EXPORT __declspec(dllexport)
#else
#define BYOC_EXPORT __attribute__((visibility("default")))
#endif

/* The initialiser of `byoc_plugin_info`, from two string literals. */
#define BYOC_PLUGIN_INFO(NAME, VERSION) \
    { \
        {'b', 'y', 'o', 'c', 'p', 'l', 'u', 'g'}, (uint32_t)sizeof(byoc_info), BYOC_ABI_VERSION, \
        {(const uint8_t *)NAME, sizeof(NAME) - 1}, {(const uint8_t *)VERSION, sizeof(VERSION) - 1} \
    }

/* What a plugin exports. */
extern BYOC_EXPORT const byoc_info byoc_plugin_info;
extern BYOC_EXPORT const byoc_table byoc_plugin_table;

#ifdef __cplusplus
}
#endif

#endif
