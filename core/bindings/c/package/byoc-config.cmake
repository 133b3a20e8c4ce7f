# The targets byoc::byoc, the shared library, and byoc::static where the static one is installed.
get_filename_component(_byoc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET byoc::byoc)
    add_library(byoc::byoc SHARED IMPORTED)
    set_target_properties(byoc::byoc PROPERTIES
        IMPORTED_LOCATION "${_byoc_prefix}/lib/libbyoc.so"
        IMPORTED_NO_SONAME TRUE
        INTERFACE_INCLUDE_DIRECTORIES "${_byoc_prefix}/include")
endif()

if(NOT TARGET byoc::static AND EXISTS "${_byoc_prefix}/lib/libbyoc.a")
    # All of it: backends register themselves, and no function names them.
    add_library(byoc::static INTERFACE IMPORTED)
    set_target_properties(byoc::static PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${_byoc_prefix}/include"
        INTERFACE_LINK_LIBRARIES "-Wl,--whole-archive;${_byoc_prefix}/lib/libbyoc.a;-Wl,--no-whole-archive;gcc_s;util;rt;pthread;m;dl;c")
endif()

unset(_byoc_prefix)
