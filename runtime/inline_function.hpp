// A move-only callable whose target lives inside the object, so that handing work to a stream costs no heap
// allocation. A target that is larger than the space, over-aligned, or whose move may throw goes to the heap.
//
// Invariants: an empty function has no target and must not be called; a moved-from function is empty.
// Thread safety: const calls from several threads at once are as safe as the target's own const-ness allows;
// a stream calls one target from several workers together.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace millrace {

template <class Signature, std::size_t Bytes = 96>
class InlineFunction;

template <class Result, class... Args, std::size_t Bytes>
class InlineFunction<Result(Args...), Bytes> {
 public:
  /// Targets up to this size (with alignment up to that of max_align_t) are stored without a heap allocation.
  static constexpr std::size_t kInlineBytes = Bytes;

  InlineFunction() noexcept = default;

  template <class Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, InlineFunction> &&
           std::is_invocable_r_v<Result, std::decay_t<Callable>&, Args...>)
      InlineFunction(
          Callable&& callable) {  // NOLINT(google-explicit-constructor): a lambda is passed as it is
    using Target = std::decay_t<Callable>;
    if constexpr (fits<Target>) {
      ::new (static_cast<void*>(storage_)) Target(std::forward<Callable>(callable));
      operations_ = &kInlineOperations<Target>;
    } else {
      ::new (static_cast<void*>(storage_)) Target*(new Target(std::forward<Callable>(callable)));
      operations_ = &kHeapOperations<Target>;
    }
  }

  InlineFunction(InlineFunction&& other) noexcept { take(other); }
  InlineFunction& operator=(InlineFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  InlineFunction(const InlineFunction&) = delete;
  InlineFunction& operator=(const InlineFunction&) = delete;
  ~InlineFunction() { reset(); }

  /// REQUIRES: not empty.
  Result operator()(Args... args) { return operations_->call(storage_, std::forward<Args>(args)...); }

  [[nodiscard]] explicit operator bool() const noexcept { return operations_ != nullptr; }

  /// Destroys the target.
  void reset() noexcept {
    if (operations_ != nullptr) std::exchange(operations_, nullptr)->destroy(storage_);
  }

 private:
  struct Operations {
    Result (*call)(void* storage, Args&&... args);
    void (*relocate)(void* from, void* to) noexcept;  // leaves nothing to destroy in `from`
    void (*destroy)(void* storage) noexcept;
  };

  template <class Target>
  static constexpr bool fits =
      sizeof(Target) <= Bytes &&
      alignof(Target) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Target>;

  template <class Target>
  static Target& inline_target(void* storage) noexcept {
    return *std::launder(static_cast<Target*>(storage));
  }
  template <class Target>
  static Target*& heap_target(void* storage) noexcept {
    return *std::launder(static_cast<Target**>(storage));
  }

  template <class Target>
  static constexpr Operations kInlineOperations{
      [](void* storage, Args&&... args) -> Result {
        return static_cast<Result>(inline_target<Target>(storage)(std::forward<Args>(args)...));
      },
      [](void* from, void* to) noexcept {
        Target& target = inline_target<Target>(from);
        ::new (to) Target(std::move(target));
        target.~Target();
      },
      [](void* storage) noexcept { inline_target<Target>(storage).~Target(); }};

  template <class Target>
  static constexpr Operations kHeapOperations{
      [](void* storage, Args&&... args) -> Result {
        return static_cast<Result>((*heap_target<Target>(storage))(std::forward<Args>(args)...));
      },
      [](void* from, void* to) noexcept { ::new (to) Target*(heap_target<Target>(from)); },
      [](void* storage) noexcept { delete heap_target<Target>(storage); }};

  void take(InlineFunction& other) noexcept {
    if (other.operations_ == nullptr) return;
    other.operations_->relocate(other.storage_, storage_);
    operations_ = std::exchange(other.operations_, nullptr);
  }

  const Operations* operations_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[Bytes];
};

}  // namespace millrace
