// Angles: wrapping to one turn.
//
// Thread safety: pure functions.
#pragma once

#include "envs/lanes.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// x minus the whole turns that bring it nearest to 0: in [-pi, pi] up to the rounding of x itself, and
/// exactly x where it lies there already. |x| < 2^20.
template <class Real>
MILLRACE_FN Real wrap_angle(Real x) {
  // Adding 1.5 * 2^23 rounds x / 2pi to the nearest integer. 2pi is subtracted in two parts, so that many
  // turns cost no more precision than x has.
  const Real turns = fma(x, Real(0x1.45f306p-3f), Real(0x1.8p23f)) - 0x1.8p23f;
  return fma(turns, Real(0x1.777a5cp-23f), fma(turns, Real(-0x1.921fb6p2f), x));
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
