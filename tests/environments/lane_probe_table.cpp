// Which probe to call for an instruction set.
#include "tests/environments/lane_probe.hpp"

namespace millrace {

namespace isa_baseline {
extern const LaneProbe kLaneProbe;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const LaneProbe kLaneProbe;
}
namespace isa_avx512 {
extern const LaneProbe kLaneProbe;
}
#endif

const LaneProbe* lane_probe(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return &isa_avx2::kLaneProbe;
  if (isa == Isa::kAvx512) return &isa_avx512::kLaneProbe;
#endif
  return isa == Isa::kBaseline ? &isa_baseline::kLaneProbe : nullptr;
}

}  // namespace millrace
