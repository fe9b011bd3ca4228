// What every header of envs/ and kernels/ needs from the compiler: host-device functions and the instruction-set
// namespace. Plain C++20: no CUDA header is included.
//
// Such headers are compiled once for each instruction set (cmake/MillraceIsa.cmake). MILLRACE_ISA names an inline
// namespace that keeps the copies apart, and MILLRACE_FN leaves no out-of-line copy that a linker could take from the
// wrong one.
#pragma once

#ifndef MILLRACE_ISA
#define MILLRACE_ISA isa_plain
#endif

#if defined(__CUDACC__)
#define MILLRACE_FN __host__ __device__ __forceinline__
#else
/// A function that runs on CPU and GPU, inlined where it is called.
#define MILLRACE_FN __attribute__((always_inline)) inline
#endif
