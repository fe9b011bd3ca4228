// Which limit kernels to call for an instruction set.
#include "bench/limit_kernels.hpp"

namespace millrace {
namespace isa_baseline {
extern const bench::LimitKernels kLimitKernels;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const bench::LimitKernels kLimitKernels;
}
namespace isa_avx512 {
extern const bench::LimitKernels kLimitKernels;
}
#endif

namespace bench {

const LimitKernels* limit_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return &isa_avx2::kLimitKernels;
  if (isa == Isa::kAvx512) return &isa_avx512::kLimitKernels;
#endif
  return isa == Isa::kBaseline || isa == Isa::kReference ? &isa_baseline::kLimitKernels : nullptr;
}

}  // namespace bench
}  // namespace millrace
