// The callable that streams carry: where its target lives, that it moves and dies exactly once.
#include "runtime/inline_function.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

namespace millrace {
namespace {

using Function = InlineFunction<int(int), 32>;

/// Counts the instances that are alive.
struct Counted {
  explicit Counted(int& count) : alive(&count) { ++*alive; }
  Counted(const Counted& other) : alive(other.alive) { ++*alive; }
  Counted(Counted&& other) noexcept : alive(other.alive) { ++*alive; }
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive; }
  int* alive;
};

template <std::size_t Padding>
void check_life_of_target() {
  int alive = 0;
  {
    Function first([counted = Counted(alive), padding = std::array<char, Padding>{}](int x) {
      return x + *counted.alive + static_cast<int>(padding.size());
    });
    EXPECT_EQ(alive, 1);
    Function second = std::move(first);
    EXPECT_EQ(alive, 1);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the promise under test
    ASSERT_TRUE(second);
    EXPECT_EQ(second(5), 6 + static_cast<int>(Padding));
    Function third([counted = Counted(alive)](int x) { return -x * *counted.alive; });
    EXPECT_EQ(alive, 2);
    third = std::move(second);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(third(1), 2 + static_cast<int>(Padding));
    third.reset();
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(third);
  }
  EXPECT_EQ(alive, 0);
}

TEST(InlineFunction, SmallTargetLivesInside) { check_life_of_target<1>(); }
TEST(InlineFunction, LargeTargetLivesOnTheHeap) { check_life_of_target<200>(); }

TEST(InlineFunction, HoldsMoveOnlyTargetsAndKeepsTheirState) {
  Function function([count = std::make_unique<int>(10)](int x) mutable { return *count += x; });
  EXPECT_EQ(function(1), 11);
  Function moved = std::move(function);
  EXPECT_EQ(moved(2), 13);
}

}  // namespace
}  // namespace millrace
