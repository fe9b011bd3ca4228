// Which learner to call for an instruction set.
#include "kernels/learner_kernels.hpp"

namespace millrace {

namespace isa_baseline {
extern const LearnerKernels kLearnerKernels;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const LearnerKernels kLearnerKernels;
}
namespace isa_avx512 {
extern const LearnerKernels kLearnerKernels;
}
#endif

const LearnerKernels* learner_kernels(Isa isa) {
  switch (isa) {
    case Isa::kReference:
    case Isa::kBaseline:
      return &isa_baseline::kLearnerKernels;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return &isa_avx2::kLearnerKernels;
    case Isa::kAvx512:
      return &isa_avx512::kLearnerKernels;
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
      return nullptr;
#endif
  }
  return nullptr;
}

}  // namespace millrace
