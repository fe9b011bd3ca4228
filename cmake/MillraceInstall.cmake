# `cmake --install` and `find_package(millrace)`: targets millrace::runtime (which brings kernels and envs) and the program
# rl_run.
include(CMakePackageConfigHelpers)

set_target_properties(millrace_envs PROPERTIES EXPORT_NAME envs)
set_target_properties(millrace_kernels PROPERTIES EXPORT_NAME kernels)
set_target_properties(millrace_runtime PROPERTIES EXPORT_NAME runtime)
set_target_properties(millrace_compile PROPERTIES EXPORT_NAME compile)
install(TARGETS millrace_envs millrace_kernels millrace_runtime millrace_compile EXPORT millrace)
install(EXPORT millrace NAMESPACE millrace:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/millrace FILE millraceTargets.cmake)
install(DIRECTORY envs kernels runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace FILES_MATCHING PATTERN "*.hpp")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${PROJECT_BINARY_DIR}/millraceConfig.cmake "include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(tomlplusplus)
find_dependency(nlohmann_json)
find_dependency(fmt)
include(\${CMAKE_CURRENT_LIST_DIR}/millraceTargets.cmake)
")
install(FILES ${PROJECT_BINARY_DIR}/millraceConfig.cmake ${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
